//! Group-bys over the small tables of runs.

use std::collections::BTreeMap;
use std::path::Path;

use polars::io::HiveOptions;
use polars::prelude::{DataFrame, LazyFrame, PlRefPath, PolarsResult, ScanArgsParquet, col, len, lit};
use rayon::prelude::*;

use super::{Run, StoreError};
use crate::eval::metrics::headline;
use crate::store::guard::guarded;
use crate::store::read_known;
use crate::tables::{MetricRow, TableKind};

/// Mean and standard deviation of a metric over the folds of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSummary {
    pub stage: String,
    pub case: String,
    pub metric: String,
    pub mean: Option<f64>,
    /// Sample standard deviation over the folds.
    pub std: Option<f64>,
}

/// What a phase of a stage cost, over cases and folds.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseCost {
    pub stage: String,
    pub phase: String,
    pub pieces: u64,
    /// Those of them taken from the cache.
    pub cached: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
}

/// Table files as a lazy frame. Their directories are not looked at: a run knows its own pipeline and date.
pub(super) fn scan(files: &[&Path]) -> PolarsResult<LazyFrame> {
    let paths = files.iter().map(|file| PlRefPath::new(file.to_string_lossy())).collect();
    let hive_options = HiveOptions { enabled: Some(false), ..HiveOptions::default() };
    LazyFrame::scan_parquet_files(paths, ScanArgsParquet { glob: false, hive_options, ..ScanArgsParquet::default() })
}

/// Collects a frame; a damaged file is an error of that file, never the end of the program.
pub(super) fn collect(file: &Path, frame: impl FnOnce() -> PolarsResult<LazyFrame>) -> Result<DataFrame, StoreError> {
    guarded(|| frame()?.collect()).map_err(|error| {
        // Polars appends the query plan, which says nothing to a user.
        let error = error.lines().next().unwrap_or_default();
        let hint = "the file is damaged: remove it and run again";
        StoreError::while_reading(file, error, || StoreError::invalid(file, format!("cannot be read: {error}"), hint))
    })
}

/// Lowest and highest headline metric of the cases of each run, by run id, and what could not be read.
pub fn headline_ranges(runs: &[&Run]) -> (BTreeMap<String, (f64, f64)>, BTreeMap<String, String>) {
    let with_metrics = runs.par_iter().filter(|run| run.tables.contains_key(&TableKind::Metrics));
    let found: Vec<_> =
        with_metrics.map(|run| (*run, run.table(TableKind::Metrics).and_then(headline_range))).collect();
    let (mut ranges, mut problems) = (BTreeMap::new(), BTreeMap::new());
    for (run, range) in found {
        match range {
            Ok(Some(range)) => drop(ranges.insert(run.id.to_string(), range)),
            Ok(None) => {}
            Err(error) => drop(problems.insert(run.id.to_string(), error.to_string())),
        }
    }
    (ranges, problems)
}

fn headline_range(file: &Path) -> Result<Option<(f64, f64)>, StoreError> {
    let rows: Vec<MetricRow> = read_known(file)?;
    let wanted = rows.iter().filter(|row| row.metric == headline() && row.stat == "mean");
    let values = wanted.filter_map(|row| row.value);
    Ok(values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    }))
}

/// Mean and standard deviation of every metric, in the order of the table.
pub fn summaries(run: &Run) -> Result<Vec<MetricSummary>, StoreError> {
    let file = run.table(TableKind::Metrics)?;
    let frame = collect(file, || {
        let over_folds = col("fold").is_null().and(col("feature").is_null());
        let stat = |name: &'static str| col("value").filter(col("stat").eq(lit(name))).first().alias(name);
        let keys = ["stage", "case", "metric", "split"].map(col);
        Ok(scan(&[file])?.filter(over_folds).group_by_stable(keys).agg([stat("mean"), stat("std")]))
    })?;
    let rows = || -> PolarsResult<Vec<MetricSummary>> {
        let text = |name: &str| frame.column(name)?.str();
        let (stage, case, metric) = (text("stage")?, text("case")?, text("metric")?);
        let (mean, std) = (frame.column("mean")?.f64()?, frame.column("std")?.f64()?);
        let row = |row: usize| MetricSummary {
            stage: stage.get(row).unwrap_or_default().to_owned(),
            case: case.get(row).unwrap_or_default().to_owned(),
            metric: metric.get(row).unwrap_or_default().to_owned(),
            mean: mean.get(row),
            std: std.get(row),
        };
        Ok((0..frame.height()).map(row).collect())
    };
    rows().map_err(|error| unexpected(file, &error))
}

/// What every phase of every stage cost. Work that several cases share began at one moment, and counts once.
pub fn phase_costs(run: &Run) -> Result<Vec<PhaseCost>, StoreError> {
    let file = run.table(TableKind::Timings)?;
    let frame = collect(file, || {
        let pieces = [
            len().cast(polars::prelude::DataType::UInt64).alias("pieces"),
            col("cached").cast(polars::prelude::DataType::UInt64).sum().alias("cached"),
        ];
        let work = ["stage", "phase", "fold", "started_at", "wall_s", "cpu_s"].map(col);
        let sums = ["pieces", "cached", "wall_s", "cpu_s"].map(|name| col(name).sum());
        let once = scan(&[file])?.group_by_stable(work).agg(pieces);
        Ok(once.group_by_stable([col("stage"), col("phase")]).agg(sums))
    })?;
    let rows = || -> PolarsResult<Vec<PhaseCost>> {
        let (stage, phase) = (frame.column("stage")?.str()?, frame.column("phase")?.str()?);
        let (pieces, cached) = (frame.column("pieces")?.u64()?, frame.column("cached")?.u64()?);
        let (wall_s, cpu_s) = (frame.column("wall_s")?.f64()?, frame.column("cpu_s")?.f64()?);
        let row = |row: usize| PhaseCost {
            stage: stage.get(row).unwrap_or_default().to_owned(),
            phase: phase.get(row).unwrap_or_default().to_owned(),
            pieces: pieces.get(row).unwrap_or_default(),
            cached: cached.get(row).unwrap_or_default(),
            wall_s: wall_s.get(row).unwrap_or_default(),
            cpu_s: cpu_s.get(row).unwrap_or_default(),
        };
        Ok((0..frame.height()).map(row).collect())
    };
    rows().map_err(|error| unexpected(file, &error))
}

/// Columns of other types than ours: not one of our tables.
pub(super) fn unexpected(file: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::invalid(file, format!("not a table of stride-pipe: {error}"), "remove the file and run again")
}
