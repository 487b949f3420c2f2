//! Models that cannot score: missing, damaged, of another version, or made for other columns.

use super::{Case, SCORE, TRAIN, check_all};
use crate::sandbox::Sandbox;
use ndarray::{Array1, Array2};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use stride_pipe::store::{ModelFile, Tensor};

/// A published model of the small data set.
pub fn trained() -> Vec<u8> {
    let sandbox = Sandbox::new();
    sandbox.write("train.yaml", TRAIN);
    sandbox.run("run train.yaml --quiet").succeeded();
    fs::read(sandbox.path("model/model.safetensors")).unwrap()
}

/// The model file of the sandbox, changed.
fn bytes(sandbox: &Sandbox, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let path = sandbox.path("model/model.safetensors");
    fs::write(&path, change(fs::read(&path).unwrap())).unwrap();
}

/// The model changed and written again, with hashes that fit.
fn model(sandbox: &Sandbox, change: impl Fn(&mut ModelFile)) {
    let path = sandbox.path("model/model.safetensors");
    let mut model = ModelFile::load(&path).unwrap();
    change(&mut model);
    model.save(&path).unwrap();
}

fn tensor(sandbox: &Sandbox, name: &str, values: impl Into<Tensor>) {
    let values: Tensor = values.into();
    model(sandbox, |model| drop(model.tensors.insert(name.to_owned(), values.clone())));
}

fn replace(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    assert_eq!(from.len(), to.len());
    let place = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..place], to, &bytes[place + from.len()..]].concat()
}

fn score(sandbox: &Sandbox, from: &str, to: &str) {
    assert!(SCORE.contains(from));
    sandbox.write("bad.yaml", &SCORE.replace(from, to));
}

#[test]
fn every_bad_model_has_its_message() {
    let trained = trained();
    check_all(&CASES, || {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.path("model")).unwrap();
        fs::write(sandbox.path("model/model.safetensors"), &trained).unwrap();
        sandbox.write("bad.yaml", SCORE);
        sandbox
    });
}

const CASES: [Case; 24] = [
    Case::new("model_missing", 66, "no model directory", |s| score(s, "./model", "./gone")),
    Case::new("model_empty_directory", 66, "a directory without a model", |s| {
        fs::remove_file(s.path("model/model.safetensors")).unwrap();
    }),
    Case::new("model_is_a_directory", 65, "a directory where the model file should be", |s| {
        fs::remove_file(s.path("model/model.safetensors")).unwrap();
        fs::create_dir(s.path("model/model.safetensors")).unwrap();
    }),
    Case::new("model_link_to_itself", 66, "links in a circle", |s| {
        fs::remove_file(s.path("model/model.safetensors")).unwrap();
        symlink("model.safetensors", s.path("model/model.safetensors")).unwrap();
    }),
    Case::new("model_device", 65, "a device that never ends", |s| {
        fs::remove_file(s.path("model/model.safetensors")).unwrap();
        symlink("/dev/zero", s.path("model/model.safetensors")).unwrap();
    }),
    Case::new("model_empty", 65, "no bytes", |s| bytes(s, |_| Vec::new())),
    Case::new("model_truncated", 65, "the last bytes are missing", |s| bytes(s, |b| b[..b.len() - 100].to_vec())),
    Case::new("model_truncated_in_header", 65, "most bytes are missing", |s| bytes(s, |b| b[..200].to_vec())),
    Case::new("model_longer", 65, "some bytes too many", |s| bytes(s, |b| [b, vec![0; 8]].concat())),
    Case::new("model_flipped_bit", 65, "one bit changed in a number", |s| {
        bytes(s, |mut b| {
            let place = b.len() - 40;
            b[place] ^= 1;
            b
        });
    }),
    Case::new("model_tampered", 65, "a changed description", |s| {
        bytes(s, |b| replace(&b, "rows.parquet", "cows.parquet"));
    }),
    Case::new("model_of_the_future", 65, "another format version", |s| {
        bytes(s, |b| replace(&b, "format_version\":\"1\"", "format_version\":\"2\""));
    }),
    Case::new("model_text", 65, "text in place of a model", |s| bytes(s, |_| b"this is not a model at all".to_vec())),
    Case::new("model_parquet", 65, "a Parquet file in place of a model", |s| {
        fs::copy(s.path("rows.parquet"), s.path("model/model.safetensors")).unwrap();
    }),
    Case::new("model_foreign", 65, "a safetensors file of somebody else", |s| {
        let header = br#"{"w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}"#;
        bytes(s, |_| [&(header.len() as u64).to_le_bytes()[..], header, &[0; 8]].concat());
    }),
    Case::new("model_header_length", 65, "a header longer than any", |s| {
        bytes(s, |b| [&u64::MAX.to_le_bytes()[..], &b[8..]].concat());
    }),
    Case::new("model_unknown_method", 65, "a method that is not known", |s| {
        model(s, |model| model.meta.method = "astrology".into());
    }),
    Case::new("model_unknown_kernel", 65, "a kernel that is not known", |s| {
        model(s, |model| model.meta.kernel = "popcorn".into());
    }),
    Case::new("model_without_tensor", 65, "a tensor is missing", |s| {
        model(s, |model| drop(model.tensors.remove("y")));
    }),
    Case::new("model_wrong_shape", 65, "more rows than targets", |s| tensor(s, "x", Array2::<f64>::zeros((3, 2)))),
    Case::new("model_nan", 65, "NaN among its numbers", |s| tensor(s, "y", Array1::from_elem(60, f64::NAN))),
    Case::new("model_negative_length", 65, "a negative length", |s| {
        tensor(s, "hyper.lengths", Array1::from_elem(1, -1.0));
    }),
    Case::new("model_other_features", 65, "an input without the model's columns", |s| {
        score(s, "features: [a, b]", "features: [b, y]");
    }),
    Case::new("model_missing_column", 65, "an input that lost a column", |s| score(s, "[a, b]", "[a, b, gone]")),
];

#[test]
fn a_model_is_found_by_its_file_too() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("model")).unwrap();
    fs::write(sandbox.path("model/model.safetensors"), trained()).unwrap();
    assert!(ModelFile::load(Path::new(&sandbox.path("model"))).is_ok());
    sandbox.write("file.yaml", &SCORE.replace("./model", "./model/model.safetensors"));
    sandbox.run("run file.yaml --quiet").succeeded();
}
