//! `ingest`: reads the features, target and key of an input.

pub mod inspect;
mod options;
mod source;
mod target;

pub use options::{FeatureOption, TargetOption};
pub use source::Source;

use inspect::Inspection;

use super::{
    Collecting, Context, Demand, Footprint, Job, Output, Preparation, RowCheck, Stage, StageError, StageKind, Work,
};
use crate::features::ColumnKind;
use crate::pipeline::{FilePath, Kind};
use crate::store::input::{ColumnQuality, Keep, LARGEST, SMALLEST, check_quality, check_unique_keys, open_parts};
use crate::store::{InputFile, InputTable, InvalidPolicy, Selection, StoreError, discover, peek};
use ndarray::{ArrayView1, Axis};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind::new::<Ingest>("ingest", "Reads features and target from Parquet."),
    version: 1,
    read: super::read::<Ingest>,
};

/// Reads features and target from Parquet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingest {
    /// A file, a directory (hive partitions become columns) or a glob; relative to this file.
    #[schemars(length(min = 1))]
    pub path: FilePath,
    /// Column that identifies rows in the predictions; must be unique to train on.
    pub key: Option<String>,
    /// Names or globs of the feature columns, or mappings that say what they are.
    #[schemars(extend("minItems" = 1))]
    pub features: Vec<FeatureOption>,
    /// Names or globs of columns that patterns in `features` leave out.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Column to predict; optional when only scoring. With a `transform`, it is modelled on another scale.
    pub target: Option<TargetOption>,
    /// Column with the weight of each row: the noise variance of its target is divided by it. Weights count relative to
    /// their mean.
    #[schemars(length(min = 1))]
    pub weight: Option<String>,
    /// Column with the known noise of each row's target, a standard deviation in the target's units
    /// (`gp`, `sparse_gp`, `deep_gp`, `stride`).
    #[schemars(length(min = 1))]
    pub noise_std: Option<String>,
}

impl Stage for Ingest {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn locate(&mut self, base: &Path) {
        self.path.locate(base);
    }

    fn inputs(&self) -> Vec<&str> {
        Vec::new()
    }

    fn memory(&self, demand: &Demand, (rows, features): (u64, u64), _: u64) -> Option<Footprint> {
        let data = 8 * rows * (features + 2 + demand.keys.len() as u64);
        // Chunks on their way, whatever the number of rows.
        Some(if demand.in_memory { data } else { data.min(256 << 20) }.into())
    }

    fn size(&self, demand: &Demand) -> Option<(u64, u64)> {
        let schema = discover(self.path.path()).and_then(|files| peek(&files)).ok()?;
        let features = schema.resolve(&self.selection(demand)).ok()?.features.len() as u64;
        Some((schema.rows(), features))
    }

    fn inspect(&self, demand: &Demand, checks: &[RowCheck], seed: u64) -> Option<Inspection> {
        Some(Inspection::new(self, demand, checks, seed))
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let source = Source::shared(self, context.demand, context.sources)?;
        let reads = source.contents().map(|(path, hash)| (path.to_owned(), hash.to_owned())).collect();
        Ok(Preparation { keys: vec![source.key.clone()], output: Output::Rows(source), reads })
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        job.spans.phase("ingest");
        let source = context.rows_of(context.id)?;
        let (rows, outcome, warnings) = if context.demand.in_memory {
            let table = source.load_outline(job.record)?;
            let outcome = format!("{} rows × {} features", table.row_count, table.feature_names.len());
            (table.row_count, outcome, self.warnings(context.demand, &table))
        } else {
            let rows = self.rows(source.files())?;
            (rows as usize, format!("{rows} rows"), Vec::new())
        };
        Ok(Work { notes: json!({ "warnings": warnings }), ..Work::done(rows, outcome) })
    }

    fn collect(&self, _: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        done.warn()
    }
}

impl Ingest {
    /// The columns that are read.
    pub fn selection(&self, demand: &Demand) -> Selection {
        Selection {
            key: self.key.clone(),
            features: self.features.iter().map(|feature| feature.name().to_owned()).collect(),
            exclude: self.exclude.clone(),
            declared: self.features.iter().filter_map(FeatureOption::declared).collect(),
            target: self.target_name().map(str::to_owned),
            weight: self.weight.clone(),
            noise_std: self.noise_std.clone(),
            extra: demand.columns.iter().cloned().collect(),
            keys: demand.keys.iter().cloned().collect(),
        }
    }

    /// The column to predict.
    pub fn target_name(&self) -> Option<&str> {
        self.target.as_ref().map(TargetOption::name)
    }

    /// How many rows these files have, by their footers. What is asked for by name must be there; patterns may match
    /// more than a model needs.
    fn rows(&self, files: &[InputFile]) -> Result<u64, StageError> {
        let schema = peek(files)?;
        let mut named = self.selection(&Demand::default());
        named.features.retain(|name| !name.contains(['*', '?', '[', '{']));
        schema.resolve(&named)?;
        Ok(schema.rows())
    }

