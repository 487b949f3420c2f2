//! What each stage will do, every option decided.

mod deep;
mod train;

use serde::Serialize;
use std::path::{Path, PathBuf};

pub use deep::{DeepStep, EmStep, HiddenStep, LayersStep, SamplerStep, StartStep, StrideStep};
pub use train::{FreeHyperparameters, GpStep, InducingStep, Method, SparseStep, TrainStep};

pub use crate::spec::language::{Architecture, FeatureScale as Features, Kernel, OnInvalid, PriorMean};
pub use crate::spec::{Condition, Gate};

/// What a stage does.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Reads Parquet.
    Ingest(IngestStep),
    /// Divides rows.
    Split(SplitStep),
    /// Trains.
    Train(TrainStep),
    /// Predicts.
    Predict(PredictStep),
    /// Computes metrics.
    Evaluate(EvaluateStep),
    /// Writes the report of the run.
    Report(ReportStep),
}

/// Reads Parquet.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct IngestStep {
    /// The path or glob as written, for messages.
    pub written: String,
    /// The path or glob, relative paths joined to the pipeline file's directory.
    pub path: PathBuf,
    /// Key column.
    pub key: Option<String>,
    /// Names or globs.
    pub features: Vec<String>,
    /// Target column.
    pub target: Option<String>,
    /// Further columns that later stages need: the split column.
    pub extra: Vec<String>,
    /// Whether some model is trained on these rows: then keys must be unique and rows must exist.
    pub trains: bool,
    /// Whether the rows are only scored: then they are never in memory all at once.
    pub streams: bool,
    /// Whether rows that a model cannot use are no reason to refuse the input.
    pub takes_invalid: bool,
}

/// Divides rows into training and test rows.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct SplitStep {
    /// The ingest stage.
    pub input: String,
    /// How.
    pub way: SplitWay,
}

/// How rows are divided.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum SplitWay {
    /// A random part for testing.
    Holdout {
        /// Share of the rows.
        test_fraction: f64,
        /// How often.
        repeats: u32,
    },
    /// Cross-validation.
    Kfold {
        /// Number of folds.
        folds: u32,
        /// How often.
        repeats: u32,
    },
    /// By a column.
    Column {
        /// Its name.
        name: String,
        /// Its value on test rows.
        test: String,
    },
    /// No test rows.
    All,
}

impl SplitWay {
    /// How many folds come out.
    pub const fn count(&self) -> u32 {
        match self {
            Self::Holdout { repeats, .. } => *repeats,
            Self::Kfold { folds, repeats } => folds.saturating_mul(*repeats),
            Self::Column { .. } | Self::All => 1,
        }
    }
}

/// Predicts rows.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct PredictStep {
    /// Where the model comes from.
    pub model: ModelSource,
    /// A split stage (test rows of every fold) or an ingest stage (all rows).
    pub input: String,
    /// Whether the input is a split stage.
    pub test_rows: bool,
    /// Central intervals.
    pub intervals: Vec<f64>,
    /// Whether variances are computed.
    pub variance: bool,
    /// Whether hidden layers are written too.
    pub hidden: bool,
    /// What happens to rows that the model cannot use.
    pub on_invalid: OnInvalid,
    /// Columns that are passed through.
    pub keep: Vec<String>,
    /// The file or directory that gets the scores.
    pub output: Option<OutputStep>,
}

/// Where scores go beside the predictions table.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum OutputStep {
    /// One file.
    File(PathBuf),
    /// A directory with one file per input file.
    Directory(PathBuf),
}

impl OutputStep {
    /// What a path means: a directory when it ends in a slash.
    pub fn new(written: &str, path: PathBuf) -> Self {
        if written.ends_with('/') { Self::Directory(path) } else { Self::File(path) }
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Directory(path) => path,
        }
    }
}

/// Where a model comes from.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// A train stage of this pipeline.
    Stage(String),
    /// A published model's directory.
    Published(PathBuf),
}

/// Computes metrics.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct EvaluateStep {
    /// The predict stage.
    pub input: String,
}

/// Writes the report of the run.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct ReportStep {
    /// The evaluate stages.
    pub inputs: Vec<String>,
}

impl Step {
    /// The kind's name in the language.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Ingest(_) => "ingest",
            Self::Split(_) => "split",
            Self::Train(_) => "train",
            Self::Predict(_) => "predict",
            Self::Evaluate(_) => "evaluate",
            Self::Report(_) => "report",
        }
    }

    /// Whether it runs once per fold.
    pub const fn per_fold(&self) -> bool {
        matches!(self, Self::Train(_) | Self::Predict(_))
    }

    /// Whether it runs once for all cases together.
    pub const fn per_run(&self) -> bool {
        matches!(self, Self::Report(_))
    }

    /// The stages whose output this one takes.
    pub fn inputs(&self) -> Vec<&str> {
        match self {
            Self::Ingest(_) => Vec::new(),
            Self::Split(step) => vec![&step.input],
            Self::Train(step) => vec![&step.input],
            Self::Predict(step) => match &step.model {
                ModelSource::Stage(model) => vec![model, &step.input],
                ModelSource::Published(_) => vec![&step.input],
            },
            Self::Evaluate(step) => vec![&step.input],
            Self::Report(step) => step.inputs.iter().map(String::as_str).collect(),
        }
    }
}
