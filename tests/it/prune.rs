//! `stride-pipe runs prune`: what goes, and above all what stays.

use crate::runs::ids;
use crate::sandbox::{SMALL, Sandbox};
use std::fs::{self, File};
use std::time::{Duration, SystemTime};
use stride_pipe::store::input::sha256_file;
use stride_pipe::store::{Cache, Manifest, ResultsDir};

fn results(sandbox: &Sandbox) -> ResultsDir {
    ResultsDir::new(sandbox.path("results"))
}

/// Every file that the run wrote is there, unchanged, and so is every cache entry that it used.
fn is_whole(sandbox: &Sandbox, id: &str) {
    let manifest = Manifest::load(&results(sandbox), &id.parse().unwrap()).unwrap();
    for file in &manifest.files {
        assert_eq!(sha256_file(&sandbox.path("results").join(&file.path)).unwrap(), file.sha256, "{}", file.path);
    }
    assert!(!manifest.cache.is_empty());
    for hash in &manifest.cache {
        assert!(Cache::new(&results(sandbox)).look_up(hash).is_some(), "{hash}");
    }
}

fn mentions(sandbox: &Sandbox, id: &str) -> Vec<String> {
    sandbox.files("results").into_iter().filter(|file| file.contains(id)).collect()
}

#[test]
fn keeps_what_kept_runs_need() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set stages.model.train.kernel=matern52").succeeded();
    // Shares its folds, and nothing that was trained, with the one before; models are those of the first run.
    sandbox.run("run small.yaml --quiet").succeeded();
    let ids = ids(&sandbox);
    let before = sandbox.files("results");

    let rehearsal = sandbox.run("runs prune --keep 1 --dry-run").succeeded().stdout;
    assert!(rehearsal.contains(&ids[0]) && rehearsal.contains(&ids[1]) && !rehearsal.contains(&ids[2]), "{rehearsal}");
    assert!(rehearsal.contains("dry run: 2 run(s), 11 cache entries"), "{rehearsal}");
    assert_eq!(sandbox.files("results"), before, "a rehearsal changes nothing");

    let used = |sandbox: &Sandbox| -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let files = sandbox.files("results").into_iter().map(|file| sandbox.path("results").join(file));
        let unique: std::collections::BTreeMap<u64, u64> =
            files.map(|file| fs::metadata(file).unwrap()).map(|file| (file.ino(), file.len())).collect();
        unique.values().sum()
    };
    let used_before = used(&sandbox);
    let done = sandbox.run("runs prune --keep 1").succeeded().stdout;
    assert!(done.contains("removed 2 run(s)"), "{done}");
    let freed: f64 = done.rsplit_once("; ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    assert!((freed - (used_before - used(&sandbox)) as f64 / 1024.0).abs() < 0.06, "hard links count once: {done}");

    assert_eq!((mentions(&sandbox, &ids[0]), mentions(&sandbox, &ids[1])), (vec![], vec![]));
    is_whole(&sandbox, &ids[2]);
    let again = sandbox.run("run small.yaml --quiet").succeeded().stdout;
    assert!(again.contains("0 task(s) done, 13 taken from the cache"), "{again}");
    let nothing = sandbox.run("runs prune").succeeded().stdout;
    assert!(nothing.contains("removed 0 run(s) with 0 files, 0 cache entries; 0 bytes freed"), "{nothing}");
}

#[test]
fn conditions_must_all_hold() {
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        sandbox.run("run small.yaml --quiet").succeeded();
        assert_eq!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 65);
    }
    sandbox.write("other.yaml", &SMALL.replace("name: small", "name: other"));
    sandbox.run("run other.yaml --quiet").succeeded();
    let ids = ids(&sandbox);
    let selected = |conditions: &str| -> Vec<usize> {
        let said = sandbox.run(&format!("runs prune --dry-run {conditions}")).succeeded().stdout;
        let goes = |id: &String| said.lines().any(|line| line.starts_with("remove") && line.contains(id.as_str()));
        (0..ids.len()).filter(|number| goes(&ids[*number])).collect()
    };
    assert_eq!(selected(""), Vec::<usize>::new());
    assert_eq!(selected("--keep 0"), [0, 1, 2, 3, 4]);
    // The failed run 3 is newer than the newest that succeeded; run 1 is newer than the second newest.
    assert_eq!(selected("--keep 1"), [0, 1]);
    assert_eq!(selected("--keep 2"), Vec::<usize>::new());
    assert_eq!(selected("--status failed"), [1, 3]);
    assert_eq!(selected("--keep 1 --status failed"), [1]);
    assert_eq!(selected("--pipeline other --keep 0"), [4]);
    assert_eq!(selected("--older-than 1h"), Vec::<usize>::new());
    assert_eq!(selected("--older-than 0m"), [0, 1, 2, 3, 4]);
    assert_eq!(sandbox.run("runs prune --older-than soon").code, 2);
    assert_eq!(sandbox.run("runs prune --status pruning").code, 2);
    sandbox.run("runs prune --status failed").succeeded();
    for number in [0, 2, 4] {
        is_whole(&sandbox, &ids[number]);
    }
    sandbox.run("runs prune --keep 0").succeeded();
    let left: Vec<String> =
        sandbox.files("results").into_iter().filter(|file| !file.starts_with("cache/last/")).collect();
    assert_eq!(left, ["cache/in-use.lock", "locks/other.lock", "locks/small.lock", "views.sql"]);
    assert!(!sandbox.path("results/metrics").exists() && !sandbox.path("results/models").exists());
}

