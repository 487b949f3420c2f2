//! `runs prune` where results are in object storage: what goes, and above all what stays.

use super::proxy::Proxy;
use super::rows;
use super::servers::{Kind, wait_for};
use super::{Place, servers::Server};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use std::process::Stdio;

const PIPELINE: &str = "\
version: 1
name: small
results: BASE/results
stages:
  rows: { ingest: { path: rows.parquet, key: id, features: [a, b], target: y } }
  folds: { split: { input: rows, kfold: { folds: 2 } } }
  every: { split: { input: rows, all: {} } }
  model: { train: { input: folds, method: ridge } }
  final: { train: { input: every, method: ridge, publish: BASE/models/plane } }
  predictions: { predict: { model: model, input: folds } }
  metrics: { evaluate: { input: predictions } }
";

/// Three runs in the store, the first and the last of them alike.
fn three_runs(kind: Kind) -> (Place, Vec<String>) {
    let place = Place::new(kind);
    rows(&place.sandbox, "rows.parquet", 0, 100);
    let base = place.url("");
    place.sandbox.write("small.yaml", &PIPELINE.replace("BASE", base.trim_end_matches('/')));
    for seed in [0, 1, 0] {
        place.run(&format!("run small.yaml --quiet --set seed={seed}")).succeeded();
    }
    let ids = ids(&place.server);
    assert_eq!(ids.len(), 3);
    (place, ids)
}

/// Runs that have a manifest in the store, oldest first.
fn ids(server: &Server) -> Vec<String> {
    let manifest = |name: String| Some(name.strip_prefix("results/run/")?.strip_suffix("/manifest.json")?.to_owned());
    server.list().into_iter().filter_map(manifest).collect()
}

fn mentions(names: &[String], id: &str) -> Vec<String> {
    names.iter().filter(|name| name.contains(id)).cloned().collect()
}

/// All that the manifest of a run names is there, as the run has written it.
fn assert_whole(server: &Server, id: &str) {
    let manifest: Json = serde_json::from_slice(&server.get(&format!("results/run/{id}/manifest.json"))).unwrap();
    let files = manifest["files"].as_array().unwrap();
    assert!(files.len() > 5);
    for file in files {
        let path = file["path"].as_str().unwrap();
        if !path.contains("://") {
            let bytes = server.get(&format!("results/{path}"));
            let hash = Sha256::digest(bytes).iter().fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
            assert_eq!(file["sha256"], hash, "{path}");
        }
    }
}

#[test]
fn what_kept_runs_need_stays() {
    for kind in [Kind::Moto, Kind::S3sFs, Kind::Azurite, Kind::Google] {
        let (place, ids) = three_runs(kind);
        let (results, before) = (place.url("results"), place.server.list());
        let prune = |more: &str| format!("runs prune --results {results} --keep 1{more}");
        let rehearsal = place.run_on("elsewhere", &prune(" --dry-run")).succeeded().stdout;
        assert!(rehearsal.contains("dry run: 2 run(s)") && !rehearsal.contains(&ids[2]), "{rehearsal}");
        assert_eq!(place.server.list(), before);

        let done = place.run_on("elsewhere", &prune("")).succeeded().stdout;
        let there = place.server.list();
        let gone = before.len() - there.len();
        assert!(done.contains(&format!("removed 2 run(s) with {gone} files")), "{gone}: {done}");
        assert_eq!((mentions(&there, &ids[0]), mentions(&there, &ids[1])), (vec![], vec![]));
        assert_whole(&place.server, &ids[2]);
        // Published models are not of any run.
        let score = format!("score --model {} --input rows.parquet --output x.parquet", place.url("models/plane"));
        place.run_on("elsewhere", &score).succeeded();
        // The machine that ran them forgets them too, and keeps what is left to do nothing again.
        for machine in ["machine", "elsewhere", "another"] {
            let listed = place.run_on(machine, &format!("runs list --results {results}")).succeeded().stdout;
            assert!(listed.lines().count() == 2 && listed.contains(&ids[2][..20]), "{machine}: {listed}");
            let files = place.sandbox.files(machine);
            let objects = |name: &String| !name.starts_with("objects/");
            let left: Vec<String> = files.into_iter().filter(objects).collect();
            assert_eq!((mentions(&left, &ids[0]), mentions(&left, &ids[1])), (vec![], vec![]), "{machine}");
        }
        let again = place.run("run small.yaml --quiet --set seed=0").succeeded().stdout;
        assert!(again.contains("0 task(s) done"), "{again}");
    }
}

