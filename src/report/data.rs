//! What a report is made of: plain numbers, already counted and averaged.

use super::explained::{Explanation, ModelColumns};
use super::hexbin::HexGrid;
use super::moments::{Moments, RowPair};
use super::select::RunCase;
use super::sureness::Tails;
use crate::tables::{MetricRow, Timestamp};
use std::collections::BTreeMap;

/// Everything that one page shows.
#[derive(Debug, Clone, Default)]
pub struct ReportData {
    pub title: String,
    /// Version of the program that made the page.
    pub version: String,
    /// All runs side by side, when there are several.
    pub overview: Option<Overview>,
    pub runs: Vec<RunReport>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Several runs side by side.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    pub place: String,
    /// One line per run, oldest first.
    pub runs: Vec<RunLine>,
    /// What scoring runs said about their data, oldest first.
    pub drift: Vec<DriftPoint>,
}

/// One run among others.
#[derive(Debug, Clone)]
pub struct RunLine {
    pub id: String,
    /// Its pipeline, where that is known.
    pub pipeline: Option<String>,
    pub status: String,
    pub started: Timestamp,
    pub seconds: Option<f64>,
    /// Version of the program that made it.
    pub version: Option<String>,
    pub cases: Option<usize>,
    /// Its best case by the headline metric: stage, case, mean and deviation over folds.
    pub best: Vec<Best>,
    /// The run's own report, seen from the page.
    pub link: Option<String>,
    /// What is missing or wrong.
    pub problems: Vec<String>,
    /// Why a run that succeeded is not to be trusted blindly.
    pub doubts: Vec<String>,
}

/// The best case of an evaluate stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    pub stage: String,
    pub case: String,
    pub metric: String,
    pub mean: f64,
    pub std: Option<f64>,
}

/// One run in detail.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// Who ran what, when.
    pub about: About,
    /// What is missing or wrong.
    pub problems: Vec<String>,
    /// The cases, in order.
    pub cases: Vec<RunCase>,
    /// Rows of the metrics table.
    pub metrics: Vec<MetricRow>,
    /// What each phase cost, per stage and case.
    pub costs: Vec<CaseCost>,
    /// The same over all cases, where work that several of them share counts once.
    pub total_costs: Vec<CaseCost>,
    /// Predictions of the cases that are shown in detail, counted.
    pub predicted: Vec<PredictionCounts>,
    /// Those tested on the rows of one fold, two by two.
    pub row_pairs: Vec<RowPair>,
    /// Markov chains of some fits.
    pub chains: Vec<ChainTraces>,
    pub fits: Vec<FitCurve>,
    /// Hidden layers over one or two features.
    pub hidden: Vec<HiddenFit>,
    /// The stages and what they take.
    pub graph: Vec<GraphStage>,
    pub inputs: Vec<ReadFile>,
    /// What the run warned of.
    pub warnings: Vec<String>,
    /// Conditions on its rows that held, in words: then it is not all well.
    pub alarms: Vec<String>,
    /// What columns become, for models that do not take all of them as they are.
    pub columns: Vec<ModelColumns>,
    /// Which features matter to models that can tell.
    pub relevance: Vec<Relevance>,
    pub explanations: Vec<Explanation>,
    /// What scoring said about the data: this run and earlier ones of its pipeline.
    pub drift: Vec<DriftPoint>,
    /// The pipeline with everything resolved, secrets masked.
    pub resolved: Option<String>,
}

/// Who ran what, when, and how it ended.
#[derive(Debug, Clone, Default)]
pub struct About {
    pub run_id: String,
    pub pipeline: String,
    pub file: Option<String>,
    pub status: String,
    pub started: Option<Timestamp>,
    pub seconds: Option<f64>,
    pub version: Option<String>,
    pub seed: Option<u64>,
    pub host: Option<String>,
    pub threads: Option<u32>,
    pub command: Option<String>,
    /// Hash of the resolved pipeline.
    pub spec_hash: Option<String>,
}

/// What a phase of a stage cost for a case, over its folds.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseCost {
    pub stage: String,
    pub case: String,
    pub phase: String,
    pub pieces: u64,
    /// Those taken from the cache.
    pub cached: u64,
    pub wall_s: f64,
    /// Square of the wall-clock seconds of each piece, summed: for the deviation.
    pub wall_squares: f64,
    pub cpu_s: f64,
    pub rows: i64,
    /// Largest memory of the process.
    pub peak_rss_bytes: i64,
}

impl CaseCost {
    /// Adds what another case or stage cost.
    pub fn add(&mut self, other: &Self) {
        self.pieces += other.pieces;
        self.cached += other.cached;
        self.wall_s += other.wall_s;
        self.wall_squares += other.wall_squares;
        self.cpu_s += other.cpu_s;
        self.rows += other.rows;
        self.peak_rss_bytes = self.peak_rss_bytes.max(other.peak_rss_bytes);
    }
}

/// Rows by hexagon.
pub type HexCounts = (HexGrid, BTreeMap<(i32, i32), u64>);

