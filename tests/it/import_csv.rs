//! Importing CSV: types, options, and every way to get it wrong.

use crate::sandbox::Sandbox;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use insta::assert_snapshot;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use polars::prelude::{CsvReadOptions, SerReader};
use std::fmt::Write as _;
use std::path::Path;

/// All rows of a Parquet file.
pub fn rows(path: &Path) -> RecordBatch {
    let file = std::fs::File::open(path).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

pub fn column(batch: &RecordBatch, name: &str) -> ArrayRef {
    batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}")).clone()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const PEOPLE: &str = "\
id,age,height,member,town,note
7,31,1.75,true,Bern,\"said \"\"hi\"\", left\"
8,,1.6e0,FALSE,Zürich,\"two
lines\"
9,-4,2,true,,\"\"
";

#[test]
fn types_are_inferred_from_all_rows() {
    let sandbox = Sandbox::new();
    sandbox.write("people.csv", PEOPLE);
    let ran = sandbox.run("import people.csv --output people.parquet --key id").succeeded();
    assert_snapshot!("import_csv", ran.stdout);
    let batch = rows(&sandbox.path("people.parquet"));
    assert_eq!(column(&batch, "id").as_primitive::<Int64Type>().values(), &[7, 8, 9]);
    let age: Vec<Option<i64>> = column(&batch, "age").as_primitive::<Int64Type>().iter().collect();
    assert_eq!(age, [Some(31), None, Some(-4)]);
    assert_eq!(column(&batch, "height").as_primitive::<Float64Type>().values(), &[1.75, 1.6, 2.0]);
    assert!(!column(&batch, "member").as_boolean().value(1));
    let note = column(&batch, "note");
    let note: Vec<Option<&str>> = note.as_string::<i32>().iter().collect();
    assert_eq!(note, [Some("said \"hi\", left"), Some("two\nlines"), Some("")]);
    assert_eq!(column(&batch, "town").null_count(), 1);
}

#[test]
fn a_key_is_added() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "a\n1\n2\n");
    sandbox.run("import x.csv -o x.parquet").succeeded();
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(batch.schema().field(0).name(), "row_id");
    assert_eq!(column(&batch, "row_id").as_primitive::<Int64Type>().values(), &[0, 1]);
}

#[test]
fn windows_files_and_gzip_and_other_separators() {
    let sandbox = Sandbox::new();
    let text = "\u{feff}a;b\r\n1;\"x;y\"\r\n2;z\r\n\r\n";
    std::fs::write(sandbox.path("x.csv.gz"), gzip(text.as_bytes())).unwrap();
    sandbox.run("import x.csv.gz -o x.parquet --delimiter ;").succeeded();
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "a").as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(column(&batch, "b").as_string::<i32>().value(0), "x;y");
    sandbox.write("t.tsv", "1\t2.5\n3\t4\n");
    sandbox.run("import t.tsv -o t.parquet --no-header --key c00").succeeded();
    let batch = rows(&sandbox.path("t.parquet"));
    assert_eq!(column(&batch, "c01").as_primitive::<Float64Type>().values(), &[2.5, 4.0]);
    assert_eq!(batch.num_columns(), 2);
}

#[test]
fn nulls_as_told() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "a,b\n1,NA\n2,0.5\n3,-\n");
    let ran = sandbox.run("import x.csv -o x.parquet").succeeded();
    assert_eq!(column(&rows(&sandbox.path("x.parquet")), "b").data_type(), &DataType::Utf8);
    assert!(!ran.stderr.contains("note"), "half of the fields are no numbers: {}", ran.stderr);
    sandbox.write("y.csv", "a,b\n1,NA\n2,0.5\n3,1\n");
    assert_snapshot!("import_csv_note", sandbox.run("import y.csv -o y.parquet").succeeded().stderr);
    sandbox.run("import x.csv -o x.parquet --null NA --null -").succeeded();
    let batch = rows(&sandbox.path("x.parquet"));
    let values: Vec<Option<f64>> = column(&batch, "b").as_primitive::<Float64Type>().iter().collect();
    assert_eq!(values, [None, Some(0.5), None]);
    sandbox.write("z.csv", "a\n1\n-inf\n  \n");
    sandbox.run("import z.csv -o z.parquet --null -inf").succeeded();
}

