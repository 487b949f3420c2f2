//! Importing `NumPy` arrays and IDX files: layouts, combinations, and damaged files.

use crate::import_csv::{column, gzip, rows};
use crate::sandbox::Sandbox;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type, UInt16Type};
use insta::assert_snapshot;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use stride_pipe::import::{FileFormat, ImportOptions, import};

fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/reference").join(name)
}

/// An IDX file of bytes.
fn idx(shape: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|length| length.to_be_bytes()));
    bytes.extend(values);
    bytes
}

/// A `.npy` file.
fn npy(descr: &str, fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

#[test]
fn arrays_that_numpy_wrote() {
    let sandbox = Sandbox::new();
    let file = reference("numpy_stored.npz");
    let ran = sandbox.run(&format!("import {} --output x.parquet", file.display())).succeeded();
    assert_snapshot!("import_npz", ran.stdout);
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "x02").as_primitive::<Float64Type>().values(), &[0.5, 1.5, 2.5]);
    assert_eq!(column(&batch, "y").as_primitive::<Float32Type>().values()[..2], [1.5, -2.5]);
    assert!(column(&batch, "y").as_primitive::<Float32Type>().value(2).is_nan());
    assert_eq!(column(&batch, "fortran01").as_primitive::<Int32Type>().values(), &[1, 5, 9]);
    assert_eq!(column(&batch, "big03").as_primitive::<UInt16Type>().values(), &[3, 7, 11]);
    for index in 0..4 {
        let cube = column(&batch, &format!("cube{index:02}"));
        assert_eq!(cube.as_primitive::<Int64Type>().values(), &[index, index + 4, index + 8]);
    }
    assert!(column(&batch, "flag").as_boolean().value(2) && !column(&batch, "flag").as_boolean().value(1));
    // The last is the smallest half above 0, as NumPy rounds -6e-8.
    assert_eq!(column(&batch, "half").as_primitive::<Float32Type>().values(), &[0.5, 65504.0, -(2.0_f32.powi(-24))]);
}

#[test]
fn train_and_test_arrays_become_one_table() {
    let sandbox = Sandbox::new();
    let file = reference("numpy_deflated.npz");
    let options = "--only x_train,y_train,x_test,y_test --columns x_train=x,x_test=x,y_train=y,y_test=y \
                   --parts split=train,test";
    let ran = sandbox.run(&format!("import {} -o x.parquet {options}", file.display())).succeeded();
    assert_snapshot!("import_npz_parts", ran.stdout);
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "x01").as_primitive::<Float64Type>().values(), &[1., 1., 5., 5., 9., 9., 1., 5., 9.]);
    let y = column(&batch, "y");
    assert_eq!(y.as_primitive::<Int64Type>().values()[5..], [5, i64::MAX, i64::MIN, 0]);
    assert_eq!(column(&batch, "split").as_string::<i32>().value(6), "test");
    let ran = sandbox.run(&format!("import {} -o y.parquet --only x_train,x_test", file.display()));
    assert!(ran.code == 65 && ran.stderr.contains("has 3 rows, but"), "{}", ran.stderr);
    let ran = sandbox.run(&format!("import {} -o y.parquet --only words", file.display()));
    assert!(ran.code == 65 && ran.stderr.contains("`<U1`"), "{}", ran.stderr);
}

#[test]
fn images_and_labels_of_two_sets() {
    let sandbox = Sandbox::new();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(sandbox.path(name), bytes).unwrap();
    write("train-images-idx3-ubyte.gz", gzip(&idx(&[3, 2, 2], &(0..12).collect::<Vec<u8>>())));
    write("train-labels-idx1-ubyte.gz", gzip(&idx(&[3], &[7, 8, 9])));
    write("t10k-images-idx3-ubyte", idx(&[1, 2, 2], &[250, 251, 252, 253]));
    write("t10k-labels-idx1-ubyte", idx(&[1], &[1]));
    let inputs = "train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte t10k-labels-idx1-ubyte";
    let ran = sandbox.run(&format!("import {inputs} -o x.parquet --parts split=train,test")).succeeded();
    assert_snapshot!("import_idx", ran.stdout);
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "p03").as_primitive::<UInt8Type>().values(), &[3, 7, 11, 253]);
    assert_eq!(column(&batch, "label").as_primitive::<UInt8Type>().values(), &[7, 8, 9, 1]);
    sandbox.run(&format!("import {inputs} -o y.parquet --columns images=pixel,labels=class --key id")).succeeded();
    let names: Vec<String> =
        rows(&sandbox.path("y.parquet")).schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["id", "pixel00", "pixel01", "pixel02", "pixel03", "class"]);
    let ran = sandbox.run("import t10k-labels-idx1-ubyte -o z.parquet --only label");
    assert!(ran.code == 65 && ran.stderr.contains("single array"), "{}", ran.stderr);
    // A part of it, in another order: what stands side by side must fit.
    let ran = sandbox.run("import train-images-idx3-ubyte.gz t10k-labels-idx1-ubyte -o z.parquet");
    assert!(ran.code == 65 && ran.stderr.contains("has 1 rows"), "{}", ran.stderr);
    let ran =
        sandbox.run("import train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte -o z.parquet");
    assert!(ran.code == 65 && ran.stderr.contains("column `label`"), "{}", ran.stderr);
}

