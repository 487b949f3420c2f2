//! `predict` with a published model, drift metrics, and publishing.

use super::{GP, content, published, rows, scores};
use crate::sandbox::{SMALL, Sandbox};
use std::fs;
use std::path::PathBuf;
use stride_pipe::store::{ModelFile, read_predictions, read_table};
use stride_pipe::tables::{MetricRow, TimingRow};

/// A scoring pipeline over `inbox`.
pub fn score(options: &str) -> String {
    format!(
        "version: 1\nname: score\nparams: {{ date: none }}\nstages:\n  batch:\n    ingest: {{ path: inbox, key: id, \
         features: [a, b] }}\n  scores:\n    predict: {{ model: ./models/m, input: batch, {options} }}\n"
    )
}

fn metrics(sandbox: &Sandbox) -> Vec<MetricRow> {
    read_table(&newest(sandbox, "metrics")).unwrap()
}

/// The table of the newest run of the scoring pipeline.
fn newest(sandbox: &Sandbox, table: &str) -> PathBuf {
    sandbox.table_files(table).into_iter().rfind(|path| path.to_string_lossy().contains("pipeline=score")).unwrap()
}

#[test]
fn a_pipeline_scores_what_the_command_scores_and_says_how_the_rows_drift() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/1.parquet"), 0..700);
    rows(&sandbox.path("inbox/2.parquet"), 700..1000);
    sandbox.write("score.yaml", &score("intervals: [0.9], keep: [other], output: scores/out.parquet"));
    sandbox.run("run score.yaml --quiet").succeeded();
    let options = "--key id --intervals 0.9 --keep other --quiet";
    sandbox.run(&format!("score --model models/m --input inbox --output by-hand.parquet {options}")).succeeded();
    let content = |name: &str| content(&sandbox.path(name));
    assert!(content("scores/out.parquet") == content("by-hand.parquet"));
    let table = read_predictions(&newest(&sandbox, "predictions")).unwrap();
    assert_eq!((table.rows(), table.split.as_str(), table.stage.as_str()), (1000, "score", "scores"));
    let known = scores(&sandbox.path("scores/out.parquet"));
    for (key, mean) in table.key.iter().zip(&table.y_mean) {
        assert_eq!(known[&key.parse().unwrap()].0, Some(mean.to_bits()));
    }
    let drift = metrics(&sandbox);
    let value = |name: &str, feature: Option<&str>| {
        let found = drift.iter().find(|row| row.metric == name && row.feature.as_deref() == feature).unwrap();
        assert_eq!((found.split.as_str(), found.stat.as_str(), found.rows), ("score", "value", 1000));
        found.value.unwrap()
    };
    assert_eq!(value("rows_invalid", None), 0.0);
    assert!(value("variance_ratio", None) > 1.0);
    // Half of the sines are below what the model was trained on, a few above.
    assert!((value("share_outside_range", Some("a")) - 0.55).abs() < 0.05);
    assert_eq!(value("share_outside_range", Some("b")), 0.0);

    // Again: nothing to do, the file is left alone. Without the file: it is put back.
    let modified = || fs::metadata(sandbox.path("scores/out.parquet")).unwrap().modified().unwrap();
    let before = modified();
    let again = sandbox.run("run score.yaml --quiet").succeeded();
    assert!(again.stdout.contains("0 task(s) done, 2 taken from the cache"), "{}", again.stdout);
    assert_eq!(modified(), before);
    fs::remove_file(sandbox.path("scores/out.parquet")).unwrap();
    sandbox.run("run score.yaml --quiet").succeeded();
    assert!(content("scores/out.parquet") == content("by-hand.parquet"));
    assert_eq!(metrics(&sandbox).len(), drift.len(), "drift is in every run's table");
}

