//! The tables of a results directory, each declared once: name, version, columns.
//!
//! Column names, order, types and nullability are what dashboards depend on: a change raises the version of its table.
//! `predictions`, the large one, is built by columns in its own file.

use super::{Timestamp, predictions};
use arrow::datatypes::SchemaRef;

/// Declares the tables: [`TableKind`], and for each its row type and from the same lines its columns.
///
/// The order of the fields is the order of the columns; `Option` makes a column nullable. A table with `if_any` is only
/// written where it has rows.
macro_rules! tables {
    ($(
        $(#[$table_doc:meta])*
        $kind:ident = $name:literal version $version:literal $($if_any:ident)?;
        $(#[$doc:meta])*
        pub struct $row:ident { $( $(#[$field_doc:meta])* pub $field:ident : $type:ty, )+ }
    )+) => {
        /// The tables of a results directory.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum TableKind {
            /// One row per predicted row.
            Predictions,
            $( $(#[$table_doc])* $kind, )+
        }

        impl TableKind {
            /// All tables, in the order of the documentation.
            pub const ALL: [Self; 1 + [$( $name ),+].len()] = [Self::Predictions, $( Self::$kind, )+];

            /// The name: also that of its directory.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Predictions => predictions::TABLE,
                    $( Self::$kind => $name, )+
                }
            }

            /// Version of the columns, written to every file's footer.
            pub fn schema_version(self) -> u32 {
                match self {
                    Self::Predictions => predictions::SCHEMA_VERSION,
                    $( Self::$kind => $version, )+
                }
            }

            /// The columns every file of this table has; predictions may have more after them.
            pub fn schema(self) -> SchemaRef {
                match self {
                    Self::Predictions => predictions::schema(),
                    $( Self::$kind => <$row as super::TableRow>::schema(), )+
                }
            }

            /// Whether every run has it; the others are there where they have rows.
            pub fn is_always_written(self) -> bool {
                match self {
                    Self::Predictions => true,
                    $( Self::$kind => !matches!(stringify!($($if_any)?), "if_any"), )+
                }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq)]
            pub struct $row { $( $(#[$field_doc])* pub $field: $type, )+ }

            impl super::TableRow for $row {
                const KIND: TableKind = TableKind::$kind;

                fn fields() -> Vec<arrow::datatypes::Field> {
                    vec![ $( super::cell::field::<$type>(stringify!($field)), )+ ]
                }

                fn columns(rows: &[Self]) -> Vec<arrow::array::ArrayRef> {
                    vec![ $( <$type as super::Cell>::column(rows.iter().map(|row| &row.$field)), )+ ]
                }

                fn from_columns(columns: &[arrow::array::ArrayRef]) -> Option<Vec<Self>> {
                    let rows = columns.first()?.len();
                    let mut column = columns.iter();
                    $( let mut $field = <$type as super::Cell>::values(column.next()?)?.into_iter(); )+
                    (0..rows).map(|_| Some(Self { $( $field: $field.next()?, )+ })).collect()
                }
            }
        )+
    };
}

tables! {
    /// How good the predictions are.
    Metrics = "metrics" version 1;
    /// One metric of one stage, case and fold, or a summary of it over the folds.
    pub struct MetricRow {
        /// The run.
        pub run_id: String,
        /// Stage that computed the metric.
        pub stage: String,
        /// Case, as `method=stride,m=50`, or `default`.
        pub case: String,
        /// Method of the model.
        pub method: String,
        /// Fold; none = over all folds.
        pub fold: Option<i32>,
        /// `test` or `score`; `train` for what the chains of a deep method say about themselves.
        pub split: String,
        /// Name of the metric, such as `smse`.
        pub metric: String,
        /// `value`, or over folds `mean` or `std`.
        pub stat: String,
        /// The feature a metric is about, for those that have one.
        pub feature: Option<String>,
        /// The number; none where it is not defined.
        pub value: Option<f64>,
        /// Rows the metric was computed from.
        pub rows: i64,
    }

    /// What each phase of a run cost.
    Timings = "timings" version 1;
    /// One phase of one stage, case and fold.
    pub struct TimingRow {
        /// The run.
        pub run_id: String,
        /// Stage.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold; none for work that all folds share.
        pub fold: Option<i32>,
        /// What was done: `ingest`, `offline`, `offline.select`, `online`, `write`, …
        pub phase: String,
        /// Wall clock at the start.
        pub started_at: Timestamp,
        /// Seconds by the monotonic clock.
        pub wall_s: f64,
        /// Processor seconds over all threads.
        pub cpu_s: f64,
        /// Largest resident memory of the process so far.
        pub peak_rss_bytes: i64,
        /// Rows worked on.
        pub rows: i64,
        /// Taken from the cache: the numbers are those of the run that did the work.
        pub cached: bool,
    }

    /// The Markov chains, step by step.
    Traces = "traces" version 1;
    /// One recorded step of one chain.
    pub struct TraceRow {
        /// The run.
        pub run_id: String,
        /// Stage.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold.
        pub fold: i32,
        /// Chain.
        pub particle: i32,
        /// Iteration of expectation maximisation.
        pub iteration: i32,
        /// Part of the iteration.
        pub phase: String,
        /// Step within the phase.
        pub step: i32,
        /// Log likelihood of the data given the hidden layers.
        pub log_likelihood: f64,
        /// Lower bound that is maximised; `em.objective` says which.
        pub bound: Option<f64>,
        /// Share of accepted proposals.
        pub acceptance: Option<f64>,
        /// Step size of the sampler.
        pub step_size: Option<f64>,
        /// Kernel variance.
        pub variance: f64,
        /// Correlation length; none with one length per feature.
        pub length: Option<f64>,
        /// Noise variance.
        pub noise: f64,
        /// Jitter on the diagonal.
        pub jitter: f64,
        /// Inducing points.
        pub inducing: i32,
    }

    /// What a deep model has made of the rows, layer by layer.
    Hidden = "hidden" version 1 if_any;
    /// One output of one hidden layer at one row.
    pub struct HiddenRow {
        /// The run.
        pub run_id: String,
        /// Stage that predicted.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold.
        pub fold: i32,
        /// Key of the row, as text.
        pub key: String,
        /// Number of the row in the input, from 0.
        pub row: i64,
        /// Hidden layer; 1 is next to the features.
        pub layer: i32,
        /// Output of the layer, from 1.
        pub output: i32,
        /// The row's first feature, in its own units.
        pub x1: f64,
        /// Its second feature, where there is one.
        pub x2: Option<f64>,
        /// Mean over the states of all chains that the model keeps.
        pub mean: f64,
        /// Standard deviation between them.
        pub std: f64,
    }

    /// One row about the run itself.
    Runs = "runs" version 1;
    /// Who ran what, when, and how it ended.
    pub struct RunRow {
        /// The run.
        pub run_id: String,
        /// The pipeline file, as given on the command line.
        pub pipeline_file: String,
        /// How it ended.
        pub status: String,
        /// Wall clock at the start.
        pub started_at: Timestamp,
        /// Wall clock at the end.
        pub finished_at: Timestamp,
        /// Version of stride-pipe.
        pub version: String,
        /// Seed of the run.
        pub seed: i64,
        /// Machine.
        pub host: String,
        /// Threads used.
        pub threads: i32,
        /// The command line.
        pub command: String,
        /// Hash of the resolved pipeline.
        pub spec_hash: String,
    }

    /// Which values a case stands for.
    Cases = "cases" version 1;
    /// One matrix entry of one case.
    pub struct CaseRow {
        /// The run.
        pub run_id: String,
        /// Case, as in every other table.
        pub case: String,
        /// Name in the matrix.
        pub name: String,
        /// Value, as text.
        pub value: String,
    }

    /// What a run was given: parameters, and what the command line changed.
    Params = "params" version 1;
    /// One parameter, or one option that was set on the command line.
    pub struct ParamRow {
        /// The run.
        pub run_id: String,
        /// Name of a parameter, or path of what was set, such as `stages.model.train.kernel`.
        pub name: String,
        /// Value, as text; what came from the environment is masked.
        pub value: String,
        /// `file` or `set`.
        pub origin: String,
    }

    /// Statistics of the columns of an input.
    Columns = "columns" version 1 if_any;
    /// One column of one input.
    pub struct ColumnRow {
        /// The run.
        pub run_id: String,
        /// Stage that described it.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Name of the column.
        pub column: String,
        /// `feature` or `target`.
        pub role: String,
        /// Rows of the input.
        pub rows: i64,
        /// Mean; none without rows.
        pub mean: Option<f64>,
        /// Population standard deviation.
        pub std: Option<f64>,
        /// Smallest value.
        pub min: Option<f64>,
        /// Largest value.
        pub max: Option<f64>,
    }

    /// What models make of their features.
    Explanations = "explanations" version 1 if_any;
    /// One figure about one feature.
    pub struct ExplanationRow {
        /// The run.
        pub run_id: String,
        /// Stage that explained.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold of the model.
        pub fold: Option<i32>,
        /// `permutation`, `partial`, `sobol` or `sensitivity`.
        pub kind: String,
        /// The feature.
        pub feature: String,
        /// The feature's value that the figure is about, where it is about one.
        pub at: Option<f64>,
        /// The figure.
        pub value: f64,
        /// Its spread: between repeats, of the posterior, or its standard error.
        pub std: Option<f64>,
        /// Which figure of its kind: `mean`, `individual`, `first`, `total`, `row`, `mean_absolute`.
        pub stat: String,
        /// Key of the row that it is about, as text.
        pub key: Option<String>,
        /// Number of that row in the input, from 0.
        pub row: Option<i64>,
    }
}
