//! What scoring refuses, by name, and what it takes.

use super::{GP, published, rows, scores};
use crate::sandbox::Sandbox;
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use std::fs;
use std::sync::Arc;
use stride_pipe::store::lock::{Locking, target_lock, try_lock};
use stride_pipe::store::{open_batches, write_columns};

fn poor(sandbox: &Sandbox) {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]))),
        ("a", Arc::new(Float64Array::from(vec![Some(0.1), None, Some(0.3), Some(f64::NAN), Some(0.5)]))),
        ("b", Arc::new(Float64Array::from(vec![1.0, 2.0, f64::INFINITY, 4.0, 500.0]))),
        ("name", Arc::new(StringArray::from(vec!["p", "q", "r", "s", "t"]))),
    ];
    write_columns(&sandbox.path("poor.parquet"), columns).unwrap();
}

#[test]
fn invalid_rows_fail_are_null_or_are_left_out() {
    let sandbox = published(GP);
    poor(&sandbox);
    let score = |policy: &str| {
        let options = "--input poor.parquet --output out.parquet --key id --keep name --intervals 0.9";
        sandbox.run(&format!("score --model models/m {options} --on-invalid {policy}"))
    };
    let refused = score("error");
    assert_eq!(refused.code, 65, "{}", refused.stderr);
    assert!(refused.stderr.contains("column `a`, row 1"), "{}", refused.stderr);
    assert!(refused.stderr.contains("on_invalid"), "{}", refused.stderr);
    assert!(!sandbox.path("out.parquet").exists());

    let ran = score("null").succeeded();
    assert!(ran.stdout.contains("5 rows, 3 invalid"), "{}", ran.stdout);
    assert!(ran.stdout.contains("outside the training range: b in 50.00 %"), "{}", ran.stdout);
    assert!(ran.stderr.contains("3 of 5 rows cannot be scored"), "{}", ran.stderr);
    let null = scores(&sandbox.path("out.parquet"));
    let known: Vec<i64> = null.iter().filter(|(_, (mean, _))| mean.is_some()).map(|(key, _)| *key).collect();
    assert_eq!((null.len(), known), (5, vec![1, 5]));

    score("skip").succeeded();
    let skipped = scores(&sandbox.path("out.parquet"));
    assert_eq!(skipped.keys().copied().collect::<Vec<_>>(), [1, 5]);
    assert_eq!(skipped[&5], null[&5]);
    let (schema, _) = open_batches(&sandbox.path("out.parquet")).unwrap();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "y_mean", "y_std", "f_std", "noise_std", "y_q05", "y_q95", "name"]);
}

#[test]
fn no_rows_give_a_file_without_rows() {
    let sandbox = published(GP);
    rows(&sandbox.path("none.parquet"), 0..0);
    sandbox.run("score --model models/m --input none.parquet --output out.parquet").succeeded();
    let (schema, batches) = open_batches(&sandbox.path("out.parquet")).unwrap();
    assert_eq!(schema.field(0).name(), "row");
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 0);
}

