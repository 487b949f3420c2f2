//! What comes from the environment is shown nowhere: not in messages, records, tables, reports or the cache.

use crate::sandbox::{Ran, SMALL, Sandbox};
use arrow::array::AsArray as _;
use arrow::datatypes::DataType;
use std::path::Path;
use stride_pipe::store::open_batches;

const SECRET: &str = "tok3n-of-hunter";

fn run(sandbox: &Sandbox, value: &str, arguments: &str) -> Ran {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    Ran::from(&sandbox.command().env("STRIDE_SECRET", value).args(words).output().unwrap())
}

#[track_caller]
fn silent(what: &str, text: &str) {
    assert!(!text.contains(SECRET), "{what}: {text}");
}

/// Every name, every text and every text column below the directory.
fn search(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        silent("a name", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            search(&path);
            continue;
        }
        silent(&path.display().to_string(), &String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        if path.extension().is_some_and(|extension| extension == "parquet") {
            for batch in open_batches(&path).unwrap().1 {
                let batch = batch.unwrap();
                for column in batch.columns().iter().filter(|column| *column.data_type() == DataType::Utf8) {
                    for value in column.as_string::<i32>().iter().flatten() {
                        silent(&path.display().to_string(), value);
                    }
                }
            }
        }
    }
}

/// The ways a value is written, as a path and as part of one.
fn values() -> [String; 5] {
    [
        SECRET.to_owned(),
        format!("./{SECRET}"),
        format!("{SECRET}/"),
        format!(".//{SECRET}/./day=7"),
        format!("../x/{SECRET}"),
    ]
}

#[test]
fn secrets_in_paths_are_shown_nowhere() {
    for value in values() {
        let sandbox = Sandbox::new();
        let place = if value.starts_with("..") { "sub/" } else { "" };
        std::fs::create_dir_all(sandbox.path("sub")).unwrap();
        let data = sandbox.path(place).join(&value);
        std::fs::create_dir_all(sandbox.path("x")).unwrap();
        std::fs::create_dir_all(&data).unwrap();
        std::fs::copy(sandbox.path("rows.parquet"), data.join("rows.parquet")).unwrap();
        let report = "  page:\n    report: { input: metrics }\n  about:\n    describe: { input: rows }\n";
        let text = format!("{SMALL}{report}")
            .replace("path: rows.parquet", "path: '${env.STRIDE_SECRET}'")
            .replace("stages:", &format!("results: {}\nstages:", if place.is_empty() { "out" } else { "../out" }));
        sandbox.write(&format!("{place}s.yaml"), &text);
        let of = |words: &str| run(&sandbox, &value, &words.replace("s.yaml", &format!("{place}s.yaml")));
        for command in ["validate s.yaml --data", "plan s.yaml", "plan s.yaml --format json", "run s.yaml"] {
            let ran = of(command).succeeded();
            silent(command, &ran.stdout);
            silent(command, &ran.stderr);
        }
        // From the cache, and as JSON; then with a change that is told.
        for command in ["run s.yaml --log-format json", "run s.yaml --set stages.rows.ingest.features=[a]"] {
            let ran = of(command).succeeded();
            silent(command, &ran.stdout);
            silent(command, &ran.stderr);
        }
        for command in ["runs list --results out", "runs show --results out latest", "report --results out"] {
            let ran = of(command);
            silent(command, &ran.stdout);
            silent(command, &ran.stderr);
        }
        search(&sandbox.path("out"));
        // Files that are not there, and rows that are refused.
        std::fs::remove_file(data.join("rows.parquet")).unwrap();
        for command in ["run s.yaml", "validate s.yaml --data", "plan s.yaml"] {
            let ran = of(command);
            silent(command, &ran.stdout);
            silent(command, &ran.stderr);
        }
        std::fs::remove_dir(&data).unwrap();
        let ran = of("run s.yaml");
        assert_eq!(ran.code, 66, "{value}: {}", ran.stderr);
        silent("gone", &ran.stderr);
        search(&sandbox.path("out"));
    }
}

/// Parts of the value's path exist, parts do not.
#[test]
fn the_directory_above_a_secret_is_not_named_either() {
    let sandbox = Sandbox::new();
    let data = sandbox.path(SECRET);
    std::fs::create_dir_all(&data).unwrap();
    sandbox.write("s.yaml", &SMALL.replace("path: rows.parquet", "path: '${env.STRIDE_SECRET}'"));
    for value in [format!("{SECRET}/gone/deep"), format!("{}/gone/deep.parquet", data.display())] {
        for command in ["run s.yaml", "validate s.yaml --data", "plan s.yaml"] {
            let ran = run(&sandbox, &value, command);
            silent(command, &ran.stdout);
            silent(command, &ran.stderr);
        }
    }
    search(&sandbox.path("results"));
}

#[test]
fn problems_of_a_file_do_not_quote_secrets() {
    let sandbox = Sandbox::new();
    let stages = SMALL.split_once("  predictions:").unwrap().0.replace("kfold: { folds: 5 }", "all: {}");
    let twice = format!(
        "{stages}  one:\n    predict: {{ model: model, input: rows, output: '${{env.STRIDE_SECRET}}/a.parquet' }}\n  \
         two:\n    predict: {{ model: model, input: rows, output: '${{env.STRIDE_SECRET}}/a.parquet' }}\n"
    );
    for (text, said) in [
        (twice, "is also the output of"),
        (SMALL.replace("method: gp", "method: '${env.STRIDE_SECRET}'"), "is not a value of `method`"),
        (SMALL.replace("input: rows", "input: '${env.STRIDE_SECRET}'"), "folds"),
        (SMALL.replace("name: small", "name: '${env.STRIDE_SECRET}!'"), "is not a valid name"),
    ] {
        sandbox.write("s.yaml", &text);
        let ran = run(&sandbox, SECRET, "validate s.yaml");
        assert_eq!(ran.code, 78, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        silent(said, &ran.stderr);
    }
}

/// What cannot be masked says so.
#[test]
fn a_name_from_the_environment_is_pointed_out() {
    let sandbox = Sandbox::new();
    sandbox.write("s.yaml", &SMALL.replace("name: small", "name: 'job-${env.STRIDE_SECRET}'"));
    let seen = run(&sandbox, "nightly", "validate s.yaml").succeeded();
    assert!(seen.stdout.contains("warning: s.yaml:2:7: `name` comes from the environment"), "{}", seen.stdout);
    // The records of its files lead to them all the same.
    run(&sandbox, "nightly", "run s.yaml --quiet").succeeded();
    for command in ["runs list", "runs show last"] {
        let ran = sandbox.run(command).succeeded();
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("job-nightly") && !said.contains("are gone"), "{said}");
    }
    let plain = run(&sandbox, "nightly", "validate small.yaml").succeeded();
    assert!(!plain.stdout.contains("warning"), "{}", plain.stdout);
}
