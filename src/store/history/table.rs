//! Pivot tables over the matrix variables of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use polars::prelude::{
    DataFrame, IntoLazy, JoinArgs, JoinType, LazyFrame, NamedFrom, PolarsResult, Series, UnionArgs, col, concat, len,
    lit,
};

use super::summary::{collect, scan, unexpected};
use super::{Run, StoreError};
use crate::store::read_table;
use crate::tables::{CaseRow, TableKind};

/// Metrics that are computed from the `timings` table, and the phase they sum.
pub const TIMED: [(&str, &str); 2] = [("offline_s", "offline"), ("online_s", "online")];

/// What is shown for a case that does not have a variable.
const NONE: &str = "-";

/// Everything of a run that can be put into a table: one number per metric, stage, case and fold.
#[derive(Debug)]
pub struct Measures {
    /// Columns `stage`, `case`, `metric`, `value`.
    frame: DataFrame,
    file: std::path::PathBuf,
    /// Variables of every case, in the order of the matrix.
    cases: Vec<(String, BTreeMap<String, String>)>,
    names: Vec<String>,
}

/// A pivot table.
#[derive(Debug, Clone, PartialEq)]
pub struct Pivot {
    /// Values of the row variable, in the order of the matrix.
    pub rows: Vec<String>,
    /// Values of the column variable.
    pub columns: Vec<String>,
    /// Row by row; none where no case fits.
    pub cells: Vec<Vec<Option<PivotCell>>>,
}

/// Statistics over the fold values of all cases that fall into a cell, pooled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PivotCell {
    pub mean: f64,
    /// Sample standard deviation, of two values or more.
    pub std: Option<f64>,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub count: u64,
}

impl Pivot {
    /// Tables of the same rows side by side, each with its name over its one column.
    pub fn beside(named: Vec<(String, Self)>) -> Self {
        let mut all = Self { rows: Vec::new(), columns: Vec::new(), cells: Vec::new() };
        for (name, grid) in named {
            all.columns.push(name);
            if all.rows.is_empty() {
                (all.rows, all.cells) = (grid.rows, grid.cells);
            } else {
                all.cells.iter_mut().zip(grid.cells).for_each(|(all, more)| all.extend(more));
            }
        }
        all
    }
}

impl Measures {
    /// Reads the metrics, timings and cases of a run.
    pub fn read(run: &Run) -> Result<Self, StoreError> {
        let metrics = run.table(TableKind::Metrics)?;
        let timings = run.table(TableKind::Timings)?;
        let frame = collect(metrics, || {
            let mut parts = vec![metric_values(metrics)?];
            for (metric, phase) in TIMED {
                parts.push(seconds(timings, metric, phase)?);
            }
            concat(parts, UnionArgs::default())
        })?;
        let labels = run.manifest.as_ref().map(|manifest| manifest.cases.clone()).unwrap_or_default();
        let rows: Vec<CaseRow> = read_table(run.table(TableKind::Cases)?)?;
        let mut names = distinct(rows.iter().map(|row| row.name.clone()));
        let methods = methods(metrics)?;
        if !names.iter().any(|name| name == "method") && !methods.is_empty() {
            names.push("method".to_owned());
        }
        names.push("case".to_owned());
        let variables = |label: &String| {
            let own = rows.iter().filter(|row| row.case == *label).map(|row| (row.name.clone(), row.value.clone()));
            let method = methods.get(label).map(|method| ("method".to_owned(), method.clone()));
            // The matrix comes last: it wins over the method that was recorded.
            method.into_iter().chain([("case".to_owned(), label.clone())]).chain(own).collect()
        };
        let cases = labels.iter().map(|label| (label.clone(), variables(label))).collect();
        Ok(Self { frame, file: metrics.to_owned(), cases, names })
    }

    /// What can be a metric.
    pub fn metrics(&self) -> Result<Vec<String>, StoreError> {
        self.values_of("metric", |_| true)
    }

    pub fn stages(&self, metric: &str) -> Result<Vec<String>, StoreError> {
        self.values_of("stage", |found| found == metric)
    }

    /// What can be rows and columns: matrix variables, the method, the case itself.
    pub fn variables(&self) -> &[String] {
        &self.names
    }

