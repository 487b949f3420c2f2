//! Parquet files that cannot be trained on: damaged, of the wrong types, with unusable values, or too few rows.

use super::{Case, check_all, pipeline};
use crate::sandbox::Sandbox;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray, NullArray, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Float64Type};
use std::path::Path;
use std::sync::Arc;
use stride_pipe::store::write_columns;

const ROWS: usize = 20;

fn floats(value: impl Fn(usize) -> f64) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values((0..ROWS).map(value)))
}

/// A file that would do, some of its columns replaced or added.
fn file(sandbox: &Sandbox, name: &str, changes: Vec<(&'static str, ArrayRef)>) {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("a", floats(|row| row as f64)),
        ("b", floats(|row| ((row * 7) % 5) as f64)),
        ("y", floats(|row| (row as f64 * 0.3).cos())),
    ];
    for (name, values) in changes {
        match columns.iter_mut().find(|(known, _)| *known == name) {
            Some(column) => column.1 = values,
            None => columns.push((name, values)),
        }
    }
    columns_file(&sandbox.path(name), columns);
}

fn columns_file(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_columns(path, columns).unwrap();
}

/// `bad.parquet` with one column changed, and the pipeline that reads it.
fn column(sandbox: &Sandbox, name: &'static str, values: ArrayRef) {
    file(sandbox, "bad.parquet", vec![(name, values)]);
    pipeline(sandbox, "rows.parquet", "bad.parquet");
}

/// The same, declared to be of some kind.
fn declared(sandbox: &Sandbox, values: ArrayRef, kind: &str) {
    column(sandbox, "a", values);
    let text = std::fs::read_to_string(sandbox.path("bad.yaml")).unwrap();
    sandbox.write("bad.yaml", &text.replace("[a, b]", &format!("[{{ name: a, kind: {kind} }}, b]")));
}

/// One value of a column of otherwise good numbers.
fn one(sandbox: &Sandbox, name: &'static str, row: usize, value: Option<f64>) {
    let values = (0..ROWS).map(|other| if other == row { value } else { Some((other as f64 * 1.3).sin()) });
    column(sandbox, name, Arc::new(values.collect::<Float64Array>()));
}

/// `bad.parquet` as bytes made from those of a good file.
fn bytes(sandbox: &Sandbox, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let good = std::fs::read(sandbox.path("rows.parquet")).unwrap();
    std::fs::write(sandbox.path("bad.parquet"), change(good)).unwrap();
    pipeline(sandbox, "rows.parquet", "bad.parquet");
}

/// The first rows only.
fn rows(sandbox: &Sandbox, count: usize, from: &str, to: &str) {
    let numbers = |factor: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..count).map(|row| (row as f64 * factor).sin())))
    };
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count as i64));
    let columns = vec![("id", id), ("a", numbers(1.0)), ("b", numbers(2.0)), ("y", numbers(3.0))];
    columns_file(&sandbox.path("rows.parquet"), columns);
    pipeline(sandbox, from, to);
}

/// Two files in a directory; the second has one column changed.
fn pair(sandbox: &Sandbox, changes: Vec<(&'static str, ArrayRef)>) {
    file(sandbox, "pair/1.parquet", vec![]);
    file(sandbox, "pair/2.parquet", changes);
    pipeline(sandbox, "rows.parquet", "pair");
}

fn text_column() -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("text {row}"))))
}

fn list_column() -> ArrayRef {
    let lists = (0..ROWS).map(|row| Some(vec![Some(row as f64)]));
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(lists))
}

fn struct_column() -> ArrayRef {
    let field = Arc::new(Field::new("inner", DataType::Float64, false));
    Arc::new(StructArray::from(vec![(field, floats(|row| row as f64))]))
}

#[test]
fn every_bad_file_has_its_message() {
    check_all(&FILES, Sandbox::new);
}

#[test]
fn every_bad_column_has_its_message() {
    check_all(&COLUMNS, Sandbox::new);
}

#[test]
fn every_bad_value_has_its_message() {
    check_all(&VALUES, Sandbox::new);
}

#[test]
fn every_bad_number_of_rows_has_its_message() {
    check_all(&ROW_COUNTS, Sandbox::new);
}