#[test]
fn a_pruning_that_was_killed_is_ended_by_the_next_one() {
    let (place, ids) = three_runs(Kind::S3sFs);
    let results = place.url("results");
    let proxy = Proxy::to(place.server.port);
    // Nothing is removed before the run has its tombstone.
    proxy.hold(&["POST ", "?delete"]);
    let mut command = place.command("elsewhere", proxy.port, &format!("runs prune --results {results} --keep 2"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| proxy.is_holding());
    child.kill().unwrap();
    child.wait().unwrap();
    let there = place.server.list();
    assert!(there.contains(&format!("results/run/{}/pruned.json", ids[0])), "{there:?}");
    for machine in ["machine", "another"] {
        let listed = place.run_on(machine, &format!("runs list --results {results}")).succeeded().stdout;
        assert!(listed.contains("pruning") && listed.contains("`stride-pipe runs prune` ends it"), "{listed}");
    }
    let done = place.run_on("another", &format!("runs prune --results {results}")).succeeded().stdout;
    assert!(done.contains("removed 1 run(s)"), "{done}");
    assert_eq!(mentions(&place.server.list(), &ids[0]), Vec::<String>::new());
    assert_whole(&place.server, &ids[1]);
    assert_whole(&place.server, &ids[2]);
}

#[test]
fn runs_in_progress_elsewhere_and_what_is_not_ours_stay() {
    let (place, ids) = three_runs(Kind::Moto);
    let results = place.url("results");
    // A run that began long ago and is just putting its files there; another that only has tables so far.
    let (slow, later) = ("20200102T030405000006Z-abcdef", "20200102T030405000007Z-abcdef");
    let log = place.sandbox.path("events.jsonl");
    std::fs::write(&log, "").unwrap();
    let table = place.sandbox.path("rows.parquet");
    place.server.put(&format!("results/run/{slow}/events.jsonl"), &log);
    place.server.put(&format!("results/metrics/pipeline=small/run_date=2020-01-02/{later}.parquet"), &table);
    let foreign = [format!("results/run/{}/notes.txt", ids[0]), format!("results/models/small/{}/readme.md", ids[0])];
    for name in &foreign {
        place.server.put(name, &log);
    }
    let prune = format!("runs prune --results {results} --status unfinished --status deleted --status succeeded");
    let said = place.run_on("elsewhere", &prune).succeeded().stdout;
    for id in [slow, later] {
        assert!(said.contains(&format!("keep    run {id}: it was active within a day")), "{said}");
        assert_eq!(mentions(&place.server.list(), id).len(), 1);
    }
    assert!(said.contains("notes.txt: not a file of stride-pipe") && said.contains("removed 3 run(s)"), "{said}");
    assert_eq!(mentions(&place.server.list(), &ids[0]), {
        let mut foreign = foreign.to_vec();
        foreign.sort();
        foreign
    });
}

#[test]
fn a_run_whose_model_another_uses_stays() {
    let (place, ids) = three_runs(Kind::Moto);
    let results = place.url("results");
    let there = place.server.list();
    let model = there.iter().find(|name| name.contains("/models/") && name.contains(&ids[0])).unwrap();
    let text = format!(
        "version: 1\nname: score\nresults: {results}\nstages:\n  batch: {{ ingest: {{ path: rows.parquet, key: id, features: \
         [a, b] }} }}\n  scores: {{ predict: {{ model: \"{}\", input: batch }} }}\n",
        place.url(model.trim_end_matches("/model.safetensors"))
    );
    place.sandbox.write("score.yaml", &text);
    place.run("run score.yaml --quiet").succeeded();
    let prune = |more: &str| place.run_on("elsewhere", &format!("runs prune --results {results} --keep 0{more}"));
    let said = prune(" --pipeline small").succeeded().stdout;
    assert!(said.contains("which is kept, reads its files") && said.contains("removed 2 run(s)"), "{said}");
    assert_whole(&place.server, &ids[0]);
    prune("").succeeded();
    assert_eq!(mentions(&place.server.list(), &ids[0]), Vec::<String>::new());
}

#[test]
fn a_run_that_is_being_removed_is_not_put_there_again() {
    let place = Place::new(Kind::Moto);
    rows(&place.sandbox, "rows.parquet", 0, 100);
    place.sandbox.write("small.yaml", &PIPELINE.replace("BASE", place.url("").trim_end_matches('/')));
    let proxy = Proxy::to(place.server.port);
    proxy.hold(&["PUT ", "/manifest.json"]);
    let mut command = place.command("machine", proxy.port, "run small.yaml --quiet");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| proxy.is_holding());
    child.kill().unwrap();
    child.wait().unwrap();
    let there = place.server.list();
    let log = there.iter().find(|name| name.ends_with("/events.jsonl")).unwrap();
    let tombstone = log.replace("events.jsonl", "pruned.json");
    let (id, table) = (log.split('/').nth(2).unwrap(), there.iter().find(|name| name.contains("/metrics/")).unwrap());
    let note = place.sandbox.path("note");
    std::fs::write(&note, "{}\n").unwrap();
    place.server.put(&tombstone, &note);
    let refused = place.run("run small.yaml --quiet --resume");
    assert!(refused.code == 75 && refused.stderr.contains("is being removed by `runs prune`"), "{}", refused.stderr);
    // The removal has got this far, and has ended.
    place.server.client(&format!("delete {tombstone}\ndelete {table}\n"));
    place.run("run small.yaml --quiet --resume").succeeded();
    assert_eq!(ids(&place.server), [id]);
    assert_whole(&place.server, id);
}
