//! `fit`: from a table to a model that is measured, compared and written down; `init --data`: the file alone.

use crate::sandbox::{Ran, Sandbox};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use insta::{Settings, assert_snapshot};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use stride_pipe::store::write_columns;

const ROWS: i64 = 40;

/// A smooth function of two columns, and columns of every other kind.
fn odd(sandbox: &Sandbox) {
    let each = |value: fn(i64) -> f64| Arc::new((0..ROWS).map(value).collect::<Float64Array>()) as ArrayRef;
    let gaps = (0..ROWS).map(|i| (i % 8 != 0).then_some(i as f64)).collect::<Float64Array>();
    let text = |value: fn(i64) -> String| Arc::new(StringArray::from_iter_values((0..ROWS).map(value))) as ArrayRef;
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..ROWS).map(|_| Some(vec![Some(1)])));
    let target = |i: i64| (i as f64 / 7.0).sin() + f64::from((i * 7 % 5) as i32) / 3.0;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", each(|i| i as f64 / 7.0)),
        ("customer_id", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| 1000 + i * i)))),
        ("row", Arc::new(Int64Array::from_iter_values(5..5 + ROWS))),
        ("b", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i * 7 % 5)))),
        ("yes", Arc::new((0..ROWS).map(|i| Some(i % 3 == 0)).collect::<BooleanArray>())),
        ("region", text(|i| format!("r{}", i % 4))),
        ("remark", text(|i| format!("text {i}"))),
        ("day", Arc::new(Date32Array::from_iter_values(20_000..20_000 + ROWS as i32))),
        ("at", Arc::new(TimestampMicrosecondArray::from_iter_values(0..ROWS))),
        ("day_as_text", text(|i| format!("2026-11-{:02}", 1 + i % 28))),
        ("constant", each(|_| 0.1)),
        ("gaps", Arc::new(gaps)),
        ("nan", each(|i| if i == 3 { f64::NAN } else { i as f64 })),
        ("huge", each(|i| 1e200 * i as f64)),
        ("lists", Arc::new(lists)),
        ("y_in_cents", each(|i| 100.0 * ((i as f64 / 7.0).sin() + f64::from((i * 7 % 5) as i32) / 3.0))),
        ("y_again", Arc::new((0..ROWS).map(target).collect::<Float64Array>())),
        ("y", Arc::new((0..ROWS).map(target).collect::<Float64Array>())),
    ];
    write_columns(&sandbox.path("odd.parquet"), columns).unwrap();
}

/// The numbers behind a label in a table of results, or below it.
fn figures(stdout: &str, label: &str) -> Vec<f64> {
    let mut lines = stdout.lines().skip_while(|line| !line.starts_with(label));
    let line = lines.next().unwrap_or_else(|| panic!("{label}: {stdout}"));
    let line = Some(&line[label.len()..]).filter(|rest| !rest.is_empty()).or_else(|| lines.next()).unwrap();
    let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
    cells.map(|cell| cell.split(' ').next().unwrap().parse().unwrap()).collect()
}

/// Times, and what depends on rounding.
fn settings() -> Settings {
    let mut settings = Settings::clone_current();
    settings.add_filter(r"\([0-9a-f]{12}\)", "(hash)");
    settings
}

fn told(ran: &Ran) -> String {
    format!("exit {}\n{}{}", ran.code, ran.stdout, ran.stderr)
}

#[test]
fn a_model_is_measured_compared_and_written_down() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("fit rows.parquet --target y --quiet").succeeded();
    for said in [
        "rows.parquet: 60 rows, 5 columns\n  target    y\n  key       id\n  features  3: a, b, half\n",
        "On held-out rows (5 folds, every row tested once):\n",
        "RMSE (y)",
        "pipeline: rows.yaml (stride-pipe run rows.yaml repeats it)\n",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    // A smooth function: a process is better than all baselines, and the sentence says so.
    let best = ran.stdout.lines().find(|line| line.starts_with("Best: gp")).unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(best.contains("of the variance of `y`") && best.contains("(the best baseline, "), "{best}");
    let label = if best.starts_with("Best: gp, rbf") { "gp, rbf" } else { "gp, matern52, ard" };
    // The file is valid, and repeats it: from the cache, and afresh on other threads.
    let valid = sandbox.run("validate rows.yaml --data").succeeded().stdout;
    assert!(valid.contains("usable"), "{valid}");
    for arguments in ["run rows.yaml --quiet", "run rows.yaml --quiet --force --threads 1"] {
        let again = sandbox.run(arguments).succeeded();
        for (tried, case) in [
            (label, "method=gp"),
            ("nearest neighbours (baseline)", "method=knn"),
            ("ridge regression (baseline)", "method=ridge"),
            ("mean of the target (baseline)", "method=mean"),
        ] {
            assert_eq!(figures(&ran.stdout, tried), figures(&again.stdout, case), "{tried}: {}", again.stdout);
        }
    }
    // Once more: the same file, and nothing is trained again.
    let written = std::fs::read(sandbox.path("rows.yaml")).unwrap();
    let again = sandbox.run("fit rows.parquet --target y").succeeded();
    assert_eq!(figures(&again.stdout, label), figures(&ran.stdout, label));
    let trained = |line: &str| line.contains("/ model / ") && line.contains("done in");
    assert!(!again.stderr.lines().any(trained), "{}", again.stderr);
    assert_eq!(std::fs::read(sandbox.path("rows.yaml")).unwrap(), written);
}

