//! Gathers what a report shows: reads the tables of runs a batch at a time and counts.

mod columns;
mod distance;
mod drift;
mod encoded;
mod explain;
mod fits;
mod hidden;
mod overview;
mod predictions;
mod relevance;
mod rows;
mod stage;
mod traces;

use crate::eval::transform::TransformName;
use crate::pipeline::{ResolvedStage, resolved_stages};
use crate::report::{About, CaseCost, GraphStage, ReadFile, ReportData, RunCase, RunReport, distinct, panels, render};
use crate::store::history::{Run, read_events, resolved_text};
use crate::store::record::Manifest;
use crate::store::{ResultsDir, RunId, StoreError, read_known};
use crate::tables::{CaseRow, MetricRow, RunRow, TableKind, TableRow, TimingRow};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use predictions::ShownPredictions;

pub use overview::page_of_runs;
pub use stage::KIND;

/// Version of the program, as the page names it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The run that is reported on.
pub struct Subject<'a> {
    pub results: &'a ResultsDir,
    pub id: &'a RunId,
    /// Its pipeline, where that is known.
    pub pipeline: Option<&'a str>,
    pub status: &'a str,
    /// Its manifest, if it has one.
    pub manifest: Option<&'a Manifest>,
    pub tables: BTreeMap<TableKind, PathBuf>,
    /// What is missing or wrong already.
    pub problems: Vec<String>,
    /// The evaluate stages that are shown; all of them when none are named.
    pub only: &'a [String],
}

impl<'a> Subject<'a> {
    /// A run of a results directory as it was found.
    pub fn of(results: &'a ResultsDir, run: &'a Run) -> Self {
        Self {
            results,
            id: &run.id,
            pipeline: run.pipeline.as_deref(),
            status: run.status.name(),
            manifest: run.manifest.as_ref(),
            tables: run.tables.clone(),
            problems: run.problems.clone(),
            only: &[],
        }
    }
}

impl Subject<'_> {
    /// Refuses a file that is not as the run has written it.
    fn check(&self, path: &Path) -> Result<(), StoreError> {
        self.manifest.map_or(Ok(()), |manifest| manifest.check_file(path))
    }
}

/// The page of one run, as HTML. What cannot be read is named on it and left out.
pub fn page(subject: &Subject<'_>) -> String {
    let run = run_report(subject);
    let title = format!("{} · {}", run.about.pipeline, subject.id);
    render(&ReportData { title, version: VERSION.to_owned(), overview: None, runs: vec![run], notes: Vec::new() })
}

/// A run in detail.
fn run_report(subject: &Subject<'_>) -> RunReport {
    let mut run = RunReport { problems: subject.problems.clone(), ..RunReport::default() };
    run.about = about(subject, &mut run.problems);
    let resolved = match resolved_text(subject.results, subject.id, subject.manifest) {
        Ok(text) => Some(text),
        Err(error) => {
            let what = if matches!(error, StoreError::Missing { .. }) { "gone" } else { "damaged" };
            let lost = "stages are shown without their connections";
            run.problems.push(format!("its resolved pipeline is {what}: {lost}"));
            None
        }
    };
    let graphs = resolved.as_deref().map(resolved_stages).unwrap_or_default();
    let stages: &[ResolvedStage] = graphs.first().map_or(&[], |(_, stages)| stages);
    run.graph = stages
        .iter()
        .map(|stage| GraphStage {
            id: stage.id.clone(),
            kind: stage.kind.clone(),
            inputs: stage.inputs.clone(),
            target: stage.target.clone().filter(|_| has_one_target(stage, &graphs)),
        })
        .collect();
    run.resolved = resolved;
    let mut metrics: Vec<MetricRow> = rows(subject, &mut run.problems);
    if !subject.only.is_empty() {
        let evaluates = |row: &MetricRow| stages.iter().any(|stage| stage.id == row.stage && stage.kind == "evaluate");
        metrics.retain(|row| subject.only.contains(&row.stage) || !evaluates(row));
    }
    run.cases = cases(subject, &metrics, &mut run.problems);
    (run.costs, run.total_costs) = costs(rows(subject, &mut run.problems));
    run.metrics = metrics;
    let shown = shown(&run);
    if let Some(path) = file(subject, TableKind::Predictions, &mut run.problems) {
        let shown = shown.predictions.iter().map(|(stage, case)| {
            let transform = transform_of(&graphs, case, stage);
            ShownPredictions { stage: stage.clone(), case: case.clone(), transform }
        });
        match predictions::count(&path, &shown.collect::<Vec<_>>()) {
            Ok((mut predicted, pairs)) => {
                run.row_pairs = pairs;
                for counts in &mut predicted {
                    counts.target = run.target(&counts.stage).map(str::to_owned);
                }
                run.predicted = predicted;
            }
            Err(error) => run.problems.push(error.to_string()),
        }
    }
    if let Some(path) = file(subject, TableKind::Traces, &mut run.problems) {
        match traces::chains(&path, &shown.fits) {
            Ok(chains) => run.chains = chains,
            Err(error) => run.problems.push(error.to_string()),
        }
    }
    run.fits = fits::fits(subject, &shown.fits, stages);
    run.columns = encoded::columns(subject, &shown.fits, stages);
    run.relevance = relevance::relevance(subject, &shown.fits, stages, &mut run.problems);
    match explain::explanations(subject, &shown.fits) {
        Ok(explanations) => run.explanations = explanations,
        Err(error) => run.problems.push(error.to_string()),
    }
    match hidden::hidden(subject, &shown.fits) {
        Ok(hidden) => run.hidden = hidden,
        Err(error) => run.problems.push(error.to_string()),
    }
    let alarms = subject.manifest.map(|manifest| manifest.alarms.as_slice()).unwrap_or_default();
    run.alarms = alarms.iter().map(|alarm| alarm.text.clone()).collect();
    let events = read_events(subject.results, subject.id);
    if events.damaged_lines > 0 {
        run.problems.push(format!("{} line(s) of its events.jsonl are damaged", events.damaged_lines));
    }
    run.warnings = events.warnings;
    run.inputs =
        subject.manifest.map(|manifest| manifest.inputs.as_slice()).unwrap_or_default().iter().map(input).collect();
    run.drift = drift::of_pipeline(subject, &run.metrics);
    run
}

