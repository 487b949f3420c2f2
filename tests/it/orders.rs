//! The orders of a shop, from the generator to the scores of the next day, as the manual has it, on some of the rows.

use crate::sandbox::Sandbox;
use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Float64Type};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use stride_pipe::store::{open_batches, write_columns};

fn read(path: &Path) -> RecordBatch {
    let (_, batches) = open_batches(path).unwrap();
    let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn write(path: &Path, batch: &RecordBatch) {
    let schema = batch.schema();
    let columns = batch.columns().iter().zip(schema.fields());
    write_columns(path, columns.map(|(column, field)| (field.name().as_str(), column.clone())).collect()).unwrap();
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = cast(batch.column_by_name(name).unwrap(), &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<f64> {
    batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec()
}

/// The pipeline of this repository beside the generated orders of the products that are ordered most, so that it takes seconds.
fn shop() -> (Sandbox, RecordBatch) {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("pipelines")).unwrap();
    let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/orders.yaml");
    std::fs::copy(pipeline, sandbox.path("pipelines/orders.yaml")).unwrap();
    let said =
        sandbox.run("generate orders --output inbox/orders.parquet --next inbox/next.parquet").succeeded().stdout;
    assert!(said.contains("20000 rows") && said.contains("400 rows"), "{said}");
    let path = sandbox.path("inbox/orders.parquet");
    let all = read(&path);
    assert_eq!(texts(&all, "region").into_iter().collect::<BTreeSet<_>>().len(), 3);
    let gaps = all.column_by_name("discount").unwrap().null_count() as f64 / 20_000.0;
    assert!((gaps - 0.1).abs() < 0.01, "{gaps}");
    let often: BooleanArray = texts(&all, "product").iter().map(|name| Some(name.as_str() < "p0100")).collect();
    let some = filter_record_batch(&all, &often).unwrap();
    assert!((2_000..4_000).contains(&some.num_rows()), "{}", some.num_rows());
    write(&path, &some);
    (sandbox, some)
}

#[test]
fn orders_from_the_generator_to_the_scores_of_the_next_day() {
    let (sandbox, year) = shop();
    let ran = sandbox.run("run pipelines/orders.yaml").succeeded();
    assert!(!ran.stderr.contains("test rows have"), "no leak: {}", ran.stderr);
    assert!(sandbox.path("models/orders/model.safetensors").is_file(), "{}{}", ran.stdout, ran.stderr);
    let scored = sandbox
        .run("score --model models/orders --input inbox/next.parquet --key order_id --intervals 0.95 --output scores/next.parquet")
        .succeeded();
    // What is new, as somebody counts it who reads both tables.
    let next = read(&sandbox.path("inbox/next.parquet"));
    for column in ["region", "product"] {
        let known: BTreeSet<String> = texts(&year, column).into_iter().collect();
        let unseen = texts(&next, column).iter().filter(|level| !known.contains(*level)).count();
        assert!(unseen > 0, "{column}");
        let share = 100.0 * unseen as f64 / 400.0;
        let said = format!("levels that training has not seen: {column} in {share:.2} % of the rows");
        assert!(scored.stdout.contains(&said), "{said}: {}", scored.stdout);
    }
    let scores = read(&sandbox.path("scores/next.parquet"));
    assert_eq!(scores.num_rows(), 400);
    let (amount, low, high) = (numbers(&next, "amount"), numbers(&scores, "y_q025"), numbers(&scores, "y_q975"));
    assert!(low.iter().zip(&high).all(|(low, high)| 0.0 < *low && low < high));
    // Orders of products that training knows are within their intervals as often as these say.
    let known: BTreeSet<String> = texts(&year, "product").into_iter().collect();
    let rows: Vec<usize> = texts(&next, "product")
        .iter()
        .enumerate()
        .filter(|(_, name)| known.contains(*name))
        .map(|(row, _)| row)
        .collect();
    let within = rows.iter().filter(|row| low[**row] <= amount[**row] && amount[**row] <= high[**row]).count();
    assert!(within as f64 > 0.85 * rows.len() as f64, "{within} of {}", rows.len());
    // The report has the columns.
    let page = sandbox.files("results").into_iter().find(|file| file.ends_with("report.html")).unwrap();
    let page = std::fs::read_to_string(sandbox.path("results").join(page)).unwrap();
    assert!(page.contains("What columns become") && page.contains("3 columns, one per level"));
}

/// Copies of orders under new numbers and names of customers, and customers on both sides.
#[test]
fn leaks_that_are_planted_in_orders_are_reported() {
    let (sandbox, year) = shop();
    let validate = || sandbox.run("validate pipelines/orders.yaml --data").succeeded().stdout;
    let honest = validate();
    assert!(honest.contains("→ the mean target of each of 100 levels"), "{honest}");
    assert!(!honest.contains("test rows have"), "{honest}");
    let copies = year.slice(0, 50);
    let changed = |name: &str| -> ArrayRef {
        match name {
            "order_id" => Arc::new(Int64Array::from_iter_values(900_000..900_050)),
            "customer" => Arc::new(StringArray::from_iter_values((0..50).map(|copy| format!("copy {copy}")))),
            _ => copies.column_by_name(name).unwrap().clone(),
        }
    };
    let columns = year.schema().fields().iter().map(|field| changed(field.name())).collect();
    let copies = RecordBatch::try_new(year.schema(), columns).unwrap();
    write(&sandbox.path("inbox/orders.parquet"), &concat_batches(&year.schema(), [&year, &copies]).unwrap());
    let leaking = validate();
    assert!(leaking.contains("test rows have the same features as a training row of their fold"), "{leaking}");
    // A split that knows nothing of customers, where they are what identifies a row.
    write(&sandbox.path("inbox/orders.parquet"), &year);
    let path = sandbox.path("pipelines/orders.yaml");
    let text = std::fs::read_to_string(&path).unwrap().replace("key: order_id", "key: customer");
    let text = text.replace("group: { key: customer, test_fraction: 0.2 }", "holdout: { test_fraction: 0.2 }");
    std::fs::write(&path, text).unwrap();
    let leaking = sandbox.run("validate pipelines/orders.yaml --data");
    let expected = "test rows have the same key as a training row of their fold";
    assert!(leaking.code == 65 && leaking.stdout.contains(expected), "{} {}", leaking.stdout, leaking.stderr);
}
