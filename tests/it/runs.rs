//! `stride-pipe runs`: what it says of good, bad and foreign runs.

use crate::sandbox::{SMALL, Sandbox};
use insta::assert_snapshot;
use std::fs;
use stride_pipe::store::read_table;
use stride_pipe::tables::{MetricRow, TimingRow};

/// Ids in the order of time.
pub fn ids(sandbox: &Sandbox) -> Vec<String> {
    let mut ids: Vec<String> = fs::read_dir(sandbox.path("results/run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    ids.sort();
    ids
}

/// Two kernels, with and without a length per feature.
fn sweep(sandbox: &Sandbox) {
    let text = SMALL
        .replace("name: small", "name: sweep")
        .replace("folds: 5", "folds: 3")
        .replace("method: gp", "method: gp, kernel: '${matrix.kernel}', ard: '${matrix.ard}'")
        .replace("stages:\n", "matrix: { kernel: [rbf, matern32], ard: [false, true] }\nstages:\n");
    sandbox.write("sweep.yaml", &text);
}

/// Everything that differs from run to run, from machine to machine, and in the last digits.
fn filters() -> insta::internals::SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    for (pattern, shown) in [
        (r"\d{8}T\d{12}Z-[0-9a-f]{6}", "RUN"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d", "DATE"),
        (r"[0-9a-f]{64}", "SHA256"),
        (r"[0-9a-f]{32}", "HASH"),
        (r"\d+\.\d s\b", "DURATION"),
        (r"[+-]?\d+\.\d{3,}", "#"),
        (r"\d+ thread\(s\) on \S+", "N thread(s) on HOST"),
        (r"(?m)^command .*/stride-pipe", "command   stride-pipe"),
        (r"\d+\.\d KiB", "SIZE"),
        // Widths follow from what was replaced.
        (r"(?m)(\S)  +", "$1  "),
        // Coverages are fractions of few rows, and may or may not be the same.
        (r"(?m)#  0$", "#  #"),
    ] {
        settings.add_filter(pattern, shown);
    }
    settings.bind_to_scope()
}

#[test]
fn list_show_and_diff() {
    let sandbox = Sandbox::new();
    sweep(&sandbox);
    sandbox.run("run sweep.yaml --quiet").succeeded();
    sandbox.run("run sweep.yaml --quiet --set seed=8 --set stages.predictions.predict.intervals=[0.9]").succeeded();
    sandbox.run("run small.yaml --quiet").succeeded();
    let ids = ids(&sandbox);
    let _guard = filters();
    assert_snapshot!("runs_list", sandbox.run("runs list").succeeded().stdout);
    let shown = sandbox.run(&format!("runs show {}", ids[0])).succeeded().stdout;
    let metrics: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("metrics")).collect();
    let widest = metrics.iter().take_while(|line| !line.starts_with("stage")).map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{shown}");
    assert_snapshot!("runs_show", shown);
    assert_snapshot!("runs_diff", sandbox.run(&format!("runs diff {} {}", ids[0], ids[1])).succeeded().stdout);
    let same = sandbox.run("runs diff last last").succeeded().stdout;
    assert!(same.contains("are the same") && same.contains("crps"), "{same}");

    let named = sandbox.run("runs list --pipeline small --format json").succeeded().stdout;
    let named: serde_json::Value = serde_json::from_str(&named).unwrap();
    assert_eq!((named.as_array().unwrap().len(), named[0]["run_id"].as_str()), (1, Some(ids[2].as_str())));
    assert_eq!((&named[0]["status"], &named[0]["cases"]), (&"succeeded".into(), &1.into()));
    assert_eq!(named[0]["smse_lowest"], named[0]["smse_highest"]);
    assert!(named[0]["smse_lowest"].as_f64().unwrap() < 0.1);

    // The directory may be named by its pipeline, and a run by its beginning.
    fs::create_dir(sandbox.path("below")).unwrap();
    sandbox.write("below/other.yaml", &SMALL.replace("name: small", "name: small\nresults: ../results"));
    let shown = sandbox.run(&format!("runs show {} --file below/other.yaml", &ids[2][..22])).succeeded().stdout;
    assert!(shown.starts_with(&format!("run       {}\npipeline  small\n", ids[2])), "{shown}");
    let last = sandbox.run("runs show last --pipeline sweep").succeeded().stdout;
    assert!(last.contains(&ids[1]), "{last}");
}

#[test]
fn a_run_from_the_cache_still_names_its_inputs() {
    let sandbox = Sandbox::new();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet").succeeded();
    let shown = sandbox.run("runs show last").succeeded().stdout;
    let hash = stride_pipe::store::input::sha256_file(&sandbox.path("rows.parquet")).unwrap();
    assert!(shown.contains(&hash) && shown.contains("13 cache entries used"), "{shown}");
}

#[test]
fn runs_that_do_not_exist() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("runs list");
    assert_eq!(ran.code, 66, "{}", ran.stderr);
    assert!(ran.stderr.contains("--results DIR or --file PIPELINE"), "{}", ran.stderr);
    fs::create_dir(sandbox.path("results")).unwrap();
    assert_eq!(sandbox.run("runs list").succeeded().stdout, "no runs in results\n");
    assert_eq!(sandbox.run("runs show last").code, 66);
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet").succeeded();
    let ids = ids(&sandbox);
    let message = |name: &str| {
        let ran = sandbox.run(&format!("runs show {name}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (66, ""));
        ran.stderr
    };
    let unknown = message("1999");
    assert!(unknown.contains("no run `1999`") && unknown.contains(&ids[1]) && unknown.contains("`last`"), "{unknown}");
    let misspelt = ids[0].replace("Z-", "-");
    assert!(message(&misspelt).contains(&format!("did you mean {}?", ids[0])));
    assert!(message(&ids[0][..8]).contains("2 runs begin with"));
    assert_eq!(sandbox.run(&format!("runs diff {} 1999", ids[0])).code, 66);
}

#[test]
fn bad_and_foreign_runs_do_not_hide_the_others() {
    let sandbox = Sandbox::new();
    for _ in 0..6 {
        sandbox.run("run small.yaml --quiet").succeeded();
    }
    assert_eq!(sandbox.run("run small.yaml --quiet --set stages.folds.split.kfold.folds=61").code, 65);
    let ids = ids(&sandbox);
    let run = |number: usize, file: &str| sandbox.path("results/run").join(&ids[number]).join(file);
    fs::remove_file(run(0, "manifest.json")).unwrap();
    fs::write(run(1, "manifest.json"), "{\"run_id\": ").unwrap();
    fs::remove_dir_all(run(2, "")).unwrap();
    fs::write(&sandbox.table_files("metrics")[3], "PAR1 not a table").unwrap();
    fs::remove_file(&sandbox.table_files("timings")[4]).unwrap();
    let mut events = fs::read_to_string(run(4, "events.jsonl")).unwrap();
    events.push_str(
        "{\"at\":\"2026-11-16T02:25:30.123456Z\",\"event\":\"warning\",\"text\":\"column `a` is constant\"}\n{\"at\":",
    );
    fs::write(run(4, "events.jsonl"), events).unwrap();
    fs::create_dir(sandbox.path("results/run/my notes")).unwrap();
    let _guard = filters();
    assert_snapshot!("runs_list_bad", sandbox.run("runs list").succeeded().stdout);
    // Each of them can be shown, as far as it goes.
    for id in &ids {
        let shown = sandbox.run(&format!("runs show {id}")).succeeded().stdout;
        assert!(shown.contains(id), "{shown}");
    }
    let shown = sandbox.run(&format!("runs show {}", ids[4])).succeeded().stdout;
    let ending = shown.split("\nwarnings\n").nth(1).unwrap().to_owned();
    assert_snapshot!("runs_show_bad", ending);
    let different = sandbox.run(&format!("runs diff {} {}", ids[0], ids[6])).succeeded().stdout;
    assert!(different.contains("note: metrics cannot be compared"), "{different}");
    let failed = sandbox.run("runs table last --metric smse");
    assert_eq!(failed.code, 66);
    assert!(failed.stderr.contains("only runs that succeed have all tables"), "{}", failed.stderr);
    let damaged = sandbox.run(&format!("runs table {} --metric smse", ids[3]));
    assert_eq!(damaged.code, 65, "{}", damaged.stderr);
    assert!(damaged.stderr.lines().count() == 1 && damaged.stderr.contains("damaged"), "{}", damaged.stderr);
}

fn mean_std(values: &[f64]) -> String {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    format!("{mean:.6} ({:.6})", variance.sqrt())
}

#[test]
fn tables_pivot_and_pool() {
    let sandbox = Sandbox::new();
    sweep(&sandbox);
    sandbox.run("run sweep.yaml --quiet").succeeded();
    let table = |more: &str| sandbox.run(&format!("runs table last --digits 6 {more}")).succeeded().stdout;
    let rows: Vec<MetricRow> = read_table(&sandbox.table_files("metrics")[0]).unwrap();
    let smse = |cases: &[&str]| {
        let wanted = |row: &&MetricRow| {
            row.metric == "smse" && row.fold.is_some() && cases.iter().any(|case| row.case.contains(case))
        };
        mean_std(&rows.iter().filter(wanted).map(|row| row.value.unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(
        table("--metric smse --rows kernel --columns ard --format csv"),
        format!(
            "kernel,false,true\nrbf,{},{}\nmatern32,{},{}\n",
            smse(&["kernel=rbf,ard=false"]),
            smse(&["kernel=rbf,ard=true"]),
            smse(&["kernel=matern32,ard=false"]),
            smse(&["kernel=matern32,ard=true"])
        )
    );
    assert_eq!(
        table("--metric smse --rows ard --format markdown"),
        format!(
            "| ard | smse |\n|---|---:|\n| false | {} |\n| true | {} |\n",
            smse(&["ard=false"]),
            smse(&["ard=true"])
        )
    );
    assert_eq!(
        table("--metric smse --rows method").lines().nth(1).unwrap(),
        format!("gp      {}", smse(&["kernel"])),
        "text, all cases in one cell"
    );
    assert_eq!(table("--metric smse --rows method --stat count"), "method  smse\ngp        12\n");
    assert_eq!(table("--metric crps").lines().count(), 5, "a row per case");

    let timings: Vec<TimingRow> = read_table(&sandbox.table_files("timings")[0]).unwrap();
    let seconds: Vec<f64> =
        timings.iter().filter(|row| row.phase == "offline" && row.case.contains("rbf")).map(|row| row.wall_s).collect();
    let shown = table("--metric offline_s --rows kernel --format csv");
    assert_eq!(shown.lines().nth(1).unwrap(), format!("rbf,{}", mean_std(&seconds)));
    assert!(table("--metric online_s --rows kernel --columns ard").contains("matern32"));

    let refused = |more: &str| {
        let ran = sandbox.run(&format!("runs table last {more}"));
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    assert!(refused("--metric smsee").contains("did you mean `smse`?"));
    assert!(refused("--metric smse --rows kernl").contains("did you mean `kernel`?"));
    assert!(refused("--metric smse --columns m").contains("it has kernel, ard, method, case, stage"));
    assert!(refused("--metric smse --stage model").contains("it has metrics"));
}

#[test]
fn a_run_without_metrics_says_so() {
    let sandbox = Sandbox::new();
    let refused = |last: &str| {
        sandbox.run(&format!("run small.yaml --quiet --to {last}")).succeeded();
        let ran = sandbox.run("runs table last --metric smse");
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    let nothing = refused("folds");
    assert!(nothing.contains("--metric smse: this run computed no metrics; run the pipeline to its end"), "{nothing}");
    let times = refused("predictions");
    assert!(times.contains("this run computed no metrics, only offline_s and online_s; "), "{times}");
}

#[test]
fn several_evaluations_are_several_tables() {
    let sandbox = Sandbox::new();
    sandbox.write("twice.yaml", &format!("{SMALL}  again:\n    evaluate: {{ input: predictions }}\n"));
    sandbox.run("run twice.yaml --quiet").succeeded();
    let both = sandbox.run("runs table last --metric smse").succeeded().stdout;
    assert!(both.starts_with("metrics: case") && both.contains("\n\nagain: case"), "{both}");
    let one = sandbox.run("runs table last --metric smse --stage again").succeeded().stdout;
    assert!(one.starts_with("case"), "{one}");
    let beside = sandbox.run("runs table last --metric smse --columns stage --format csv").succeeded().stdout;
    let value = sandbox.run("runs table last --metric smse --stage again --format csv").succeeded().stdout;
    let value = value.lines().nth(1).unwrap().split_once(',').unwrap().1.to_owned();
    assert_eq!(beside, format!("case,metrics,again\ndefault,{value},{value}\n"));
    let (mean, std) = value.trim_end_matches(')').split_once(" (").unwrap();
    let two =
        sandbox.run("runs table last --metric smse --stage again --stat mean-2std --format csv").succeeded().stdout;
    let (same, twice) = two.lines().nth(1).unwrap().split_once(',').unwrap().1.split_once(" ± ").unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!(same == mean && (number(twice) - 2.0 * number(std)).abs() < 2e-4, "{two} and {value}");
}

#[test]
fn stages_are_columns_beside_the_values_of_a_variable() {
    let sandbox = Sandbox::new();
    let text = SMALL
        .replace("stages:\n", "matrix: { kernel: [rbf, matern32] }\nstages:\n")
        .replace("method: gp", "method: gp, kernel: \"${matrix.kernel}\"");
    sandbox.write("twice.yaml", &format!("{text}  again:\n    evaluate: {{ input: predictions }}\n"));
    sandbox.run("run twice.yaml --quiet").succeeded();
    let table = |more: &str| {
        let command = format!("runs table last --metric smse --rows kernel --format csv {more}");
        let shown = sandbox.run(&command).succeeded().stdout;
        shown.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    let (one, both) = (table("--stage again"), table("--columns stage"));
    assert_eq!(both[0], ["kernel", "metrics", "again"]);
    for (row, kernel) in [(1, "rbf"), (2, "matern32")] {
        assert_eq!(both[row], [kernel, &one[row][1], &one[row][1]]);
    }
    assert_ne!(one[1][1], one[2][1]);
}