#[test]
fn a_file_that_somebody_wrote_stays() {
    let sandbox = Sandbox::new();
    sandbox.run("init --data rows.parquet --target y").succeeded();
    // Its own file is replaced, one that was changed is not.
    sandbox.run("init --data rows.parquet --target y --exclude b").succeeded();
    let text = std::fs::read_to_string(sandbox.path("rows.yaml")).unwrap();
    assert!(text.contains("features: [a, half]") && text.contains("# left out: b: as asked for"), "{text}");
    let changed = text.replace("seed: 2505", "seed: 7");
    sandbox.write("rows.yaml", &changed);
    for command in ["init --data rows.parquet --target y", "fit rows.parquet --target y --quiet"] {
        let refused = sandbox.run(command);
        assert_eq!(refused.code, 73);
        assert!(
            refused.stderr.contains("rows.yaml is there already, changed or written by somebody else"),
            "{}",
            refused.stderr
        );
        assert_eq!(std::fs::read_to_string(sandbox.path("rows.yaml")).unwrap(), changed);
    }
    sandbox.run("init --data rows.parquet --target y --force").succeeded();
    assert!(std::fs::read_to_string(sandbox.path("rows.yaml")).unwrap().contains("seed: 2505"));
    // Elsewhere, the file finds its data.
    sandbox.run("init other --data rows.parquet --target y --dir deep/er").succeeded();
    let text = std::fs::read_to_string(sandbox.path("deep/er/other.yaml")).unwrap();
    assert!(text.contains("path: ../../rows.parquet"), "{text}");
    sandbox.run("validate deep/er/other.yaml --data").succeeded();
}

#[test]
fn columns_of_every_kind() {
    let sandbox = Sandbox::new();
    odd(&sandbox);
    let ran = sandbox.run("init --data odd.parquet --target y").succeeded();
    settings().bind(|| {
        assert_snapshot!("columns_of_every_kind", ran.stdout);
        assert_snapshot!("file_of_odd_columns", std::fs::read_to_string(sandbox.path("odd.yaml")).unwrap());
    });
    sandbox.run("validate odd.yaml --data").succeeded();
    let ran = sandbox.run("fit odd.parquet --target y --exclude y_in_cents --key remark --quiet").succeeded();
    assert!(ran.stdout.contains("  key       remark\n"), "{}", ran.stdout);
    // With a key, the other numbers of rows are no features.
    assert!(ran.stdout.contains("  left out  customer_id: numbers the rows, as the key does\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  left out  y_in_cents: as asked for\n"), "{}", ran.stdout);
}

#[test]
fn names_need_no_care() {
    let sandbox = Sandbox::new();
    let column =
        |scale: f64| Arc::new((0..ROWS).map(|i| scale * (i * 7 % 11) as f64).collect::<Float64Array>()) as ArrayRef;
    let names = ["f[0]", "${env.HOME}", "- a: b #", "null", "é \"x\"", "12", "a*"];
    let mut columns: Vec<(&str, ArrayRef)> = names.iter().map(|name| (*name, column(1.0))).collect();
    columns.push(("target $$", column(2.5)));
    write_columns(&sandbox.path("x y [1].parquet"), columns).unwrap();
    let mut command = sandbox.command();
    command.args(["init", "--data", "x y [1].parquet", "--target", "target $$"]);
    Ran::from(&command.output().unwrap()).succeeded();
    let text = std::fs::read_to_string(sandbox.path("data.yaml")).unwrap();
    let valid = sandbox.run("validate data.yaml --data").succeeded().stdout;
    assert!(valid.contains("$${env.HOME}") || valid.contains("${env.HOME}"), "{valid}\n{text}");
}

