//! What is unchanged is not done again, and the reasons are told.

use crate::sandbox::{SMALL, Sandbox};
use stride_pipe::store::{Cache, CacheEntry, ResultsDir, read_table};
use stride_pipe::tables::TimingRow;

/// Stage and reason of everything that was run or skipped, from the log.
fn story(stderr: &str) -> Vec<String> {
    let strip = |line: &str| {
        let (_, text) = line.split_once(" INFO ")?;
        let (task, rest) = text.split_once(": ")?;
        let verb = rest.split_whitespace().next()?;
        let reason = rest.split_once('(')?.1.split_once("): ")?.0;
        ["done", "skipped"].contains(&verb).then(|| format!("{task}: {verb} ({reason})"))
    };
    stderr.lines().filter_map(strip).collect()
}

#[test]
fn plan_and_run_say_why() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("plan small.yaml --exit-code").code, 3);
    let first = sandbox.run("run small.yaml").succeeded();
    assert!(story(&first.stderr).iter().all(|line| line.ends_with("done (first time)")), "{}", first.stderr);
    let plan = sandbox.run("plan small.yaml --exit-code").succeeded();
    insta::assert_snapshot!("plan_after_a_run", plan.stdout);

    let changed = "--set stages.model.train.ard=true";
    let plan = sandbox.run(&format!("plan small.yaml --exit-code {changed}"));
    assert_eq!(plan.code, 3);
    insta::assert_snapshot!("plan_after_a_change", plan.stdout);
    let second = sandbox.run(&format!("run small.yaml {changed}")).succeeded();
    let story = story(&second.stderr);
    assert_eq!(story[0], "rows: skipped (unchanged)");
    assert_eq!(story[2], "model / fold 0 (of 5): done (method.gp.ard changed from false to true)");
    assert_eq!(story[7], "predictions / fold 0 (of 5): done (model changed)");
    // Both are remembered: changing back costs nothing.
    assert_eq!(sandbox.run("plan small.yaml --exit-code").code, 0);
}

#[test]
fn contents_decide_not_names_or_times() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml").succeeded();
    std::fs::rename(sandbox.path("rows.parquet"), sandbox.path("other.parquet")).unwrap();
    sandbox.write("small.yaml", &SMALL.replace("rows.parquet", "other.parquet"));
    assert_eq!(sandbox.run("plan small.yaml --exit-code").code, 0);
    let mut bytes = std::fs::read(sandbox.path("other.parquet")).unwrap();
    // A byte of the magic number at the start, which readers do not look at: other contents all the same.
    bytes[0] ^= 1;
    std::fs::write(sandbox.path("other.parquet"), bytes).unwrap();
    let plan = sandbox.run("plan small.yaml --exit-code");
    assert_eq!(plan.code, 3);
    assert!(plan.stdout.contains("files changed"), "{}", plan.stdout);
}

#[test]
fn options_that_a_method_does_not_use_do_not_count() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml").succeeded();
    let more =
        "method: gp, inducing: { count: 7 }, em: { particles: 3, sampler: { pcn: { steps: 5 } } }, deep: { layers: 3 }";
    sandbox.write("small.yaml", &SMALL.replace("method: gp", more));
    assert_eq!(sandbox.run("plan small.yaml --exit-code").code, 0);
}

#[test]
fn a_damaged_entry_is_not_used() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml").succeeded();
    for file in sandbox.files("results/cache/entries") {
        if file.ends_with("predictions.parquet") || file.ends_with("model.safetensors") {
            std::fs::write(sandbox.path("results/cache/entries").join(file), b"damaged").unwrap();
        }
    }
    let again = sandbox.run("run small.yaml").succeeded();
    assert!(again.stdout.contains("10 task(s) done, 3 taken from the cache"), "{}", again.stdout);
    assert!(story(&again.stderr)[2].ends_with("(its cached result is gone)"), "{}", again.stderr);
}

