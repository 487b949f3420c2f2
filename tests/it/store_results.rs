//! The layout of a results directory, run ids, and table files.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use stride_pipe::store::input::sha256_file;
use stride_pipe::store::{Footer, ResultsDir, RunId, StoreError, escape, read_table};
use stride_pipe::tables::{CaseRow, PredictionBlock, TableKind, TableRow, Timestamp, predictions};

fn run_id() -> RunId {
    RunId::new(Timestamp::from_micros(1_794_795_930_123_456), b"entropy")
}

fn footer() -> Footer {
    Footer { version: "0.1.0".into(), spec_hash: "abc".into(), seed: u64::MAX }
}

#[test]
fn run_ids_are_sortable_checked_text() {
    let id = run_id();
    assert!(id.as_str().starts_with("20261116T022530123456Z-"), "{id}");
    assert_eq!((id.as_str().len(), id.run_date().as_str()), (29, "2026-11-16"));
    assert_eq!(id.as_str().parse::<RunId>().unwrap(), id);
    assert_eq!(id.as_str().parse::<RunId>().unwrap().started(), id.started());
    assert_ne!(RunId::new(id.started(), b"other"), id);
    let later = RunId::new(Timestamp::from_micros(id.started().micros() + 1), b"");
    assert!(later > id && later.as_str() > id.as_str());
    for bad in [
        "",
        "latest",
        "20261316T022530123456Z-3f9a1c",
        "20261116T022530123456Z-3F9A1C",
        "20261116T022530123456Z-3f9a1",
        "../../../../../../etc/passwd/x",
    ] {
        assert!(bad.parse::<RunId>().is_err(), "{bad}");
    }
    assert!(RunId::generate().as_str().parse::<RunId>().is_ok());
}

#[test]
fn the_layout_is_the_contracts() {
    let results = ResultsDir::new("results");
    let id = run_id();
    let show = |path: std::path::PathBuf| path.to_str().unwrap().replace(id.as_str(), "<run_id>");
    assert_eq!(
        show(results.table_path(TableKind::Predictions, "fashion", &id)),
        "results/predictions/pipeline=fashion/run_date=2026-11-16/<run_id>.parquet"
    );
    assert_eq!(show(results.manifest_path(&id)), "results/run/<run_id>/manifest.json");
    assert_eq!(show(results.resolved_path(&id)), "results/run/<run_id>/resolved.yaml");
    assert_eq!(show(results.events_path(&id)), "results/run/<run_id>/events.jsonl");
    assert_eq!(
        show(results.model_path("fashion", &id, "method=stride,m=50", None, 3)),
        "results/models/fashion/<run_id>/method=stride,m=50/fold=3/model.safetensors"
    );
}

#[test]
fn escaped_names_stay_in_their_directory() {
    for (text, name) in [
        ("method=stride,m=50", "method=stride,m=50"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
        (".hidden", "%2Ehidden"),
        ("100%", "100%25"),
        ("ü x", "%C3%BC%20x"),
        ("", "%"),
    ] {
        assert_eq!(escape(text), name);
        assert_eq!(Path::new(&escape(text)).components().count(), 1);
    }
    let (long, longer) = (escape(&"x".repeat(500)), escape(&"x".repeat(501)));
    assert_eq!(long.len(), 120);
    assert_ne!(long, longer);
}

#[test]
fn a_table_file_has_its_footer_and_rows() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let row =
        |name: &str| CaseRow { run_id: run_id().to_string(), case: "m=5".into(), name: name.into(), value: "5".into() };
    let rows = vec![row("m"), row("method")];
    let written = results.write_rows("fashion", &run_id(), &footer(), &rows).unwrap();
    assert_eq!((written.rows, written.kind), (2, TableKind::Cases));
    assert_eq!(written.path, results.table_path(TableKind::Cases, "fashion", &run_id()));
    assert_eq!(written.sha256, sha256_file(&written.path).unwrap());
    assert_eq!(written.bytes, fs::metadata(&written.path).unwrap().len());
    assert_eq!(read_table::<CaseRow>(&written.path).unwrap(), rows);

    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&written.path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let entries: HashMap<&str, &str> = metadata
        .key_value_metadata()
        .unwrap()
        .iter()
        .filter_map(|entry| Some((entry.key.as_str(), entry.value.as_deref()?)))
        .collect();
    assert_eq!(entries["stride.run_id"], run_id().as_str());
    assert_eq!(entries["stride.schema_version"], "1");
    assert_eq!(entries["stride.version"], "0.1.0");
    assert_eq!(entries["stride.spec_hash"], "abc");
    assert_eq!(entries["stride.seed"], u64::MAX.to_string());
    assert!(matches!(reader.metadata().row_group(0).column(0).compression(), Compression::ZSTD(_)));
}

#[test]
fn every_table_can_be_empty() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    for kind in TableKind::ALL {
        let written = results.write_table(kind, "p", &run_id(), &footer(), &kind.schema(), &[]).unwrap();
        assert_eq!(written.rows, 0);
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&written.path).unwrap()).unwrap();
        assert_eq!(reader.schema().fields(), kind.schema().fields(), "{kind}");
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    }
}

#[test]
fn predictions_come_back_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let block = |fold: i32| PredictionBlock {
        stage: "p".into(),
        case: "default".into(),
        fold,
        split: "score".into(),
        key: vec!["a".into(), "b".into()],
        row: vec![0, 1],
        y_mean: vec![0.25, -0.5],
        quantiles: vec![("y_q05".into(), vec![0.0, f64::NAN])],
        ..PredictionBlock::default()
    };
    let (schema, batches) = predictions::batches(run_id().as_str(), &[block(0), block(1)]).unwrap();
    let written = results.write_table(TableKind::Predictions, "p", &run_id(), &footer(), &schema, &batches).unwrap();
    assert_eq!(written.rows, 4);
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&written.path).unwrap()).unwrap();
    let read: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    let expected = arrow::compute::concat_batches(&schema, &batches).unwrap();
    let read = arrow::compute::concat_batches(&read[0].schema(), &read).unwrap();
    assert_eq!(read.columns(), expected.columns());
}

#[test]
fn a_table_with_other_columns_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let result = results.write_table(TableKind::Metrics, "p", &run_id(), &footer(), &CaseRow::schema(), &[]);
    assert!(matches!(result, Err(StoreError::Table(_))));
    assert!(!results.table_dir(TableKind::Metrics).exists());
}