/// The scale on which the target of a predict stage is modelled.
fn transform_of(graphs: &[(String, Vec<ResolvedStage>)], case: &str, stage: &str) -> TransformName {
    let own = graphs.iter().find(|(label, _)| label == case).or(graphs.first());
    let stages = own.map_or(&[][..], |(_, stages)| stages.as_slice());
    let mut ahead: Vec<&str> = vec![stage];
    // Stages only take what stands before them: this ends.
    while let Some(stage) = ahead.pop().and_then(|id| stages.iter().find(|stage| stage.id == id)) {
        if let Some(name) = &stage.transform {
            let all = [TransformName::Log, TransformName::Log1p, TransformName::YeoJohnson];
            return all.into_iter().find(|transform| transform.name() == name).unwrap_or_default();
        }
        ahead.extend(stage.inputs.iter().map(String::as_str).filter(|input| *input != stage.id));
    }
    TransformName::None
}

/// Whether an ingest stage has the same target in all cases.
fn has_one_target(stage: &ResolvedStage, graphs: &[(String, Vec<ResolvedStage>)]) -> bool {
    let same = |other: &&ResolvedStage| other.id == stage.id;
    graphs.iter().filter_map(|(_, stages)| stages.iter().find(same)).all(|other| other.target == stage.target)
}

fn input(file: &crate::store::record::FileRecord) -> ReadFile {
    ReadFile { path: file.path.clone(), sha256: file.sha256.clone(), rows: file.rows }
}

/// Which stages and cases are looked at closely.
struct ShownCases {
    predictions: Vec<(String, String)>,
    /// Train stages and cases; an empty stage stands for any.
    fits: Vec<(String, String)>,
}

fn shown(run: &RunReport) -> ShownCases {
    let mut shown = ShownCases { predictions: Vec::new(), fits: Vec::new() };
    let inputs = |id: &str| run.graph.iter().find(|stage| stage.id == id).map_or(&[][..], |stage| &stage.inputs);
    let kind = |id: &str| run.graph.iter().find(|stage| stage.id == id).map_or("", |stage| stage.kind.as_str());
    let tested = run.metrics.iter().filter(|row| row.split != "train");
    for stage in distinct(tested.map(|row| row.stage.as_str())) {
        for panel in panels(&run.cases, &run.metrics, stage) {
            let predict = inputs(stage).first().cloned().unwrap_or_default();
            let train = inputs(&predict).iter().find(|id| kind(id) == "train").cloned().unwrap_or_default();
            shown.predictions.push((predict, panel.case.clone()));
            if !shown.fits.contains(&(train.clone(), panel.case.clone())) {
                shown.fits.push((train, panel.case));
            }
        }
    }
    shown
}

