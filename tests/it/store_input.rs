//! Reading Parquet input: every numeric type, every refusal.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, Float16Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, i256};
use ndarray::array;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use stride_pipe::features::ColumnKind;
use stride_pipe::store::input::{ReadProgress, check_unique_keys, sha256_file};
use stride_pipe::store::{InputTable, InvalidPolicy, Selection, StoreError, discover, open, peek, write_columns};

fn floats(values: &[f64]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    write_columns(path, columns).unwrap();
}

fn features(patterns: &[&str]) -> Selection {
    Selection { features: patterns.iter().map(|&pattern| pattern.to_owned()).collect(), ..Selection::default() }
}

fn read(path: &Path, selection: &Selection) -> Result<InputTable, StoreError> {
    open(&discover(path)?, selection, InvalidPolicy::Error)
}

/// The message, with the directory replaced.
fn refused(dir: &Path, path: &Path, selection: &Selection) -> String {
    let error = read(path, selection).unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    error.to_string().replace(dir.to_str().unwrap(), "DIR")
}

#[test]
fn every_numeric_type_becomes_f64() {
    let decimal = Decimal128Array::from(vec![125, -250]).with_precision_and_scale(10, 2).unwrap();
    let wide = Decimal256Array::from(vec![i256::from(125), i256::from(-250)]).with_precision_and_scale(50, 2).unwrap();
    let half = cast(&floats(&[1.5, -2.0]), &DataType::Float16).unwrap();
    assert!(half.as_any().is::<Float16Array>());
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![1, 0]), floats(&[7.0, 9.0])));
    let columns: Vec<(&str, ArrayRef, [f64; 2])> = vec![
        ("i8", Arc::new(Int8Array::from(vec![i8::MIN, 1])), [-128.0, 1.0]),
        ("i16", Arc::new(Int16Array::from(vec![-300, 1])), [-300.0, 1.0]),
        ("i32", Arc::new(Int32Array::from(vec![-70_000, 1])), [-70_000.0, 1.0]),
        ("i64", Arc::new(Int64Array::from(vec![1 << 53, 1])), [9_007_199_254_740_992.0, 1.0]),
        ("u8", Arc::new(UInt8Array::from(vec![255, 1])), [255.0, 1.0]),
        ("u16", Arc::new(UInt16Array::from(vec![65_535, 1])), [65_535.0, 1.0]),
        ("u32", Arc::new(UInt32Array::from(vec![u32::MAX, 1])), [4_294_967_295.0, 1.0]),
        ("u64", Arc::new(UInt64Array::from(vec![u64::MAX, 1])), [18_446_744_073_709_551_615.0, 1.0]),
        ("f16", half, [1.5, -2.0]),
        ("f32", Arc::new(Float32Array::from(vec![0.25, 1e30])), [0.25, f64::from(1e30_f32)]),
        ("f64", floats(&[0.1, 5e-324]), [0.1, 5e-324]),
        ("bool", Arc::new(BooleanArray::from(vec![true, false])), [1.0, 0.0]),
        ("decimal", Arc::new(decimal), [1.25, -2.5]),
        ("wide", Arc::new(wide), [1.25, -2.5]),
        ("dictionary", dictionary, [9.0, 7.0]),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    write(&path, columns.iter().map(|(name, column, _)| (*name, Arc::clone(column))).collect());
    let table = read(&path, &features(&["*"])).unwrap();
    assert_eq!(table.features.dim(), (2, columns.len()));
    for (index, (name, _, expected)) in columns.iter().enumerate() {
        assert_eq!(table.feature_names[index], *name);
        assert_eq!(table.features.column(index).to_vec(), expected, "{name}");
    }
}

#[test]
fn columns_keep_file_order_and_roles() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let id: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    let when: ArrayRef = Arc::new(Date32Array::from(vec![0, 20_000]));
    write(
        &path,
        vec![
            ("f2", floats(&[1.0, 2.0])),
            ("id", id),
            ("f10", floats(&[3.0, 4.0])),
            ("y", floats(&[5.0, 6.0])),
            ("f1", floats(&[7.0, 8.0])),
            ("split", texts(&["train", "test"])),
            ("when", when),
        ],
    );
    let selection = Selection {
        key: Some("id".into()),
        features: vec!["f1*".into(), "f2".into(), "f1".into()],
        target: Some("y".into()),
        extra: vec!["split".into(), "when".into(), "id".into(), "split".into()],
        ..Selection::default()
    };
    let table = read(&path, &selection).unwrap();
    assert_eq!(table.feature_names, ["f2", "f10", "f1"]);
    assert_eq!(table.features, array![[1.0, 3.0, 7.0], [2.0, 4.0, 8.0]]);
    assert_eq!(table.target, Some(array![5.0, 6.0]));
    assert_eq!(table.key.as_deref().unwrap(), ["5", "6"]);
    assert_eq!(table.extra["split"], [Some("train".to_owned()), Some("test".to_owned())]);
    assert_eq!(table.extra["when"][1].as_deref(), Some("2024-10-04"));
    assert_eq!(table.files[0].sha256, sha256_file(&path).unwrap());
    assert_eq!((table.row_count, table.key_text(1)), (2, "6".to_owned()));

    let all = Selection { features: vec!["*".into()], extra: vec!["split".into(), "when".into()], ..selection };
    assert_eq!(read(&path, &all).unwrap().feature_names, ["f2", "f10", "f1"]);
}