#[test]
fn every_type_of_idx() {
    let sandbox = Sandbox::new();
    let cases: [(u8, Vec<u8>, DataType); 5] = [
        (0x09, vec![255, 1], DataType::Int8),
        (0x0b, vec![255, 254, 0, 1], DataType::Int16),
        (0x0c, vec![255, 255, 255, 254, 0, 0, 0, 1], DataType::Int32),
        (0x0d, [-2.0_f32, 1.0].iter().flat_map(|x| x.to_be_bytes()).collect(), DataType::Float32),
        (0x0e, [-2.0_f64, 1.0].iter().flat_map(|x| x.to_be_bytes()).collect(), DataType::Float64),
    ];
    for (kind, values, data_type) in cases {
        let mut bytes = idx(&[2], &values);
        bytes[2] = kind;
        std::fs::write(sandbox.path("x.idx"), bytes).unwrap();
        sandbox.run("import x.idx -o x.parquet").succeeded();
        assert_eq!(column(&rows(&sandbox.path("x.parquet")), "label").data_type(), &data_type);
    }
}

#[test]
fn mistakes_are_explained() {
    let sandbox = Sandbox::new();
    let mut wrong_type = idx(&[2], &[1, 2]);
    wrong_type[2] = 0x0a;
    let mut version = npy("'<f8'", false, "(1,)", &[0; 8]);
    version[6] = 9;
    let stored = std::fs::read(reference("numpy_stored.npz")).unwrap();
    let mut flipped = stored.clone();
    flipped[200] ^= 1;
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("too few values", "x.idx", idx(&[3, 2], &[1, 2, 3, 4, 5])),
        ("too many values", "x.idx", idx(&[2], &[1, 2, 3])),
        ("huge", "x.idx", idx(&[u32::MAX, u32::MAX, u32::MAX, u32::MAX], &[1, 2, 3])),
        ("many rows", "x.idx", idx(&[u32::MAX, 100, 100], &[1, 2, 3])),
        ("no dimensions", "x.idx", idx(&[], &[])),
        ("no rows", "x.idx", idx(&[0, 4], &[])),
        ("header cut off", "x.idx", idx(&[3, 2], &[])[..9].to_vec()),
        ("unknown type", "x.idx", wrong_type),
        ("garbage", "x.idx", b"garbage".to_vec()),
        ("garbage", "x.npz", b"garbage".to_vec()),
        ("nothing says the format", "x.bin", b"garbage".to_vec()),
        ("an empty archive", "x.npz", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()),
        ("archive cut off", "x.npz", stored[..stored.len() / 2].to_vec()),
        ("a flipped bit", "x.npz", flipped),
        ("version", "x.npy", version),
        ("header cut off", "x.npy", npy("'<f8'", false, "(1,)", &[])[..30].to_vec()),
        ("values cut off", "x.npy", npy("'<f8'", false, "(2, 2)", &[0; 31])),
        ("huge", "x.npy", npy("'<f8'", false, "(18446744073709551615, 2)", &[0; 8])),
        ("wide", "x.npy", npy("'<f8'", false, "(0, 1000000000000)", &[])),
        ("a scalar", "x.npy", npy("'<f8'", false, "()", &[0; 8])),
        ("text", "x.npy", npy("'<U3'", false, "(1,)", &[0; 12])),
        ("objects", "x.npy", npy("'|O'", false, "(1,)", &[0; 12])),
        ("records", "x.npy", npy("[('a', '<f8')]", false, "(1,)", &[0; 8])),
        ("long double", "x.npy", npy("'<f16'", false, "(1,)", &[0; 16])),
        ("a negative length", "x.npy", npy("'<f8'", false, "(-1,)", &[])),
    ];
    let mut messages = String::new();
    for (what, name, bytes) in cases {
        std::fs::write(sandbox.path(name), bytes).unwrap();
        let ran = sandbox.run(&format!("import {name} --output x.parquet"));
        assert_eq!(ran.code, 65, "{what}: {}", ran.stderr);
        write!(messages, "{what}\n  {}", ran.stderr).unwrap();
    }
    assert_snapshot!("import_array_mistakes", messages);
    assert!(!sandbox.path("x.parquet").exists());
}

