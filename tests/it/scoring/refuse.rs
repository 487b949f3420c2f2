//! What scoring refuses, by name, and what it takes.

use super::{GP, published, rows, scores, values};
use crate::python;
use crate::sandbox::{Ran, Sandbox};
use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use serde_json::Value as Json;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
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
    fs::create_dir_all(sandbox.path("days/date=2026-11-16")).unwrap();
    let times = TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC");
    let times: Vec<(&str, ArrayRef)> = vec![("at", Arc::new(times)), numbers("a"), numbers("b")];
    write_columns(&sandbox.path("times.parquet"), times).unwrap();
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
        ("--model models/m --input gone.parquet", 66, "on the command line at the current directory"),
        ("--model models/m --input days/date=2026-11-16/", 66, "no Parquet file in this directory"),
        ("--model models/m --input days/date=2026-11-16/", 66, "a time without rows is a file without rows"),
        ("--model models/m --input times.parquet --key at", 65, "column `at`: its type Timestamp(µs, \"UTC\") cannot"),
        ("--model models/m --input times.parquet --key at", 65, "convert it to text or to an integer"),
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
        ("--model models/m --input good.parquet --intervals 1e-7", 2, "at most six decimals"),
        ("--model models/m --input good.parquet --threads 0", 2, "threads"),
    ] {
        let ran = sandbox.run(&format!("score {options} --output out.parquet"));
        assert_eq!(ran.code, code, "{options}: {}", ran.stderr);
        assert!(ran.stderr.contains(said), "{options}: {}", ran.stderr);
        assert!(!sandbox.path("out.parquet").exists(), "{options}");
    }
    // A time that is passed through is as it was.
    sandbox.run("score --model models/m --input times.parquet --output times-out.parquet --keep at").succeeded();
    let (schema, _) = open_batches(&sandbox.path("times-out.parquet")).unwrap();
    assert_eq!(schema.field(5).data_type().to_string(), "Timestamp(µs, \"UTC\")");
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