#[test]
fn partitions_are_columns_too() {
    let dir = tempfile::tempdir().unwrap();
    for (year, value) in [("2025", 1.0), ("2026", 2.0)] {
        write(&dir.path().join(format!("year={year}/part=a b/x.parquet")), vec![("x", floats(&[value, value]))]);
    }
    let selection =
        Selection { features: vec!["*".into(), "year".into()], extra: vec!["part".into()], ..Selection::default() };
    let table = read(dir.path(), &selection).unwrap();
    assert_eq!(table.feature_names, ["x", "year"]);
    assert_eq!(table.features, array![[1.0, 2025.0], [1.0, 2025.0], [2.0, 2026.0], [2.0, 2026.0]]);
    assert_eq!(table.extra["part"][3].as_deref(), Some("a b"));
    assert_eq!(table.locate(2), (dir.path().join("year=2026/part=a b/x.parquet").as_path(), 0));
    assert_eq!(read(dir.path(), &features(&["*"])).unwrap().feature_names, ["x"], "patterns leave partitions out");
    let target = Selection { target: Some("year".into()), key: Some("year".into()), ..features(&["x"]) };
    let table = read(dir.path(), &target).unwrap();
    assert_eq!(table.target, Some(array![2025.0, 2025.0, 2026.0, 2026.0]));
    assert_eq!(table.key.unwrap()[2], "2026");
    let error = refused(dir.path(), dir.path(), &features(&["part"]));
    assert_eq!(
        error,
        "DIR/year=2025/part=a b/x.parquet, column `part`: the partition value `a b` is not a number; \
         use numbers in the directory names, or leave this partition out of features and target"
    );
}

#[test]
fn empty_files_and_no_features_are_fine() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.parquet"), vec![("x", floats(&[])), ("w", floats(&[]))]);
    let table = read(dir.path(), &features(&["x", "w"])).unwrap();
    assert_eq!((table.row_count, table.features.dim()), (0, (0, 2)));
    write(&dir.path().join("b.parquet"), vec![("x", floats(&[1.0, 2.0])), ("w", floats(&[3.0, 4.0]))]);
    let table = read(dir.path(), &features(&["*"])).unwrap();
    assert_eq!((table.files.len(), table.features), (2, array![[1.0, 3.0], [2.0, 4.0]]));
    let none = read(dir.path(), &Selection::default()).unwrap();
    assert_eq!((none.row_count, none.features.dim()), (2, (2, 0)));
}

#[test]
fn many_row_groups_and_batches_are_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let rows = 50_000;
    let column: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(f64::from)));
    let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(777)).build();
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let table = read(&path, &features(&["x"])).unwrap();
    assert_eq!(table.features.column(0).to_vec(), (0..rows).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn unusable_values_are_counted_and_placed() {
    let dir = tempfile::tempdir().unwrap();
    let gaps: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(f64::NAN)]));
    write(
        &dir.path().join("a.parquet"),
        vec![("x", floats(&[1.0, 2.0])), ("z", floats(&[1.0, 2.0])), ("y", floats(&[1.0, 1.0]))],
    );
    write(
        &dir.path().join("b.parquet"),
        vec![("x", gaps), ("z", floats(&[1.0, 2.0, f64::NEG_INFINITY])), ("y", floats(&[1.0; 3]))],
    );
    let selection = Selection { target: Some("y".into()), ..features(&["*"]) };
    assert_eq!(
        refused(dir.path(), dir.path(), &selection),
        "DIR/b.parquet, column `x`, row 1 (counted from 0 in this file): 2 unusable values (1 null, 1 NaN) in the input, \
         the first one here; also in `z` (1); remove or fill these rows before, or let the model do it: write `{ name: x, \
         missing: median }` under `features` (or mean, or indicator, which also says where)"
    );
    let table = open(&discover(dir.path()).unwrap(), &selection, InvalidPolicy::Mark).unwrap();
    let usable = |row: usize| table.features.row(row).iter().all(|value| value.is_finite());
    assert_eq!([0, 1, 2, 3, 4].map(usable), [true, true, true, false, false]);
    let quality = &table.quality[1];
    assert_eq!((quality.infinities, quality.range, quality.is_constant()), (1, Some((1.0, 2.0)), false));
    assert!(table.quality[2].is_constant());
}

