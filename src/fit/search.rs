//! Trains candidates one after the other, as pipelines that the engine runs, until the time is up, and chooses.

use super::columns::ColumnChoice;
use super::file::FittedPipeline;
use super::rule::{self, ALWAYS, Candidate, PUBLISHING, Sizes, SplitChoice, baseline, candidates, elapsed};
use crate::engine::plan::{PlanRequest, build};
use crate::engine::{self, Plan, RunError, RunFailure, RunOptions, Summary};
use crate::pipeline::PipelineText;
use crate::stages::StageError;
use crate::stages::job::{Cancel, Listener};
use crate::tables::MetricRow;
use crate::text::roughly;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is asked for.
#[derive(Debug)]
pub struct FitRequest {
    pub name: String,
    /// The pipeline file to write; paths in it are relative to its directory.
    pub file: PathBuf,
    /// Where the data are, and where a model is published, as the file says it.
    pub data: String,
    pub publish: Option<String>,
    pub results: Option<PathBuf>,
    pub limit: Duration,
    pub options: RunOptions,
}

/// A candidate, and what became of it.
#[derive(Debug)]
pub struct Trial {
    pub candidate: Candidate,
    pub outcome: TrialOutcome,
}

/// What became of a candidate.
#[derive(Debug)]
pub enum TrialOutcome {
    Measured {
        metrics: Vec<MetricRow>,
        case: String,
        seconds: f64,
    },
    /// Not begun: it would have taken about so long.
    TooLong(Duration),
    /// Stopped when the time was up.
    OutOfTime,
    /// The training failed.
    Failed(String),
}

impl Trial {
    /// A metric of the held-out rows, over all folds.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let TrialOutcome::Measured { metrics, case, .. } = &self.outcome else { return None };
        let mean = |row: &&MetricRow| {
            (row.stage == METRICS && row.case == *case && row.metric == name)
                && row.stat == "mean"
                && row.fold.is_none()
        };
        metrics.iter().find(mean).and_then(|row| row.value)
    }

    pub fn is_baseline(&self) -> bool {
        self.candidate.label.ends_with("(baseline)")
    }
}

/// The stage that measures.
pub const METRICS: &str = "metrics";
/// What is added to the name of a pipeline while candidates are tried, so that its own runs are those of the file.
const TRIALS: &str = "-fit";
/// Share of the limit that is kept for what comes after the trials: the tables, the report, the file.
const RESERVE: f64 = 0.03;

/// Why there is no result.
#[derive(Debug)]
pub enum FitFailure {
    Run(RunFailure),
    /// The pipeline that was made is refused: a mistake of the program.
    Refused(String),
}

/// The work of a `fit`.
pub struct MethodSearch<'a> {
    pub request: &'a FitRequest,
    pub columns: &'a ColumnChoice,
    pub cancel: &'a Cancel,
    pub listener: &'a dyn Listener,
    started: Instant,
    /// How much longer work takes here than the rule expects.
    slower: f64,
}

impl<'a> MethodSearch<'a> {
    /// The clock runs since `started`.
    pub fn new(
        request: &'a FitRequest,
        columns: &'a ColumnChoice,
        (cancel, listener): (&'a Cancel, &'a dyn Listener),
        started: Instant,
    ) -> Self {
        Self { request, columns, cancel, listener, started, slower: 1.0 }
    }

    /// All trials, in the order in which they were made.
    pub fn trials(&mut self) -> Result<Vec<Trial>, FitFailure> {
        let sizes = sizes(self.columns);
        let mut trials = Vec::new();
        for method in ALWAYS {
            // They take next to no time, and with them there is a model whatever happens.
            let candidate = baseline(method, sizes);
            trials.push(self.trial(candidate, None)?);
        }
        for (index, candidate) in [baseline("knn", sizes)].into_iter().chain(candidates(sizes)).enumerate() {
            let (needed, left) = (self.needed(&candidate), self.left());
            // The first after the baselines is the cheapest of its kind: it may as well try.
            if needed > left && index != 1 {
                let needed = Duration::try_from_secs_f64(needed).unwrap_or(Duration::MAX);
                self.listener.note(&format!("{}: not tried, it would take about {}", candidate.label, roughly(needed)));
                trials.push(Trial { candidate, outcome: TrialOutcome::TooLong(needed) });
                continue;
            }
            trials.push(self.trial(candidate, Some(self.deadline()))?);
        }
        Ok(trials)
    }

    /// Seconds of the clock that a candidate takes, until it is published.
    fn needed(&self, candidate: &Candidate) -> f64 {
        let trainings = f64::from(self.folds()) + if self.request.publish.is_some() { PUBLISHING } else { 0.0 };
        self.slower * elapsed(candidate.seconds * trainings, self.request.options.threads)
    }

    /// Seconds that are left for trials.
    fn left(&self) -> f64 {
        (1.0 - RESERVE).mul_add(self.request.limit.as_secs_f64(), -self.started.elapsed().as_secs_f64())
    }

