//! Model files: the same bits back, the same bytes each time, and nothing changed unnoticed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ndarray::{Array0, Array1, Array2, ArrayD, IxDyn, array};
use proptest::prelude::*;
use serde_json::json;
use stride_pipe::eval::sketch::RowSketch;
use stride_pipe::store::model::{CentreAndScale, FORMAT_VERSION, InputDigest, Range, TargetScaling, TrainingSummary};
use stride_pipe::store::{MODEL_FILE, ModelFile, ModelMeta, StoreError, Tensor};
use stride_pipe::tables::Timestamp;

fn model() -> ModelFile {
    let meta = ModelMeta {
        format_version: FORMAT_VERSION,
        method: "stride".into(),
        kernel: "rbf".into(),
        feature_names: vec!["f1".into(), "größe".into()],
        feature_scaling: CentreAndScale {
            centre: vec![0.1 + 0.2, -1e-300],
            scale: vec![1.0 / 3.0, 2.5e17],
            relevance: vec![],
        },
        target_scaling: TargetScaling { mean: 5e-324, std: f64::MAX },
        training: TrainingSummary {
            rows: 100,
            inputs: vec![InputDigest { path: "data/x.parquet".into(), sha256: "00".into(), rows: 100 }],
            seed: u64::MAX,
            case: "method=stride,m=50".into(),
            fold: 0,
            run_id: "20261116T022530123456Z-3f9a1c".into(),
            version: "0.1.0".into(),
            created: Timestamp::from_micros(1_794_795_930_123_456),
        },
        hyperparameters: BTreeMap::from([("length".to_owned(), 0.123_456_789_012_345_67), ("noise".to_owned(), 1e-6)]),
        metrics: BTreeMap::from([("smse".to_owned(), Some(0.01)), ("crps".to_owned(), None)]),
        feature_ranges: vec![Range { min: -1.0, max: 1.0 }, Range { min: 0.0, max: 0.0 }],
        options: json!({"layers": 2, "z": [1, 2.5], "a": null}),
        words: BTreeMap::from([("architecture".to_owned(), "composition".to_owned())]),
        predictive_variance: Some(0.1 + 0.2),
        columns: None,
        target_transform: None,
        published: None,
        started: None,
        seen: Some(RowSketch::of([1, 2, 3])),
    };
    let specials = array![[f64::NAN, -0.0, f64::INFINITY], [5e-324, f64::MAX, 1.0 / 3.0]];
    let tensors = BTreeMap::from([
        ("z".to_owned(), Tensor::from(specials)),
        ("inducing".to_owned(), Tensor::from(array![i64::MIN, 0, i64::MAX])),
        ("transposed".to_owned(), Tensor::from(array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]].reversed_axes())),
        ("empty".to_owned(), Tensor::from(Array2::<f64>::zeros((0, 7)))),
        ("scalar".to_owned(), Tensor::from(Array0::from_elem((), 2.5))),
        ("cube".to_owned(), Tensor::F64(ArrayD::zeros(IxDyn(&[2, 3, 4])))),
    ]);
    ModelFile { meta, tensors }
}

fn bytes() -> Vec<u8> {
    model().to_bytes(Path::new("m")).unwrap()
}

fn refused(bytes: &[u8]) -> String {
    let error = ModelFile::from_bytes(bytes, Path::new("m")).unwrap_err();
    assert!(matches!(error, StoreError::Model { .. }));
    error.to_string()
}

#[test]
fn a_model_comes_back_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("models/fashion").join(MODEL_FILE);
    let written = model().save(&path).unwrap();
    assert_eq!(written.bytes, fs::metadata(&path).unwrap().len());
    let loaded = ModelFile::load(&path).unwrap();
    assert_eq!(loaded, model());
    assert_eq!(ModelFile::load(path.parent().unwrap()).unwrap(), loaded, "by its directory");
    let floats = loaded.floats("transposed").unwrap();
    assert_eq!((floats.shape(), floats[[0, 2]]), ([2, 3].as_slice(), 5.0));
    assert_eq!(loaded.integers("inducing").unwrap().len(), 3);
    assert!(loaded.floats("inducing").is_none() && loaded.integers("nothing").is_none());
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let first = bytes();
    for _ in 0..10 {
        assert_eq!(bytes(), first);
    }
    assert_eq!(ModelFile::from_bytes(&first, Path::new("m")).unwrap().to_bytes(Path::new("m")).unwrap(), first);
}

/// Files from before there were words, and of methods without any, do not have the key.
#[test]
fn words_may_be_missing() {
    let mut model = model();
    model.meta.words.clear();
    let bytes = model.to_bytes(Path::new("m")).unwrap();
    assert!(!bytes.windows(5).any(|window| window == b"words"));
    assert_eq!(ModelFile::from_bytes(&bytes, Path::new("m")).unwrap(), model);
}

#[test]
fn other_readers_understand_the_file() {
    let bytes = bytes();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("transposed").unwrap().shape(), [2, 3]);
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = metadata.metadata().clone().unwrap();
    let meta: serde_json::Value = serde_json::from_str(&metadata["stride"]).unwrap();
    assert_eq!(meta["method"], "stride");
    assert_eq!((metadata["stride.format_version"].as_str(), metadata["stride.sha256"].len()), ("1", 64));
}

