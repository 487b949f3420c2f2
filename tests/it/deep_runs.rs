//! Deep regression by the real binary: every combination, the same bits each time, killed and resumed, damaged.

use crate::resume::{contents, start};
use crate::sandbox::{Ran, SMALL, Sandbox};
use insta::{Settings, assert_snapshot};
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};
use stride_pipe::stages::train::TrainedModel;
use stride_pipe::store::{ModelFile, Tensor, read_predictions, read_table};
use stride_pipe::tables::{MetricRow, TimingRow, TraceRow};

const EM: &str = "em: { iterations: 2, particles: 3, exchanges: 1, sampler: { hmc: { transitions: 3, leapfrog: 3 } }, \
    final_transitions: 8 }";

/// The small data set, 45 training rows, these options of the train stage.
fn write(sandbox: &Sandbox, train: &str) {
    let text = SMALL
        .replace("name: small", "name: deep")
        .replace("kfold: { folds: 5 }", "column: { name: half, test: test }")
        .replace("method: gp", train);
    sandbox.write("deep.yaml", &text);
}

fn stride(more: &str) -> String {
    format!("method: stride, inducing: {{ count: 8, candidates: all }}{more}")
}

fn last<T: stride_pipe::tables::TableRow>(sandbox: &Sandbox, table: &str) -> Vec<T> {
    read_table(sandbox.table_files(table).last().unwrap()).unwrap()
}

/// Every architecture with every kind of hidden layers, as one run.
fn every_combination(method: &str, hidden: &str, sampler: &str, transitions: i32) {
    let sandbox = Sandbox::new();
    let matrix =
        format!("matrix: {{ architecture: [composition, convolution, injective], hidden: {hidden} }}\nstages:\n");
    write(
        &sandbox,
        &format!(
            "{method}, deep: {{ architecture: '${{matrix.architecture}}', hidden: {{ method: '${{matrix.hidden}}', rank: 12 }} }}, \
             em: {{ iterations: 2, particles: 2, exchanges: 1, sampler: {sampler}, final_transitions: {transitions} }}"
        ),
    );
    let text = fs::read_to_string(sandbox.path("deep.yaml")).unwrap();
    sandbox.write("deep.yaml", &text.replace("features: [a, b]", "features: [a]").replace("stages:\n", &matrix));
    sandbox.run("run deep.yaml --quiet").succeeded();
    let block = read_predictions(&sandbox.table_files("predictions")[0]).unwrap();
    assert!(block.y_mean.iter().all(|mean| mean.is_finite()));
    assert!(block.y_std.unwrap().iter().all(|std| std.is_finite() && *std > 0.0));
    let metrics: Vec<MetricRow> = last(&sandbox, "metrics");
    let smse: Vec<(&str, f64)> = metrics
        .iter()
        .filter(|row| row.metric == "smse" && row.stat == "value")
        .map(|row| (row.case.as_str(), row.value.unwrap()))
        .collect();
    assert_eq!(smse.len() % 3, 0);
    assert!(smse.iter().all(|(_, value)| *value < 1.5), "{smse:?}");
    let traces: Vec<TraceRow> = last(&sandbox, "traces");
    for (case, _) in smse {
        let of_case = |row: &&TraceRow| row.case == case && row.acceptance.is_some();
        assert!(traces.iter().filter(of_case).any(|row| row.particle == 1 && row.iteration == 2), "{case}");
    }
}

#[test]
fn stride_with_hmc() {
    every_combination(&stride(""), "[full, aca, sparse]", "{ hmc: { transitions: 3, leapfrog: 3 } }", 4);
}

#[test]
fn stride_with_pcn() {
    every_combination(&stride(""), "[full, aca, sparse]", "{ pcn: { steps: 20 } }", 20);
}

#[test]
fn deep_gp_with_hmc() {
    every_combination("method: deep_gp", "[full, aca]", "{ hmc: { transitions: 3, leapfrog: 3 } }", 4);
}

#[test]
fn deep_gp_with_pcn() {
    every_combination("method: deep_gp", "[full, aca]", "{ pcn: { steps: 20 } }", 20);
}

