//! Baselines as methods of train stages: beside the others in every table, published, shown, scored and cached.

use crate::sandbox::{SMALL, Sandbox};

fn matrix(methods: &str) -> String {
    SMALL
        .replace("method: gp", "method: '${matrix.method}'")
        .replace("stages:", &format!("matrix: {{ method: [{methods}] }}\nstages:"))
}

/// The number in a column of the table that a run prints.
fn printed(stdout: &str, label: &str, column: usize) -> f64 {
    // Numbers stand below labels that are too long.
    let mut lines = stdout.lines().skip_while(|line| !line.starts_with(label));
    let line = lines.find(|line| line.contains('±')).unwrap_or_else(|| panic!("{label}: {stdout}"));
    let line = line.strip_prefix(label).unwrap_or(line);
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    cells[column - 1].split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn they_stand_beside_other_methods_and_come_from_the_cache() {
    let sandbox = Sandbox::new();
    sandbox.write("x.yaml", &(matrix("gp, mean, ridge, knn") + "  page:\n    report: { input: metrics }\n"));
    let ran = sandbox.run("run x.yaml --quiet --threads 1").succeeded();
    let r2 = |method: &str| printed(&ran.stdout, &format!("method={method}"), 1);
    // A smooth function: nothing beats the process that is made for it, and anything beats the mean.
    assert!(r2("gp") > r2("knn") && r2("knn") > r2("ridge") && r2("ridge") > r2("mean"), "{}", ran.stdout);
    assert!(r2("mean").abs() < 0.2 && r2("gp") > 0.9, "{}", ran.stdout);
    let run = sandbox.files("results/run");
    let page = run.iter().find(|file| file.ends_with("report.html")).unwrap();
    let page = std::fs::read_to_string(sandbox.path("results/run").join(page)).unwrap();
    for name in ["mean (baseline)", "ridge regression (baseline)", "nearest neighbours (baseline)"] {
        assert!(page.contains(name), "{name}");
    }
    let again = sandbox.run("run x.yaml --quiet --threads 2").succeeded();
    // All but the report.
    assert!(again.stdout.contains(": 1 task(s) done"), "{}", again.stdout);
    let afresh = sandbox.run("run x.yaml --quiet --threads 2 --force").succeeded();
    let table = |stdout: &str| stdout.lines().filter(|line| line.contains('±')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(table(&afresh.stdout), table(&ran.stdout));
}

#[test]
fn they_are_published_shown_and_scored() {
    let sandbox = Sandbox::new();
    for (method, shown) in [
        ("mean", vec!["method            mean\n", "noise           1\n"]),
        ("ridge", vec!["method            ridge\n", "strength  ", "log_likelihood  "]),
        ("knn", vec!["method            knn\n", "neighbours  ", "left_out_rmse  "]),
    ] {
        let text = SMALL
            .replace("kfold: { folds: 5 }", "all: {}")
            .replace("method: gp", &format!("method: {method}, publish: {method}"));
        let end = text.find("  predictions:").unwrap();
        sandbox.write("x.yaml", &text[..end]);
        sandbox.run("run x.yaml --quiet").succeeded();
        let told = sandbox.run(&format!("model show {method}")).succeeded().stdout;
        assert!(!told.contains("kernel"), "{told}");
        for shown in shown {
            assert!(told.contains(shown), "{shown}: {told}");
        }
        sandbox
            .run(&format!("score --model {method} --input rows.parquet --key id --output {method}.parquet --quiet"))
            .succeeded();
    }
    let changed = sandbox.run("model show knn --format json").succeeded().stdout;
    assert!(changed.contains("\"kernel\": \"\""), "{changed}");
}

#[test]
fn neighbours_can_be_given() {
    let sandbox = Sandbox::new();
    sandbox.write("x.yaml", &SMALL.replace("method: gp", "method: knn, knn: { neighbours: 1 }"));
    let one = sandbox.run("run x.yaml --quiet").succeeded();
    sandbox.write("x.yaml", &SMALL.replace("method: gp", "method: knn"));
    let chosen = sandbox.run("run x.yaml --quiet").succeeded();
    assert!(printed(&chosen.stdout, "default", 1) > printed(&one.stdout, "default", 1), "{}", chosen.stdout);
    sandbox.write("x.yaml", &SMALL.replace("method: gp", "method: knn, knn: { neighbours: 0 }"));
    let refused = sandbox.run("validate x.yaml");
    assert_eq!(refused.code, 78);
    assert!(refused.stderr.contains("neighbours"), "{}", refused.stderr);
}

#[test]
fn options_of_processes_change_nothing() {
    let sandbox = Sandbox::new();
    let options = "method: ridge, kernel: rbf, hyperparameters: { noise: 0.1 }, local: false, knn: { neighbours: 3 }";
    sandbox.write("x.yaml", &SMALL.replace("method: gp", options));
    let seen = sandbox.run("validate x.yaml").succeeded();
    for option in ["kernel", "hyperparameters", "local", "knn"] {
        let said = format!("`{option}` changes nothing with `method: ridge`; leave it out");
        assert!(seen.stdout.contains(&said), "{said}: {}", seen.stdout);
    }
}