#[test]
fn files_are_appended_or_joined() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "x,y,w\n1,2,\n");
    sandbox.write("b.csv", "y,x,w\n4.5,3,k\n");
    sandbox.write("c.csv", "z\ntrue\n");
    sandbox.run("import a.csv b.csv -o ab.parquet --parts half=first,second").succeeded();
    let batch = rows(&sandbox.path("ab.parquet"));
    assert_eq!(column(&batch, "x").as_primitive::<Int64Type>().values(), &[1, 3]);
    assert_eq!(column(&batch, "y").as_primitive::<Float64Type>().values(), &[2.0, 4.5]);
    assert_eq!(column(&batch, "half").as_string::<i32>().value(1), "second");
    assert_eq!(column(&batch, "row_id").as_primitive::<Int64Type>().values(), &[0, 1]);
    assert_eq!(sandbox.run("import a.csv c.csv -o ac.parquet --only x").code, 65);
    sandbox.run("import a.csv c.csv -o ac.parquet").succeeded();
    assert_eq!(rows(&sandbox.path("ac.parquet")).num_columns(), 5);
}

/// Every mistake: the file, the command's options, the exit code.
#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let cases: [(&str, &str, i32); 19] = [
        ("", "", 65),
        ("a,b\n1,2\n3\n", "", 65),
        ("a,b\n1,2\n3,4,5\n", "", 65),
        ("a,b\n1,2\n\n3,4\n", "", 65),
        ("a,b,a\n1,2,3\n", "", 65),
        ("a,,c\n1,2,3\n", "", 65),
        ("a,b\n1,2\n2,NaN\n", "", 65),
        ("a,b\n1,2\n2,-inf\n", "", 65),
        ("a,b\n1,\"x\n2,y\n", "", 65),
        ("a,b\n1,x\"y\"\n", "", 65),
        ("a,b\n1,\"x\"y\n", "", 65),
        ("a;b\n1;2\n", "", 65),
        ("a,b\n1,2\n1,3\n", "--key a", 65),
        ("a,b\n1,2\n,3\n", "--key a", 65),
        ("a,b\n1.5,2\n2,3\n", "--key a", 65),
        ("a,b\n1,2\n", "--only a,c", 65),
        ("a,b\n1,2\n", "--parts split=train,test", 65),
        ("a,b\n1,2\n", "--delimiter ab", 2),
        ("a,b\n1,2\n", "--columns x=y", 65),
    ];
    let mut messages = String::new();
    for (text, options, code) in cases {
        sandbox.write("x.csv", text);
        let ran = sandbox.run(&format!("import x.csv --output x.parquet {options}"));
        assert_eq!(ran.code, code, "{text:?} {options}: {}", ran.stderr);
        writeln!(messages, "{text:?} {options}\n  {}", ran.stderr.lines().next().unwrap_or_default()).unwrap();
    }
    assert_snapshot!("import_csv_mistakes", messages);
    std::fs::write(sandbox.path("x.csv"), b"a,b\n1,2\n3,\xff\n").unwrap();
    let ran = sandbox.run("import x.csv --output x.parquet");
    assert!(ran.code == 65 && ran.stderr.contains("line 3 is not UTF-8"), "{}", ran.stderr);
    std::fs::write(sandbox.path("x.csv"), b"a,b\n1,\0\n").unwrap();
    let ran = sandbox.run("import x.csv --output x.parquet");
    assert!(ran.code == 65 && ran.stderr.contains("line 2 has a zero byte"), "{}", ran.stderr);
    std::fs::write(sandbox.path("x.csv.gz"), &gzip(PEOPLE.as_bytes())[..60]).unwrap();
    assert_eq!(sandbox.run("import x.csv.gz --output x.parquet").code, 65);
    assert_eq!(sandbox.run("import gone.csv --output x.parquet").code, 66);
    assert_eq!(sandbox.run("import rows.parquet --output x.parquet").code, 65);
    assert_eq!(sandbox.run("import . --output x.parquet").code, 65);
    assert_eq!(sandbox.run("import x.csv --output x.csv").code, 2);
    sandbox.write("good.csv", "a\n1\n");
    assert_eq!(sandbox.run("import good.csv --output x.csv/y.parquet").code, 73);
    assert_eq!(sandbox.run("import --output x.parquet").code, 2);
    let left = sandbox.files(".");
    assert!(!left.iter().any(|file| file.contains(".tmp") || file == "x.parquet"), "{left:?}");
}