#[test]
fn tables_of_a_deep_run() {
    let sandbox = Sandbox::new();
    write(&sandbox, &stride(&format!(", {EM}")));
    let text = fs::read_to_string(sandbox.path("deep.yaml")).unwrap();
    sandbox.write("deep.yaml", &text.replace("column: { name: half, test: test }", "kfold: { folds: 2 }"));
    let ran = sandbox.run("run deep.yaml").succeeded();
    assert!(!ran.stdout.contains("\nmodel "), "train stages are not in the headline: {}", ran.stdout);
    let metrics: Vec<MetricRow> = last(&sandbox, "metrics");
    for metric in ["rhat_log_likelihood", "ess_log_likelihood", "acceptance"] {
        let rows: Vec<(Option<i32>, &str, i64)> = metrics
            .iter()
            .filter(|row| {
                row.metric == metric && row.stage == "model" && row.split == "train" && row.method == "stride"
            })
            .map(|row| (row.fold, row.stat.as_str(), row.rows))
            .collect();
        assert_eq!(rows, [(Some(0), "value", 30), (Some(1), "value", 30), (None, "mean", 60), (None, "std", 60)]);
    }
    let acceptance = metrics.iter().find(|row| row.metric == "acceptance").unwrap().value.unwrap();
    assert!((0.0..=1.0).contains(&acceptance));
    let timings: Vec<TimingRow> = last(&sandbox, "timings");
    for phase in ["offline.hyper", "offline.select", "offline.e_step", "offline.m_step"] {
        assert!(timings.iter().any(|row| row.phase == phase), "{phase}");
    }
    let traces: Vec<TraceRow> = last(&sandbox, "traces");
    let chains: Vec<&TraceRow> = traces.iter().filter(|row| row.iteration > 0).collect();
    assert_eq!(chains.iter().map(|row| row.particle).max(), Some(2));
    assert!(chains.iter().all(|row| row.log_likelihood.is_finite() && row.inducing > 0));
    assert!(sandbox.files("results/checkpoints").is_empty(), "finished work needs no checkpoint");

    let again = sandbox.run("run deep.yaml").succeeded();
    assert!(again.stdout.contains("0 task(s) done"), "{}", again.stdout);
    let plain = |rows: Vec<MetricRow>| -> Vec<MetricRow> {
        rows.into_iter().map(|row| MetricRow { run_id: String::new(), ..row }).collect()
    };
    assert_eq!(plain(last(&sandbox, "metrics")), plain(metrics), "cached folds have the same metrics");
    let shown = sandbox.run("runs table last --metric rhat_log_likelihood").succeeded().stdout;
    assert!(shown.contains("default"), "{shown}");

    // Too few frozen draws say nothing, and the rows are there all the same.
    sandbox.run("run deep.yaml --quiet --set stages.model.train.em.final_transitions=0").succeeded();
    let metrics: Vec<MetricRow> = last(&sandbox, "metrics");
    let unknown: Vec<&MetricRow> = metrics.iter().filter(|row| row.metric == "rhat_log_likelihood").collect();
    assert!(unknown.len() == 4 && unknown.iter().all(|row| row.value.is_none()), "{unknown:?}");
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let bits = |threads: u32| {
        let sandbox = Sandbox::new();
        write(&sandbox, &stride(&format!(", {EM}")));
        sandbox.run(&format!("run deep.yaml --quiet --threads {threads}")).succeeded();
        contents(&sandbox)
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(3));
}

#[test]
fn the_preset_of_the_paper_runs() {
    let sandbox = Sandbox::new();
    let small = "preset: paper, em: { iterations: 1, particles: 2, sampler: { pcn: { steps: 10 } } }";
    write(&sandbox, &stride(&format!(", {small}")));
    sandbox.run("run deep.yaml --quiet").succeeded();
}

#[test]
fn rows_that_are_given_stay_the_inducing_points() {
    let sandbox = Sandbox::new();
    write(&sandbox, &format!("method: stride, inducing: {{ rows: [1, 2, 17, 33, 50] }}, {EM}, publish: model"));
    sandbox.run("run deep.yaml --quiet").succeeded();
    let model = ModelFile::load(&sandbox.path("model")).unwrap();
    let rows: Vec<i64> = model.integers("inducing.rows").unwrap().iter().copied().collect();
    assert_eq!(rows, [1, 2, 17, 33, 50]);
}

/// A fit of many short EM iterations, and how it ends when nothing disturbs it.
fn long(iterations: u32) -> (Sandbox, String) {
    let em = format!(
        "em: {{ iterations: {iterations}, particles: 2, exchanges: 1, \
         sampler: {{ hmc: {{ transitions: 3, leapfrog: 3 }} }}, final_transitions: 5 }}"
    );
    let whole = Sandbox::new();
    write(&whole, &stride(&format!(", {em}")));
    whole.run("run deep.yaml --quiet").succeeded();
    let expected = contents(&whole);
    let sandbox = Sandbox::new();
    write(&sandbox, &stride(&format!(", {em}")));
    (sandbox, expected)
}

/// The checkpoint that a run has written, if it has.
pub fn checkpoint(sandbox: &Sandbox) -> Option<PathBuf> {
    let files = sandbox.files("results/checkpoints");
    let whole = files.iter().find(|name| !name.starts_with('.'))?;
    Some(sandbox.path("results/checkpoints").join(whole))
}