    /// When a candidate has to be done, so that it can still be trained on all rows.
    fn deadline(&self) -> Instant {
        let folds = f64::from(self.folds());
        let trials = if self.request.publish.is_some() { folds / (folds + PUBLISHING) } else { 1.0 };
        let seconds = (self.left() * trials).max(0.0);
        // Clocks end somewhere.
        Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
    }

    fn trial(&mut self, candidate: Candidate, deadline: Option<Instant>) -> Result<Trial, FitFailure> {
        let name = format!("{}{TRIALS}", self.request.name);
        let pipeline = FittedPipeline { name: &name, report: false, publish: None, ..self.pipeline(&candidate, &[]) };
        self.listener.note(&format!("trying {}", candidate.label));
        let plan = self.plan(&pipeline.text())?;
        let started = Instant::now();
        let ended = self.run(&plan, deadline);
        let seconds = started.elapsed().as_secs_f64();
        let outcome = match ended {
            Ok(Some(Summary { metrics, cached, .. })) => {
                let needed = elapsed(candidate.seconds * f64::from(self.folds()), self.request.options.threads);
                // Work that was done before says nothing of the speed, and short work little.
                if cached <= ROWS_AND_FOLDS && needed > LEAST_TELLING {
                    self.slower = (seconds / needed).clamp(0.2, 20.0);
                }
                let case = plan.cases.first().map_or_else(String::new, |case| case.label.clone());
                TrialOutcome::Measured { metrics, case, seconds }
            }
            Ok(None) => TrialOutcome::OutOfTime,
            Err(failure) => match *failure.error {
                // Another method may do better with these rows.
                RunError::Stage { source: source @ (StageError::Maths { .. } | StageError::Data { .. }), .. }
                    if deadline.is_some() =>
                {
                    self.listener.warning(&format!("{}: {source}", candidate.label));
                    TrialOutcome::Failed(source.to_string())
                }
                error => {
                    let error = Box::new(error);
                    return Err(FitFailure::Run(RunFailure { error, ..failure }));
                }
            },
        };
        Ok(Trial { candidate, outcome })
    }

    fn folds(&self) -> u32 {
        SplitChoice::of(self.columns.rows).folds()
    }

    /// The pipeline of a candidate, beside these baselines.
    pub fn pipeline<'c>(&'c self, candidate: &'c Candidate, remarks: &'c [String]) -> FittedPipeline<'c> {
        FittedPipeline {
            name: &self.request.name,
            data: &self.request.data,
            columns: self.columns,
            split: SplitChoice::of(self.columns.rows),
            methods: vec![candidate.method],
            candidate,
            publish: self.request.publish.as_deref(),
            report: true,
            remarks,
        }
    }

    /// Plans a pipeline as if it stood in the file that is to be written.
    pub fn plan(&self, text: &str) -> Result<Plan, FitFailure> {
        plan(&self.request.file, text, self.request.results.as_deref())
    }

    /// Runs a plan until it is done, or until the time is up.
    pub fn run(&self, plan: &Plan, deadline: Option<Instant>) -> Result<Option<Summary>, RunFailure> {
        engine::run_until(plan, &self.request.options, (self.cancel, self.listener), deadline)
    }

    /// How long it has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Nobody waits longer than a century.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);
/// Reading and dividing the rows are taken from the cache by all trials but the first.
const ROWS_AND_FOLDS: u64 = 2;
/// Trials that are expected to be shorter say little of the speed.
const LEAST_TELLING: f64 = 0.3;

/// Sizes that the rule goes by.
pub fn sizes(columns: &ColumnChoice) -> Sizes {
    // One pattern for all of them: the numbered parts of a vector.
    let one_vector = columns.written.len() == 1 && columns.features.len() > 1;
    Sizes { rows: columns.rows, features: columns.width, one_vector }
}

/// The best trial by the density of the held-out rows.
pub fn best(trials: &[Trial]) -> Option<&Trial> {
    let measured =
        trials.iter().filter_map(|trial| Some((trial.metric("nlpd").filter(|value| value.is_finite())?, trial)));
    measured.min_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, trial)| trial)
}

/// Plans a pipeline as if it stood in a file.
pub fn plan(file: &Path, text: &str, results: Option<&Path>) -> Result<Plan, FitFailure> {
    let none = |_: &str| None;
    build(&PlanRequest { file, text, sets: &[], results, env: &none }).map_err(|problems| {
        let (name, text) = (file.display().to_string(), text.to_owned());
        FitFailure::Refused(problems.render(&PipelineText { name, text, sets: Vec::new() }))
    })
}

/// What the rule chooses without a look at how it does.
pub fn unseen(columns: &ColumnChoice, limit: Duration, threads: usize, publish: bool) -> Candidate {
    rule::affordable(sizes(columns), limit, threads, publish)
}
