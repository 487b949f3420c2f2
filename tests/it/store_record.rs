//! Manifests and event logs.

use std::fs;
use std::io::Write;

use serde_json::{Map, Value, json};
use stride_pipe::store::history::read_events;
use stride_pipe::store::record::{Alarm, FileRecord, write_resolved};
use stride_pipe::store::{EventLog, Manifest, ResultsDir, RunId, StoreError};
use stride_pipe::tables::Timestamp;

fn run_id() -> RunId {
    RunId::new(Timestamp::from_micros(1_794_795_930_123_456), b"entropy")
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

#[test]
fn a_manifest_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let resolved = write_resolved(&results, &run_id(), "version: 1\n").unwrap();
    let manifest = Manifest {
        run_id: run_id(),
        pipeline: "fashion".into(),
        pipeline_file: "pipelines/fashion.yaml".into(),
        status: "done".into(),
        version: "0.1.0".into(),
        commit: Some("0123456789ab".into()),
        openblas: "0.3.28 Haswell".into(),
        seed: u64::MAX,
        spec_hash: "abc".into(),
        started_at: run_id().started(),
        finished_at: Timestamp::from_micros(run_id().started().micros() + 5),
        command: "stride-pipe run pipelines/fashion.yaml".into(),
        host: "h".into(),
        threads: 2,
        shard: Some("1/4".into()),
        to: Some("model".into()),
        cases: vec!["default".into()],
        files: vec![FileRecord::file(&results, &resolved)],
        inputs: vec![],
        alarms: vec![Alarm {
            stage: "scores".into(),
            case: "default".into(),
            fold: Some(0),
            fails: true,
            condition: "variance_ratio > 3".into(),
            text: "the predictive variance is 22.7 times that of training".into(),
        }],
        cache: vec!["ab12".into()],
    };
    manifest.save(&results).unwrap();
    assert_eq!(Manifest::load(&results, &run_id()).unwrap(), manifest);
    assert_eq!(manifest.files[0].path, format!("run/{}/resolved.yaml", run_id()));
    let text = fs::read_to_string(results.manifest_path(&run_id())).unwrap();
    assert!(text.contains("\"started_at\": \"2026-11-16T02:25:30.123456Z\""), "{text}");
}

#[test]
fn missing_and_damaged_manifests_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let error = Manifest::load(&results, &run_id()).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }) && error.to_string().contains("did not finish"), "{error}");
    write_resolved(&results, &run_id(), "").unwrap();
    fs::write(results.manifest_path(&run_id()), "{").unwrap();
    assert!(matches!(Manifest::load(&results, &run_id()), Err(StoreError::Invalid { .. })));
}

#[test]
fn events_are_lines_in_order_and_survive_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let log = EventLog::open(&results, &run_id()).unwrap();
    let at = run_id().started();
    log.append(at, "stage_started", fields(json!({"stage": "model", "text": "two\nlines"}))).unwrap();
    log.append(at, "stage_done", fields(json!({"rows": 3, "event": "not this"}))).unwrap();
    let path = log.path().to_owned();
    drop(log);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"cut").unwrap();
    EventLog::open(&results, &run_id()).unwrap().append(at, "resumed", Map::new()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    // The hash of each line comes last.
    let of = |line: &'static str, hash: &str| format!("{line},\"sha256\":\"{hash}\"}}");
    let hash = |line: &str| line.rsplit('"').nth(1).unwrap().to_owned();
    for (line, text) in [
        (lines[1], r#"{"at":"2026-11-16T02:25:30.123456Z","event":"stage_done","rows":3"#),
        (lines[3], r#"{"at":"2026-11-16T02:25:30.123456Z","event":"resumed""#),
    ] {
        assert_eq!(line, of(text, &hash(line)));
    }
    assert_eq!(read_events(&results, &run_id()).damaged_lines, 1);
}

#[test]
fn threads_do_not_mix_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let results = ResultsDir::new(dir.path());
    let log = EventLog::open(&results, &run_id()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for count in 0..50 {
                    log.append(Timestamp::now(), "e", fields(json!({"thread": thread, "count": count}))).unwrap();
                }
            });
        }
    });
    let text = fs::read_to_string(log.path()).unwrap();
    assert_eq!(text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 200);
}
