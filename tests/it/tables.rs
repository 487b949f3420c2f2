//! The result tables have the columns that the contract promises.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, TimeUnit};
use stride_pipe::tables::predictions::{batches, interval_columns, quantile_column};
use stride_pipe::tables::{
    CaseRow, HiddenRow, MetricRow, PredictionBlock, RunRow, TableError, TableKind, TableRow, Timestamp, TimingRow,
    TraceRow,
};

/// The contract, literally: a space before the type, `?` for nullable, utf8 unless said.
fn contract(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Predictions => {
            "run_id, stage, case, fold i32, split, key, row i64, y_true f64?, y_mean f64?, y_std f64?, f_std f64?, noise_std f64?, \
             y_mean_global f64?, nearest_distance f64?, y_pit f64?"
        }
        TableKind::Metrics => {
            "run_id, stage, case, method, fold i32?, split, metric, stat, feature ?, value f64?, rows i64"
        }
        TableKind::Timings => {
            "run_id, stage, case, fold i32?, phase, started_at timestamp, wall_s f64, cpu_s f64, peak_rss_bytes i64, rows i64, cached bool"
        }
        TableKind::Traces => {
            "run_id, stage, case, fold i32, particle i32, iteration i32, phase, step i32, log_likelihood f64, bound f64?, \
             acceptance f64?, step_size f64?, variance f64, length f64?, noise f64, jitter f64, inducing i32"
        }
        TableKind::Columns => "run_id, stage, case, column, role, rows i64, mean f64?, std f64?, min f64?, max f64?",
        TableKind::Hidden => {
            "run_id, stage, case, fold i32, key, row i64, layer i32, output i32, x1 f64, x2 f64?, mean f64, std f64"
        }
        TableKind::Runs => {
            "run_id, pipeline_file, status, started_at timestamp, finished_at timestamp, version, seed i64, host, threads i32, \
             command, spec_hash"
        }
        TableKind::Cases => "run_id, case, name, value",
        TableKind::Params => "run_id, name, value, origin",
        TableKind::Explanations => {
            "run_id, stage, case, fold i32?, kind, feature, at f64?, value f64, std f64?, stat, key ?, row i64?"
        }
    }
}

fn expected_fields(kind: TableKind) -> Vec<Field> {
    let field = |text: &str| {
        let (name, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let data_type = match rest.trim_end_matches('?') {
            "" => DataType::Utf8,
            "i32" => DataType::Int32,
            "i64" => DataType::Int64,
            "f64" => DataType::Float64,
            "bool" => DataType::Boolean,
            "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            other => panic!("unknown type {other}"),
        };
        Field::new(name, data_type, rest.ends_with('?'))
    };
    contract(kind).split(", ").map(field).collect()
}

#[test]
fn every_table_has_the_contracts_columns() {
    for kind in TableKind::ALL {
        let found: Vec<Field> = kind.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        assert_eq!(found, expected_fields(kind), "{kind}");
        assert_eq!(kind.schema_version(), if kind == TableKind::Predictions { 4 } else { 1 });
    }
}

#[test]
fn rows_become_batches_and_come_back() {
    let rows = vec![
        MetricRow {
            run_id: "r".into(),
            stage: "metrics".into(),
            case: "default".into(),
            method: "gp".into(),
            fold: Some(3),
            split: "test".into(),
            metric: "smse".into(),
            stat: "value".into(),
            feature: None,
            value: Some(0.25),
            rows: 10,
        },
        MetricRow {
            run_id: "r".into(),
            stage: "metrics".into(),
            case: "m=5,method=größer".into(),
            method: "gp".into(),
            fold: None,
            split: "score".into(),
            metric: "share_outside_range".into(),
            stat: "mean".into(),
            feature: Some("f1".into()),
            value: None,
            rows: 0,
        },
    ];
    let batch = MetricRow::batch(&rows).unwrap();
    assert_eq!(batch.num_rows(), 2);
    assert!(batch.column(4).is_null(1));
    assert_eq!(MetricRow::rows(&batch).unwrap(), rows);
}

#[test]
fn timestamps_and_flags_come_back() {
    let row = TimingRow {
        run_id: "r".into(),
        stage: "s".into(),
        case: "c".into(),
        fold: None,
        phase: "offline.e_step".into(),
        started_at: Timestamp::from_micros(1_794_795_930_123_456),
        wall_s: 1.5,
        cpu_s: 2.5,
        peak_rss_bytes: 1 << 40,
        rows: 7,
        cached: true,
    };
    let batch = TimingRow::batch(std::slice::from_ref(&row)).unwrap();
    assert_eq!(TimingRow::rows(&batch).unwrap(), [row]);
}

#[test]
fn no_rows_still_have_all_columns() {
    for (kind, batch) in [
        (TableKind::Metrics, MetricRow::batch(&[]).unwrap()),
        (TableKind::Timings, TimingRow::batch(&[]).unwrap()),
        (TableKind::Traces, TraceRow::batch(&[]).unwrap()),
        (TableKind::Hidden, HiddenRow::batch(&[]).unwrap()),
        (TableKind::Runs, RunRow::batch(&[]).unwrap()),
        (TableKind::Cases, CaseRow::batch(&[]).unwrap()),
    ] {
        assert_eq!((batch.num_rows(), batch.schema()), (0, kind.schema()));
    }
    let (schema, none) = batches("r", &[]).unwrap();
    assert_eq!((none.len(), schema), (0, TableKind::Predictions.schema()));
}

#[test]
fn another_schema_is_refused() {
    let batch = CaseRow::batch(&[]).unwrap();
    let error = MetricRow::rows(&batch).unwrap_err().to_string();
    assert!(error.contains("table metrics") && error.contains("stage"), "{error}");
    let mut fields: Vec<Field> = expected_fields(TableKind::Cases);
    fields.push(Field::new("more", DataType::Utf8, true));
    assert!(TableKind::Cases.check(&Schema::new(fields)).is_err());
    let mut fields: Vec<Field> = expected_fields(TableKind::Predictions);
    fields.push(Field::new("y_q05", DataType::Float64, true));
    assert!(TableKind::Predictions.check(&Schema::new(fields)).is_ok());
}

#[test]
fn quantile_names() {
    for (level, lower, upper) in [
        (0.9, "y_q05", "y_q95"),
        (0.5, "y_q25", "y_q75"),
        (0.95, "y_q025", "y_q975"),
        (0.8, "y_q10", "y_q90"),
        (0.99, "y_q005", "y_q995"),
        (0.999, "y_q0005", "y_q9995"),
        (0.6827, "y_q15865", "y_q84135"),
        (0.1, "y_q45", "y_q55"),
    ] {
        assert_eq!(interval_columns(level).unwrap(), (lower.to_owned(), upper.to_owned()), "{level}");
    }
    assert_eq!(quantile_column(0.5).unwrap(), "y_q50");
    for level in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY, 0.999_999_999, 1.0 / 3.0] {
        assert!(interval_columns(level).is_err(), "{level}");
    }
}