#[test]
fn what_cannot_be_learnt_from_is_refused() {
    let sandbox = Sandbox::new();
    odd(&sandbox);
    let numbers = |rows: i64| Arc::new((0..rows).map(|i| i as f64).collect::<Float64Array>()) as ArrayRef;
    for rows in [0, 3] {
        let columns = vec![("x", numbers(rows)), ("y", numbers(rows))];
        write_columns(&sandbox.path(format!("rows{rows}.parquet")), columns).unwrap();
    }
    write_columns(&sandbox.path("alone.parquet"), vec![("y", numbers(30))]).unwrap();
    sandbox.write("empty.csv", "");
    sandbox.write("damaged.parquet", "PAR1 and no more");
    let said: Vec<String> = [
        "fit odd.parquet --target yy",
        "fit odd.parquet --target region",
        "fit odd.parquet --target gaps",
        "fit odd.parquet --target constant",
        "fit odd.parquet --target y --exclude z",
        "fit odd.parquet --target y --exclude y",
        "fit odd.parquet --target y --key region",
        "fit odd.parquet --target y --key zz",
        "fit odd.parquet --target y --exclude a,b,yes,y_in_cents,row,customer_id,region,day,at,day_as_text,gaps,nan",
        "fit rows0.parquet --target y",
        "fit rows3.parquet --target y",
        "fit alone.parquet --target y",
        "fit none.parquet --target y",
        "fit empty.csv --target y",
        "fit damaged.parquet --target y",
        "fit odd.parquet",
        "init",
        "init --data odd.parquet",
    ]
    .iter()
    .map(|command| format!("$ {command}\n{}", told(&sandbox.run(command))))
    .collect();
    assert_snapshot!("what_cannot_be_learnt_from_is_refused", said.join("\n"));
    assert!(!sandbox.path("odd.yaml").exists() && !sandbox.path("results").exists());
}

#[test]
fn few_rows_and_one_feature() {
    let sandbox = Sandbox::new();
    for rows in [4, 5, 30] {
        let column = |value: fn(f64) -> f64| {
            Arc::new((0..rows).map(|i| value(f64::from(i))).collect::<Float64Array>()) as ArrayRef
        };
        let name = format!("n{rows}.parquet");
        write_columns(&sandbox.path(&name), vec![("x", column(|i| i)), ("y", column(|i| i * i))]).unwrap();
        let ran = sandbox.run(&format!("fit {name} --target y --quiet --publish models/n{rows}")).succeeded();
        assert!(ran.stdout.contains("  features  1: x\n") && ran.stdout.contains("Best: "), "{}", ran.stdout);
        let shown = sandbox.run(&format!("model show models/n{rows}")).succeeded().stdout;
        assert!(shown.contains(&format!("rows              {rows}\n")), "{shown}");
    }
}

#[test]
fn the_model_of_all_rows_is_published() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("fit rows.parquet --target y --quiet --publish models/y --output made/y.yaml").succeeded();
    assert!(ran.stdout.contains("model of all rows: models/y (stride-pipe model show models/y)\n"), "{}", ran.stdout);
    let text = std::fs::read_to_string(sandbox.path("made/y.yaml")).unwrap();
    assert!(text.contains("publish: ../models/y"), "{text}");
    let shown = sandbox.run("model show models/y").succeeded().stdout;
    assert!(shown.contains("rows              60\n") && shown.contains("method            gp, kernel"), "{shown}");
    let model = std::fs::read(sandbox.path("models/y/model.safetensors")).unwrap();
    // The pipeline publishes the same model in every case of its matrix: it stays as it is, and comes back when it is gone.
    sandbox.run("run made/y.yaml --quiet").succeeded();
    assert_eq!(std::fs::read(sandbox.path("models/y/model.safetensors")).unwrap(), model);
    assert!(!sandbox.path("models/y/previous").exists());
    std::fs::remove_dir_all(sandbox.path("models")).unwrap();
    sandbox.run("run made/y.yaml --quiet").succeeded();
    assert_eq!(std::fs::read(sandbox.path("models/y/model.safetensors")).unwrap(), model);
    sandbox.run("score --model models/y --input rows.parquet --key id --output scores.parquet --quiet").succeeded();
}

