//! Damaged Parquet files are refused or read; they never end the program.

use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, StringArray};
use proptest::prelude::*;
use stride_pipe::store::{InputFile, InvalidPolicy, Selection, open, write_columns};

fn valid_file() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringArray::from_iter_values((0..200).map(|row| format!("key {}", row % 7))))),
        ("x", Arc::new(Float64Array::from_iter_values((0..200).map(f64::from)))),
        ("n", Arc::new((0..200).map(|row| (row % 5 > 0).then_some(row)).collect::<Int32Array>())),
    ];
    write_columns(&path, columns).unwrap();
    fs::read(path).unwrap()
}

fn try_read(bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    fs::write(&path, bytes).unwrap();
    let selection = Selection { key: Some("k".into()), features: vec!["x".into(), "n".into()], ..Selection::default() };
    let _ = open(&[InputFile::new(path)], &selection, InvalidPolicy::Mark);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn flipped_bits_do_not_panic(flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 1..6)) {
        let mut bytes = valid_file();
        for (index, bit) in flips {
            let position = index.index(bytes.len());
            bytes[position] ^= 1 << bit;
        }
        try_read(&bytes);
    }

    #[test]
    fn a_changed_footer_does_not_panic(changes in proptest::collection::vec((0..700_usize, any::<u8>()), 1..8)) {
        let mut bytes = valid_file();
        let length = bytes.len();
        for (from_end, value) in changes {
            // The magic stays, so that the parser sees the rest.
            bytes[length - 9 - from_end.min(length - 20)] = value;
        }
        try_read(&bytes);
    }

    #[test]
    fn random_bytes_between_magic_words_do_not_panic(middle in proptest::collection::vec(any::<u8>(), 4..300)) {
        try_read(&[b"PAR1", middle.as_slice(), b"PAR1"].concat());
    }
}
