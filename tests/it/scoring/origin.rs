//! Scores say which model gave them, in which run and when; publishing says what it did.

use super::{GP, published, rows};
use arrow::array::AsArray as _;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use stride_pipe::store::input::sha256_file;
use stride_pipe::store::{ModelFile, open_batches};

const COLUMNS: [&str; 5] = ["model_sha256", "model_run_id", "model_version", "run_id", "scored_at"];

/// What the footer of a Parquet file says, read by somebody else's reader.
fn footer(path: &Path) -> HashMap<String, String> {
    let reader = parquet::file::serialized_reader::SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&reader).file_metadata().key_value_metadata().cloned();
    metadata.unwrap().into_iter().filter_map(|entry| Some((entry.key, entry.value?))).collect()
}

#[test]
fn files_of_scores_say_where_they_come_from() {
    let sandbox = published(GP);
    rows(&sandbox.path("in.parquet"), 0..50);
    let model = sandbox.path("models/m/model.safetensors");
    let (sha256, trained) = (sha256_file(&model).unwrap(), ModelFile::load(&model).unwrap().meta.training);
    let score = "score --model models/m --input in.parquet --output out.parquet --key id";
    sandbox.run(score).succeeded();
    let said = footer(&sandbox.path("out.parquet"));
    assert_eq!(said["stride.model_sha256"], sha256);
    assert_eq!(said["stride.model_run_id"], trained.run_id);
    assert_eq!(said["stride.model_version"], trained.version);
    assert!(said["stride.scored_at"].starts_with("20") && !said.contains_key("stride.run_id"), "{said:?}");
    let columns = |path: &str| -> Vec<String> {
        let (schema, _) = open_batches(&sandbox.path(path)).unwrap();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    assert!(!columns("out.parquet").iter().any(|name| COLUMNS.contains(&name.as_str())));

    // As columns on request, with the run as which it is noted.
    let ran = sandbox.run(&format!("{score} --origin --results noted")).succeeded();
    assert_eq!(columns("out.parquet")[5..], COLUMNS);
    let batch = open_batches(&sandbox.path("out.parquet")).unwrap().1.next().unwrap().unwrap();
    let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().value(49).to_owned();
    assert_eq!((text("model_sha256"), text("model_run_id")), (sha256.clone(), trained.run_id));
    let run_id = text("run_id");
    assert!(sandbox.path(format!("noted/run/{run_id}/manifest.json")).is_file(), "{run_id} {}", ran.stdout);
    assert_eq!(footer(&sandbox.path("out.parquet"))["stride.run_id"], run_id);

    // A pipeline likewise; what comes from the cache was scored by the run that did.
    let pipeline = "version: 1\nname: nightly\nstages:\n  rows:\n    ingest: { path: in.parquet, key: id, features: [a, b] }\n  \
                    scores:\n    predict: { model: ./models/m, input: rows, output: piped.parquet, origin: true }\n";
    sandbox.write("nightly.yaml", pipeline);
    sandbox.run("run nightly.yaml --quiet").succeeded();
    assert_eq!(columns("piped.parquet")[5..], COLUMNS);
    let first = footer(&sandbox.path("piped.parquet"));
    assert_eq!(first["stride.model_sha256"], sha256);
    assert!(sandbox.path(format!("results/run/{}", first["stride.run_id"])).is_dir());
    std::fs::remove_file(sandbox.path("piped.parquet")).unwrap();
    sandbox.run("run nightly.yaml --quiet").succeeded();
    assert_eq!(footer(&sandbox.path("piped.parquet")), first);
}

#[test]
fn publishing_says_what_it_did() {
    let sandbox = published(GP);
    let said = |options: &str| sandbox.run(&format!("run train.yaml {options}")).succeeded().stderr;
    let place = "models/m/model.safetensors";
    let again = said("");
    assert!(again.contains(&format!("{place} has this model already")), "{again}");
    let before = ModelFile::load(&sandbox.path("models/m")).unwrap().meta.training.run_id;
    let other = said("--set stages.model.train.kernel=matern32");
    assert!(other.contains(&format!("published {place}: gp of run ")), "{other}");
    assert!(other.contains("on 60 rows (log_likelihood "), "{other}");
    assert!(other.contains(&format!("it replaces gp of run {before} on 60 rows")), "{other}");
    assert!(other.contains("kept in previous/"), "{other}");
    std::fs::remove_dir_all(sandbox.path("models")).unwrap();
    let first = said("");
    assert!(first.contains(&format!("published {place}: gp of run ")) && !first.contains("replaces"), "{first}");
}