#[test]
fn selected_stages() {
    let sandbox = Sandbox::new();
    let to = sandbox.run("run small.yaml --to model").succeeded();
    assert!(!to.stderr.contains("predictions / "), "{}", to.stderr);
    sandbox.run("run small.yaml").succeeded();
    let from = story(&sandbox.run("run small.yaml --from predictions").succeeded().stderr);
    assert_eq!(from[6], "model / fold 4 (of 5): skipped (unchanged)");
    assert_eq!(from[7], "predictions / fold 0 (of 5): done (asked for by --from or --only)");
    let only = story(&sandbox.run("run small.yaml --only folds").succeeded().stderr);
    assert_eq!(only, ["rows: skipped (unchanged)", "folds: done (asked for by --from or --only)"]);
    let force = sandbox.run("run small.yaml --force").succeeded();
    assert!(force.stdout.contains("13 task(s) done, 0 taken"), "{}", force.stdout);
    let unknown = sandbox.run("run small.yaml --from modle");
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `model`?"), "{}", unknown.stderr);
}

#[test]
fn cases_that_differ_in_nothing_share_their_work() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("stages:\n", "matrix: { m: [10, 20] }\nstages:\n")
        .replace("method: gp", "method: gp, inducing: { count: '${matrix.m}' }");
    sandbox.write("same.yaml", &text);
    let ran = sandbox.run("run same.yaml").succeeded();
    assert!(ran.stdout.contains("13 task(s) done, 13 taken from the cache"), "{}", ran.stdout);
    let timings: Vec<TimingRow> = read_table(&sandbox.table_files("timings")[0]).unwrap();
    assert!(timings.iter().any(|row| row.case == "m=20" && row.phase == "offline" && row.cached));
}

#[test]
fn two_runs_that_make_the_same_entry_share_the_first_and_a_damaged_one_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(&ResultsDir::new(directory.path()));
    let hash = "ab".repeat(20);
    let make = |text: &str| -> CacheEntry {
        let draft = cache.begin(&hash).unwrap();
        std::fs::write(draft.file("made"), text).unwrap();
        draft.commit(serde_json::json!({ "by": text })).unwrap()
    };
    let drafts = || std::fs::read_dir(directory.path().join("cache/drafts")).unwrap().count();
    let first = make("first");
    // Whoever reads the first entry must not lose it to the second.
    let second = make("second");
    assert_eq!((&second.notes["by"], second.file("made")), (&first.notes["by"], first.file("made")));
    assert_eq!(std::fs::read_to_string(first.file("made")).unwrap(), "first");
    assert_eq!(drafts(), 0);

    std::fs::write(first.file("made"), "damaged").unwrap();
    assert!(cache.look_up(&hash).is_none());
    assert_eq!(make("third").notes["by"], "third");
    assert_eq!(std::fs::read_to_string(cache.look_up(&hash).unwrap().file("made")).unwrap(), "third");
    assert_eq!(drafts(), 0);
}

#[test]
fn an_entry_never_vanishes_while_others_make_it() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(&ResultsDir::new(directory.path()));
    let hash = "cd".repeat(20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let draft = cache.begin(&hash).unwrap();
                    std::fs::write(draft.file("made"), "same").unwrap();
                    let entry = draft.commit(serde_json::Value::Null).unwrap();
                    assert_eq!(std::fs::read_to_string(entry.file("made")).unwrap(), "same");
                }
            });
        }
    });
}

#[test]
fn drafts_that_nobody_makes_any_more_are_swept() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::new(&ResultsDir::new(directory.path()));
    let drafts = directory.path().join("cache/drafts");
    let alive = cache.begin(&"ab".repeat(20)).unwrap();
    // Of process 1, which lives: with the lock that its writer does not hold any more, and without one.
    for name in ["1-0badcafe.0", "1.2"] {
        let draft = drafts.join(format!("{}.{name}", "cd".repeat(20)));
        std::fs::create_dir_all(&draft).unwrap();
        std::fs::write(draft.join("half"), "made").unwrap();
    }
    std::fs::write(drafts.join(format!("{}.1-0badcafe.0.lock", "cd".repeat(20))), "").unwrap();
    cache.sweep();
    std::fs::write(alive.file("made"), "alive").unwrap();
    alive.commit(serde_json::Value::Null).unwrap();
    assert_eq!(std::fs::read_dir(&drafts).unwrap().count(), 0);
}

