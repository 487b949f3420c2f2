//! Whatever a model file holds, loading it gives a model or a message, never a crash.

use super::models::trained;
use ndarray::{ArrayD, IxDyn};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use std::path::Path;
use stride_pipe::stages::train::TrainedModel;
use stride_pipe::store::{ModelFile, Tensor};

fn load(bytes: &[u8]) -> bool {
    let path = Path::new("model.safetensors");
    ModelFile::from_bytes(bytes, path).and_then(|file| TrainedModel::from_file(&file, path)).is_ok()
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() })
}

/// Every byte is under a hash: no change goes unnoticed.
#[test]
fn changed_bytes_are_refused() {
    let good = trained();
    assert!(load(&good));
    let change = (any::<Index>(), 1..=255_u8);
    let check = |changes: Vec<(Index, u8)>| {
        let mut bytes = good.clone();
        for (at, flip) in changes {
            let place = at.index(bytes.len());
            bytes[place] ^= flip;
        }
        prop_assert!(!load(&bytes) || bytes == good);
        Ok(())
    };
    runner(500).run(&proptest::collection::vec(change, 1..5), check).unwrap();
    runner(100)
        .run(&any::<Index>(), |end| {
            prop_assert!(!load(&good[..end.index(good.len())]));
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_bytes_are_refused() {
    let header = proptest::collection::vec(any::<u8>(), 0..200);
    runner(500)
        .run(&header, |bytes| {
            let framed = [&(bytes.len() as u64 + 1).to_le_bytes()[..], b"{", &bytes].concat();
            prop_assert!(!load(&bytes) && !load(&framed));
            Ok(())
        })
        .unwrap();
}

/// Hashes prove that a file is unchanged, not that its maker meant well: shapes and numbers are checked as well.
#[test]
fn any_tensors_with_fitting_hashes() {
    let good = ModelFile::from_bytes(&trained(), Path::new("m")).unwrap();
    let names = ["x", "y", "hyper.lengths", "hyper.variance", "hyper.noise"];
    let numbers = [0.0, -1.0, 1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0, 1e308];
    let shape = proptest::collection::vec(0..4_usize, 0..4);
    let change = (select(names.to_vec()), shape, select(numbers.to_vec()), any::<bool>());
    let check = |changes: Vec<(&str, Vec<usize>, f64, bool)>| {
        let mut model = good.clone();
        for (name, shape, number, keep_shape) in changes {
            let shape = if keep_shape { good.tensors[name].shape().to_vec() } else { shape };
            model.tensors.insert(name.to_owned(), Tensor::F64(ArrayD::from_elem(IxDyn(&shape), number)));
        }
        load(&model.to_bytes(Path::new("m")).unwrap());
        Ok(())
    };
    runner(500).run(&proptest::collection::vec(change, 1..4), check).unwrap();
}