#[test]
fn columns_are_chosen_and_renamed() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "a,b,c\n1,2,3\n");
    sandbox.run("import x.csv -o x.parquet --only c,a --columns a=first --key c").succeeded();
    let batch = rows(&sandbox.path("x.parquet"));
    let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["c", "first"]);
    let ran = sandbox.run("import x.csv -o y.parquet --columns a=b");
    assert!(ran.code == 65 && ran.stderr.contains("two columns of this name"), "{}", ran.stderr);
}

/// A column may have any name, if the separator is said.
#[test]
fn one_column_with_an_odd_name() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "a|b\n1\n");
    assert_eq!(sandbox.run("import x.csv -o x.parquet").code, 65);
    sandbox.run("import x.csv -o x.parquet --delimiter ,").succeeded();
    assert_eq!(column(&rows(&sandbox.path("x.parquet")), "a|b").len(), 1);
}

/// Digits that a float would lose stay as text.
#[test]
fn large_integers_keep_their_digits() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "id\n18446744073709551615\n1\n");
    sandbox.run("import x.csv -o x.parquet --key id").succeeded();
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "id").as_string::<i32>().value(0), "18446744073709551615");
}

/// Another reader sees the same numbers.
#[test]
fn agrees_with_polars() {
    let sandbox = Sandbox::new();
    let mut text = "a,b,c,d\n".to_owned();
    for row in 0..500_i64 {
        let value = (row * 7919 % 1013) as f64 / 7.0 - 60.0;
        writeln!(text, "{},{value},{value:e},\"word, {row}\"", row * 31 - 400).unwrap();
    }
    sandbox.write("x.csv", &text);
    sandbox.run("import x.csv -o x.parquet").succeeded();
    let ours = rows(&sandbox.path("x.parquet"));
    let theirs = CsvReadOptions::default()
        .with_infer_schema_length(None)
        .into_reader_with_file_handle(std::io::Cursor::new(text.as_bytes()))
        .finish()
        .unwrap();
    let integers: Vec<i64> = theirs.column("a").unwrap().i64().unwrap().iter().flatten().collect();
    assert_eq!(column(&ours, "a").as_primitive::<Int64Type>().values(), integers.as_slice());
    for name in ["b", "c"] {
        let floats: Vec<f64> = theirs.column(name).unwrap().f64().unwrap().iter().flatten().collect();
        assert_eq!(column(&ours, name).as_primitive::<Float64Type>().values(), floats.as_slice());
    }
    let words = column(&ours, "d");
    let words: Vec<&str> = words.as_string::<i32>().iter().flatten().collect();
    assert_eq!(words, theirs.column("d").unwrap().str().unwrap().iter().flatten().collect::<Vec<_>>());
}

/// Names of files and columns reach the terminal in errors, results and log lines: they are shown, and do nothing.
#[test]
fn nothing_in_a_name_acts_on_the_terminal() {
    let shown = |ran: &crate::sandbox::Ran, name: &str| {
        let text = format!("{}{}", ran.stdout, ran.stderr);
        let acts = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(text.contains(name) && !text.contains(acts), "{text:?}");
    };
    let (column, escaped) = ("x\u{1b}[31m\u{202e}", "x\\u{1b}[31m\\u{202e}");
    let sandbox = Sandbox::new();
    let rows: String = (0..40).fold(String::new(), |text, row| format!("{text}{row},{},1.5,{row}.5\n", row * 7 % 11));
    sandbox.write(&format!("{column}.csv"), &format!("id,a,{column},y\n{rows}"));
    let imported = sandbox.run(&format!("import {column}.csv -o {column}.parquet --key id")).succeeded();
    shown(&imported, &format!("{escaped}.parquet: 40 rows"));
    shown(&imported, &format!("  {escaped}  float64"));
    shown(&sandbox.run(&format!("import {column}.parquet -o y.parquet")), "this is a Parquet file already");
    sandbox.write(
        "odd.yaml",
        &crate::sandbox::SMALL.replace("[a, b]", "[a, 'x*']").replace("rows.parquet", "'*.parquet'"),
    );
    std::fs::remove_file(sandbox.path("rows.parquet")).unwrap();
    // The warning about a constant column is a line of the log.
    shown(&sandbox.run("run odd.yaml").succeeded(), &format!("constant column(s) {escaped}"));
    shown(&sandbox.run("run odd.yaml --set stages.rows.ingest.target=z"), &format!("{escaped}.parquet, column `z`"));
}

