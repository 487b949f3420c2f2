//! What people see on a terminal: nothing acts on it, lines fit, colours only where they are wanted.

use crate::sandbox::{Ran, SMALL, Sandbox, stride_pipe};
use arrow::array::{ArrayRef, Float64Array};
use std::process::Command;
use std::sync::Arc;
use stride_pipe::store::write_columns;

/// Colours, a cleared screen, text turned around, an end of line that pretends to be another message, and nothing at all.
const EVIL: &str = "x\u{1b}[31m\u{9b}2J\u{202e}\nINJECTED\u{0}";

#[track_caller]
fn quiet(what: &str, ran: &Ran) {
    let text = format!("{}{}", ran.stdout, ran.stderr);
    let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(acts), "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("INJECTED")), "{what}: {text}");
}

/// The command as a person would run it, at a terminal.
fn at_a_terminal(sandbox: &Sandbox, arguments: &str, variables: &[(&str, &str)]) -> Ran {
    let program = stride_pipe().get_program().to_string_lossy().into_owned();
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &format!("{program} {arguments}"), "/dev/null"]);
    command.current_dir(sandbox.path("")).env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    Ran::from(&command.output().expect("script is part of every Debian and Ubuntu"))
}

#[test]
fn names_and_values_do_not_act_on_the_terminal() {
    let sandbox = Sandbox::new();
    let numbers = |step: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..40).map(|row| ((row * step) % 17) as f64 / 3.0)))
    };
    let columns = vec![(EVIL, numbers(3)), ("flat\u{1b}[5m", Arc::new(Float64Array::from(vec![0.5; 40])) as ArrayRef)];
    let columns = [columns, vec![("a", numbers(5)), ("y", numbers(7))]].concat();
    write_columns(&sandbox.path("evil.parquet"), columns).unwrap();
    let text = SMALL
        .replace("path: rows.parquet, key: id, features: [a, b]", "path: evil.parquet, features: ['*']")
        .replace("kfold: { folds: 5 }", "holdout: { test_fraction: 0.3, repeats: 2 }")
        .replace("stages:", "matrix: { k: [\"v\\e[31m\\u202e\\nINJECTED\", w] }\nstages:");
    sandbox.write("evil.yaml", &text);
    for command in [
        "validate evil.yaml --data",
        "plan evil.yaml",
        "run evil.yaml",
        "run evil.yaml",
        "runs list",
        "runs show last",
        "runs table last --metric smse --rows k",
        "run evil.yaml --set stages.rows.ingest.target=z",
    ] {
        quiet(command, &sandbox.run(command));
    }
    let model = sandbox.files("results/models").into_iter().find(|file| file.ends_with("model.safetensors")).unwrap();
    let shown = sandbox.command().args(["model", "show"]).arg(sandbox.path("results/models").join(model)).output();
    let shown = Ran::from(&shown.unwrap()).succeeded();
    assert!(shown.stdout.contains("x\\u{1b}[31m\\u{9b}2J\\u{202e}\\nINJECTED\\u{0}"), "{}", shown.stdout);
    quiet("model show", &shown);
    sandbox.write("evil.csv", &format!("\"{}\",y\n1,2\n3,4\n", EVIL.replace('\0', "")));
    quiet("import", &sandbox.run("import evil.csv -o other.parquet --key id").succeeded());
    sandbox.run("run evil.yaml").succeeded();
    // What is meant for programs is only cleaned where a person looks at it.
    for format in ["markdown", "csv"] {
        let command = format!("runs table last --metric smse --rows k --format {format}");
        let program = sandbox.run(&command).succeeded();
        assert!(program.stdout.contains('\u{202e}'), "{}", program.stdout);
        let person = at_a_terminal(&sandbox, &command, &[]).succeeded().stdout;
        assert!(!person.contains(['\u{1b}', '\u{202e}']), "{person:?}");
    }
}

#[test]
fn arguments_do_not_act_on_the_terminal() {
    let sandbox = Sandbox::new();
    let evil = EVIL.replace('\0', "");
    let flag = format!("--{evil}");
    for words in [
        vec![evil.as_str()],
        vec!["run", "small.yaml", &flag],
        vec!["run", "small.yaml", "--threads", &evil],
        vec!["run", "small.yaml", "--lock-timeout", &evil],
        vec!["run", "small.yaml", "--from", &evil],
        vec!["runs", "table", &evil, "--metric", &evil],
        vec!["score", "--model", &evil, "--input", &evil, "--output", &evil],
        vec!["import", &evil, "-o", "x.parquet", "--format", &evil],
        vec!["model", "show", &evil],
    ] {
        let ran = Ran::from(&sandbox.command().args(&words).output().unwrap());
        assert_ne!(ran.code, 0, "{words:?}");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(acts), "{words:?}: {text:?}");
    }
}

