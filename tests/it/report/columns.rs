//! What the page says of columns that become something else.

use super::{page, runs};
use crate::sandbox::{SMALL, Sandbox};
use arrow::array::{ArrayRef, Date32Array, Float64Array, Int64Array, StringArray};
use std::sync::Arc;
use stride_pipe::store::{ModelFile, write_columns};

const ROWS: i32 = 60;

/// A table with a category of two levels, one of twelve, a column with gaps and a date.
fn table() -> Vec<(&'static str, ArrayRef)> {
    let number = |of: fn(i32) -> Option<f64>| Arc::new((0..ROWS).map(of).collect::<Float64Array>()) as ArrayRef;
    let text = |of: fn(i32) -> String| Arc::new(StringArray::from_iter_values((0..ROWS).map(of))) as ArrayRef;
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..i64::from(ROWS)))),
        ("plain", number(|row| Some(f64::from(row % 7)))),
        ("town", text(|row| if row % 2 == 0 { "here".to_owned() } else { "<there>".to_owned() })),
        ("sort", text(|row| format!("s{:02}", row % 12))),
        ("size", number(|row| (row % 5 != 2).then(|| f64::from(row % 9)))),
        ("age", number(|row| (row % 6 != 1).then(|| f64::from(row % 11)))),
        ("day", Arc::new(Date32Array::from_iter_values((0..ROWS).map(|row| 19_000 + 5 * row)))),
        ("y", number(|row| Some(f64::from(row % 7) + f64::from(row % 2)))),
    ]
}

/// The cells of the rows of the section's table.
fn cells(section: &str) -> Vec<Vec<String>> {
    let body = section.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let text = |cell: &str| cell.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
    let row = |row: &str| row.replace("<th", "<td").split("<td").skip(1).map(text).collect();
    body.split("<tr>").skip(1).map(row).collect()
}

#[test]
fn the_page_says_what_columns_become() {
    let sandbox = Sandbox::new();
    write_columns(&sandbox.path("rows.parquet"), table()).unwrap();
    let features = "[plain, town, sort, { name: size, missing: indicator }, { name: age, missing: median }, day]";
    let text = SMALL.replace("features: [a, b]", &format!("features: {features}"));
    // Two models of the same rows: said once.
    let text = text.replace("method: gp", "method: ridge");
    let text = format!(
        "{text}  second:\n    train: {{ input: folds, method: mean }}\n  by_second:\n    predict: {{ model: second, input: folds }}\n  \
         metrics_of_second:\n    evaluate: {{ input: by_second }}\n  page:\n    report: {{ input: [metrics, metrics_of_second] }}\n"
    );
    sandbox.write("columns.yaml", &text);
    sandbox.run("run columns.yaml --quiet").succeeded();
    let run = &runs(&sandbox)[0];
    let html = page(&sandbox, run);
    let section = html.split("id=\"r0-columns\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(section.matches("<table").count(), 1, "{section}");
    assert!(section.contains("<details") && !section.contains("<details open"), "folded: {section}");
    let found = cells(section);
    // The numbers are those of the model of the first fold.
    let model = sandbox.files("results").into_iter().find(|file| file.contains("/model/fold=0/"));
    let model = ModelFile::load(&sandbox.path("results").join(model.unwrap())).unwrap();
    let fill = |name: &str| {
        let columns = &model.meta.columns.as_ref().unwrap().columns;
        columns.iter().find(|column| column.name == name).unwrap().fill[0]
    };
    let of = |name: &str| found.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} in {found:?}"));
    assert_eq!(of("town")[1..], ["category", "2 columns, one per level", "refused"]);
    assert_eq!(of("sort")[1..], ["category", "the mean target of each of 12 levels", "refused"]);
    assert_eq!(of("plain")[1..], ["number", "itself", "refused"]);
    assert_eq!(of("day")[1], "timestamp");
    assert!(of("day")[2].starts_with("age, month_sin, month_cos"), "{found:?}");
    let (size, age) = (&of("size")[3], &of("age")[3]);
    assert!(size.starts_with("the mean where missing, and where that is ("), "{size}");
    assert!(age.starts_with("the median where missing ("), "{age}");
    for (said, expected) in [(size, fill("size")), (age, fill("age"))] {
        let number: f64 = said.rsplit('(').next().unwrap().trim_end_matches(')').parse().unwrap();
        assert!((number - expected).abs() < 1e-3 * expected.abs(), "{said} for {expected}");
    }
    // Those that become something else come first.
    assert_eq!(found.last().unwrap()[0], "plain");
}

#[test]
fn plain_columns_are_not_worth_a_section() {
    let sandbox = super::with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    assert!(!page(&sandbox, &runs(&sandbox)[0]).contains("What columns become"));
}