const FILES: [Case; 8] = [
    Case::new("file_truncated", 65, "the second half is missing", |s| bytes(s, |b| b[..b.len() / 2].to_vec())),
    Case::new("file_without_beginning", 65, "the first half is missing", |s| bytes(s, |b| b[b.len() / 2..].to_vec())),
    Case::new("file_empty", 65, "no bytes", |s| bytes(s, |_| Vec::new())),
    Case::new("file_text", 65, "CSV under the name of Parquet", |s| bytes(s, |_| b"id,a,b,y\n1,2,3,4\n".to_vec())),
    Case::new("file_magic_only", 65, "nothing but the magic words", |s| bytes(s, |_| b"PAR1PAR1".to_vec())),
    Case::new("file_footer_length", 65, "a footer longer than the file", |s| {
        bytes(s, |b| [&b[..b.len() - 8], &[255, 255, 255, 127], b"PAR1"].concat());
    }),
    Case::new("file_zeroed_footer", 65, "zeros in place of the footer", |s| {
        bytes(s, |mut b| {
            let end = b.len() - 8;
            b[end - 300..end].fill(0);
            b
        });
    }),
    Case::new("file_zeroed_pages", 65, "zeros in place of the rows", |s| {
        bytes(s, |mut b| {
            b[4..400].fill(0);
            b
        });
    }),
];

const COLUMNS: [Case; 26] = [
    Case::new("column_text", 65, "text that is declared to be numbers", |s| {
        declared(s, text_column(), "number");
    }),
    Case::new("column_no_time", 65, "numbers that are declared to be times", |s| {
        pipeline(s, "[a, b]", "[a, { name: b, kind: timestamp }]");
    }),
    Case::new("column_no_levels", 65, "floats that are declared to be categories", |s| {
        pipeline(s, "[a, b]", "[{ name: a, kind: category }, b]");
    }),
    Case::new("column_no_boolean", 65, "text that is neither true nor false", |s| {
        declared(s, text_column(), "boolean");
    }),
    Case::new("column_text_no_time", 65, "text that tells no time", |s| {
        declared(s, text_column(), "timestamp");
    }),
    Case::new("target_without_logarithm", 65, "a target with values that have no logarithm", |s| {
        pipeline(s, "target: y", "target: { name: y, transform: log }");
    }),
    Case::new("weight_of_nothing", 65, "a weight of zero", |s| {
        pipeline(s, "[a, b], target: y", "[a], target: y, weight: b");
    }),
    Case::new("weight_is_a_feature", 65, "a weight that is a feature", |s| {
        pipeline(s, "target: y", "target: y, weight: b");
    }),
    Case::new("column_text_target", 65, "text as the target", |s| column(s, "y", text_column())),
    Case::new("column_list", 65, "lists as a feature", |s| column(s, "a", list_column())),
    Case::new("column_struct", 65, "structs as a feature", |s| column(s, "b", struct_column())),
    Case::new("column_date", 65, "dates that are declared to be numbers", |s| {
        declared(s, Arc::new(Date32Array::from_iter_values(0..ROWS as i32)), "number");
    }),
    Case::new("column_timestamp", 65, "times as the target", |s| {
        column(s, "y", Arc::new(TimestampMicrosecondArray::from_iter_values(0..ROWS as i64)));
    }),
    Case::new("column_binary", 65, "bytes as a feature", |s| {
        column(s, "a", Arc::new(BinaryArray::from_iter_values((0..ROWS).map(|_| b"x"))));
    }),
    Case::new("column_null_type", 65, "a feature of no type", |s| column(s, "a", Arc::new(NullArray::new(ROWS)))),
    Case::new("column_missing", 65, "a column that is called a little differently", |s| {
        pipeline(s, "features: [a, b], target: y", "features: [a, b], target: Y");
    }),
    Case::new("columns_missing", 65, "several columns that are not there", |s| {
        pipeline(s, "key: id, features: [a, b]", "key: row_id, features: [a, bb, \"f*\"]");
    }),
    Case::new("column_pattern", 65, "a pattern with an open bracket", |s| pipeline(s, "[a, b]", "['a[', b]")),
    Case::new("column_escape", 65, "a missing column whose name would clear the terminal", |s| {
        pipeline(s, "[a, b]", r#"["\e[2J\r\n", b]"#);
    }),
    Case::new("column_unicode", 65, "a missing column beside one with accents", |s| {
        file(s, "bad.parquet", vec![("größe", floats(|row| row as f64))]);
        pipeline(s, "path: rows.parquet, key: id, features: [a, b]", "path: bad.parquet, features: [grösse]");
    }),
    Case::new("column_twice", 65, "two columns of one name", |s| {
        let columns = ["a", "a", "b", "y"].map(|name| (name, floats(|row| row as f64)));
        columns_file(&s.path("bad.parquet"), columns.to_vec());
        pipeline(s, "path: rows.parquet, key: id", "path: bad.parquet");
    }),
    Case::new("files_of_different_types", 65, "a column that is text in the second file", |s| {
        pair(s, vec![("a", text_column())]);
    }),
    Case::new("files_of_different_columns", 65, "a column that is not in the second file", |s| {
        pair(s, vec![]);
        columns_file(&s.path("pair/2.parquet"), vec![("a", floats(|row| row as f64))]);
    }),
    Case::new("key_repeated", 65, "a key that occurs twice", |s| {
        column(s, "id", Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row % 17))));
    }),
    Case::new("key_null", 65, "a key that is null", |s| {
        column(s, "id", Arc::new((0..ROWS as i64).map(|row| (row != 5).then_some(row)).collect::<Int64Array>()));
    }),
    Case::new("key_list", 65, "lists as keys", |s| column(s, "id", list_column())),
];