    fn values_of(&self, column: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, StoreError> {
        let read = || -> PolarsResult<Vec<String>> {
            let (metric, values) = (self.frame.column("metric")?.str()?, self.frame.column(column)?.str()?);
            let value = |row: usize| metric.get(row).filter(|name| wanted(name)).and_then(|_| values.get(row));
            Ok(distinct((0..self.frame.height()).filter_map(value).map(str::to_owned)))
        };
        read().map_err(|error| unexpected(&self.file, &error))
    }

    /// The table of a metric of a stage; without a column variable it has one column.
    pub fn grid(&self, metric: &str, stage: &str, rows: &str, columns: Option<&str>) -> Result<Pivot, StoreError> {
        let value = |variables: &BTreeMap<String, String>, name: Option<&str>| {
            name.map_or(metric, |name| variables.get(name).map_or(NONE, String::as_str)).to_owned()
        };
        let place = |(label, variables): &(String, BTreeMap<String, String>)| {
            (label.clone(), value(variables, Some(rows)), value(variables, columns))
        };
        let places: Vec<(String, String, String)> = self.cases.iter().map(place).collect();
        let cells = self.cells(metric, stage, &places).map_err(|error| unexpected(&self.file, &error))?;
        let filled = |row: &str, column: &str| cells.get(&(row.to_owned(), column.to_owned())).copied();
        let mut grid = Pivot {
            rows: distinct(places.iter().map(|(_, row, _)| row.clone())),
            columns: distinct(places.iter().map(|(_, _, column)| column.clone())),
            cells: Vec::new(),
        };
        let line = |row: &String| grid.columns.iter().map(|column| filled(row, column)).collect();
        grid.cells = grid.rows.iter().map(line).collect();
        Ok(grid)
    }

    fn cells(
        &self,
        metric: &str,
        stage: &str,
        places: &[(String, String, String)],
    ) -> PolarsResult<BTreeMap<(String, String), PivotCell>> {
        let text = |name: &str, values: Vec<&str>| Series::new(name.into(), values).into();
        let places = DataFrame::new_infer_height(vec![
            text("case", places.iter().map(|(case, _, _)| case.as_str()).collect()),
            text("row", places.iter().map(|(_, row, _)| row.as_str()).collect()),
            text("column", places.iter().map(|(_, _, column)| column.as_str()).collect()),
        ])?;
        let value = || col("value");
        let cells = self
            .frame
            .clone()
            .lazy()
            .filter(col("metric").eq(lit(metric)).and(col("stage").eq(lit(stage))))
            .join(places.lazy(), [col("case")], [col("case")], JoinArgs::new(JoinType::Inner))
            .group_by([col("row"), col("column")])
            .agg([
                value().mean().alias("mean"),
                value().std(1).alias("std"),
                value().median().alias("median"),
                value().min().alias("min"),
                value().max().alias("max"),
                len().cast(polars::prelude::DataType::UInt64).alias("count"),
            ])
            .collect()?;
        let number =
            |name: &str, row: usize| Ok::<_, polars::prelude::PolarsError>(cells.column(name)?.f64()?.get(row));
        let (rows, columns) = (cells.column("row")?.str()?, cells.column("column")?.str()?);
        let mut found = BTreeMap::new();
        for row in 0..cells.height() {
            let place = (rows.get(row).unwrap_or_default().to_owned(), columns.get(row).unwrap_or_default().to_owned());
            let get = |name: &str| number(name, row).map(|value| value.unwrap_or(f64::NAN));
            let (mean, median, min, max) = (get("mean")?, get("median")?, get("min")?, get("max")?);
            let count = cells.column("count")?.u64()?.get(row).unwrap_or_default();
            found.insert(place, PivotCell { mean, std: number("std", row)?, median, min, max, count });
        }
        Ok(found)
    }
}

/// The value of every metric on every fold.
fn metric_values(file: &Path) -> PolarsResult<LazyFrame> {
    let wanted = col("stat").eq(lit("value")).and(col("feature").is_null()).and(col("value").is_not_null());
    Ok(scan(&[file])?.filter(wanted).select([col("stage"), col("case"), col("metric"), col("value")]))
}

/// The seconds of a phase on every fold, as a metric.
fn seconds(file: &Path, metric: &str, phase: &str) -> PolarsResult<LazyFrame> {
    let columns = [col("stage"), col("case"), lit(metric).alias("metric"), col("wall_s").alias("value")];
    Ok(scan(&[file])?.filter(col("phase").eq(lit(phase))).select(columns))
}

/// The method of every case, where a case has one only.
fn methods(file: &Path) -> Result<BTreeMap<String, String>, StoreError> {
    let frame = collect(file, || {
        let methods = [col("method").n_unique().alias("count"), col("method").first()];
        Ok(scan(&[file])?.group_by([col("case")]).agg(methods).filter(col("count").eq(lit(1))))
    })?;
    let rows = || -> PolarsResult<BTreeMap<String, String>> {
        let (case, method) = (frame.column("case")?.str()?, frame.column("method")?.str()?);
        let row = |row: usize| Some((case.get(row)?.to_owned(), method.get(row)?.to_owned()));
        Ok((0..frame.height()).filter_map(row).collect())
    };
    rows().map_err(|error| unexpected(file, &error))
}

/// Every value once, in the order of first appearance.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}