/// Archives that other programs may write, and that are not what they seem.
#[test]
fn odd_archives_are_refused() {
    let sandbox = Sandbox::new();
    let stored = std::fs::read(reference("numpy_stored.npz")).unwrap();
    let directory = stored.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    let second = directory + 4 + stored[directory + 4..].windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    let changed = |changes: &[(usize, &[u8])]| {
        let mut bytes = stored.clone();
        for (at, new) in changes {
            bytes[*at..at + new.len()].copy_from_slice(new);
        }
        bytes
    };
    let cases: [(Vec<u8>, &str); 5] = [
        (changed(&[(directory + 46, b"y"), (second + 46, b"y")]), "the array `y` is there twice"),
        (changed(&[(directory + 8, &[1])]), "it is encrypted"),
        (changed(&[(directory + 10, &[12])]), "method 12 of ZIP"),
        (changed(&[(directory + 24, &[0xfe, 0xff, 0xff, 0xff])]), "array `x`"),
        (changed(&[(directory, b"PK\x01\x03")]), "its list of members is cut off or garbled"),
    ];
    for (bytes, message) in cases {
        std::fs::write(sandbox.path("x.npz"), bytes).unwrap();
        let ran = sandbox.run("import x.npz --output x.parquet");
        assert!(ran.code == 65 && ran.stderr.contains(message), "{message}: {}", ran.stderr);
    }
}

/// Reads bytes as a format; whatever they are, this must return.
fn try_import(bytes: &[u8], name: &str, format: Option<FileFormat>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let output = dir.path().join("out.parquet");
    let options = ImportOptions { format, key: "row_id".to_owned(), ..ImportOptions::default() };
    assert_eq!(import(&[path], &output, &options).is_ok(), output.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        try_import(&bytes, "x.idx", Some(FileFormat::Idx));
        try_import(&bytes, "x.npz", Some(FileFormat::Numpy));
        try_import(&bytes, "x.csv", Some(FileFormat::Csv));
        try_import(&[b"\x93NUMPY\x01\x00".as_slice(), &bytes].concat(), "x.npy", None);
        try_import(&[&[0, 0, 8], bytes.as_slice()].concat(), "x", None);
        try_import(&[&[0x1f, 0x8b, 8, 0], bytes.as_slice()].concat(), "x.csv.gz", None);
    }

    #[test]
    fn text_like_bytes_do_not_panic(text in "[a,\"\r\n1.\\-éN ]{0,60}") {
        try_import(text.as_bytes(), "x.csv", None);
    }

    #[test]
    fn changed_archives_do_not_panic(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), deflated: bool) {
        let name = if deflated { "numpy_deflated.npz" } else { "numpy_stored.npz" };
        let mut bytes = std::fs::read(reference(name)).unwrap();
        for (index, value) in changes {
            let position = index.index(bytes.len());
            bytes[position] = value;
        }
        try_import(&bytes, "x.npz", None);
    }

    #[test]
    fn shapes_come_back(rows in 1_usize..6, width in 1_usize..12, fortran: bool) {
        let cells: Vec<i64> = (0..(rows * width) as i64).collect();
        let at = |row: usize, column: usize| if fortran { column * rows + row } else { row * width + column };
        let sandbox = tempfile::tempdir().unwrap();
        let path = sandbox.path().join("v.npy");
        let values: Vec<u8> = cells.iter().flat_map(|value| value.to_be_bytes()).collect();
        std::fs::write(&path, npy("'>i8'", fortran, &format!("({rows}, {width})"), &values)).unwrap();
        let output = sandbox.path().join("v.parquet");
        let options = ImportOptions { key: "id".to_owned(), ..ImportOptions::default() };
        import(&[path], &output, &options).unwrap();
        let batch = crate::import_csv::rows(&output);
        for index in 0..width {
            let column = column(&batch, &format!("v{index:02}"));
            let expected: Vec<i64> = (0..rows).map(|row| cells[at(row, index)]).collect();
            prop_assert_eq!(column.as_primitive::<Int64Type>().values().as_ref(), expected.as_slice());
        }
    }
}
