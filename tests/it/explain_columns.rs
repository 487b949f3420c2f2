//! The explain stage on tables with categories, gaps and dates: features are the columns of the table.

use crate::sandbox::Sandbox;
use arrow::array::{Array as _, ArrayRef, AsArray as _, Date32Array, Float64Array, Int64Array, StringArray};
use arrow::datatypes::Float64Type;
use std::sync::Arc;
use stride_pipe::store::{open_batches, read_known, write_columns};
use stride_pipe::tables::ExplanationRow;

const ROWS: usize = 48;
const REPEATS: u32 = 400;
const COLUMNS: [&str; 5] = ["town", "sort", "size", "day", "idle"];

/// A row of the table: two categories, a number with gaps, a date and a number that does nothing.
#[derive(Clone)]
struct Line {
    town: String,
    sort: String,
    size: Option<f64>,
    day: i32,
    idle: f64,
    y: f64,
}

impl Line {
    fn new(row: usize) -> Self {
        let (town, sort) = (row % 3, (row / 3 * 5) % 12);
        let size = (row * 31 % 53) as f64 / 10.0;
        let gap = row % 10 == 4;
        let day = (row * 17 % 59) as i32;
        let noise = ((row * 29) % 13) as f64 / 40.0;
        Self {
            town: format!("t{town}"),
            sort: format!("s{sort:02}"),
            size: (!gap).then_some(size),
            day: 19_000 + 7 * day,
            idle: ((row * 41) % 37) as f64,
            y: 3.0 * town as f64 + 0.5 * sort as f64 + size + 0.05 * f64::from(day) + noise,
        }
    }

    /// The same row with a value of another row.
    fn with(&self, column: &str, other: &Self) -> Self {
        let mut line = self.clone();
        match column {
            "town" => line.town.clone_from(&other.town),
            "sort" => line.sort.clone_from(&other.sort),
            "size" => line.size = other.size,
            "day" => line.day = other.day,
            _ => line.idle = other.idle,
        }
        line
    }
}

fn write(sandbox: &Sandbox, file: &str, lines: &[Line]) {
    let text = |of: fn(&Line) -> &str| Arc::new(StringArray::from_iter_values(lines.iter().map(of))) as ArrayRef;
    let number = |of: fn(&Line) -> Option<f64>| Arc::new(lines.iter().map(of).collect::<Float64Array>()) as ArrayRef;
    let columns = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..lines.len() as i64)) as ArrayRef),
        ("town", text(|line| &line.town)),
        ("sort", text(|line| &line.sort)),
        ("size", number(|line| line.size)),
        ("day", Arc::new(Date32Array::from_iter_values(lines.iter().map(|line| line.day)))),
        ("idle", number(|line| Some(line.idle))),
        ("y", number(|line| Some(line.y))),
    ];
    write_columns(&sandbox.path(file), columns).unwrap();
}

/// Mean predictions of these rows, by the command that scores.
fn scored(sandbox: &Sandbox, lines: &[Line]) -> Vec<f64> {
    write(sandbox, "changed.parquet", lines);
    let _ = std::fs::remove_file(sandbox.path("scores.parquet"));
    sandbox.run("score --model models/m --input changed.parquet --key id --output scores.parquet --quiet").succeeded();
    let (_, batches) = open_batches(&sandbox.path("scores.parquet")).unwrap();
    let mean = |batch: arrow::array::RecordBatch| {
        let column = batch.column_by_name("y_mean").unwrap().as_primitive::<Float64Type>().clone();
        assert_eq!(column.null_count(), 0);
        column.values().to_vec()
    };
    batches.flat_map(|batch| mean(batch.unwrap())).collect()
}

/// What all permutations cost in the mean: every value of the column stands in every row equally often.
fn naive(sandbox: &Sandbox, lines: &[Line], column: &str) -> f64 {
    let swapped: Vec<Line> = lines.iter().flat_map(|line| lines.iter().map(|other| line.with(column, other))).collect();
    let error = |lines: &[Line]| {
        let means = scored(sandbox, lines);
        assert_eq!(means.len(), lines.len());
        means.iter().zip(lines).map(|(mean, line)| (mean - line.y).powi(2)).sum::<f64>() / lines.len() as f64
    };
    let mean = lines.iter().map(|line| line.y).sum::<f64>() / lines.len() as f64;
    let variance = lines.iter().map(|line| (line.y - mean).powi(2)).sum::<f64>() / lines.len() as f64;
    (error(&swapped) - error(lines)) / variance
}

#[test]
fn importances_are_those_of_permuted_columns_of_the_table() {
    let sandbox = Sandbox::new();
    let training: Vec<Line> = (0..150).map(Line::new).collect();
    let lines: Vec<Line> = (1000..1000 + ROWS).map(Line::new).collect();
    write(&sandbox, "training.parquet", &training);
    write(&sandbox, "held.parquet", &lines);
    let features = "[town, sort, { name: size, missing: indicator }, day, idle]";
    sandbox.write(
        "x.yaml",
        &format!(
            "version: 1\nname: train\nseed: 5\nstages:\n  rows:\n    ingest: {{ path: training.parquet, key: id, features: {features}, \
             target: y }}\n  all:\n    split: {{ input: rows, all: {{}} }}\n  model:\n    train: {{ input: all, method: gp, publish: \
             models/m }}\n"
        ),
    );
    sandbox.run("run x.yaml --quiet").succeeded();
    sandbox.write(
        "why.yaml",
        &format!(
            "version: 1\nname: why\nseed: 5\nstages:\n  rows:\n    ingest: {{ path: held.parquet, key: id, features: {features}, \
             target: y }}\n  why:\n    explain: {{ model: ./models/m, input: rows, repeats: {REPEATS}, grid: 4, samples: 200, \
             sensitivities: 6 }}\n"
        ),
    );
    let ran = sandbox.run("run why.yaml").succeeded();
    assert!(ran.stderr.contains("categories have no curve and no slope: town, sort"), "{}", ran.stderr);
    let found: Vec<ExplanationRow> = read_known(sandbox.table_files("explanations").last().unwrap()).unwrap();
    assert!(found.iter().all(|row| row.value.is_finite()));
    for column in COLUMNS {
        let own: Vec<&ExplanationRow> = found.iter().filter(|row| row.feature == column).collect();
        let kinds = |kind: &str| own.iter().filter(|row| row.kind == kind).count();
        let importance = own.iter().find(|row| row.kind == "permutation").unwrap();
        let expected = naive(&sandbox, &lines, column);
        let error = importance.std.unwrap() / f64::from(REPEATS).sqrt();
        assert!((importance.value - expected).abs() < 4.0 * error + 1e-9, "{importance:?} for {expected}");
        assert_eq!(column != "idle", importance.value > 0.05, "{importance:?}");
        let is_category = ["town", "sort"].contains(&column);
        assert_eq!(kinds("partial") == 0, is_category, "{column}");
        // Of numbers alone: a date becomes several.
        assert_eq!(kinds("sensitivity") > 0, ["size", "idle"].contains(&column), "{column}");
        assert_eq!(kinds("sobol"), 2, "{column}");
    }
    assert!(found.iter().all(|row| COLUMNS.contains(&row.feature.as_str())), "columns of the table alone");
    // Curves of dates are over microseconds.
    let day = 86_400_000_000.0;
    let of_days = found.iter().filter(|row| row.feature == "day" && row.kind == "partial");
    assert!(of_days.filter_map(|row| row.at).all(|at| (19_000.0..=19_000.0 + 7.0 * 60.0).contains(&(at / day))));
}