#[test]
fn what_does_not_fit_is_named() {
    let sandbox = published(GP);
    rows(&sandbox.path("good.parquet"), 0..20);
    poor(&sandbox);
    let numbers = |name| (name, Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef);
    let words = |name| (name, Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef);
    write_columns(&sandbox.path("other.parquet"), vec![numbers("c")]).unwrap();
    write_columns(&sandbox.path("words.parquet"), vec![words("a"), numbers("b")]).unwrap();
    write_columns(&sandbox.path("mixed/1.parquet"), vec![numbers("a"), numbers("b")]).unwrap();
    write_columns(&sandbox.path("mixed/2.parquet"), vec![numbers("a")]).unwrap();
    let whole = fs::read(sandbox.path("good.parquet")).unwrap();
    fs::write(sandbox.path("short.parquet"), &whole[..whole.len() - 100]).unwrap();
    fs::create_dir_all(sandbox.path("models/tampered")).unwrap();
    let mut model = fs::read(sandbox.path("models/m/model.safetensors")).unwrap();
    *model.last_mut().unwrap() ^= 1;
    fs::write(sandbox.path("models/tampered/model.safetensors"), &model).unwrap();
    for (options, code, said) in [
        ("--model models/m --input other.parquet", 65, "feature(s) a, b"),
        ("--model models/m --input words.parquet", 65, "column `a`: its type Utf8 is not a number"),
        ("--model models/m --input mixed", 65, "mixed/2.parquet"),
        ("--model models/m --input short.parquet", 65, "incomplete Parquet file"),
        ("--model models/m --input gone.parquet", 66, "gone.parquet: does not exist"),
        ("--model models/tampered --input good.parquet", 65, "damaged model"),
        ("--model models/gone --input good.parquet", 66, "there is no model here"),
        ("--model models/m --input good.parquet --keep nothing", 65, "column `nothing`"),
        ("--model models/m --input good.parquet --key nothing", 65, "there is no column `nothing`"),
        (
            "--model models/m --input poor.parquet --key name --keep a --on-invalid never",
            2,
            "none of error, null, skip",
        ),
        ("--model models/m --input good.parquet --intervals 1.5", 2, "between 0 and 1"),
        ("--model models/m --input good.parquet --threads 0", 2, "threads"),
    ] {
        let ran = sandbox.run(&format!("score {options} --output out.parquet"));
        assert_eq!(ran.code, code, "{options}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{options}: {}", ran.stderr);
        assert!(!sandbox.path("out.parquet").exists(), "{options}");
    }
    let into_itself = sandbox.run("score --model models/m --input mixed --output mixed/scores.parquet");
    assert_eq!(into_itself.code, 65, "{}", into_itself.stderr);
    // A directory gets a file of the same name for each input file: it must not be the input file.
    fs::create_dir_all(sandbox.path("own/d")).unwrap();
    fs::copy(sandbox.path("good.parquet"), sandbox.path("own/d/a.parquet")).unwrap();
    let before = fs::read(sandbox.path("own/d/a.parquet")).unwrap();
    for (input, output) in
        [("own/d/a.parquet", "own/d/"), ("own/*/*.parquet", "own/"), ("own/d/*.parquet", "own/d/"), ("own", "own/")]
    {
        let refused = sandbox.run(&format!("score --model models/m --input {input} --output {output}"));
        assert_eq!(refused.code, 65, "{input} into {output}: {}", refused.stderr);
        let pipeline = super::pipelines::score(&format!("output: {output}")).replace("inbox", input);
        sandbox.write("own.yaml", &pipeline);
        let refused = sandbox.run("run own.yaml");
        assert_eq!(refused.code, 65, "{input} into {output}: {}", refused.stderr);
        assert_eq!(fs::read(sandbox.path("own/d/a.parquet")).unwrap(), before, "{input} into {output}");
    }
    let unnamed = sandbox.run("score --model models/m --input good.parquet --output scores.csv");
    assert_eq!(unnamed.code, 2, "{}", unnamed.stderr);
}

#[test]
fn two_writers_of_one_output_wait_or_end_with_75() {
    let sandbox = published(GP);
    rows(&sandbox.path("good.parquet"), 0..20);
    let Locking::Held(lock) = try_lock(&target_lock(&sandbox.path("out.parquet")), "somebody else").unwrap() else {
        panic!("taken");
    };
    let arguments = "score --model models/m --input good.parquet --output out.parquet";
    let refused = sandbox.run(arguments);
    assert_eq!(refused.code, 75, "{}", refused.stderr);
    sandbox.write("score.yaml", &super::pipelines::score("output: out.parquet").replace("inbox", "good.parquet"));
    assert_eq!(sandbox.run("run score.yaml").code, 75);
    drop(lock);
    sandbox.run(arguments).succeeded();
    sandbox.run("run score.yaml").succeeded();
}