/// Predictions of one stage and case, counted.
#[derive(Debug, Clone, Default)]
pub struct PredictionCounts {
    pub stage: String,
    pub case: String,
    /// The column that is predicted, where that is known.
    pub target: Option<String>,
    pub rows: u64,
    /// Rows with a true value and a prediction.
    pub compared: u64,
    /// Rows that could not be predicted.
    pub missing: u64,
    /// How predictions and true values lie: cells of a hexagonal grid.
    pub density: Option<HexCounts>,
    pub residuals: Vec<ResidualBin>,
    /// Counts of standardised residuals in equal bins from -4 to 4; the first and last hold everything beyond.
    pub deviations: Vec<u64>,
    /// Observed share of true values inside the central interval, by its nominal share.
    pub coverage: Vec<(f64, f64)>,
    /// Rows that it was observed at.
    pub judged: u64,
    /// Standardised residuals far out.
    pub tails: Option<Tails>,
    /// Half of the errors are smaller, in units of the target.
    pub median_error: Option<f64>,
    /// How wide the predictive distributions are.
    pub spread: Option<Spread>,
    /// Counts of predicted means in equal bins between two ends.
    pub means: Option<(f64, f64, Vec<u64>)>,
    /// Errors with and without the local layer, the nearest rows first; empty without one.
    pub by_distance: Vec<DistanceBin>,
}

/// Rows at similar distances from the nearest training row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DistanceBin {
    /// The distances, where 1 is usual among training rows.
    pub distance: Moments,
    /// Squared errors with the local layer.
    pub with: Moments,
    /// Squared errors without it.
    pub without: Moments,
    /// What the layer takes away of the squared error, row by row.
    pub gain: Moments,
}

impl DistanceBin {
    pub const fn rows(&self) -> u64 {
        self.distance.count
    }

    pub fn add(&mut self, other: &Self) {
        self.distance.add(&other.distance);
        self.with.add(&other.with);
        self.without.add(&other.without);
        self.gain.add(&other.gain);
    }
}

/// Residuals (true minus predicted) of rows with similar predictions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualBin {
    pub centre: f64,
    pub rows: u64,
    pub mean: f64,
    /// Standard deviation of the residuals.
    pub std: f64,
}

/// Quantiles of the predictive standard deviation, and the error it should match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// 5, 25, 50, 75 and 95 % quantiles.
    pub quantiles: [f64; 5],
    /// Root mean squared error, where true values are known.
    pub rmse: Option<f64>,
}

/// Markov chains of one fit.
#[derive(Debug, Clone, Default)]
pub struct ChainTraces {
    pub stage: String,
    pub case: String,
    pub fold: i32,
    /// One list of points per chain.
    pub particles: Vec<Vec<ChainPoint>>,
    /// Iterations of expectation maximisation; what comes after them was sampled with everything frozen.
    pub iterations: i32,
}

/// One recorded step of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChainPoint {
    /// Iteration, with the part of it that is done.
    pub at: f64,
    pub log_likelihood: f64,
    pub acceptance: Option<f64>,
    pub variance: f64,
    pub length: Option<f64>,
    pub noise: f64,
}

/// A fit over one feature, on a grid.
#[derive(Debug, Clone, Default)]
pub struct FitCurve {
    pub stage: String,
    pub case: String,
    pub fold: i32,
    pub feature: String,
    pub target: String,
    pub x: Vec<f64>,
    pub mean: Vec<f64>,
    pub f_std: Vec<f64>,
    pub y_std: Vec<f64>,
    pub inducing: Vec<f64>,
    pub training: Vec<(f64, f64)>,
    pub test: Vec<(f64, f64)>,
}

/// Hidden layers of one fit at some rows.
#[derive(Debug, Clone, Default)]
pub struct HiddenFit {
    pub stage: String,
    pub case: String,
    pub fold: i32,
    /// Layer, output and value of every point.
    pub points: Vec<HiddenValue>,
}

/// One output of a hidden layer at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HiddenValue {
    pub layer: i32,
    /// The output of the layer.
    pub output: i32,
    pub x0: f64,
    /// Second coordinate, for inputs of two dimensions.
    pub x1: Option<f64>,
    pub mean: f64,
    pub std: Option<f64>,
}

/// A stage in the graph of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphStage {
    pub id: String,
    pub kind: String,
    /// The stages whose output it takes.
    pub inputs: Vec<String>,
    /// The column to predict, of an ingest stage, where it is the same in all cases.
    pub target: Option<String>,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    pub path: String,
    pub sha256: String,
    pub rows: Option<u64>,
}

/// What one scoring run said about its data.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftPoint {
    pub pipeline: String,
    pub run_id: String,
    pub at: Timestamp,
    pub stage: String,
    pub case: String,
    pub metric: String,
    /// The feature it is about.
    pub feature: Option<String>,
    pub value: Option<f64>,
    pub rows: i64,
}

/// How relevant the features of a model are.
#[derive(Debug, Clone, PartialEq)]
pub struct Relevance {
    pub case: String,
    /// Features, the most relevant first, with how many correlation lengths their range spans.
    pub features: Vec<(String, f64)>,
}

impl RunReport {
    /// The column that an evaluate or predict stage is about.
    pub fn target(&self, stage: &str) -> Option<&str> {
        let mut ahead: Vec<&str> = vec![stage];
        // Stages only take what stands before them: this ends.
        while let Some(id) = ahead.pop() {
            let Some(stage) = self.graph.iter().find(|stage| stage.id == id) else { continue };
            if let Some(target) = &stage.target {
                return Some(target);
            }
            ahead.extend(stage.inputs.iter().map(String::as_str).filter(|input| *input != id));
        }
        None
    }
}

impl PredictionCounts {
    /// What an axis is called that shows something of the target: "predicted" becomes "predicted `heating_load`".
    pub fn of_target(&self, words: &str) -> String {
        // Longer names do not fit beside a chart.
        const LONGEST: usize = 24;
        let name = self.target.as_deref().unwrap_or_default();
        let shown: String = name.chars().take(LONGEST).collect();
        let more = if name.chars().nth(LONGEST).is_some() { "…" } else { "" };
        if name.is_empty() { words.to_owned() } else { format!("{words} {shown}{more}") }
    }
}
