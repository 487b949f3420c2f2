//! Versions of a published model: listed, compared, gone back to, and seen one at a time by those who score meanwhile.

use crate::sandbox::{SMALL, Sandbox};
use crate::scoring::scores;
use insta::{Settings, assert_snapshot};
use std::fs;

/// A pipeline that publishes a model of all rows.
fn publishing(options: &str) -> String {
    let text = SMALL
        .replace("kfold: { folds: 5 }", "all: {}")
        .replace("method: gp", &format!("method: gp, publish: models/m, {options}"));
    text[..text.find("  predictions:").unwrap()].to_owned()
}

fn publish(sandbox: &Sandbox, options: &str) -> Vec<u8> {
    sandbox.write("x.yaml", &publishing(options));
    sandbox.run("run x.yaml --quiet").succeeded();
    published(sandbox)
}

fn published(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.path("models/m/model.safetensors")).unwrap()
}

fn settings() -> Settings {
    let mut settings = Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "(time)");
    settings.add_filter(r"\d{8}T\d+Z-[0-9a-f]{6}", "(run)");
    settings.add_filter(r"\d+\.\d KiB", "(size)");
    settings.add_filter(r"-?\d+\.\d{2,}", "(number)");
    settings.add_filter(r" {2,}", "  ");
    settings
}

#[test]
fn going_back_restores_the_bytes() {
    let sandbox = Sandbox::new();
    let first = publish(&sandbox, "kernel: rbf");
    let second = publish(&sandbox, "kernel: matern32");
    let third = publish(&sandbox, "kernel: matern52");
    settings().bind(|| {
        assert_snapshot!("model_list", sandbox.run("model list models/m").succeeded().stdout);
        let differs = sandbox.run("model diff models/m/versions/1 models/m").succeeded().stdout;
        assert_snapshot!("model_diff", differs);
    });
    let same = sandbox.run("model diff models/m/versions/3 models/m").succeeded().stdout;
    assert!(same.ends_with("\nthe same model, byte for byte\n"), "{same}");
    let back = sandbox.run("model rollback models/m").succeeded();
    assert_eq!(back.stdout, "models/m: version 2 is published again, instead of version 3\n");
    assert_eq!(published(&sandbox), second);
    sandbox.run("model rollback models/m").succeeded();
    assert_eq!(published(&sandbox), first);
    let refused = sandbox.run("model rollback models/m");
    assert_eq!(refused.code, 66);
    assert!(
        refused.stderr.contains("there is no version before 1, which is published; there are: 1, 2, 3"),
        "{}",
        refused.stderr
    );
    let forward = sandbox.run("model rollback models/m --to 3").succeeded();
    assert_eq!(forward.stdout, "models/m: version 3 is published again, instead of version 1\n");
    assert_eq!(published(&sandbox), third);
    let idle = sandbox.run("model rollback models/m --to 3").succeeded();
    assert_eq!(idle.stdout, "models/m: version 3 is published already: nothing to do\n");
    assert_eq!(sandbox.run("model rollback models/m --to 7").code, 66);
    // A version is a model as any other.
    sandbox.run("model show models/m/versions/2").succeeded();
    sandbox
        .run("score --model models/m/versions/2 --input rows.parquet --key id --output s.parquet --quiet")
        .succeeded();
    let listed: serde_json::Value =
        serde_json::from_str(&sandbox.run("model list models/m --format json").succeeded().stdout).unwrap();
    let flags: Vec<bool> = listed.as_array().unwrap().iter().map(|version| version["is_published"] == true).collect();
    assert_eq!(flags, [false, false, true]);
}

#[test]
fn as_many_versions_are_kept_as_asked_for() {
    let sandbox = Sandbox::new();
    for kernel in ["rbf", "matern12", "matern32", "matern52"] {
        publish(&sandbox, &format!("kernel: {kernel}, publish_keep: 2"));
    }
    let numbers = || {
        let mut found: Vec<String> = fs::read_dir(sandbox.path("models/m/versions"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        found
    };
    assert_eq!(numbers(), ["3", "4"]);
    // How many are kept is no reason to train again.
    sandbox.write("x.yaml", &publishing("kernel: matern52, publish_keep: 7"));
    assert!(sandbox.run("run x.yaml").succeeded().stdout.contains(": 0 task(s) done"));
    assert_eq!(numbers(), ["3", "4"]);
    sandbox.write("x.yaml", &publishing("publish_keep: 0"));
    assert_eq!(sandbox.run("validate x.yaml").code, 78);
}

#[test]
fn a_directory_from_before_there_were_versions() {
    let sandbox = Sandbox::new();
    let first = publish(&sandbox, "kernel: rbf");
    let second = publish(&sandbox, "kernel: matern32");
    fs::remove_dir_all(sandbox.path("models/m/versions")).unwrap();
    let listed = sandbox.run("model list models/m").succeeded().stdout;
    assert_eq!(listed.lines().count(), 3, "{listed}");
    sandbox.run("model rollback models/m").succeeded();
    assert_eq!(published(&sandbox), first);
    sandbox.run("model rollback models/m --to 2").succeeded();
    assert_eq!(published(&sandbox), second);
    for command in
        ["model list models/none", "model rollback models/none", "model rollback small.yaml", "model list rows.parquet"]
    {
        assert_eq!(sandbox.run(command).code, 66, "{command}");
    }
    // A version that is damaged is not gone back to.
    fs::remove_file(sandbox.path("models/m/versions/1/model.safetensors")).unwrap();
    sandbox.write("models/m/versions/1/model.safetensors", "damaged");
    assert_eq!(sandbox.run("model rollback models/m").code, 65);
    assert_eq!(published(&sandbox), second);
    let listed = sandbox.run("model list models/m").succeeded().stdout;
    assert!(listed.contains("damaged") || listed.contains("not a"), "{listed}");
}

#[test]
fn who_scores_meanwhile_sees_one_model() {
    let sandbox = Sandbox::new();
    publish(&sandbox, "kernel: rbf");
    publish(&sandbox, "kernel: matern12");
    let score = |name: &str, model: &str| {
        sandbox
            .run(&format!("score --model {model} --input rows.parquet --key id --output {name} --quiet --threads 1"))
            .succeeded();
        scores(&sandbox.path(name))
    };
    let known = [score("1.parquet", "models/m/versions/1"), score("2.parquet", "models/m/versions/2")];
    assert_ne!(known[0], known[1]);
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for turn in 0..20 {
                sandbox.run(&format!("model rollback models/m --to {}", 1 + turn % 2)).succeeded();
            }
        });
        let mut scored = 0;
        while !swaps.is_finished() || scored < 5 {
            let found = score("s.parquet", "models/m");
            assert!(known.contains(&found), "the scores of neither model");
            scored += 1;
        }
    });
}