#[test]
fn missing_columns_are_named_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    write(&path, vec![("label", floats(&[1.0])), ("f1", floats(&[1.0])), ("row_id", floats(&[1.0]))]);
    let selection = Selection {
        key: Some("rowid".into()),
        target: Some("lable".into()),
        features: vec!["f1".into(), "g*".into()],
        extra: vec!["zzz".into()],
        ..Selection::default()
    };
    assert_eq!(
        refused(dir.path(), &path, &selection),
        "DIR/x.parquet: there is no column `rowid`, `lable`, `zzz`, and no column matches `g*`; did you mean `row_id` for \
         `rowid`? did you mean `label` for `lable`? the columns are `label`, `f1`, `row_id`"
    );
    let error = refused(dir.path(), &path, &features(&["f[1"]));
    assert!(error.contains("`f[1` is not a valid pattern"), "{error}");
    let only_taken = Selection { target: Some("f1".into()), ..features(&["f*"]) };
    assert!(refused(dir.path(), &path, &only_taken).contains("no column matches `f*`"));
}

#[test]
fn wrong_types_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(vec![Some(1.0)])]));
    let null = arrow::array::new_null_array(&DataType::Float64, 1);
    write(&path, vec![("name", texts(&["a"])), ("x", floats(&[1.0])), ("list", list), ("none", null)]);
    assert_eq!(
        refused(dir.path(), &path, &features(&["*"])),
        "DIR/x.parquet, column `list`: its type List(Float64) is not a number; convert it to numbers, or leave it out of \
         `features` (list names, or use a narrower pattern)"
    );
    let target = Selection { target: Some("name".into()), ..features(&["x"]) };
    assert!(refused(dir.path(), &path, &target).contains("choose another `target`"));
    let key = Selection { key: Some("x".into()), ..Selection::default() };
    assert!(refused(dir.path(), &path, &key).contains("its type Float64 cannot identify rows"));
    let extra = Selection { extra: vec!["list".into()], ..Selection::default() };
    assert!(refused(dir.path(), &path, &extra).contains("cannot be shown as text"));
    let both = Selection { target: Some("x".into()), ..features(&["x"]) };
    assert!(refused(dir.path(), &path, &both).contains("both a feature and the target"));
    assert!(refused(dir.path(), &path, &features(&["none"])).contains("1 unusable value (1 null)"));
}

#[test]
fn files_of_one_input_must_agree() {
    let hint = "give every file of an input the same columns, or read them as separate inputs";
    let check = |second: Vec<(&str, ArrayRef)>, selection: &Selection, expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("a.parquet"), vec![("f1", floats(&[1.0])), ("f2", floats(&[1.0]))]);
        write(&dir.path().join("b.parquet"), second);
        assert_eq!(refused(dir.path(), dir.path(), selection), expected);
    };
    let all = features(&["f*"]);
    check(
        vec![("f1", floats(&[1.0]))],
        &all,
        &format!(
            "DIR/b.parquet, column `f2`: this file lacks a column that is in the first file, DIR/a.parquet; {hint}"
        ),
    );
    check(
        vec![("f1", floats(&[1.0])), ("f2", texts(&["1"]))],
        &all,
        &format!("DIR/b.parquet, column `f2`: is Utf8 here and Float64 in the first file, DIR/a.parquet; {hint}"),
    );
    check(
        vec![("f1", floats(&[1.0])), ("f2", floats(&[1.0])), ("f3", floats(&[1.0]))],
        &all,
        "DIR/b.parquet, column `f3`: matches `features` but is not in the first file, DIR/a.parquet; \
         give every file of an input the same columns, or name the features",
    );
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.parquet"), vec![("f1", floats(&[1.0])), ("f2", floats(&[2.0])), ("k", texts(&["a"]))]);
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["b"]));
    write(
        &dir.path().join("b.parquet"),
        vec![("k", large), ("more", texts(&["x"])), ("f2", floats(&[4.0])), ("f1", floats(&[3.0]))],
    );
    let table = read(dir.path(), &Selection { key: Some("k".into()), ..all }).unwrap();
    assert_eq!(table.features, array![[1.0, 2.0], [3.0, 4.0]], "order and further columns do not matter");
    assert_eq!(table.key.unwrap(), ["a", "b"]);
}