#[test]
fn a_missing_model_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let error = ModelFile::load(dir.path()).unwrap_err();
    assert!(
        matches!(error, StoreError::Missing { .. }) && error.to_string().contains("there is no model here"),
        "{error}"
    );
}

#[test]
fn the_models_of_folds_are_pointed_at() {
    let dir = tempfile::tempdir().unwrap();
    // A directory that a model was published to keeps the one before.
    std::fs::create_dir(dir.path().join("previous")).unwrap();
    std::fs::write(dir.path().join("previous").join("model.safetensors"), bytes()).unwrap();
    let error = ModelFile::load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("there is no model here") && !error.contains("below"), "{error}");
    for fold in ["fold=1", "fold=0"] {
        std::fs::create_dir(dir.path().join(fold)).unwrap();
        std::fs::write(dir.path().join(fold).join("model.safetensors"), bytes()).unwrap();
    }
    std::fs::create_dir(dir.path().join("another")).unwrap();
    let error = ModelFile::load(dir.path()).unwrap_err().to_string();
    let expected = format!("there is one below: {}", dir.path().join("fold=0").display());
    assert!(error.contains("there is no model here") && error.ends_with(&expected), "{error}");
}

#[test]
fn foreign_files_are_told_apart() {
    assert!(refused(b"").contains("it has only 0 bytes"));
    assert!(refused(b"PAR1 this is something else altogether").contains("not a model of stride-pipe"));
    let mut huge = u64::MAX.to_le_bytes().to_vec();
    huge.extend(b"{}");
    assert!(refused(&huge).contains("does not begin as a safetensors file"));
    let others = safetensors::serialize(Vec::<(String, safetensors::tensor::TensorView)>::new(), None).unwrap();
    assert!(refused(&others).contains("no `stride.format_version`"));
}

/// Replaces text in the header, keeping the file's framing right.
fn edit(from: &str, to: &str) -> Vec<u8> {
    let bytes = bytes();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = String::from_utf8(bytes[8..8 + length].to_vec()).unwrap();
    assert!(header.contains(from), "{header}");
    let header = header.replacen(from, to, 1);
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + length..]].concat()
}

#[test]
fn other_versions_and_edits_are_refused() {
    let version = refused(&edit("\"stride.format_version\":\"1\"", "\"stride.format_version\":\"2\""));
    assert!(
        version.contains("format version 2, but this stride-pipe reads 1") && version.contains("train again"),
        "{version}"
    );
    assert!(refused(&edit("-1e-300", "-2e-300")).contains("its description does not have the hash"));
    assert!(refused(&edit("\"shape\":[2,3]", "\"shape\":[3,2]")).contains("its description does not have the hash"));
    assert!(refused(&edit("\"inducing\"", "\"inducinG\"")).contains("its description does not have the hash"));
    let mut data = bytes();
    *data.last_mut().unwrap() ^= 1;
    assert!(refused(&data).contains("its tensors do not have the hash"));
    let whole = bytes();
    for end in 0..whole.len() {
        assert!(ModelFile::from_bytes(&whole[..end], Path::new("m")).is_err(), "cut at {end}");
    }
}

#[test]
fn a_model_that_contradicts_itself_is_not_saved() {
    type Change = fn(&mut ModelFile);
    let changes: [(&str, Change); 7] = [
        ("2 features", |model| model.meta.feature_ranges.truncate(1)),
        ("scale", |model| model.meta.feature_scaling.scale[0] = 0.0),
        ("centre", |model| model.meta.feature_scaling.centre[0] = f64::NAN),
        ("std", |model| model.meta.target_scaling.std = -1.0),
        ("occurs twice", |model| model.meta.feature_names[1] = "f1".into()),
        ("hyper-parameter", |model| {
            model.meta.hyperparameters.insert("length".into(), f64::INFINITY);
        }),
        ("__metadata__", |model| {
            model.tensors.insert("__metadata__".into(), Tensor::from(Array1::<f64>::zeros(1)));
        }),
    ];
    for (expected, change) in changes {
        let mut model = model();
        change(&mut model);
        let error = model.to_bytes(Path::new("m")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_metric_that_is_not_a_number_is_saved_as_none() {
    let mut model = model();
    model.meta.metrics.insert("smse".into(), Some(f64::NAN));
    let loaded = ModelFile::from_bytes(&model.to_bytes(Path::new("m")).unwrap(), Path::new("m")).unwrap();
    assert_eq!(loaded.meta.metrics["smse"], None);
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let whole = bytes();
    for position in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[position] ^= 1 << bit;
            assert!(ModelFile::from_bytes(&changed, Path::new("m")).is_err(), "byte {position}, bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(ModelFile::from_bytes(&bytes, Path::new("m")).is_err());
    }

    #[test]
    fn random_headers_are_refused(header in "\\{[ -~]{0,200}", data in proptest::collection::vec(any::<u8>(), 0..64)) {
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        prop_assert!(ModelFile::from_bytes(&file, Path::new("m")).is_err());
    }

    #[test]
    fn random_numbers_come_back(values in proptest::collection::vec(any::<f64>(), 0..50), scale in 1e-300..1e300_f64) {
        let mut model = model();
        model.meta.feature_scaling.scale[0] = scale;
        model.tensors.insert("random".into(), Tensor::from(Array1::from_vec(values)));
        let loaded = ModelFile::from_bytes(&model.to_bytes(Path::new("m")).unwrap(), Path::new("m")).unwrap();
        prop_assert_eq!(loaded, model);
    }
}