/// A sandbox whose run was ended after its first checkpoint, what was said, and what the run should have come to.
fn stopped(end: impl Fn(&mut Child)) -> (Sandbox, Ran, String) {
    for iterations in [20, 60, 180] {
        let (sandbox, expected) = long(iterations);
        let mut child = start(&sandbox, &["run", "deep.yaml"]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while checkpoint(&sandbox).is_none() && child.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        end(&mut child);
        let ran = Ran::from(&child.wait_with_output().unwrap());
        if ran.code != 0 {
            assert!(checkpoint(&sandbox).is_some(), "{}", ran.stderr);
            return (sandbox, ran, expected);
        }
    }
    panic!("the run is always faster");
}

fn kill(child: &mut Child) {
    let _ = child.kill();
}

#[test]
fn killed_and_resumed_it_ends_the_same() {
    let (sandbox, _, expected) = stopped(kill);
    let resumed = sandbox.run("run deep.yaml --resume").succeeded();
    assert!(resumed.stderr.contains("going on after EM iteration"), "{}", resumed.stderr);
    assert_eq!(contents(&sandbox), expected);
    assert!(sandbox.files("results/checkpoints").iter().all(|name| name.starts_with('.')));
    let timings: Vec<TimingRow> = last(&sandbox, "timings");
    let offline = timings.iter().find(|row| row.phase == "offline").unwrap();
    let parts: f64 = timings.iter().filter(|row| row.phase.starts_with("offline.")).map(|row| row.wall_s).sum();
    assert!(parts <= offline.wall_s * 1.001 + 1e-6, "the parts are not more than the whole: {timings:?}");
}

/// What was traced before the interruption is of the same fold as what comes after it.
#[test]
fn a_later_fold_that_is_resumed_keeps_its_traces() {
    let em = "em: { iterations: 40, particles: 2, exchanges: 1, sampler: { hmc: { transitions: 3, leapfrog: 3 } }, \
              final_transitions: 5 }";
    let folds = |sandbox: &Sandbox| {
        let text = crate::sandbox::SMALL.replace("folds: 5", "folds: 2");
        sandbox.write("folds.yaml", &text.replace("method: gp", &stride(&format!(", {em}"))));
    };
    let whole = Sandbox::new();
    folds(&whole);
    whole.run("run folds.yaml --quiet").succeeded();
    let sandbox = Sandbox::new();
    folds(&sandbox);
    let mut child = start(&sandbox, &["run", "folds.yaml"]);
    let models =
        || sandbox.files("results/cache/entries").iter().filter(|name| name.ends_with("model.safetensors")).count();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut first = None;
    // The checkpoint of the first fold goes when its model is there.
    while (models() != 1 || checkpoint(&sandbox).is_none() || checkpoint(&sandbox) == first)
        && Instant::now() < deadline
    {
        first = first.or_else(|| checkpoint(&sandbox));
        assert!(child.try_wait().unwrap().is_none(), "the run is always faster");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(&mut child);
    let _ = child.wait();
    let resumed = sandbox.run("run folds.yaml --resume").succeeded();
    assert!(resumed.stderr.contains("fold 1 (of 2): going on after EM iteration"), "{}", resumed.stderr);
    assert_eq!(contents(&sandbox), contents(&whole));
}

#[test]
fn interrupted_it_keeps_the_checkpoint_and_says_so() {
    let (sandbox, ran, expected) = stopped(|child| {
        let pid = rustix::process::Pid::from_child(child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    });
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(ran.stderr.contains("; the checkpoint after EM iteration"), "{}", ran.stderr);
    assert!(ran.stderr.contains("to go on: "), "{}", ran.stderr);
    // Another run of the same work goes on as well: the key says that it is the same.
    let other = sandbox.run("run deep.yaml").succeeded();
    assert!(other.stderr.contains("going on after EM iteration"), "{}", other.stderr);
    let cached = |text: String| text.replace(", true)", ", false)");
    assert_eq!(cached(contents(&sandbox)), expected, "rows and folds come from the cache, which is all that differs");
}

#[test]
fn forced_work_begins_again() {
    let (sandbox, _, expected) = stopped(kill);
    let forced = sandbox.run("run deep.yaml --force").succeeded();
    assert!(!forced.stderr.contains("going on after"), "{}", forced.stderr);
    assert_eq!(contents(&sandbox), expected);
}

#[test]
fn a_damaged_checkpoint_is_not_used() {
    let (sandbox, _, expected) = stopped(kill);
    let path = checkpoint(&sandbox).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let resumed = sandbox.run("run deep.yaml --resume").succeeded();
    assert!(resumed.stderr.contains("a damaged checkpoint file"), "{}", resumed.stderr);
    assert!(resumed.stderr.contains("training starts from the beginning"), "{}", resumed.stderr);
    assert_eq!(contents(&sandbox), expected);
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_run() {
    let sandbox = Sandbox::new();
    write(&sandbox, &stride(&format!(", {EM}")));
    fs::create_dir(sandbox.path("results")).unwrap();
    sandbox.write("results/checkpoints", "a file where a directory should be");
    let ran = sandbox.run("run deep.yaml");
    assert_eq!(ran.code, 73, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot be written"), "{}", ran.stderr);
}

/// A published model.
fn published() -> (Sandbox, ModelFile) {
    let sandbox = Sandbox::new();
    write(&sandbox, &stride(&format!(", {EM}, publish: model")));
    sandbox.run("run deep.yaml --quiet").succeeded();
    let model = ModelFile::load(&sandbox.path("model")).unwrap();
    (sandbox, model)
}

#[test]
fn a_published_model_scores_and_shows() {
    let (sandbox, _) = published();
    sandbox.write(
        "score.yaml",
        "\
version: 1
name: score
stages:
  batch:
    ingest: { path: rows.parquet, features: [b, a] }
  scores:
    predict: { model: ./model, input: batch }
",
    );
    sandbox.run("run score.yaml --quiet").succeeded();
    let files = sandbox.table_files("predictions");
    let (tested, scored) = (read_predictions(&files[0]).unwrap(), read_predictions(&files[1]).unwrap());
    for (row, mean) in tested.row.iter().zip(&tested.y_mean) {
        assert_eq!(*mean, scored.y_mean[*row as usize]);
    }
    let mut settings = Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"run               \S+", "run               [run]");
    settings.add_filter(r"sha256 [0-9a-f]{12}…", "sha256 [hash]…");
    settings.add_filter(r"input             \S*rows.parquet", "input             […]rows.parquet");
    settings.add_filter(r"predicts within   [\d.e-]+", "predicts within   [value]");
    settings.add_filter(r"(?m)^tensors .*$", "tensors           […]");
    settings.add_filter(
        r"(variance|noise|length|log_likelihood|bound|acceptance|ess_predictions|rhat_predictions)( +)(-?[\d.e-]+|not defined)",
        "$1$2[value]",
    );
    let shown = sandbox.run("model show model").succeeded().stdout;
    settings.bind(|| assert_snapshot!("model_show_deep", shown));
    sandbox.run("run deep.yaml --quiet --set stages.model.train.em.draws=4").succeeded();
    let shown = sandbox.run("model show model").succeeded().stdout;
    assert!(shown.contains("8 final transitions, 4 states of each kept\n"), "{shown}");
}

/// Whatever a file holds, it gives a model or a message.
#[test]
fn a_model_with_other_tensors_is_refused_or_read_but_never_a_crash() {
    let (sandbox, model) = published();
    let path = sandbox.path("model");
    let load = |file: &ModelFile| TrainedModel::from_file(file, &path);
    assert!(load(&model).is_ok());
    for name in model.tensors.keys() {
        let mut without = model.clone();
        without.tensors.remove(name);
        let optional = ["bound", "diagnostics."];
        assert!(load(&without).is_err() || optional.iter().any(|start| name.starts_with(start)), "{name}");
        for shape in [vec![], vec![0], vec![1], vec![0, 0], vec![1, 1], vec![3, 2], vec![2, 2, 2]] {
            for number in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e308] {
                let mut other = model.clone();
                other
                    .tensors
                    .insert(name.clone(), Tensor::F64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&shape), number)));
                if let Ok(model) = load(&other) {
                    drop(model.predict(&ndarray::Array2::zeros((3, 2)), true));
                }
            }
        }
    }
    for word in model.meta.words.keys() {
        let (mut without, mut other) = (model.clone(), model.clone());
        without.meta.words.remove(word);
        other.meta.words.insert(word.clone(), "nonsense".to_owned());
        for changed in [without, other] {
            if let Ok(model) = load(&changed) {
                drop(model.predict(&ndarray::Array2::zeros((3, 2)), true));
            }
        }
    }
}

/// Once for the stage, not for each of its folds, and not again by a run that takes them from the cache.
#[test]
fn chains_that_have_not_mixed_are_warned_of_once() {
    let sandbox = Sandbox::new();
    let em = "em: { iterations: 1, particles: 3, exchanges: 0, sampler: { hmc: { transitions: 1, leapfrog: 1 } }, \
              final_transitions: 8 }";
    let text = SMALL.replace("name: small", "name: deep").replace("method: gp", &format!("{}, {em}", stride("")));
    sandbox.write("deep.yaml", &text);
    let said = |ran: &Ran| ran.stderr.lines().filter(|line| line.contains("have not mixed")).count();
    let first = sandbox.run("run deep.yaml").succeeded();
    assert_eq!(said(&first), 1, "{}", first.stderr);
    assert!(first.stderr.contains("of 5 folds, for instance fold "), "{}", first.stderr);
    let again = sandbox.run("run deep.yaml").succeeded();
    assert_eq!(said(&again), 0, "{}", again.stderr);
}