#[test]
fn keys_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let selection = Selection { key: Some("k".into()), ..Selection::default() };
    write(&dir.path().join("a.parquet"), vec![("k", texts(&["a", "b", "c"]))]);
    assert!(check_unique_keys(&read(dir.path(), &selection).unwrap()).is_ok());
    write(&dir.path().join("b.parquet"), vec![("k", texts(&["d", "b"]))]);
    let error = check_unique_keys(&read(dir.path(), &selection).unwrap()).unwrap_err().to_string();
    assert_eq!(
        error.replace(dir.path().to_str().unwrap(), "DIR"),
        "DIR/b.parquet, column `k`, row 1 (counted from 0 in this file): the key `b` is also that of row 1 of DIR/a.parquet; \
         remove the repeated rows, or choose a `key` that is unique"
    );
    let gap: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    write(&dir.path().join("b.parquet"), vec![("k", gap)]);
    let error = refused(dir.path(), dir.path(), &selection);
    assert!(error.contains("b.parquet, column `k`, row 1 (counted from 0 in this file): the key is null"), "{error}");
}

#[test]
fn two_columns_of_one_name_are_refused_when_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let fields = ["x", "x", "z"].map(|name| Field::new(name, DataType::Float64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(schema, vec![floats(&[1.0]), floats(&[2.0]), floats(&[3.0])]).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(refused(dir.path(), &path, &features(&["x"])).contains("several columns of this name"));
    assert!(read(&path, &features(&["z"])).is_ok());
}

#[test]
fn other_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    let message = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        refused(dir.path(), &path, &features(&["x"]))
    };
    assert_eq!(
        message(b"a,b\n1,2\n3,4\n5,6\n"),
        "DIR/x.parquet: not a Parquet file; convert it, for instance with `stride-pipe import`"
    );
    assert!(message(b"").contains("it is empty (0 bytes)"));
    assert!(message(b"PAR1").contains("not a Parquet file"));
    let good = dir.path().join("good.parquet");
    write(&good, vec![("x", floats(&[1.0, 2.0]))]);
    let bytes = fs::read(&good).unwrap();
    assert!(message(&bytes[..bytes.len() - 10]).contains("its end is missing"));
    let mut damaged = bytes.clone();
    let footer = damaged.len() - 40;
    damaged[footer..footer + 20].fill(0xff);
    let error = message(&damaged);
    assert!(error.contains("not readable as Parquet"), "{error}");
}

#[test]
fn a_peek_reads_footers_only() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("d=1/a.parquet"), vec![("x", floats(&[1.0, f64::NAN])), ("name", texts(&["a", "b"]))]);
    write(&dir.path().join("d=2/b.parquet"), vec![("x", floats(&[1.0])), ("name", texts(&["a"]))]);
    let schema = peek(&discover(dir.path()).unwrap()).unwrap();
    assert_eq!((schema.rows(), schema.files[1].rows), (3, 1));
    let names: Vec<(&str, bool)> =
        schema.columns().iter().map(|column| (column.name.as_str(), column.partition)).collect();
    assert_eq!(names, [("x", false), ("name", false), ("d", true)]);
    assert_eq!(schema.resolve(&features(&["x", "d"])).unwrap().features, ["x", "d"]);
    assert_eq!(schema.resolve(&features(&["name"])).unwrap().columns[0].kind, ColumnKind::Category);
    assert!(schema.resolve(&Selection { target: Some("name".into()), ..features(&["x"]) }).is_err());
}

/// A second look at a file that is as it was costs no second reading.
#[test]
fn a_file_is_hashed_again_only_when_it_may_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.parquet");
    fs::write(&path, "first").unwrap();
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let mut seen = ReadProgress::new("hashing", |bytes| bytes.to_string(), 5);
    let file = discover(&path).unwrap().remove(0).hashed(&mut seen).unwrap();
    let first = file.sha256().unwrap();
    assert_eq!(first, sha256_file(&path).unwrap());
    // Other contents that nothing but reading would tell from the first.
    fs::write(&path, "other").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    assert!(file.is_unchanged().unwrap());
    assert_eq!(file.sha256().unwrap(), first);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(written + std::time::Duration::from_secs(1))
        .unwrap();
    assert!(!file.is_unchanged().unwrap());
    assert_eq!(file.sha256().unwrap(), sha256_file(&path).unwrap());
    // The same contents under the same name are the same input, whenever they were written.
    fs::write(&path, "first").unwrap();
    assert_eq!(file.sha256().unwrap(), first);
}
