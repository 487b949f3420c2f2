//! The small commands: `model show`, `init`, `completions`.

use crate::sandbox::{SMALL, Sandbox};
use insta::{Settings, assert_snapshot};
use serde_json::Value;

fn published(sandbox: &Sandbox) {
    let publish =
        SMALL.replace("kfold: { folds: 5 }", "all: {}").replace("method: gp", "method: gp, publish: models/small");
    sandbox.write("publish.yaml", publish.split("  predictions:").next().unwrap());
    sandbox.run("run publish.yaml").succeeded();
}

#[test]
fn model_show() {
    let sandbox = Sandbox::new();
    published(&sandbox);
    let mut settings = Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]");
    settings.add_filter(r"run               \S+", "run               [run]");
    settings.add_filter(r"sha256 [0-9a-f]{12}…", "sha256 [hash]…");
    settings.add_filter(r"input             \S*rows.parquet", "input             […]rows.parquet");
    settings.add_filter(r"(variance|noise|length|log_likelihood)( +)-?[\d.e-]+", "$1$2[value]");
    let shown = sandbox.run("model show models/small").succeeded().stdout;
    settings.bind(|| assert_snapshot!("model_show", shown));
    assert_eq!(sandbox.run("model show models/small/model.safetensors").succeeded().stdout, shown);
    let json: Value =
        serde_json::from_str(&sandbox.run("model show models/small --format json").succeeded().stdout).unwrap();
    assert_eq!(json["method"], "gp");
    assert_eq!(json["training"]["rows"], 60);
    assert_eq!(json["tensors"]["x"], serde_json::json!([60, 2]));
}

#[test]
fn model_show_refuses() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run("model show nowhere").code, 66);
    assert_eq!(sandbox.run("model show .").code, 66);
    assert_eq!(sandbox.run("model show small.yaml").code, 65);
    assert_eq!(sandbox.run("model").code, 2);
    published(&sandbox);
    let file = sandbox.path("models/small/model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(sandbox.path("flipped.safetensors"), bytes).unwrap();
    let ran = sandbox.run("model show flipped.safetensors");
    assert!(ran.code == 65 && ran.stdout.is_empty(), "{}", ran.stderr);
}

#[test]
fn init_makes_a_pipeline_that_runs() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run("init my-first").succeeded();
    assert_snapshot!("init", ran.stdout);
    sandbox.run("validate my-first.yaml --data").succeeded();
    let ran = sandbox.run("run my-first.yaml").succeeded();
    assert!(!ran.stderr.contains("WARN"), "{}", ran.stderr);
    let explained: f64 = ran.stdout.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(explained > 0.95, "{}", ran.stdout);
    let before = std::fs::read(sandbox.path("my-first.yaml")).unwrap();
    let ran = sandbox.run("init my-first");
    assert!(ran.code == 73 && ran.stderr.contains("there already"), "{}", ran.stderr);
    assert_eq!(std::fs::read(sandbox.path("my-first.yaml")).unwrap(), before);
}

#[test]
fn init_elsewhere() {
    let sandbox = Sandbox::new();
    sandbox.run("init there --dir some/where").succeeded();
    assert_eq!(sandbox.files("some/where"), ["there-data.parquet", "there.yaml"]);
    std::fs::remove_file(sandbox.path("some/where/there.yaml")).unwrap();
    assert_eq!(sandbox.run("init there --dir some/where").code, 73, "the data are in the way");
    assert_eq!(sandbox.files("some/where"), ["there-data.parquet"]);
    assert_eq!(sandbox.run("init there --dir small.yaml").code, 73);
}

#[test]
fn init_refuses_names() {
    let sandbox = Sandbox::new();
    let before = sandbox.files(".");
    for name in ["Upper", "1st", "-x", "a.b", "a/b", "../up", "é", &"a".repeat(101)] {
        let ran = sandbox.run(&format!("init -- {name}"));
        assert_eq!(ran.code, 2, "{name}");
        assert!(ran.stderr.contains("starting with a letter; at most 100 characters"), "{}", ran.stderr);
    }
    assert_eq!(sandbox.files("."), before);
}

#[test]
fn completions_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&format!("completions {shell}")).succeeded().stdout;
        assert!(script.contains("stride-pipe") && script.contains("validate"), "{shell}");
    }
    assert_eq!(sandbox.run("completions tcsh").code, 2);
}