#[test]
fn backfill_by_matrix_and_by_set() {
    let sandbox = published(GP);
    for (index, date) in (0..).zip(["2026-11-14", "2026-11-15"]) {
        rows(&sandbox.path(format!("inbox/date={date}/rows.parquet")), 100 * index..100 * index + 40);
    }
    let one = score("output: \"scores/date=${params.date}/scores.parquet\"")
        .replace("path: inbox", "path: \"inbox/date=${params.date}\"");
    sandbox.write("day.yaml", &one);
    sandbox.run("run day.yaml --quiet --set date=2026-11-15").succeeded();
    let day = content(&sandbox.path("scores/date=2026-11-15/scores.parquet"));
    let all = one
        .replace("params: { date: none }", "matrix: { date: [2026-11-14, 2026-11-15] }")
        .replace("params.", "matrix.");
    sandbox.write("all.yaml", &all.replace("name: score", "name: backfill"));
    sandbox.run("run all.yaml --quiet").succeeded();
    assert!(content(&sandbox.path("scores/date=2026-11-15/scores.parquet")) == day);
    assert_eq!(scores(&sandbox.path("scores/date=2026-11-14/scores.parquet")).len(), 40);
    // One file for all dates would be overwritten.
    sandbox.write("same.yaml", &all.replace("scores/date=${matrix.date}/scores.parquet", "scores/all.parquet"));
    let refused = sandbox.run("run same.yaml");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("also the output of"), "{}", refused.stderr);
}

#[test]
fn invalid_rows_and_mirrored_partitions_in_a_pipeline() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/d=1/rows.parquet"), 0..30);
    rows(&sandbox.path("inbox/d=2/rows.parquet"), 0..0);
    fs::copy(sandbox.path("inbox/d=1/rows.parquet"), sandbox.path("inbox/d=2/more.parquet")).unwrap();
    sandbox.write("score.yaml", &score("on_invalid: null, output: scores/"));
    sandbox.run("run score.yaml --quiet").succeeded();
    let parquet =
        |below: &str| sandbox.files(below).into_iter().filter(|name| name.ends_with(".parquet")).collect::<Vec<_>>();
    assert_eq!(parquet("scores"), parquet("inbox"));
    assert_eq!(scores(&sandbox.path("scores/d=2/more.parquet")), scores(&sandbox.path("scores/d=1/rows.parquet")));
    assert!(scores(&sandbox.path("scores/d=2/rows.parquet")).is_empty());
}

/// The small pipeline with one split, and this at the end of its train stage.
fn gated(train: &str) -> String {
    SMALL
        .replace("kfold: { folds: 5 }", "holdout: { test_fraction: 0.2 }")
        .replace("method: gp", &format!("method: gp, {train}"))
}