#[test]
fn runs_without_manifest_stay_until_they_are_asked_for_and_silent() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let young = ids(&sandbox)[0].clone();
    fs::remove_file(sandbox.path(format!("results/run/{young}/manifest.json"))).unwrap();
    // Killed long ago, in the middle of a table and of a cache entry.
    let old = "20200102T030405000006Z-abcdef";
    let key = "0123456789abcdef0123456789abcdef01234567";
    fs::create_dir_all(sandbox.path(format!("results/run/{old}"))).unwrap();
    fs::create_dir_all(sandbox.path("results/metrics/pipeline=small/run_date=2020-01-02")).unwrap();
    sandbox.write(&format!("results/metrics/pipeline=small/run_date=2020-01-02/.{old}.parquet.1-2-3.tmp"), "half");
    fs::create_dir_all(sandbox.path(format!("results/cache/drafts/{key}.1.2"))).unwrap();
    fs::create_dir_all(sandbox.path("results/checkpoints")).unwrap();
    sandbox.write(&format!("results/checkpoints/{key}.bin"), "chain");
    sandbox.write(&format!("results/checkpoints/.{key}.bin.1-2-3.tmp"), "half a chain");
    sandbox.write("results/checkpoints/mine.txt", "not ours");
    let events = sandbox.path(format!("results/run/{old}/events.jsonl"));
    fs::write(&events, format!("{{\"event\":\"task_started\",\"key\":\"{key}\"}}\n")).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3 * 86_400);
    File::options().write(true).open(&events).unwrap().set_modified(long_ago).unwrap();

    sandbox.run("runs prune --keep 0 --older-than 1d").succeeded();
    assert_eq!(mentions(&sandbox, old).len(), 2, "unfinished runs are not removed unasked");
    assert!(sandbox.path(format!("results/checkpoints/{key}.bin")).exists(), "a kept run may be continued");
    assert!(!sandbox.path(format!("results/cache/drafts/{key}.1.2")).exists());
    assert_eq!(sandbox.files("results/checkpoints"), [format!("{key}.bin"), "mine.txt".to_owned()]);
    // What the young one used is known from its events.
    let again = sandbox.run("run small.yaml --quiet").succeeded().stdout;
    assert!(again.contains("0 task(s) done"), "{again}");

    let said = sandbox.run("runs prune --status unfinished").succeeded().stdout;
    assert!(said.contains(&format!("keep    run {young}: it was active within a day")), "{said}");
    assert_eq!(mentions(&sandbox, old), Vec::<String>::new());
    assert!(!mentions(&sandbox, &young).is_empty());
    assert_eq!(sandbox.files("results/checkpoints"), ["mine.txt"]);
}

#[test]
fn goes_on_where_it_was_interrupted() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set seed=8").succeeded();
    let ids = ids(&sandbox);
    let run = sandbox.path(format!("results/run/{}", ids[0]));
    fs::rename(run.join("manifest.json"), run.join("pruned.json")).unwrap();
    fs::remove_file(&sandbox.table_files("runs")[0]).unwrap();
    let listed = sandbox.run("runs list").succeeded().stdout;
    assert!(listed.contains("pruning") && listed.contains("`stride-pipe runs prune` ends it"), "{listed}");
    sandbox.run("runs prune").succeeded();
    assert_eq!(mentions(&sandbox, &ids[0]), Vec::<String>::new());
    is_whole(&sandbox, &ids[1]);
    // Killed at its very end, it has put the directory out of sight: no run that looks unfinished, and the next one removes it.
    let hidden = sandbox.path(format!("results/cache/drafts/{}.pruned", ids[0]));
    fs::create_dir_all(&hidden).unwrap();
    fs::write(hidden.join("pruned.json"), "{}").unwrap();
    assert_eq!(sandbox.run("runs list").succeeded().stdout.lines().count(), 2);
    sandbox.run("runs prune").succeeded();
    assert!(!hidden.exists());
}