#[test]
fn a_table_of_text() {
    let sandbox = Sandbox::new();
    let mut text = "order,size,weight,colour,when,discount,price\n".to_owned();
    for i in 0..60 {
        let (size, weight) = (f64::from(i % 12), f64::from(i * 7 % 13));
        let discount = if i % 9 == 0 { "NA".to_owned() } else { (i % 3).to_string() };
        let colour = ["red", "green", "blue"][i as usize % 3];
        let price = 3.0 * size + (weight / 3.0).sin();
        writeln!(text, "A-{i:03},{size},{weight},{colour},2026-01-{:02},{discount},{price}", 1 + i % 28).unwrap();
    }
    sandbox.write("My Orders.csv", &text);
    let mut command = sandbox.command();
    let fit = ["fit", "My Orders.csv", "--target", "price", "--quiet"];
    let ran = Ran::from(&command.args(fit).output().unwrap()).succeeded();
    for said in [
        "My Orders.csv: 60 rows, 7 columns\n",
        "  key       order\n  features  5: size, weight, colour, when, discount\n",
        "  gaps      discount: filled with the mean, and a column that says where\n",
        "  note      `when` is a time, and rows are held out at random: later rows are harder to predict.",
        "rows: my-orders-data.parquet\n",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    // The number that an import gives to rows is none of the user's columns.
    assert!(!ran.stdout.contains("row_id"), "{}", ran.stdout);
    sandbox.run("run my-orders.yaml --quiet").succeeded();
    // Its own import is replaced, a file of somebody else's is not.
    let data = std::fs::read(sandbox.path("my-orders-data.parquet")).unwrap();
    Ran::from(&sandbox.command().args(fit).output().unwrap()).succeeded();
    assert_eq!(std::fs::read(sandbox.path("my-orders-data.parquet")).unwrap(), data);
    std::fs::copy(sandbox.path("rows.parquet"), sandbox.path("my-orders-data.parquet")).unwrap();
    let refused = Ran::from(&sandbox.command().args(fit).output().unwrap());
    assert_eq!(refused.code, 73);
    assert!(
        refused.stderr.contains("my-orders-data.parquet: cannot be written: it is there already"),
        "{}",
        refused.stderr
    );
}

#[test]
fn without_time_there_is_still_a_model() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("fit rows.parquet --target y --quiet --time-limit 0s --publish models/y").succeeded();
    assert!(ran.stdout.contains("nearest neighbours (baseline): not tried, it would take about"), "{}", ran.stdout);
    assert!(ran.stdout.contains("Best: "), "{}", ran.stdout);
    sandbox.run("model show models/y").succeeded();
    sandbox.run("run rows.yaml --quiet").succeeded();
}

#[test]
fn it_can_be_interrupted_and_goes_on() {
    let sandbox = Sandbox::new();
    let rows = 1_500;
    let column = |step: i64| Arc::new((0..rows).map(|i| (i * step % 101) as f64).collect::<Float64Array>()) as ArrayRef;
    let target = (0..rows).map(|i| ((i * 7 % 101) as f64 / 9.0).sin() + (i * 13 % 101) as f64 / 50.0);
    let columns =
        vec![("a", column(7)), ("b", column(13)), ("y", Arc::new(target.collect::<Float64Array>()) as ArrayRef)];
    write_columns(&sandbox.path("long.parquet"), columns).unwrap();
    let mut child = sandbox.command();
    let mut child = child
        .args(["fit", "long.parquet", "--target", "y"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("trying gp")).unwrap().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("what is done is kept; to go on: ")), "{rest:?}");
    assert!(!sandbox.path("long.yaml").exists());
    let ran = sandbox.run("fit long.parquet --target y --time-limit 1s").succeeded();
    assert!(ran.stderr.contains("(unchanged)") && sandbox.path("long.yaml").exists(), "{}", ran.stderr);
}

/// Files as many countries write them.
#[test]
fn other_separators_decimals_and_dates_are_options() {
    let sandbox = Sandbox::new();
    let mut text = "wert;tag;y\n".to_owned();
    for i in 0..40 {
        let _ = writeln!(text, "{},5;{}.{}.2026;{},25", i % 7, 1 + i % 28, 1 + i % 12, i * 3 % 11);
    }
    sandbox.write("eu.csv", &text);
    let refused = sandbox.run("init --data eu.csv --target y");
    assert!(refused.stderr.contains("for example `--delimiter ';'`"), "{}", refused.stderr);
    let noted = sandbox.run("init --data eu.csv --target y --delimiter ;");
    assert_eq!(noted.code, 65, "the target is text");
    assert!(noted.stderr.contains("`wert` is text because of commas before decimals"), "{}", noted.stderr);
    let arguments = "--data eu.csv --target y --delimiter ; --decimal-comma --dates day-first";
    let ran = sandbox.run(&format!("init {arguments}")).succeeded();
    assert!(ran.stdout.contains("  features  2: wert, tag\n"), "{}", ran.stdout);
    let written = std::fs::read_to_string(sandbox.path("eu.yaml")).unwrap();
    assert!(written.contains("name: tag, kind: timestamp") || written.contains("kind: timestamp"), "{written}");
    sandbox.run("validate eu.yaml --data").succeeded();
    // The same options of `fit`, and where they mean nothing.
    let ran = sandbox
        .run("fit eu.csv --target y --delimiter ; --decimal-comma --dates day-first --time-limit 1s --quiet")
        .succeeded();
    assert!(ran.stdout.contains("  features  2: wert, tag\n"), "{}", ran.stdout);
    let idle = sandbox.run("init --data rows.parquet --target y --decimal-comma").succeeded();
    assert!(idle.stderr.contains("the data are Parquet"), "{}", idle.stderr);
    assert_eq!(sandbox.run("init plain --decimal-comma").code, 2);
}