#[test]
fn publishing_keeps_the_previous_model_and_minds_its_condition() {
    let sandbox = Sandbox::new();
    let model = || fs::read(sandbox.path("models/m/model.safetensors")).unwrap();
    let previous = || fs::read(sandbox.path("models/m/previous/model.safetensors")).ok();
    sandbox.write("gate.yaml", &gated("publish: models/m, publish_if: smse < 1e-9"));
    let ran = sandbox.run("run gate.yaml").succeeded();
    assert!(ran.stderr.contains("not published to models/m: `smse` is"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the condition is `smse < 0.000000001`"), "{}", ran.stderr);
    assert!(!sandbox.path("models/m/model.safetensors").exists());

    sandbox.write("gate.yaml", &gated("publish: models/m, publish_if: smse < 0.9 and coverage_95 > 0.1"));
    sandbox.run("run gate.yaml --quiet").succeeded();
    let (first, file) = (model(), ModelFile::load(&sandbox.path("models/m")).unwrap());
    let published = file.meta.published.unwrap();
    assert_eq!(published.condition, "smse < 0.9 and coverage_95 > 0.1");
    assert!(published.metrics["smse"].unwrap() < 0.9);
    let shown = sandbox.run("model show models/m").succeeded().stdout;
    assert!(shown.contains("published         because smse < 0.9 and coverage_95 > 0.1"), "{shown}");
    sandbox.run("run gate.yaml --quiet").succeeded();
    assert_eq!((model(), previous()), (first.clone(), None), "the same model again changes nothing");

    // Neither another condition nor another training makes it another model.
    for options in
        ["--set stages.model.train.publish_if=smse<0.8", "--set stages.model.train.publish_if=mae<9", "--force"]
    {
        sandbox.run(&format!("run gate.yaml --quiet {options}")).succeeded();
        assert_eq!((model(), previous()), (first.clone(), None), "{options}");
    }

    sandbox.run("run gate.yaml --quiet --set stages.model.train.kernel=matern32").succeeded();
    assert_eq!(previous().unwrap(), first);
    assert_ne!(model(), first);
    let second = model();
    let bad = sandbox.run("run gate.yaml --set stages.model.train.publish_if=smse<1e-9").succeeded();
    assert!(bad.stderr.contains("the one that is published stays"), "{}", bad.stderr);
    assert_eq!((model(), previous().unwrap()), (second, first));
    let cut = sandbox.run("run gate.yaml --to model").succeeded();
    assert!(cut.stderr.contains("did not come to its metrics"), "{}", cut.stderr);
}

/// A better model replaces the one that is published, by the same test rows; a worse one does not.
#[test]
fn a_condition_may_be_the_published_model() {
    let sandbox = Sandbox::new();
    let model = || fs::read(sandbox.path("models/m/model.safetensors")).unwrap();
    sandbox.write("gate.yaml", &gated("publish: models/m, publish_if: smse < published"));
    let with =
        |method: &str| sandbox.run(&format!("run gate.yaml --set stages.model.train.method={method}")).succeeded();
    // Nothing is published: any model is better.
    with("mean");
    let first = model();
    assert!(
        ModelFile::load(&sandbox.path("models/m")).unwrap().meta.published.unwrap().condition == "smse < published"
    );
    let again = with("mean");
    assert!(!again.stderr.contains("not published"), "the same model is not worse: {}", again.stderr);
    assert_eq!(model(), first);
    with("gp");
    let second = model();
    assert_ne!(second, first);
    let worse = with("ridge");
    assert_eq!(model(), second);
    // What is said of the published model is what was measured when it was published.
    let measured = ModelFile::load(&sandbox.path("models/m")).unwrap().meta.published.unwrap().metrics["smse"].unwrap();
    let words = format!("that of the published model {measured:.6}, and the condition is `smse < published`");
    assert!(
        worse.stderr.contains("not published to models/m: `smse` is 0.") && worse.stderr.contains(&words),
        "{}",
        worse.stderr
    );
    // A model of other columns cannot be compared with.
    let other = gated("publish: models/m, publish_if: smse < published").replace("features: [a, b]", "features: [a]");
    sandbox.write("gate.yaml", &other);
    let ran = sandbox.run("run gate.yaml").succeeded();
    assert!(ran.stderr.contains("the published model cannot be compared with"), "{}", ran.stderr);
    assert_eq!(model(), second);
    let refused = sandbox.run("run gate.yaml --set stages.predictions.predict.warn_if=variance_ratio>published");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("`published` is for `publish_if`"), "{}", refused.stderr);
}

/// A model is judged by its own test rows, also when a better one was measured in the same run.
#[test]
fn a_condition_looks_at_the_model_itself() {
    let sandbox = Sandbox::new();
    let two = format!(
        "{}\n  other:\n    train: {{ input: folds, method: gp, publish: models/other, publish_if: smse < 0.9 }}\n",
        gated("kernel: rbf")
    );
    sandbox.write("two.yaml", &two);
    // Nobody measures it: that is known before anything runs.
    let refused = sandbox.run("validate two.yaml");
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(refused.stderr.contains("no evaluate stage measures `other`"), "{}", refused.stderr);
    assert_eq!(sandbox.run("run two.yaml").code, 78);
    // Trained on all rows it has no test rows of its own, and goes by those of the others.
    let all = two.replace(
        "  other:\n    train: { input: folds,",
        "  all:\n    split: { input: rows, all: {} }\n  other:\n    train: { input: all,",
    );
    sandbox.write("all.yaml", &all);
    sandbox.run("validate all.yaml").succeeded();
    let measured = format!(
        "{two}  other-predictions:\n    predict: {{ model: other, input: folds }}\n  other-metrics:\n    evaluate: {{ input: \
         other-predictions }}\n"
    );
    sandbox.write("two.yaml", &measured);
    let cut = sandbox.run("run two.yaml --to other").succeeded();
    assert!(cut.stderr.contains("not published to models/other"), "{}", cut.stderr);
    assert!(!sandbox.path("models/other/model.safetensors").exists());
    sandbox.run("run two.yaml --quiet").succeeded();
    assert!(sandbox.path("models/other/model.safetensors").exists());
}

/// A model that is trained on all rows has no test rows: a trial of its own method answers for it, whatever others did.
#[test]
fn a_model_of_all_rows_goes_by_the_metrics_of_its_own_method() {
    let sandbox = Sandbox::new();
    let trial = |method: &str| {
        format!(
            "  {method}:\n    train: {{ input: folds, method: {method} }}\n  {method}-tested:\n    \
             predict: {{ model: {method}, input: folds }}\n  {method}-metrics:\n    evaluate: {{ input: {method}-tested }}\n"
        )
    };
    let text = |method: &str| {
        format!(
            "version: 1\nname: all\nstages:\n  rows:\n    ingest: {{ path: rows.parquet, key: id, features: [a, b], target: y \
             }}\n  folds:\n    split: {{ input: rows, kfold: {{ folds: 3 }} }}\n{}{}  all:\n    \
             split: {{ input: rows, all: {{}} }}\n  final:\n    \
             train: {{ input: all, method: {method}, publish: models/{method}, publish_if: smse < 0.5 }}\n",
            trial("gp"),
            trial("mean")
        )
    };
    // The mean is no good, and no reason not to publish the process; nor does the process speak for the mean.
    for (method, good) in [("gp", true), ("mean", false), ("ridge", false)] {
        sandbox.write("all.yaml", &text(method));
        let ran = sandbox.run("run all.yaml").succeeded();
        assert_eq!(sandbox.path(format!("models/{method}/model.safetensors")).exists(), good, "{}", ran.stderr);
    }
    // Without a trial of its own method all others count: with the good one alone, it is published.
    let (before, after) = text("ridge").split_once("  mean:").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let after = after.split_once("  all:").unwrap().1;
    sandbox.write("all.yaml", &format!("{before}  all:{after}"));
    sandbox.run("run all.yaml --quiet").succeeded();
    assert!(sandbox.path("models/ridge/model.safetensors").exists());
}

/// The tables that `score --results` writes are those of a run: `runs` knows it, and drift is beside that of pipelines.
#[test]
fn the_command_notes_drift_like_a_pipeline() {
    let sandbox = published(GP);
    rows(&sandbox.path("inbox/1.parquet"), 0..1000);
    sandbox.write("score.yaml", &score("output: scores/out.parquet"));
    sandbox.run("run score.yaml --quiet").succeeded();
    let by_pipeline = metrics(&sandbox);
    let arguments = "score --model models/m --input inbox --output by-hand.parquet --key id";
    sandbox.run(arguments).succeeded();
    assert!(!sandbox.path("results/metrics/pipeline=nightly").exists(), "only where it is asked for");
    let ran = sandbox.run(&format!("{arguments} --results results --name nightly")).succeeded();
    assert!(ran.stdout.contains("results/metrics/pipeline=nightly/"), "{}", ran.stdout);
    let of_job = |table: &str| {
        let files = sandbox.table_files(table).into_iter();
        files.filter(|path| path.to_string_lossy().contains("pipeline=nightly")).collect::<Vec<_>>()
    };
    let [file] = &of_job("metrics")[..] else { panic!("one job: {:?}", of_job("metrics")) };
    let by_command: Vec<MetricRow> = read_table(file).unwrap();
    let figures = |rows: &[MetricRow]| {
        let figure = |row: &MetricRow| {
            (
                row.metric.clone(),
                row.feature.clone(),
                row.value.map(f64::to_bits),
                row.rows,
                row.split.clone(),
                row.fold,
            )
        };
        rows.iter().map(figure).collect::<Vec<_>>()
    };
    assert_eq!(figures(&by_command), figures(&by_pipeline));
    let timings: Vec<TimingRow> = read_table(&of_job("timings")[0]).unwrap();
    assert_eq!((timings.len(), timings[0].rows, timings[0].phase.as_str()), (1, 1000, "online"));

    let listed = sandbox.run("runs list").succeeded().stdout;
    assert!(listed.lines().any(|line| line.contains("nightly") && line.contains("succeeded")), "{listed}");
    assert!(!listed.contains("note:"), "{listed}");
    sandbox.run(&format!("{arguments} --results results --name nightly --on-invalid skip")).succeeded();
    let two: Vec<String> =
        of_job("metrics").iter().map(|path| path.file_stem().unwrap().display().to_string()).collect();
    let changed = sandbox.run(&format!("runs diff {} {}", two[0], two[1])).succeeded().stdout;
    assert!(changed.contains("default: score.on_invalid  error  skip"), "{changed}");
    let shown = sandbox.run("runs show last").succeeded().stdout;
    assert!(shown.contains("models/m/model.safetensors") && !shown.contains("problems"), "{shown}");
    let pruned = sandbox.run("runs prune --keep 1 --dry-run").succeeded();
    assert!(!format!("{}{}", pruned.stdout, pruned.stderr).contains("does not say"), "{}", pruned.stdout);
    // Nothing is scored when the results cannot be written, and names are those of pipelines.
    fs::write(sandbox.path("file"), "").unwrap();
    fs::remove_file(sandbox.path("by-hand.parquet")).unwrap();
    assert_eq!(sandbox.run(&format!("{arguments} --results file/results")).code, 73);
    assert!(!sandbox.path("by-hand.parquet").exists());
    assert_eq!(sandbox.run(&format!("{arguments} --results results --name ../x")).code, 2);
    assert_eq!(sandbox.run(&format!("{arguments} --name nightly")).code, 2);
}

/// Rows pass through: more of them do not need more memory, with all places that they are written to.
#[test]
fn memory_does_not_grow_with_the_rows() {
    let sandbox = published(GP);
    let options = "intervals: [0.9], keep: [other], output: scores/out.parquet";
    let peak = |rows_of_a_file: i64| {
        for file in 0..5 {
            rows(&sandbox.path(format!("inbox/{file}.parquet")), rows_of_a_file * file..rows_of_a_file * (file + 1));
        }
        sandbox.write("score.yaml", &score(options));
        // The least of some runs: how much freed memory the allocator keeps depends on how threads meet.
        let peaks = (0..3).map(|_| {
            sandbox.run("run score.yaml --quiet --force").succeeded();
            let timings: Vec<TimingRow> = read_table(&newest(&sandbox, "timings")).unwrap();
            let written = timings.iter().find(|row| row.phase == "write").unwrap();
            assert_eq!(written.rows, 5 * rows_of_a_file);
            written.peak_rss_bytes
        });
        peaks.min().unwrap()
    };
    // A file is written in groups of a million rows, which are in memory until they are whole.
    let (few, many) = (peak(210_000), peak(500_000));
    assert!(many < few + (32 << 20), "{} MB for a million rows, {} MB for 2.5 million", few >> 20, many >> 20);
}

#[test]
fn the_language_of_scoring_is_checked() {
    let sandbox = Sandbox::new();
    let wrong = SMALL.replace("method: gp", "method: gp, publish_if: smze < 0.25").replace(
        "input: folds, intervals",
        "input: folds, on_invalid: skip, keep: [y_mean, half, half], output: out.csv, intervals",
    );
    sandbox.write("wrong.yaml", &wrong);
    let refused = sandbox.run("validate wrong.yaml");
    assert_eq!(refused.code, 78);
    insta::assert_snapshot!("scoring_mistakes", refused.stderr);
}

#[test]
fn metrics_of_conditions_are_those_of_evaluation() {
    use stride_pipe::eval::metrics::{METRICS, MetricSource};
    for metric in METRICS {
        let known = stride_pipe::stages::train::gate::Gate::parse(&format!("{} < 1", metric.name)).is_ok();
        assert_eq!(known, matches!(metric.source, MetricSource::Predictions(_)), "{}", metric.name);
    }
}