/// The rows that a local layer remembers, in another order, or fewer of them, are not the model that was trained.
#[test]
fn a_model_whose_remembered_rows_have_changed_is_refused() {
    for method in [
        "method: sparse_gp, inducing: { count: 4 }",
        "method: stride, top: { neighbours: 5 }, inducing: { count: 8 }, \
        em: { iterations: 1, particles: 2, sampler: { hmc: { transitions: 2, leapfrog: 2 } }, final_transitions: 0 }",
    ] {
        let sandbox = published(method);
        rows(&sandbox.path("good.parquet"), 0..20);
        let path = sandbox.path("models/m/model.safetensors");
        let whole = fs::read(&path).unwrap();
        let score = || sandbox.run("score --model models/m --input good.parquet --output out.parquet");
        score().succeeded();
        fs::remove_file(sandbox.path("out.parquet")).unwrap();

        let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let mut header: Json = serde_json::from_slice(&whole[8..8 + length]).unwrap();
        let place = |at: usize| header["local.x"]["data_offsets"][at].as_u64().unwrap() as usize;
        let (first, last) = (place(0), place(1));
        let [count, width] = [0, 1].map(|axis| header["local.x"]["shape"][axis].as_u64().unwrap() as usize);
        let tensors = 8 + length;
        let (start, row) = (tensors + first, 8 * width);
        assert_eq!(last - first, count * row, "{method}");
        let mut reordered = whole.clone();
        let (one, other) = (whole[start..start + row].to_vec(), whole[start + row..start + 2 * row].to_vec());
        assert_ne!(one, other);
        reordered[start..start + row].copy_from_slice(&other);
        reordered[start + row..start + 2 * row].copy_from_slice(&one);
        // The last row is cut off, and everything after it moves up.
        let mut lost = whole.clone();
        lost.drain(tensors + last - row..tensors + last);
        header["local.x"]["shape"][0] = (count - 1).into();
        for (_, entry) in header.as_object_mut().unwrap().iter_mut().filter(|(name, _)| *name != "__metadata__") {
            for end in entry["data_offsets"].as_array_mut().unwrap() {
                if end.as_u64().unwrap() as usize >= last {
                    *end = (end.as_u64().unwrap() - row as u64).into();
                }
            }
        }
        let mut text = serde_json::to_vec(&header).unwrap();
        text.resize(text.len().next_multiple_of(8), b' ');
        let head = (text.len() as u64).to_le_bytes().into_iter().chain(text);
        let lost: Vec<u8> = head.chain(lost[tensors..].iter().copied()).collect();

        for (what, bytes) in [("reordered", reordered), ("lost", lost)] {
            fs::write(&path, bytes).unwrap();
            let refused = score();
            assert_eq!(refused.code, 65, "{method}, {what}: {}", refused.stderr);
            assert!(refused.stderr.contains("damaged model"), "{method}, {what}: {}", refused.stderr);
            assert!(!sandbox.path("out.parquet").exists(), "{method}, {what}");
        }
    }
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

/// A job that may write any file of a directory, and one that writes a file in it.
#[test]
fn a_directory_and_a_file_in_it_exclude_each_other() {
    let sandbox = published(GP);
    rows(&sandbox.path("in/d=1/a.parquet"), 0..20);
    let held = |target: &str| match try_lock(&target_lock(&sandbox.path(target)), "somebody else").unwrap() {
        Locking::Held(lock) => lock,
        other => panic!("taken: {other:?}"),
    };
    let score = |output: &str| format!("score --model models/m --input in --output {output}");
    let (file, directory) = (score("out/d=1/a.parquet"), score("out/"));
    sandbox.write("file.yaml", &super::pipelines::score("output: out/d=1/a.parquet").replace("inbox", "in"));
    sandbox.write("directory.yaml", &super::pipelines::score("output: out/").replace("inbox", "in"));
    // A file's job is at work; nobody has ever locked the directory.
    let lock = held("out/d=1/a.parquet");
    for job in [&directory, "run directory.yaml"] {
        let refused = sandbox.run(job);
        assert_eq!(refused.code, 75, "{job}: {}", refused.stderr);
        assert!(refused.stderr.contains(".a.parquet.lock is held by somebody else"), "{}", refused.stderr);
    }
    assert_eq!(sandbox.run(&score("out/d=1/")).code, 75);
    sandbox.run(&score("out/other.parquet")).succeeded();
    sandbox.run(&score("out-of-it/")).succeeded();
    let waiting = sandbox
        .command()
        .args(format!("{directory} --lock-timeout 1m").split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(800));
    drop(lock);
    let waited = Ran::from(&waiting.wait_with_output().unwrap()).succeeded();
    assert!(waited.stderr.contains("waiting for"), "{}", waited.stderr);
    // A directory's job is at work.
    let lock = held("out");
    for job in [&file, "run file.yaml", &score("out/d=1/"), &score("out/new/b.parquet")] {
        let refused = sandbox.run(job);
        assert_eq!(refused.code, 75, "{job}: {}", refused.stderr);
        assert!(refused.stderr.contains("somebody else"), "{}", refused.stderr);
    }
    drop(lock);
    for job in [&file, "run file.yaml", &directory, "run directory.yaml"] {
        sandbox.run(job).succeeded();
    }
    // One pipeline with both is not in its own way.
    let both = super::pipelines::score("output: out/").replace("inbox", "in");
    let second = "  again:\n    predict: { model: ./models/m, input: batch, output: out/d=1/b.parquet }\n";
    sandbox.write("both.yaml", &format!("{both}{second}"));
    sandbox.run("run both.yaml").succeeded();
}

/// Jobs that begin in the same moment: one of them wins.
#[test]
fn a_directory_and_a_file_at_once_do_not_both_give_up() {
    let sandbox = published(GP);
    rows(&sandbox.path("in/a.parquet"), 0..2000);
    for _ in 0..8 {
        let _ = fs::remove_dir_all(sandbox.path("out"));
        let _ = fs::remove_file(target_lock(&sandbox.path("out")));
        let children = ["out/", "out/a.parquet"].map(|output| {
            let arguments = format!("score --model models/m --input in --output {output} --quiet");
            let mut command = sandbox.command();
            command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let ran = children.map(|child| Ran::from(&child.wait_with_output().unwrap()));
        assert!(ran.iter().all(|ran| [0, 75].contains(&ran.code)), "{}{}", ran[0].stderr, ran[1].stderr);
        assert!(ran.iter().any(|ran| ran.code == 0), "{}{}", ran[0].stderr, ran[1].stderr);
        assert_eq!(
            open_batches(&sandbox.path("out/a.parquet")).unwrap().1.map(|b| b.unwrap().num_rows()).sum::<usize>(),
            2000
        );
    }
}

/// A byte of a page that only its checksum can tell from another one.
#[test]
fn a_page_that_does_not_fit_its_checksum_is_refused() {
    let sandbox = published(GP);
    rows(&sandbox.path("rows.parquet"), 0..200);
    sandbox.write(
        "write.py",
        "import pyarrow.parquet as pq\ntable = pq.read_table('rows.parquet')\n\
         for name, check in [('checked', True), ('unchecked', False)]:\n    \
         pq.write_table(table, name + '.parquet', compression='none', use_dictionary=False, write_page_checksum=check)\n",
    );
    let mut python = Command::new(python::programs().join("python"));
    python::succeed(python.arg("write.py").current_dir(sandbox.path("")));
    let score = |name: &str| {
        let arguments = format!("score --model models/m --input {name}.parquet --output out.parquet --key id --quiet");
        sandbox.run(&arguments)
    };
    let value = values(77).0.to_le_bytes();
    for name in ["checked", "unchecked"] {
        score(name).succeeded();
        let path = sandbox.path(format!("{name}.parquet"));
        let mut bytes = fs::read(&path).unwrap();
        let place = bytes.windows(8).position(|bytes| bytes == value).unwrap();
        bytes[place + 5] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let before = fs::read(sandbox.path("out.parquet")).unwrap();
    let refused = score("checked");
    assert_eq!(refused.code, 65, "{}", refused.stderr);
    assert!(refused.stderr.contains("checked.parquet: not readable as Parquet"), "{}", refused.stderr);
    assert!(refused.stderr.contains("CRC"), "{}", refused.stderr);
    assert_eq!(fs::read(sandbox.path("out.parquet")).unwrap(), before);
    // Writers that leave checksums out leave this to nobody.
    score("unchecked").succeeded();
    assert_ne!(fs::read(sandbox.path("out.parquet")).unwrap(), before);
}

#[test]
fn the_current_directory_can_be_the_output() {
    let sandbox = published(GP);
    rows(&sandbox.path("in/rows.parquet"), 0..20);
    for (number, output) in ["./", ".", "../here/"].into_iter().enumerate() {
        let here = sandbox.path("here");
        let _ = std::fs::remove_dir_all(&here);
        std::fs::create_dir(&here).unwrap();
        let mut command = sandbox.command();
        command.current_dir(&here).args(["score", "--model", "../models/m", "--input", "../in/", "--output", output]);
        let ran = crate::sandbox::Ran::from(&command.output().unwrap()).succeeded();
        assert!(here.join("rows.parquet").is_file(), "{number}: {}", ran.stderr);
    }
    let text = super::pipelines::score("output: ./").replace("inbox", "../in").replace("./models", "../models");
    sandbox.write("here/p.yaml", &text);
    let mut command = sandbox.command();
    command.current_dir(sandbox.path("here")).args(["run", "p.yaml", "--quiet", "--results", "../results"]);
    crate::sandbox::Ran::from(&command.output().unwrap()).succeeded();
}

/// A file that is written in place while it is read would give rows of before and rows of after.
#[test]
fn an_input_that_is_overwritten_while_it_is_scored_is_refused() {
    use std::io::Read as _;
    let sandbox = published(GP);
    rows(&sandbox.path("big.parquet"), 0..600_000);
    let words = "score --model models/m --input big.parquet --output - --key id --quiet".split(' ');
    let mut job = sandbox.command().args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = job.stdout.take().unwrap();
    // The first bytes are there, and the rest has to wait for its reader.
    stdout.read_exact(&mut [0; 1]).unwrap();
    let bytes = fs::read(sandbox.path("big.parquet")).unwrap();
    fs::write(sandbox.path("big.parquet"), bytes).unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    let ran = Ran::from(&job.wait_with_output().unwrap());
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    assert!(ran.stderr.contains("big.parquet: the file changed while it was read"), "{}", ran.stderr);
}

#[test]
fn a_pipe_is_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let sandbox = published(GP);
    rows(&sandbox.path("good.parquet"), 0..20);
    assert!(Command::new("mkfifo").arg(sandbox.path("out.parquet")).status().unwrap().success());
    std::os::unix::fs::symlink("out.parquet", sandbox.path("link.parquet")).unwrap();
    for output in ["out.parquet", "link.parquet"] {
        let ran = sandbox.run(&format!("score --model models/m --input good.parquet --output {output}"));
        assert_eq!(ran.code, 73, "{}", ran.stderr);
        assert!(ran.stderr.contains("it is a pipe, a socket or a device"), "{}", ran.stderr);
        assert!(fs::metadata(sandbox.path(output)).unwrap().file_type().is_fifo());
    }
}