/// A published model may be named by its directory or by its file.
#[test]
fn plan_knows_a_model_that_is_named_by_its_file() {
    let sandbox = Sandbox::new();
    let (stages, _) = SMALL.split_once("  predictions:").unwrap();
    let training = stages.replace("kfold: { folds: 5 }", "all: {}").replace("method: gp", "method: gp, publish: model");
    sandbox.write("training.yaml", &training);
    sandbox.run("run training.yaml --quiet").succeeded();
    for model in ["./model", "./model/model.safetensors"] {
        let score = format!(
            "version: 1\nname: score\nstages:\n  batch:\n    ingest: {{ path: rows.parquet, features: [a, b], target: y }}\n  \
             scores:\n    predict: {{ model: {model}, input: batch }}\n"
        );
        sandbox.write("score.yaml", &score);
        sandbox.run("run score.yaml --quiet").succeeded();
        assert_eq!(sandbox.run("plan score.yaml --exit-code").code, 0, "{model}");
    }
}

/// Every file that says what is in a cache entry.
fn listings(sandbox: &Sandbox) -> Vec<std::path::PathBuf> {
    let files = sandbox.files("results/cache/entries");
    let named = files.iter().filter(|file| file.ends_with("entry.json"));
    named.map(|file| sandbox.path("results/cache/entries").join(file)).collect()
}

#[test]
fn an_entry_with_any_bit_flipped_is_not_used() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let cache = Cache::new(&ResultsDir::new(sandbox.path("results")));
    for (number, path) in listings(&sandbox).iter().enumerate() {
        let hash = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let whole = std::fs::read(path).unwrap();
        // All bits of one, some of the others.
        for bit in (0..8 * whole.len()).skip(number).step_by(if number == 0 { 1 } else { 61 }) {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(path, &flipped).unwrap();
            assert!(cache.look_up(hash).is_none(), "bit {bit} of {}", path.display());
        }
        std::fs::write(path, &whole).unwrap();
        assert!(cache.look_up(hash).is_some());
    }
}

#[test]
fn entries_of_an_older_program_are_told_apart_and_pruned() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    for path in listings(&sandbox) {
        let mut entry: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        entry.as_object_mut().unwrap().remove("sha256").unwrap();
        std::fs::write(&path, entry.to_string()).unwrap();
    }
    assert_eq!(sandbox.run("plan small.yaml --exit-code").code, 3);
    let pruned = sandbox.run("runs prune").succeeded().stdout;
    assert!(pruned.contains("removed 0 run(s) with 0 files, 13 cache entries"), "{pruned}");
    let again = sandbox.run("run small.yaml").succeeded();
    assert!(again.stdout.contains("13 task(s) done, 0 taken from the cache"), "{}", again.stdout);
}