/// Files as many countries write them.
const ABROAD: &str = "id;price;day;at;name\n1;3,25;31.12.2026;1.2.2026 7:05;a,b\n2;1.234,5;1.2.2027;2.2.2026 17:05;c\n3;-7;;3.2.2026 9:00;d\n";

#[test]
fn commas_before_decimals_and_days_first_are_named_and_read() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", ABROAD);
    let ran = sandbox.run("import x.csv -o x.parquet --key id --delimiter ;").succeeded();
    for said in [
        "x.csv: column `price` is text because of commas before decimals, such as `3,25` at line 2: read it with `--decimal-comma`\n",
        "x.csv: column `day` has dates such as `31.12.2026` at line 2, which stay text: read them with `--dates day-first`\n",
        "x.csv: column `at` has dates such as `1.2.2026 7:05` at line 2, which stay text: say what comes first: \
         `--dates day-first` or `--dates month-first`\n",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("name"), "{}", ran.stderr);
    let ran =
        sandbox.run("import x.csv -o x.parquet --key id --delimiter ; --decimal-comma --dates day-first").succeeded();
    assert_eq!(ran.stderr, "");
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "price").as_primitive::<Float64Type>().values(), &[3.25, 1234.5, -7.0]);
    let texts = |name: &str| -> Vec<Option<String>> {
        column(&batch, name).as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    };
    assert_eq!(texts("day"), [Some("2026-12-31".to_owned()), Some("2027-02-01".to_owned()), None]);
    assert_eq!(texts("at")[1].as_deref(), Some("2026-02-02T17:05:00"));
    // What the option does not explain is said, and stays as it is.
    let ran =
        sandbox.run("import x.csv -o x.parquet --key id --delimiter ; --decimal-comma --dates month-first").succeeded();
    assert!(
        ran.stderr.contains("`day` has dates such as `31.12.2026`") && ran.stderr.contains("choose the other"),
        "{}",
        ran.stderr
    );
    assert_eq!(column(&rows(&sandbox.path("x.parquet")), "day").as_string::<i32>().value(0), "31.12.2026");
    // Commas between thousands look alike: both are said.
    sandbox.write("y.csv", "a\n\"1,234\"\n\"5,678\"\n");
    let ran = sandbox.run("import y.csv -o y.parquet").succeeded();
    assert!(ran.stderr.contains("if its commas stand between thousands, remove them"), "{}", ran.stderr);
    // A point is then no sign of decimals.
    sandbox.write("z.csv", "a\n3.14\n2,5\n");
    sandbox.run("import z.csv -o z.parquet --delimiter ; --decimal-comma").succeeded();
    assert_eq!(column(&rows(&sandbox.path("z.parquet")), "a").as_string::<i32>().value(0), "3.14");
}

#[test]
fn what_has_no_values_has_no_type() {
    let sandbox = Sandbox::new();
    sandbox.write("x.csv", "id,blank,empty\n1,,\"\"\n2, ,\"\"\n");
    let ran = sandbox.run("import x.csv -o x.parquet --key id").succeeded();
    assert!(ran.stdout.contains("null, 2 null"), "{}", ran.stdout);
    let batch = rows(&sandbox.path("x.parquet"));
    assert_eq!(column(&batch, "blank").data_type(), &DataType::Null);
    assert_eq!(column(&batch, "empty").as_string::<i32>().value(0), "");
    // A part without values takes the type of the others.
    sandbox.write("y.csv", "id,blank,empty\n3,2.5,x\n");
    sandbox.run("import x.csv y.csv -o xy.parquet --key id").succeeded();
    let blank = column(&rows(&sandbox.path("xy.parquet")), "blank");
    assert_eq!((blank.null_count(), blank.as_primitive::<Float64Type>().value(2)), (2, 2.5));
    // A day without rows.
    sandbox.write("none.csv", "id,a\n");
    let ran = sandbox.run("import none.csv -o none.parquet --key id").succeeded();
    assert!(
        ran.stderr.contains("there are no rows, only names; if the first line is a row: `--no-header`"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout.lines().next(), Some("none.parquet: 0 rows, 2 columns"));
}