#[test]
fn a_matrix_may_publish_what_does_not_depend_on_it() {
    let sandbox = Sandbox::new();
    let text = |publish: &str| {
        SMALL
            .replace("stages:", "matrix: { kernel: [rbf, matern32] }\nstages:")
            .replace("method: gp", "method: gp, kernel: '${matrix.kernel}'")
            + &format!(
                "  all:\n    split: {{ input: rows, all: {{}} }}\n  final:\n    train: {{ input: all, method: gp, {publish} }}\n"
            )
    };
    sandbox.write("x.yaml", &text("publish: models/m"));
    sandbox.run("run x.yaml --quiet").succeeded();
    let model = published(&sandbox);
    sandbox.run("run x.yaml --quiet --force").succeeded();
    assert_eq!((published(&sandbox), sandbox.files("models/m/versions").len()), (model, 1));
    // Two models, or two opinions on whether one is good enough.
    for publish in ["publish: models/m, kernel: '${matrix.kernel}'", "publish: models/m, publish_if: smse < 1"] {
        sandbox.write("x.yaml", &text(publish));
        let refused = sandbox.run("validate x.yaml");
        assert_eq!(refused.code, 78, "{publish}");
        assert!(refused.stderr.contains("only one model can be published"), "{}", refused.stderr);
    }
}

/// A model that has seen the test rows looks better on them than it is: the comparison is not made, and that is said.
#[test]
fn a_model_that_has_seen_the_test_rows_is_not_compared_with() {
    let sandbox = Sandbox::new();
    publish(&sandbox, "kernel: rbf");
    let night = |split: &str, options: &str| {
        let text = SMALL
            .replace("kfold: { folds: 5 }", split)
            .replace("method: gp", &format!("method: gp, publish: models/m, {options}"));
        sandbox.write("night.yaml", &text);
        sandbox.run("run night.yaml --quiet").succeeded().stderr
    };
    let before = published(&sandbox);
    let hash = "hash: { key: id, test_fraction: 0.3 }";
    let said = night(hash, "kernel: matern52, publish_if: smse < published");
    for part in [
        "model: not published to models/m: `smse < published` cannot be judged, because the published model was trained on \
         100 % of the test rows and looks better on them than it is",
        "`--set stages.model.train.publish_if=null`",
        "the one that is published stays",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(published(&sandbox), before);
    // As advised: once without, and from then on both are tested on rows that neither has seen.
    sandbox.run("run night.yaml --quiet --set stages.model.train.publish_if=null").succeeded();
    assert_ne!(published(&sandbox), before);
    let before = published(&sandbox);
    let said = night(hash, "kernel: matern12, publish_if: smse < published");
    assert!(!said.contains("cannot be judged"), "{said}");
    let said = night(hash, "kernel: matern12, publish_if: smse <= 100 and mae < published");
    assert!(said.contains("that of the published model") || published(&sandbox) != before, "{said}");
    // Other divisions mix rows that the published model has seen into the test rows.
    let said = night("holdout: { test_fraction: 0.3 }", "kernel: matern32, publish_if: smse < published");
    assert!(said.contains("% of the test rows and looks better"), "{said}");
}

/// What is replaced was measured on the rows of its own day.
#[test]
fn a_message_does_not_compare_figures_of_different_rows() {
    let sandbox = Sandbox::new();
    let conditional = |kernel: &str| {
        let text = SMALL
            .replace("kfold: { folds: 5 }", "holdout: { test_fraction: 0.3 }")
            .replace("method: gp", &format!("method: gp, kernel: {kernel}, publish: models/m, publish_if: smse < 100"));
        sandbox.write("x.yaml", &text);
        sandbox.run("run x.yaml").succeeded().stderr
    };
    conditional("rbf");
    let said = conditional("matern12");
    let line = said.lines().find(|line| line.contains("it replaces")).unwrap_or_else(|| panic!("{said}"));
    let (new, old) = line.split_once("it replaces").unwrap();
    assert!(new.contains("(smse ") && !old.contains("smse"), "{line}");
}