/// Somebody empties the cache, or a disk fails, while a run is at work.
#[test]
fn entries_that_vanish_under_a_run_are_made_again() {
    type Damage = fn(&std::path::Path);
    let damages: [(&str, Damage); 2] = [
        ("gone", |model| std::fs::remove_dir_all(model.parent().unwrap()).unwrap()),
        ("cut", |model| std::fs::write(model, b"half").unwrap()),
    ];
    for (what, damage) in damages {
        let sandbox = Sandbox::new();
        let stride = "method: stride, inducing: { count: 8 }, em: { iterations: 3, particles: 3 }";
        sandbox.write("small.yaml", &SMALL.replace("method: gp", stride));
        let child = crate::resume::start(&sandbox, &["run", "small.yaml"]);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let model = loop {
            assert!(std::time::Instant::now() < deadline);
            let files = sandbox.files("results/cache/entries");
            if let Some(file) = files.iter().find(|file| file.ends_with("model.safetensors")) {
                break sandbox.path("results/cache/entries").join(file);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        damage(&model);
        let ran = crate::sandbox::Ran::from(&child.wait_with_output().unwrap()).succeeded();
        assert!(
            ran.stderr.contains("it lay in the cache, and what is missing is made again"),
            "{what}: {}",
            ran.stderr
        );
        let after = crate::resume::contents(&sandbox);
        let undisturbed = Sandbox::new();
        undisturbed.write("small.yaml", &SMALL.replace("method: gp", stride));
        undisturbed.run("run small.yaml --quiet").succeeded();
        assert_eq!(after, crate::resume::contents(&undisturbed), "{what}");
    }
}

#[test]
fn plan_knows_that_a_published_model_or_an_output_is_gone() {
    let sandbox = Sandbox::new();
    let (stages, _) = SMALL.split_once("  predictions:").unwrap();
    let stages = stages.replace("kfold: { folds: 5 }", "all: {}").replace("method: gp", "method: gp, publish: model");
    let scores = "  one:\n    predict: { model: model, input: rows, output: out.parquet }\n  each:\n    \
                  predict: { model: model, input: rows, output: scores/ }\n";
    sandbox.write("x.yaml", &format!("{stages}{scores}"));
    sandbox.run("run x.yaml --quiet").succeeded();
    assert_eq!(sandbox.run("plan x.yaml --exit-code").code, 0);
    for file in ["model/model.safetensors", "out.parquet", "scores/rows.parquet"] {
        std::fs::remove_file(sandbox.path(file)).unwrap();
        let plan = sandbox.run("plan x.yaml --exit-code");
        assert_eq!(plan.code, 3, "{file}");
        assert!(plan.stdout.contains(&format!("{file} is gone")), "{}", plan.stdout);
        sandbox.run("run x.yaml --quiet").succeeded();
        assert!(sandbox.path(file).is_file());
        assert_eq!(sandbox.run("plan x.yaml --exit-code").code, 0, "{file}");
    }
}

/// Rounding decides where a chain goes, and other loops round otherwise.
#[cfg(target_arch = "x86_64")]
#[test]
fn chains_of_other_loops_are_other_work() {
    let sandbox = Sandbox::new();
    let stride = "method: stride, inducing: { count: 5 }, em: { iterations: 1, particles: 2, final_transitions: 0 }";
    sandbox.write("chains.yaml", &SMALL.replace("name: small", "name: chains").replace("method: gp", stride));
    let with = |loops: &str, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = sandbox.command().env("OPENBLAS_CORETYPE", loops).args(words).output().unwrap();
        crate::sandbox::Ran::from(&output)
    };
    with("Nehalem", "run chains.yaml --quiet").succeeded();
    with("Nehalem", "run small.yaml --quiet").succeeded();
    assert_eq!(with("Nehalem", "plan chains.yaml --exit-code").code, 0);
    let plan = with("Prescott", "plan chains.yaml --exit-code");
    assert_eq!(plan.code, 3, "{}", plan.stdout);
    assert!(plan.stdout.contains("openblas changed from"), "{}", plan.stdout);
    // Without chains the difference is one of rounding, and no reason to train again.
    assert_eq!(with("Prescott", "plan small.yaml --exit-code").code, 0);
}

/// A record of what made the results: the commit, and what did the arithmetic.
#[test]
fn a_manifest_says_what_made_it() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let results = ResultsDir::new(sandbox.path("results"));
    let run = results.run_ids().unwrap().remove(0);
    let manifest = stride_pipe::store::Manifest::load(&results, &run).unwrap();
    let (version, loops) = manifest.openblas.split_once(' ').unwrap();
    assert!(version.starts_with(|c: char| c.is_ascii_digit()) && !loops.is_empty(), "{}", manifest.openblas);
    let root = env!("CARGO_MANIFEST_DIR");
    let git = std::process::Command::new("git").args(["-C", root, "rev-parse", "--short=12", "HEAD"]).output();
    let own = std::path::Path::new(root).join(".git").exists();
    match git {
        Ok(git) if own && git.status.success() => {
            let commit = manifest.commit.unwrap();
            assert!(commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
        }
        _ => assert_eq!(manifest.commit, None),
    }
}