fn about(subject: &Subject<'_>, problems: &mut Vec<String>) -> About {
    let pipeline = subject.pipeline.unwrap_or("unknown pipeline").to_owned();
    let mut about = About {
        run_id: subject.id.to_string(),
        pipeline,
        status: subject.status.to_owned(),
        started: Some(subject.id.started()),
        ..About::default()
    };
    if let Some(manifest) = subject.manifest {
        about.file = Some(manifest.pipeline_file.clone());
        about.seconds = Some((manifest.finished_at.micros() - manifest.started_at.micros()) as f64 / 1e6);
        about.version = Some(manifest.version.clone());
        about.seed = Some(manifest.seed);
        about.host = Some(manifest.host.clone());
        about.threads = Some(manifest.threads);
        about.command = Some(manifest.command.clone());
        about.spec_hash = Some(manifest.spec_hash.clone());
    } else if subject.tables.contains_key(&TableKind::Runs)
        && let Some(row) = rows::<RunRow>(subject, problems).into_iter().next()
    {
        about.file = Some(row.pipeline_file);
        about.seconds = Some((row.finished_at.micros() - row.started_at.micros()) as f64 / 1e6);
        about.version = Some(row.version);
        about.seed = Some(row.seed.unsigned_abs());
        about.host = Some(row.host);
        about.threads = u32::try_from(row.threads).ok();
        about.command = Some(row.command);
        about.spec_hash = Some(row.spec_hash);
    }
    about
}

/// The run's file of a table; one that is gone, or not as the run has written it, is a problem.
fn file(subject: &Subject<'_>, kind: TableKind, problems: &mut Vec<String>) -> Option<PathBuf> {
    let Some(path) = subject.tables.get(&kind).filter(|path| path.exists()) else {
        problems.push(format!("its {kind} table is missing: what is made from it is left out"));
        return None;
    };
    match subject.check(path) {
        Ok(()) => Some(path.clone()),
        Err(error) => {
            problems.push(error.to_string());
            None
        }
    }
}

/// The rows of a small table, whatever version wrote them; what cannot be read is a problem.
fn rows<R: TableRow>(subject: &Subject<'_>, problems: &mut Vec<String>) -> Vec<R> {
    let Some(path) = file(subject, R::KIND, problems) else { return Vec::new() };
    read_known(&path).unwrap_or_else(|error: StoreError| {
        problems.push(error.to_string());
        Vec::new()
    })
}

/// The cases in order; where their table is gone, what their labels say.
fn cases(subject: &Subject<'_>, metrics: &[MetricRow], problems: &mut Vec<String>) -> Vec<RunCase> {
    let rows: Vec<CaseRow> = rows(subject, problems);
    let known = subject.manifest.map(|manifest| manifest.cases.as_slice()).unwrap_or_default();
    let found = rows.iter().map(|row| &row.case).chain(metrics.iter().map(|row| &row.case));
    let mut seen = std::collections::BTreeSet::new();
    let labels: Vec<String> = known.iter().chain(found).filter(|label| seen.insert(*label)).cloned().collect();
    let mut values: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in rows {
        values.entry(row.case).or_default().push((row.name, row.value));
    }
    let from_label = |label: &str| -> Vec<(String, String)> {
        let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        label.split(',').map(pair).collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    let case = |label: String| {
        let values = values.remove(&label).unwrap_or_else(|| from_label(&label));
        RunCase { label, values }
    };
    labels.into_iter().map(case).collect()
}

/// What each phase cost per stage and case, and over all cases.
fn costs(rows: Vec<TimingRow>) -> (Vec<CaseCost>, Vec<CaseCost>) {
    let mut costs: Vec<CaseCost> = Vec::new();
    let mut totals: Vec<CaseCost> = Vec::new();
    let mut places: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut known: BTreeSet<(String, String, Option<i32>, i64, u64)> = BTreeSet::new();
    for row in rows {
        // Work that cases share began at one moment.
        let work = (row.stage.clone(), row.phase.clone(), row.fold, row.started_at.micros(), row.wall_s.to_bits());
        let is_new = known.insert(work);
        let place = *places.entry((row.stage.clone(), row.case.clone(), row.phase.clone())).or_insert(costs.len());
        let cost = CaseCost {
            stage: row.stage,
            case: row.case,
            phase: row.phase,
            pieces: 1,
            cached: u64::from(row.cached),
            wall_s: row.wall_s,
            wall_squares: row.wall_s * row.wall_s,
            cpu_s: row.cpu_s,
            rows: row.rows,
            peak_rss_bytes: row.peak_rss_bytes,
        };
        let nothing = CaseCost { wall_s: 0.0, wall_squares: 0.0, cpu_s: 0.0, rows: 0, ..cost.clone() };
        let own = if is_new { cost.clone() } else { nothing };
        match totals.iter_mut().find(|total| total.stage == own.stage && total.phase == own.phase) {
            Some(total) => total.add(&own),
            None => totals.push(own),
        }
        match costs.get_mut(place) {
            Some(sum) => sum.add(&cost),
            None => costs.push(cost),
        }
    }
    (costs, totals)
}