const VALUES: [Case; 16] = [
    Case::new("value_nan", 65, "NaN in a feature", |s| one(s, "a", 7, Some(f64::NAN))),
    Case::new("value_infinite", 65, "infinity in a feature", |s| one(s, "b", 0, Some(f64::INFINITY))),
    Case::new("value_null", 65, "null in a feature", |s| one(s, "a", 19, None)),
    Case::new("value_nan_target", 65, "NaN in the target", |s| one(s, "y", 3, Some(f64::NAN))),
    Case::new("value_minus_infinite_target", 65, "minus infinity in the target", |s| {
        one(s, "y", 3, Some(f64::NEG_INFINITY));
    }),
    Case::new("value_null_target", 65, "null in the target", |s| one(s, "y", 0, None)),
    Case::new("value_all_null", 65, "a feature without any value", |s| {
        column(s, "a", Arc::new(Float64Array::new_null(ROWS)));
    }),
    Case::new("value_in_the_second_file", 65, "NaN in the second of two files", |s| {
        pair(
            s,
            vec![
                ("id", Arc::new(Int64Array::from_iter_values(100..100 + ROWS as i64))),
                ("b", floats(|row| if row > 11 { f64::NAN } else { row as f64 })),
            ],
        );
    }),
    Case::new("value_huge_feature", 65, "a feature whose squares overflow", |s| one(s, "a", 4, Some(1e308))),
    Case::new("value_huge_target", 65, "a target whose squares overflow", |s| one(s, "y", 4, Some(-1e308))),
    Case::new("value_tiny_feature", 65, "a feature whose squares vanish", |s| {
        column(s, "a", floats(|row| row as f64 * 1e-170));
    }),
    Case::new("value_tiny_target", 65, "a target whose squares vanish", |s| {
        column(s, "y", floats(|row| row as f64 * -1e-170));
    }),
    Case::new("value_tiny_beside_others", 0, "one tiny value among others: fine", |s| one(s, "a", 4, Some(1e-300))),
    Case::new("value_constant_feature", 0, "a constant feature: a warning", |s| column(s, "b", floats(|_| 1.5))),
    Case::new("value_constant_target", 0, "a constant target: a warning", |s| column(s, "y", floats(|_| 1.5))),
    Case::new("value_booleans", 0, "booleans as a feature: fine", |s| {
        column(s, "b", Arc::new(BooleanArray::from((0..ROWS).map(|row| row % 3 == 0).collect::<Vec<_>>())));
    }),
];

const ROW_COUNTS: [Case; 10] = [
    Case::new("features_more_than_one", 65, "two features for an architecture that takes one", |s| {
        pipeline(s, "method: gp", "method: stride, deep: { architecture: injective }");
    }),
    Case::new("rows_none", 65, "no rows", |s| rows(s, 0, "seed: 7", "seed: 7")),
    Case::new("rows_fewer_than_folds", 65, "four rows, five folds", |s| rows(s, 4, "seed: 7", "seed: 7")),
    Case::new("rows_one", 65, "one row", |s| rows(s, 1, "kfold: { folds: 5 }", "holdout: { test_fraction: 0.5 }")),
    Case::new("rows_one_to_train_on", 0, "two rows, one of them for training: fine", |s| {
        rows(s, 2, "folds: 5", "folds: 2");
    }),
    Case::new("rows_none_to_test", 65, "a test fraction of less than one row", |s| {
        pipeline(s, "kfold: { folds: 5 }", "holdout: { test_fraction: 0.001 }");
    }),
    Case::new("rows_none_to_train", 65, "a test fraction of all rows but a part of one", |s| {
        pipeline(s, "kfold: { folds: 5 }", "holdout: { test_fraction: 0.999 }");
    }),
    Case::new("rows_split_by_missing_column", 65, "a split column that is not there", |s| {
        pipeline(s, "kfold: { folds: 5 }", "column: { name: haelfte, test: test }");
    }),
    Case::new("rows_split_by_missing_value", 65, "a value that the split column does not have", |s| {
        pipeline(s, "kfold: { folds: 5 }", "column: { name: half, test: validation }");
    }),
    Case::new("rows_all_in_the_test", 65, "a value that all rows have", |s| {
        let half: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| "test")));
        file(s, "bad.parquet", vec![("half", half)]);
        pipeline(s, "path: rows.parquet", "path: bad.parquet");
        let text = std::fs::read_to_string(s.path("bad.yaml")).unwrap();
        s.write("bad.yaml", &text.replace("kfold: { folds: 5 }", "column: { name: half, test: test }"));
    }),
];
