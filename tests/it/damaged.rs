//! Bits that flip on a disk, in what runs leave about themselves: nothing of it is believed.

use crate::sandbox::{SMALL, Sandbox};
use std::fs;
use std::path::{Path, PathBuf};
use stride_pipe::store::history::{History, read_events};
use stride_pipe::store::{Cache, Manifest, ResultsDir};

/// A run with a warning, a report and all tables.
fn finished() -> (Sandbox, ResultsDir) {
    let sandbox = Sandbox::new();
    // An option that changes nothing is warned of.
    sandbox.write("small.yaml", &SMALL.replace("method: gp", "method: gp, deep: { layers: 3 }"));
    sandbox.run("run small.yaml --quiet").succeeded();
    let results = ResultsDir::new(sandbox.path("results"));
    (sandbox, results)
}

/// Calls with every n-th bit of a file flipped, in place, and puts the file back.
fn flipped(path: &Path, every: usize, mut look: impl FnMut(usize)) {
    let whole = fs::read(path).unwrap();
    for bit in (0..8 * whole.len()).step_by(every) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &bytes).unwrap();
        look(bit);
    }
    fs::write(path, whole).unwrap();
}

#[test]
fn a_manifest_with_any_bit_flipped_is_refused_or_says_the_same() {
    let (_sandbox, results) = finished();
    let run = results.run_ids().unwrap().remove(0);
    let said = Manifest::load(&results, &run).unwrap();
    let mut accepted = 0;
    flipped(&results.manifest_path(&run), 7, |bit| match Manifest::load(&results, &run) {
        Ok(manifest) => {
            accepted += 1;
            assert_eq!(manifest, said, "bit {bit}");
        }
        Err(error) => assert!(error.to_string().contains("not a manifest"), "{error}"),
    });
    // Only the name of the hash itself can be lost.
    assert!(accepted <= 8 * "sha256".len(), "{accepted}");
    // A manifest of an older program has no hash.
    let text = fs::read_to_string(results.manifest_path(&run)).unwrap();
    let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
    older.as_object_mut().unwrap().remove("sha256").unwrap();
    fs::write(results.manifest_path(&run), older.to_string()).unwrap();
    assert_eq!(Manifest::load(&results, &run).unwrap(), said);
}

#[test]
fn a_log_with_any_bit_flipped_loses_a_line_and_says_so() {
    let (_sandbox, results) = finished();
    let run = results.run_ids().unwrap().remove(0);
    let said = read_events(&results, &run);
    assert!(said.damaged_lines == 0 && !said.warnings.is_empty(), "{said:?}");
    flipped(&results.events_path(&run), 11, |bit| {
        let found = read_events(&results, &run);
        assert!(found == said || found.damaged_lines > 0, "bit {bit}: {found:?}");
        assert!(found.warnings.iter().all(|warning| said.warnings.contains(warning)), "bit {bit}: {found:?}");
        assert!(found.keys.is_subset(&said.keys), "bit {bit}");
    });
}

#[test]
fn why_work_is_done_again_is_not_taken_from_a_damaged_note() {
    let (sandbox, results) = finished();
    let cache = Cache::new(&results);
    let place = ["small", "default", "folds", "all"];
    let said = cache.recall(&place).unwrap();
    flipped(&sandbox.path("results/cache/last/small/default/folds/all.json"), 3, |bit| {
        assert!(cache.recall(&place).is_none_or(|found| found == said), "bit {bit}");
    });
}

/// The latest file of a table.
fn table(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.table_files(name).pop().unwrap()
}