/// Longer than the widths of tables can be.
#[test]
fn names_of_any_length_are_shown() {
    let sandbox = Sandbox::new();
    let name = "n".repeat(70_000);
    let numbers = |step: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..20).map(|row| ((row * step) % 17) as f64 / 3.0)))
    };
    write_columns(&sandbox.path("long.parquet"), vec![(name.as_str(), numbers(3)), ("y", numbers(7))]).unwrap();
    sandbox.write(
        "long.yaml",
        &SMALL.replace("path: rows.parquet, key: id, features: [a, b]", "path: long.parquet, features: ['n*']"),
    );
    sandbox.run("validate long.yaml --data").succeeded();
    sandbox.run("run long.yaml").succeeded();
    let model = sandbox.files("results/models").into_iter().find(|file| file.ends_with("model.safetensors")).unwrap();
    let shown = sandbox.command().args(["model", "show"]).arg(sandbox.path("results/models").join(model)).output();
    Ran::from(&shown.unwrap()).succeeded();
    sandbox.write("long.csv", &format!("{name},y\n1,2\n3,4\n"));
    sandbox.run("import long.csv -o other.parquet --key id").succeeded();
}

#[test]
fn colours_are_for_terminals_that_have_them() {
    let sandbox = Sandbox::new();
    let flat: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Float64Array::from_iter_values((0..30).map(f64::from)))),
        ("b", Arc::new(Float64Array::from(vec![0.5; 30]))),
        ("y", Arc::new(Float64Array::from_iter_values((0..30).map(|row| f64::from(row).sin())))),
    ];
    write_columns(&sandbox.path("flat.parquet"), flat).unwrap();
    sandbox.write("flat.yaml", &SMALL.replace("path: rows.parquet, key: id,", "path: flat.parquet,"));
    let yellow = "\u{1b}[33m WARN\u{1b}[0m";
    let run =
        |variables: &[(&str, &str)]| at_a_terminal(&sandbox, "run flat.yaml --quiet", variables).succeeded().stdout;
    assert!(run(&[]).contains(yellow), "{:?}", run(&[]));
    for variables in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let said = run(&variables);
        assert!(said.contains(" WARN ") && !said.contains('\u{1b}'), "{said:?}");
    }
    assert!(run(&[("NO_COLOR", "")]).contains(yellow));
    let piped = sandbox.run("run flat.yaml --quiet").succeeded();
    assert!(piped.stderr.contains(" WARN rows: constant column(s) b") && !piped.stderr.contains('\u{1b}'));
    // At a terminal long lines are broken between words; in a file each stays one line.
    for line in run(&[("NO_COLOR", "1")]).lines().filter(|line| !line.starts_with("tables: ")) {
        assert!(line.trim_end().chars().count() <= 80, "{line}");
    }
    assert_eq!(piped.stderr.lines().count(), 1, "{}", piped.stderr);
}

#[test]
fn the_table_of_a_run_says_how_good_it_is_in_80_columns() {
    let sandbox = Sandbox::new();
    let short = sandbox.run("run small.yaml --quiet").succeeded().stdout;
    let header: Vec<&str> = short.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["metrics", "R²", "RMSE", "(y)", "NLPD", "in", "95", "%"]);
    let matrix = "matrix: { kernel: [rbf, matern32], a_variable_of_many_words: [first_of_its_values] }\nstages:\n";
    let text = SMALL.replace("stages:\n", matrix).replace("method: gp", "method: gp, kernel: '${matrix.kernel}'");
    sandbox.write("long.yaml", &text);
    let long = sandbox.run("run long.yaml --quiet").succeeded().stdout;
    assert!(long.contains("\nkernel=matern32,a_variable_of_many_words=first_of_its_values\n"), "{long}");
    for line in short.lines().chain(long.lines()).filter(|line| !line.starts_with("tables: ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // What the table leaves out is to be had.
    sandbox.run("runs table last --metric mnll --rows kernel").succeeded();
}
