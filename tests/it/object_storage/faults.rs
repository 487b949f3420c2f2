//! What goes wrong with stores and networks, and jobs that are in each other's way.

use super::proxy::Proxy;
use super::servers::{KEY, Kind, SECRET, wait_for};
use super::{Place, assert_same_rows, rows};
use crate::sandbox::{Ran, Sandbox};
use arrow::array::{ArrayRef, Float64Array};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use stride_pipe::store::write_columns;

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    Ran::from(&child.wait_with_output().unwrap())
}

/// Numbers that no compression makes smaller, in columns of this many rows.
fn large(sandbox: &Sandbox, name: &str, count: usize, columns: &[&'static str]) -> PathBuf {
    let path = sandbox.path(name);
    let mut state = 1_u64;
    let mut number = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let column = |name: &&'static str| {
        (*name, Arc::new(Float64Array::from_iter_values((0..count).map(|_| number()))) as ArrayRef)
    };
    write_columns(&path, columns.iter().map(column).collect()).unwrap();
    path
}

#[test]
fn wrong_credentials_are_said_and_secrets_are_not() {
    // This one checks signatures.
    let place = Place::new(Kind::S3sFs);
    place.put_days();
    place.publish("m");
    let text = super::PUBLISH.replace("PLACE", &place.url("other")).replace("rows.parquet", &place.url("data/"));
    place.sandbox.write("wrong.yaml", &format!("{text}results: {}\n", place.url("results")));
    let (model, input, output) = (place.url("m"), place.url("data/"), place.url("x.parquet"));
    let wrong = "aWrongSecretThatMustNotBeSeen";
    let jobs = [
        (format!("score --model {model} --input rows.parquet --output x.parquet"), 66),
        (format!("score --model local/m --input {input} --output x.parquet"), 66),
        (format!("score --model local/m --input rows.parquet --output {output}"), 73),
        ("run wrong.yaml --log-format json".to_owned(), 73),
        (format!("runs list --results {}", place.url("results")), 66),
    ];
    place.sandbox.write("local.yaml", &super::PUBLISH.replace("PLACE", "local/m"));
    place.run("run local.yaml --quiet").succeeded();
    for (job, code) in jobs {
        let mut command = place.command("machine", place.server.port, &job);
        let ran = Ran::from(&command.env("AWS_SECRET_ACCESS_KEY", wrong).output().unwrap());
        assert_eq!(ran.code, code, "{job}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("access is refused") && ran.stderr.contains("set AWS_ACCESS_KEY_ID"),
            "{}",
            ran.stderr
        );
        for hidden in [wrong, SECRET, KEY, "Signature="] {
            assert!(!ran.stderr.contains(hidden) && !ran.stdout.contains(hidden), "{job}: {}", ran.stderr);
        }
    }
    // With the right ones, nothing of them is written down anywhere: not in the store, not on this machine.
    place.run("run wrong.yaml --log-format json").succeeded();
    for name in place.server.list() {
        let bytes = place.server.get(&name);
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{name}");
    }
    for name in place.sandbox.files("machine") {
        let bytes = std::fs::read(place.sandbox.path("machine").join(&name)).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(SECRET), "{name}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new(Kind::Moto);
    place.put_days();
    place.publish("m");
    let model = place.url("m");
    for (input, said) in [
        ("s3://nowhere/data/", "there is no such bucket"),
        ("s3://bucket/nothing.parquet", "there is no such object"),
        ("s3://bucket/nothing/", "no Parquet file below this name"),
        ("s3://bucket/data/*/other*", "no object matches this pattern"),
    ] {
        let ran = place.run(&format!("score --model {model} --input {input} --output x.parquet"));
        assert!(ran.code == 66 && ran.stderr.contains(said), "{input}: {} {}", ran.code, ran.stderr);
    }
    let ran = place.run(&format!("score --model {model} --input rows.parquet --output s3://nowhere/x.parquet"));
    assert!(ran.code == 73 && ran.stderr.contains("there is no such bucket"), "{} {}", ran.code, ran.stderr);
    let ran = place.run("model list s3://bucket/nothing");
    assert!(ran.code == 66 && ran.stderr.contains("no model is published here"), "{}", ran.stderr);
    // Nobody listens there.
    let mut command =
        place.command("machine", 9, &format!("score --model {model} --input rows.parquet --output x.parquet"));
    let ran = Ran::from(&command.env("STRIDE_PIPE_STORAGE_TIMEOUT", "1s").output().unwrap());
    assert!(
        ran.code == 66 && ran.stderr.contains("cannot be reached") && ran.stderr.contains("tried for"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_store_that_asks_to_slow_down_is_asked_again() {
    let place = Place::new(Kind::Moto);
    place.put_days();
    place.publish("m");
    let proxy = Proxy::to(place.server.port);
    let job =
        format!("score --model {} --input {} --output {}", place.url("m"), place.url("data/"), place.url("x.parquet"));
    proxy.refuse(5);
    let ran = Ran::from(&place.command("machine", proxy.port, &job).output().unwrap()).succeeded();
    assert_eq!(proxy.refused(), 5, "{}", ran.stderr);
    // Not for ever.
    proxy.refuse(u64::MAX);
    let mut command = place.command("machine", proxy.port, &job);
    let ran = Ran::from(&command.env("STRIDE_PIPE_STORAGE_TIMEOUT", "1s").output().unwrap());
    assert!(ran.code == 66 && ran.stderr.contains("asks to slow down"), "{}", ran.stderr);
}

#[test]
fn only_what_is_needed_is_read_and_never_twice() {
    let place = Place::new(Kind::Moto);
    place.publish("m");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let path = large(&place.sandbox, "wide.parquet", 200_000, &names);
    let size = std::fs::metadata(&path).unwrap().len();
    place.server.put("wide.parquet", &path);
    let proxy = Proxy::to(place.server.port);
    let run =
        |arguments: String| Ran::from(&place.command("machine", proxy.port, &arguments).output().unwrap()).succeeded();
    // Two of eight columns.
    run(format!("score --model {} --input {} --output x.parquet", place.url("m"), place.url("wide.parquet")));
    let scored = proxy.sent();
    assert!(scored < size / 2, "{scored} of {size} bytes");
    // A plan of work whose rows are known needs their contents once, for their hash; then they are here.
    let text = super::PUBLISH.replace("PLACE", "local/m").replace("rows.parquet", &place.url("wide.parquet"));
    let text = text.replace("target: y", "target: c").replace("key: id, ", "");
    place.sandbox.write("wide.yaml", &text);
    run("run wide.yaml --quiet".to_owned());
    let trained = proxy.sent() - scored;
    assert!(trained > size && trained < size + size / 3, "{trained} of {size} bytes");
    run("run wide.yaml --quiet --force".to_owned());
    let again = proxy.sent() - scored - trained;
    assert!(again < size / 100, "{again} of {size} bytes");
}

#[test]
fn of_two_jobs_that_write_the_same_object_one_is_told() {
    for kind in [Kind::Moto, Kind::S3sFs, Kind::Azurite, Kind::Google] {
        let place = Place::new(kind);
        place.put_days();
        place.publish("m");
        let job = |day: u32| {
            let input = place.url(&format!("data/day={day}/rows.parquet"));
            format!("score --model {} --input {input} --output {}", place.url("m"), place.url("same.parquet"))
        };
        // Nothing there, then an object that both want to replace.
        for round in 0..2 {
            let proxy = Proxy::to(place.server.port);
            // Google's clients encode what follows.
            proxy.hold(&["PUT ", "/same"]);
            let late = start(&mut place.command("other", proxy.port, &job(0)));
            wait_for(|| proxy.is_holding());
            place.run(&job(1)).succeeded();
            let written = place.server.get("same.parquet");
            proxy.release();
            let late = ended(late);
            assert!(late.code == 75 && late.stderr.contains("nothing is overwritten"), "{round}: {}", late.stderr);
            assert!(place.server.get("same.parquet") == written);
        }
    }
}

#[test]
fn of_two_jobs_that_publish_one_is_told_and_both_models_are_kept() {
    let place = Place::new(Kind::S3sFs);
    place.publish("m");
    rows(&place.sandbox, "night.parquet", 5, 50);
    rows(&place.sandbox, "day.parquet", 6, 70);
    for name in ["night", "day"] {
        let text = super::PUBLISH.replace("PLACE", &place.url("m")).replace("rows.parquet", &format!("{name}.parquet"));
        place.sandbox.write(&format!("{name}.yaml"), &text.replace("name: publish", &format!("name: {name}")));
    }
    let proxy = Proxy::to(place.server.port);
    proxy.hold(&["PUT ", "published.json"]);
    let late = start(&mut place.command("other", proxy.port, "run night.yaml --quiet"));
    wait_for(|| proxy.is_holding());
    place.run("run day.yaml --quiet").succeeded();
    proxy.release();
    let late = ended(late);
    assert!(late.code == 75 && late.stderr.contains("nothing is overwritten"), "{}", late.stderr);
    let shown = place.run(&format!("model list {}", place.url("m"))).succeeded().stdout;
    let published: Vec<&str> = shown.lines().filter(|line| line.contains("published ")).skip(1).collect();
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(published.len() == 1 && published[0].contains("  70  "), "{shown}");
    // Again, and it is: the model that was trained is in the cache.
    let again =
        Ran::from(&place.command("other", place.server.port, "run night.yaml --quiet").output().unwrap()).succeeded();
    assert!(again.stdout.contains("0 task(s) done"), "{}", again.stdout);
    let shown = place.run(&format!("model show {}", place.url("m"))).succeeded().stdout;
    assert!(shown.contains("rows              50"), "{shown}");
    // The version that was written and not published then is the one that is published now.
    assert_eq!(place.run(&format!("model list {}", place.url("m"))).stdout.lines().count(), 5);
}

#[test]
fn an_upload_that_is_killed_is_not_seen_and_is_cleared() {
    for kind in [Kind::Moto, Kind::S3sFs] {
        let place = Place::new(kind);
        place.publish("m");
        large(&place.sandbox, "large.parquet", 150_000, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
        let keep: String = ["c", "d", "e", "f", "g", "h", "i", "j"].map(|name| format!(" --keep {name}")).concat();
        let job = format!(
            "score --model {} --input large.parquet --output {}{keep}",
            place.url("m"),
            place.url("big.parquet")
        );
        let command = |port: u16, job: &str| {
            let mut command = place.command("machine", port, job);
            command.env("STRIDE_PIPE_UPLOAD_PART", "5");
            command
        };
        let proxy = Proxy::to(place.server.port);
        proxy.hold(&["PUT ", "partNumber=2"]);
        let mut child = start(&mut command(proxy.port, &job));
        wait_for(|| proxy.is_holding());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!place.server.list().contains(&"big.parquet".to_owned()));
        if kind == Kind::Moto {
            assert_eq!(place.server.client("uploads\n"), ["big.parquet"]);
        }
        let ran = Ran::from(&command(place.server.port, &job).output().unwrap()).succeeded();
        if kind == Kind::Moto {
            assert!(place.server.client("uploads\n").is_empty(), "{}", ran.stderr);
        }
        let local = job.replace(&place.url("big.parquet"), "big.parquet");
        Ran::from(&command(place.server.port, &local).output().unwrap()).succeeded();
        let written = std::fs::read(place.sandbox.path("big.parquet")).unwrap();
        assert!(written.len() > 10 << 20, "{} bytes are one part", written.len());
        assert_same_rows(&place, "big.parquet", "big.parquet");
        // In parts too, a job does not overwrite what another wrote meanwhile; nor do its parts stay.
        place.server.client("delete big.parquet\n");
        let proxy = Proxy::to(place.server.port);
        proxy.hold(&["POST ", "uploadId="]);
        let late = start(&mut command(proxy.port, &job));
        wait_for(|| proxy.is_holding());
        place.server.put("big.parquet", &place.sandbox.path("rows.parquet"));
        proxy.release();
        let late = ended(late);
        assert!(late.code == 75 && late.stderr.contains("nothing is overwritten"), "{}", late.stderr);
        assert!(place.server.get("big.parquet") == std::fs::read(place.sandbox.path("rows.parquet")).unwrap());
        if kind == Kind::Moto {
            assert!(place.server.client("uploads\n").is_empty());
        }
    }
}

#[test]
fn objects_that_change_or_vanish_while_they_are_read_are_said() {
    let place = Place::new(Kind::Moto);
    place.publish("m");
    let path = large(&place.sandbox, "large.parquet", 300_000, &["a", "b"]);
    let other = large(&place.sandbox, "other.parquet", 299_999, &["a", "b"]);
    let job = format!("score --model {} --input {} --output x.parquet", place.url("m"), place.url("large.parquet"));
    for vanishes in [false, true] {
        place.server.put("large.parquet", &path);
        let proxy = Proxy::to(place.server.port);
        // Its beginning, which is read after its footer.
        proxy.hold(&["GET ", "large.parquet", "range: bytes=0-"]);
        let child = start(&mut place.command("machine", proxy.port, &job));
        wait_for(|| proxy.is_holding());
        if vanishes {
            place.server.client("delete large.parquet\n");
        } else {
            place.server.put("large.parquet", &other);
        }
        proxy.release();
        let ran = ended(child);
        let (code, said) = if vanishes { (66, "is gone") } else { (65, "changed while it was read") };
        assert!(ran.code == code && ran.stderr.contains(said), "{} {}", ran.code, ran.stderr);
        assert!(!place.sandbox.path("x.parquet").exists());
    }
}

#[test]
fn results_that_cannot_be_put_there_are_put_there_when_the_run_is_resumed() {
    let place = Place::new(Kind::Moto);
    let results = place.url("results");
    let text = super::PUBLISH.replace(", publish: \"PLACE\"", "");
    place.sandbox.write("run.yaml", &format!("{text}results: {results}\n"));
    let proxy = Proxy::to(place.server.port);
    // Tables are there, the manifest is not, and then the process is gone.
    proxy.hold(&["PUT ", "manifest.json"]);
    let mut child = start(&mut place.command("machine", proxy.port, "run run.yaml --quiet"));
    wait_for(|| proxy.is_holding());
    child.kill().unwrap();
    child.wait().unwrap();
    let there = place.server.list();
    assert!(there.iter().any(|name| name.contains("/metrics/") || name.contains("/timings/")), "{there:?}");
    assert!(!there.iter().any(|name| name.ends_with("manifest.json")), "{there:?}");
    let listed = place.run_on("elsewhere", &format!("runs list --results {results}"));
    assert!(listed.stdout.contains("unfinished"), "{} {}", listed.stdout, listed.stderr);
    let resumed = place.run("run run.yaml --quiet --resume").stdout;
    let listed = place.run_on("elsewhere", &format!("runs list --results {results}")).succeeded().stdout;
    assert!(listed.matches("succeeded").count() == 1 && !listed.contains("unfinished"), "{resumed}\n{listed}");
}