#[test]
fn leaves_alone_what_is_not_its_own() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let id = ids(&sandbox)[0].clone();
    let foreign = [
        format!("results/run/{id}/notes.txt"),
        format!("results/models/small/{id}/readme.md"),
        "results/mine.parquet".to_owned(),
        "results/cache/entries/00/mine".to_owned(),
    ];
    fs::create_dir_all(sandbox.path("results/cache/entries/00")).unwrap();
    for file in &foreign {
        sandbox.write(file, "mine");
    }
    std::os::unix::fs::symlink(sandbox.path("rows.parquet"), sandbox.path(format!("results/run/{id}/report.html")))
        .unwrap();
    let said = sandbox.run("runs prune --keep 0").succeeded().stdout;
    assert!(said.contains("notes.txt: not a file of stride-pipe"), "{said}");
    for file in &foreign {
        assert!(sandbox.path(file).exists(), "{file}");
    }
    assert!(sandbox.path("rows.parquet").exists());
    assert_eq!(mentions(&sandbox, &id).len(), 3);
}

#[test]
fn the_cache_stays_while_a_run_uses_it() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let entries = sandbox.files("results/cache/entries");
    let in_use = Cache::new(&results(&sandbox)).hold().unwrap();
    let said = sandbox.run("runs prune --keep 0").succeeded().stdout;
    assert!(
        said.contains("keep    the whole cache: a run is in progress") && said.contains("removed 1 run(s)"),
        "{said}"
    );
    assert_eq!(sandbox.files("results/cache/entries"), entries);
    drop(in_use);
    sandbox.run("runs prune").succeeded();
    assert_eq!(sandbox.files("results/cache/entries"), Vec::<String>::new());
}

#[test]
fn a_run_whose_model_another_uses_stays() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let trained = ids(&sandbox)[0].clone();
    sandbox.write(
        "score.yaml",
        &format!(
            "\
version: 1
name: score
stages:
  batch:
    ingest: {{ path: rows.parquet, key: id, features: [a, b] }}
  scores:
    predict: {{ model: ./results/models/small/{trained}/default/fold=0, input: batch }}
"
        ),
    );
    sandbox.run("run score.yaml --quiet").succeeded();
    let said = sandbox.run("runs prune --pipeline small --keep 0").succeeded().stdout;
    assert!(said.contains("which is kept, reads its files") && said.contains("removed 0 run(s)"), "{said}");
    is_whole(&sandbox, &trained);
    sandbox.run("runs prune --keep 0").succeeded();
    assert_eq!(mentions(&sandbox, &trained), Vec::<String>::new());
}

#[test]
fn models_of_several_stages_and_records_of_earlier_attempts_go_too() {
    let sandbox = Sandbox::new();
    let another = "  other:\n    train: { input: folds, method: gp, kernel: matern32 }\n";
    sandbox.write("two.yaml", &format!("{SMALL}{another}"));
    sandbox.run("run two.yaml --quiet").succeeded();
    let id = ids(&sandbox)[0].clone();
    let models = sandbox.files("results/models");
    assert!(models.iter().any(|file| file.ends_with("default/other/fold=0/model.safetensors")), "{models:?}");
    // As a run that was resumed twice leaves them.
    for attempt in ["manifest-1.json", "manifest-2.json"] {
        sandbox.write(&format!("results/run/{id}/{attempt}"), "{}");
    }
    let said = sandbox.run("runs prune --keep 0").succeeded().stdout;
    assert!(!said.contains("not a file of stride-pipe"), "{said}");
    assert_eq!(mentions(&sandbox, &id), Vec::<String>::new());
}

#[test]
fn no_run_is_older_than_the_clock_goes() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("runs prune --older-than 999999999d").succeeded();
    is_whole(&sandbox, &ids(&sandbox)[0]);
}

#[test]
fn nothing_is_removed_through_a_link() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let id = ids(&sandbox)[0].clone();
    for (number, place) in [format!("run/{id}"), format!("models/small/{id}")].iter().enumerate() {
        let (inside, outside) = (sandbox.path("results").join(place), sandbox.path(format!("elsewhere{number}")));
        fs::rename(&inside, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, &inside).unwrap();
        let before = sandbox.files(&format!("elsewhere{number}"));
        let said = sandbox.run("runs prune --keep 0").succeeded().stdout;
        assert!(said.contains("is a link") && said.contains("removed 0 run(s)"), "{said}");
        assert_eq!(sandbox.files(&format!("elsewhere{number}")), before);
        fs::remove_file(&inside).unwrap();
        fs::rename(&outside, &inside).unwrap();
    }
    let said = sandbox.run("runs prune --keep 0").succeeded().stdout;
    assert!(said.contains("removed 1 run(s)"), "{said}");
}