#[test]
fn tables_that_are_not_as_their_run_has_written_them_are_not_shown() {
    let (sandbox, _) = finished();
    let words = |command: &str| sandbox.run(command).succeeded().stdout;
    let list = words("runs list");
    let commands = [
        ("metrics", "runs show last"),
        ("timings", "runs show last"),
        ("metrics", "runs list"),
        ("metrics", "report last -o page.html"),
        ("predictions", "report last -o page.html"),
        ("cases", "report last -o page.html"),
    ];
    for (name, command) in commands {
        let path = table(&sandbox, name);
        let whole = fs::read(&path).unwrap();
        // A number within a page, which no reader can tell from another: pages of tables have no checksums.
        let mut changed = whole.clone();
        let place = changed.len() / 3;
        changed[place] ^= 4;
        fs::write(&path, changed).unwrap();
        let mut said = words(command);
        if command.starts_with("report") {
            said = fs::read_to_string(sandbox.path("page.html")).unwrap();
        }
        let shown = said.contains("its hash is another one");
        assert!(shown, "{name}, {command}: {said}");
        if command == "runs show last" {
            assert!(!said.contains("cannot be read"), "{said}");
        }
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(words("runs list"), list);
    let refused = {
        let path = table(&sandbox, "metrics");
        let mut changed = fs::read(&path).unwrap();
        let place = changed.len() / 3;
        changed[place] ^= 4;
        fs::write(&path, changed).unwrap();
        sandbox.run("runs table last --metric smse --rows case --columns method")
    };
    assert_eq!(refused.code, 65, "{}", refused.stdout);
    assert!(refused.stderr.contains("its hash is another one"), "{}", refused.stderr);
}

/// Views have the columns that any run has: a name in which a bit has flipped is none.
#[test]
fn views_have_no_columns_that_only_a_damaged_table_has() {
    let sandbox = Sandbox::new();
    for seed in [1, 2] {
        let sets = format!("--set seed={seed} --set stages.predictions.predict.intervals=[0.9]");
        sandbox.run(&format!("run small.yaml --quiet {sets}")).succeeded();
    }
    let said = sandbox.run("views").succeeded().stdout;
    assert!(said.contains("\"y_q05\""), "{said}");
    let path = table(&sandbox, "predictions");
    let whole = fs::read(&path).unwrap();
    // In all places at once, as if the file had been written so: readers that compare them notice one.
    let mut changed = whole.clone();
    let places: Vec<usize> = (0..whole.len() - 5).filter(|at| whole[*at..].starts_with(b"y_q05")).collect();
    assert!(!places.is_empty());
    for place in places {
        changed[place] ^= 1;
    }
    fs::write(&path, changed).unwrap();
    assert_eq!(sandbox.run("views").succeeded().stdout, said);
}

#[test]
fn a_resolved_pipeline_that_has_changed_is_not_shown_and_is_written_again() {
    let (sandbox, results) = finished();
    let run = results.run_ids().unwrap().remove(0);
    let path = results.resolved_path(&run);
    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, whole.replace("folds: 5", "folds: 4")).unwrap();
    let diff = sandbox.run("runs diff last last").succeeded().stdout;
    assert!(diff.contains("options cannot be compared"), "{diff}");
    sandbox.run("report last -o page.html").succeeded();
    let page = fs::read_to_string(sandbox.path("page.html")).unwrap();
    assert!(page.contains("its resolved pipeline is damaged"), "{page}");
    assert!(History::open(results.root()).unwrap().runs[0].resolved(&results).is_err());
    // A run that goes on has the right one.
    fs::remove_file(results.manifest_path(&run)).unwrap();
    sandbox.run("run small.yaml --resume --quiet").succeeded();
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
}

/// A run that another one names must not be removed because the name has become unreadable.
#[test]
fn nothing_is_pruned_on_the_word_of_a_damaged_file() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    let results = ResultsDir::new(sandbox.path("results"));
    let first = results.run_ids().unwrap().remove(0);
    let model = results.model_path("small", &first, "default", None, 0);
    let score = format!(
        "version: 1\nname: score\nstages:\n  batch:\n    ingest: {{ path: rows.parquet, features: [a, b] }}\n  \
         scores:\n    predict: {{ model: {}, input: batch }}\n",
        model.display()
    );
    sandbox.write("score.yaml", &score);
    sandbox.run("run score.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set seed=8").succeeded();
    let reader = results.run_ids().unwrap().remove(1);
    let mut manifest = Manifest::load(&results, &reader).unwrap();
    // Only the pipeline names the run.
    manifest.inputs.clear();
    manifest.save(&results).unwrap();
    let path = results.resolved_path(&reader);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(first.as_str()));
    fs::write(&path, text.replace(first.as_str(), &first.as_str().replace("Z-", "Z_"))).unwrap();
    let pruned = sandbox.run("runs prune --keep 1 --pipeline small").succeeded().stdout;
    assert!(pruned.contains("removed 0 run(s)"), "{pruned}");
    assert!(model.is_file());
}