fn block(rows: usize) -> PredictionBlock {
    PredictionBlock {
        stage: "predictions".into(),
        case: "default".into(),
        fold: 2,
        split: "test".into(),
        key: (0..rows).map(|row| format!("k{row}")).collect(),
        row: (0..rows as i64).collect(),
        y_true: Some((0..rows).map(|row| if row == 1 { f64::NAN } else { 1.0 }).collect()),
        y_mean: vec![0.5; rows],
        y_std: Some(vec![0.1; rows]),
        ..PredictionBlock::default()
    }
}

fn f64s(batch: &RecordBatch, name: &str) -> Vec<Option<f64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().iter().collect()
}

#[test]
fn blocks_with_different_columns_share_one_schema() {
    let mut first = block(3);
    first.quantiles = vec![("y_q05".into(), vec![0.0, 0.1, 0.2]), ("y_q95".into(), vec![1.0; 3])];
    let mut second = block(2);
    let kept = Arc::new(Field::new("customer_id", DataType::Int64, false));
    second.keep = vec![(kept, Arc::new(Int64Array::from(vec![7, 8])))];
    let (schema, batches) = batches("run", &[first, second]).unwrap();
    let names: Vec<&str> = schema.fields().iter().skip(15).map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["y_q05", "y_q95", "customer_id"]);
    assert_eq!(f64s(&batches[0], "y_q05"), [Some(0.0), Some(0.1), Some(0.2)]);
    assert_eq!(f64s(&batches[1], "y_q05"), [None, None]);
    assert_eq!(f64s(&batches[0], "y_true"), [Some(1.0), None, Some(1.0)]);
    assert_eq!(f64s(&batches[0], "f_std"), [None, None, None]);
    assert_eq!(batches[0].column_by_name("customer_id").unwrap().null_count(), 3);
    assert_eq!(batches[1].column_by_name("run_id").unwrap().as_string::<i32>().value(1), "run");
}

#[test]
fn wrong_blocks_are_refused() {
    let mut ragged = block(3);
    ragged.y_std = Some(vec![0.1; 2]);
    assert!(matches!(batches("r", &[ragged]), Err(TableError::Ragged { expected: 3, found: 2, .. })));
    let mut clash = block(1);
    clash.keep = vec![(Arc::new(Field::new("case", DataType::Int64, false)), Arc::new(Int64Array::from(vec![7])))];
    assert!(matches!(batches("r", &[clash]), Err(TableError::Column { .. })));
}