    fn read(&self, demand: &Demand, files: &[InputFile], keep: Keep<'_>) -> Result<InputTable, StageError> {
        let table = open_parts(files, &self.selection(demand), InvalidPolicy::Error, keep)?;
        if matches!(keep, Keep::Rows(_)) {
            // Whoever has seen all of them has found them to be in order.
            return Ok(table);
        }
        match self.problems(demand, &table).into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(table),
        }
    }

    /// Why these rows are refused. Training refuses what scoring takes: no rows at all, and keys that repeat.
    fn problems(&self, demand: &Demand, table: &InputTable) -> Vec<StageError> {
        let mut problems: Vec<StageError> = Vec::new();
        if demand.in_memory || demand.only_valid {
            problems.extend(check_quality(&table.quality).err().map(StageError::from));
        }
        if demand.trains {
            if table.row_count == 0 {
                problems.push(StageError::Data {
                    what: format!("{}: no rows to train on", self.path.written()),
                    hint: "check the path and the files' contents".to_owned(),
                });
            }
            problems.extend(check_unique_keys(table).err().map(StageError::from));
            problems.extend(check_sizes(table).err());
            problems.extend(target::check(self.target.as_ref(), table).err());
        }
        problems
    }

    /// What is worth saying of rows that are not refused. Without the path: the same contents may lie elsewhere next time.
    fn warnings(&self, demand: &Demand, table: &InputTable) -> Vec<String> {
        if !demand.trains {
            return Vec::new();
        }
        let features = table.feature_names.len();
        let constant = table.quality.iter().take(features).filter(|column| column.is_constant());
        let constant: Vec<&str> = constant.map(|column| column.name.as_str()).collect();
        let mut warnings = Vec::new();
        if !constant.is_empty() {
            let names = constant.join(", ");
            let advice = "say nothing to a model; leave them out of `features`";
            warnings.push(format!("constant column(s) {names} {advice}"));
        }
        if let Some(target) = table.quality.get(features).filter(|column| column.is_constant()) {
            let name = &target.name;
            warnings.push(format!("the target `{name}` is constant: there is nothing to learn from it"));
        }
        warnings.extend(self.row_numbers(table));
        warnings
    }

    /// Features that nobody asked for by name, and that look like numbers of rows rather than something measured.
    fn row_numbers(&self, table: &InputTable) -> Option<String> {
        let times = |name: &String| {
            table.columns.iter().any(|column| column.name == *name && column.kind == ColumnKind::Timestamp)
        };
        let columns = table.feature_names.iter().zip(table.features.axis_iter(Axis(1)));
        let named = |name: &String| self.features.iter().any(|feature| feature.name() == name);
        let by_pattern = columns.filter(|(name, _)| !named(name) && !times(name));
        // With a key, further numbers of rows are less likely than counts that happen to differ.
        let is_number = |name: &str, values: &ArrayView1<'_, f64>| {
            name.starts_with(PANDAS_INDEX)
                || (table.outline.is_none() && self.key.is_none() && are_different_integers(values))
        };
        let found: Vec<&str> =
            by_pattern.filter(|(name, values)| is_number(name, values)).map(|(name, _)| name.as_str()).collect();
        let more = found.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!found.is_empty()).then(|| {
            format!(
                "feature(s) {}{more} look like numbers of rows, of which a model learns nothing: make one the `key`, or put \
                 them under `exclude`; name them in `features` if they are measured",
                found[..found.len().min(SHOWN)].join(", ")
            )
        })
    }
}

/// Names in a message.
const SHOWN: usize = 8;
/// What pandas calls an index that has no name.
const PANDAS_INDEX: &str = "__index_level_";
/// Among fewer rows, counts differ by chance.
const FEWEST_ROWS: usize = 20;

/// Whether every row has another whole number.
fn are_different_integers(values: &ArrayView1<'_, f64>) -> bool {
    let is_whole = |value: &f64| value.is_finite() && value.fract() == 0.0;
    if values.len() < FEWEST_ROWS || !values.iter().all(is_whole) {
        return false;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).all(|pair| pair[0] < pair[1])
}

/// Squares of values beyond [`LARGEST`] overflow. Those of a column that has nothing above [`SMALLEST`] vanish, and with
/// them all that tells its rows apart; beside larger values, such a value is as good as zero.
fn check_sizes(table: &InputTable) -> Result<(), StageError> {
    let size = |quality: &ColumnQuality| quality.range.map_or(0.0, |(low, high)| low.abs().max(high));
    let too_small = |size: f64| size > 0.0 && size < SMALLEST;
    let Some(quality) = table.quality.iter().find(|quality| size(quality) > LARGEST || too_small(size(quality))) else {
        return Ok(());
    };
    let feature = table.feature_names.iter().position(|name| *name == quality.name);
    let value = |row: usize| match (feature, &table.target) {
        (Some(column), _) => table.features[[row, column]],
        (None, Some(target)) => target[row],
        (None, None) => 0.0,
    };
    let (detail, limit) = if size(quality) > LARGEST {
        ("is too large to compute with", format!("at most {LARGEST:e}"))
    } else {
        ("is too small to compute with, as is all of this column", format!("at least {SMALLEST:e}"))
    };
    let meant = |row: &usize| if size(quality) > LARGEST { value(*row).abs() > LARGEST } else { value(*row) != 0.0 };
    let hint = format!("remove it, or choose other units ({limit})");
    if table.outline.is_some() {
        let path = table.files.first().map_or(Path::new(""), |file| &file.path);
        return Err(StoreError::invalid_column(path, &quality.name, format!("a value {detail}"), hint).into());
    }
    let row = (0..table.row_count).find(meant).unwrap_or(0);
    let (path, place) = table.locate(row);
    Err(StageError::Store(StoreError::Invalid {
        path: path.to_owned(),
        detail: format!("{:e} {detail}", value(row)),
        column: Some(quality.name.clone()),
        row: Some(place),
        hint,
    }))
}
