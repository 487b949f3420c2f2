//! What people do with a store, from beginning to end, and the same on disk.

use super::servers::Kind;
use super::{Place, assert_same_rows, rows};
use serde_json::Value as Json;

/// Ingest, training, publishing, scoring and results, with everything in the store.
const PIPELINE: &str = "\
version: 1
name: nightly
seed: 3
results: BASE/results
stages:
  rows: { ingest: { path: BASE/data/, key: id, features: [a, b], target: y } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  every: { split: { input: rows, all: {} } }
  model: { train: { input: folds, method: ridge } }
  final: { train: { input: every, method: ridge, publish: BASE/models/plane } }
  predictions: { predict: { model: model, input: folds } }
  metrics: { evaluate: { input: predictions } }
  new: { ingest: { path: \"BASE/data/day=1/*.parquet\", key: id, features: [a, b] } }
  scores: { predict: { model: final, input: new, output: BASE/scores/new.parquet } }
  page: { report: { input: metrics } }
";

#[test]
fn everything_in_moto() {
    everything(Kind::Moto);
}

#[test]
fn everything_in_s3s_fs() {
    everything(Kind::S3sFs);
}

#[test]
fn everything_in_azurite() {
    everything(Kind::Azurite);
}

#[test]
fn everything_in_google() {
    everything(Kind::Google);
}

fn everything(kind: Kind) {
    let place = Place::new(kind);
    place.put_days();
    place.sandbox.write("remote.yaml", &PIPELINE.replace("BASE", place.url("").trim_end_matches('/')));
    place.sandbox.write("disk.yaml", &PIPELINE.replace("BASE", "local"));
    let said = place.run("run remote.yaml --quiet").succeeded().stdout;
    assert!(said.contains(&place.url("results/run/")), "{said}");
    place.run("run disk.yaml --quiet").succeeded();
    results_are_those_of_the_disk(&place);
    runs_are_seen_from_elsewhere(&place);
    scores_come_and_go(&place);
    versions_go_forward_and_back(&place);
}

fn results_are_those_of_the_disk(place: &Place) {
    let there = place.server.list();
    let manifest = there.iter().find(|name| name.ends_with("manifest.json")).unwrap();
    let manifest: Json = serde_json::from_slice(&place.server.get(manifest)).unwrap();
    let disk = place.sandbox.files("local/results/run");
    let disk = disk.iter().find(|name| name.ends_with("manifest.json")).unwrap();
    let disk: Json =
        serde_json::from_slice(&std::fs::read(place.sandbox.path("local/results/run").join(disk)).unwrap()).unwrap();
    // An input is its contents, wherever it lies: hashes and keys of finished work agree.
    let hashes = |manifest: &Json| -> Vec<String> {
        manifest["inputs"].as_array().unwrap().iter().map(|input| input["sha256"].to_string()).collect()
    };
    assert_eq!(hashes(&manifest), hashes(&disk));
    assert_eq!(manifest["cache"], disk["cache"]);
    // All that the manifest names is there, and nothing that belongs to one machine.
    for file in manifest["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let name = path.split_once("://bucket/").map_or_else(|| format!("results/{path}"), |(_, key)| key.to_owned());
        assert!(there.contains(&name), "{name} is not in {there:?}");
    }
    assert!(
        there.iter().all(|name| !name.contains("cache") && !name.contains("lock") && !name.contains("tmp")),
        "{there:?}"
    );
    assert_same_rows(place, "scores/new.parquet", "local/scores/new.parquet");
}

fn runs_are_seen_from_elsewhere(place: &Place) {
    let results = place.url("results");
    let listed = place.run_on("elsewhere", &format!("runs list --results {results}")).succeeded().stdout;
    assert!(listed.contains("nightly") && listed.contains("succeeded"), "{listed}");
    let shown = place.run_on("elsewhere", &format!("runs show last --results {results}")).succeeded().stdout;
    assert!(!shown.contains("gone"), "{shown}");
    let on_disk = place.run("runs table last --metric smse --results local/results").succeeded().stdout;
    assert_eq!(
        place.run_on("elsewhere", &format!("runs table last --metric smse --results {results}")).succeeded().stdout,
        on_disk
    );
    place.run_on("elsewhere", &format!("report --results {results}")).succeeded();
    assert!(place.server.list().contains(&"results/report.html".to_owned()));
    let views = place.run_on("elsewhere", &format!("views --results {results}")).succeeded().stdout;
    assert!(views.contains(&format!("read_parquet('{results}/metrics/pipeline=*")), "{views}");
    // Nothing to do: everything is in the cache of this machine, and the run is another one in the store.
    let again = place.run("run remote.yaml --quiet").succeeded().stdout;
    assert!(again.contains("11 taken from the cache"), "{again}");
    let two = place.run_on("elsewhere", &format!("runs list --results {results}")).succeeded().stdout;
    assert_eq!(two.matches("succeeded").count(), 2, "{two}");
}

fn scores_come_and_go(place: &Place) {
    // A directory of s3s-fs cannot be asked for as an object: it answers 500.
    let day = if place.server.kind == Kind::S3sFs { "data/day=0/" } else { "data/day=0" };
    let model = place.url("models/plane");
    for (input, output) in [("data/", "mirrored/"), ("data/**/rows.parquet", "one.parquet"), (day, "day.parquet")] {
        let remote = format!("score --model {model} --input {} --output {}", place.url(input), place.url(output));
        // Twice: what is there is replaced.
        place.run(&remote).succeeded();
        place.run(&remote).succeeded();
        place
            .run(&format!("score --model local/models/plane --input local/{input} --output local/{output}"))
            .succeeded();
    }
    for name in ["mirrored/day=0/rows.parquet", "mirrored/day=1/rows.parquet", "one.parquet", "day.parquet"] {
        assert_same_rows(place, name, &format!("local/{name}"));
    }
    let results = place.url("noted");
    let model = place.url("models/plane");
    let (input, output) = (place.url("data/"), place.url("noted.parquet"));
    place.run(&format!("score --model {model} --input {input} --output {output} --results {results}")).succeeded();
    let listed = place.run_on("elsewhere", &format!("runs list --results {results}")).succeeded().stdout;
    assert!(listed.contains("score"), "{listed}");
}

fn versions_go_forward_and_back(place: &Place) {
    let model = place.url("models/plane");
    let first = place.server.get("models/plane/versions/1/model.safetensors");
    rows(&place.sandbox, "rows.parquet", 9, 80);
    place.publish("models/plane");
    let listed = place.run(&format!("model list {model} --format json")).succeeded().stdout;
    let listed: Json = serde_json::from_str(&listed).unwrap();
    let published = |listed: &Json| {
        listed.as_array().unwrap().iter().map(|found| found["is_published"] == true).collect::<Vec<_>>()
    };
    assert_eq!(published(&listed), [false, true]);
    // The same model again is no new version.
    place.publish("models/plane");
    let diff = place.run(&format!("model diff {model}/versions/1 {model}")).succeeded().stdout;
    assert!(diff.contains("rows"), "{diff}");
    place.run(&format!("model rollback {model}")).succeeded();
    let listed = place.run(&format!("model list {model} --format json")).succeeded().stdout;
    assert_eq!(published(&serde_json::from_str(&listed).unwrap()), [true, false]);
    // The bytes of the model before are those that scoring jobs get.
    assert_eq!(place.server.get("models/plane/versions/1/model.safetensors"), first);
    let shown = place.run(&format!("model show {model}")).succeeded().stdout;
    assert!(shown.contains("240"), "{shown}");
    assert_eq!(place.run(&format!("model rollback {model}")).code, 66);
}
