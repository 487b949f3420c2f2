//! The report stage of a pipeline.

use super::{page, runs, with_report};
use crate::sandbox::SMALL;

#[test]
fn a_run_ends_with_its_report() {
    let sandbox = with_report();
    let ran = sandbox.run("run small.yaml").succeeded();
    let run = &runs(&sandbox)[0];
    assert!(ran.stdout.contains(&format!("report: results/run/{run}/report.html")), "{}", ran.stdout);
    // Two cases of 13 tasks, of which they share two, and one report for both.
    assert!(ran.stdout.contains("25 task(s) done, 2 taken from the cache"), "{}", ran.stdout);
    let html = page(&sandbox, run);
    for text in
        ["succeeded", "matern12", "data-chart=\"metric\"", "data-chart=\"graph\"", "Calibration", "stride-pipe 0."]
    {
        assert!(html.contains(text), "{text}");
    }
    assert!(html.len() < 400_000, "{}", html.len());
    let manifest = std::fs::read_to_string(sandbox.path(format!("results/run/{run}/manifest.json"))).unwrap();
    assert!(manifest.contains(&format!("run/{run}/report.html")), "the manifest knows all files");
    let events = std::fs::read_to_string(sandbox.path(format!("results/run/{run}/events.jsonl"))).unwrap();
    assert!(events.lines().last().unwrap().contains("run_finished"));
    // Nothing changed: the report is no reason for a run, but a run has one.
    sandbox.run("plan small.yaml --exit-code").succeeded();
    let ran = sandbox.run("run small.yaml").succeeded();
    assert!(ran.stdout.contains("1 task(s) done, 26 taken from the cache"), "{}", ran.stdout);
    page(&sandbox, &runs(&sandbox)[1]);
    let plan = sandbox.run("plan small.yaml --set seed=8").succeeded().stdout;
    assert!(plan.contains("run: report ← metrics"), "{plan}");
}

#[test]
fn a_run_that_stops_before_has_none() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --to metrics").succeeded();
    assert!(!sandbox.path(format!("results/run/{}/report.html", runs(&sandbox)[0])).exists());
}

#[test]
fn other_cases_are_reported_when_one_fails() {
    let sandbox = with_report();
    let failing = SMALL.replace("features: [a, b]", "features: ['${matrix.column}', b]");
    let failing = failing.replace("stages:\n", "matrix: { column: [a, nothere] }\nstages:\n");
    sandbox.write("failing.yaml", &format!("{failing}  page:\n    report: {{ input: [metrics] }}\n"));
    let ran = sandbox.run("run failing.yaml --keep-going");
    assert_ne!(ran.code, 0);
    let html = page(&sandbox, &runs(&sandbox)[0]);
    assert!(
        html.contains("chip no\">failed") && html.contains("nothere"),
        "the status, and the warning with its reason"
    );
}

#[test]
fn inputs_are_checked() {
    let sandbox = with_report();
    let pipeline = |input: &str| format!("{SMALL}  page:\n    report: {{ input: {input} }}\n");
    for (input, message) in [
        ("predictions", "`predictions` is a stage of kind predict; `input` of report needs evaluate"),
        ("[metrics, metricks]", "there is no stage `metricks`"),
        ("3", "`input` is a whole number, expected the name of a stage, or a list of names"),
        ("[]", "`input`"),
        ("page", "cannot take its own output"),
    ] {
        sandbox.write("bad.yaml", &pipeline(input));
        let ran = sandbox.run("validate bad.yaml");
        assert_eq!(ran.code, 78, "{input}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{input}: {}", ran.stderr);
    }
    sandbox.write("good.yaml", &pipeline("[metrics]"));
    sandbox.run("validate good.yaml").succeeded();
}

#[test]
fn only_the_stages_asked_for_are_shown() {
    let sandbox = with_report();
    let text =
        format!("{SMALL}  again:\n    evaluate: {{ input: predictions }}\n  page:\n    report: {{ input: again }}\n");
    sandbox.write("two.yaml", &text);
    sandbox.run("run two.yaml").succeeded();
    let run = &runs(&sandbox)[0];
    let html = page(&sandbox, run);
    assert!(html.contains("again</h3>") && !html.contains("metrics</h3>"));
    // The command shows all of them.
    sandbox.run(&format!("report {run}")).succeeded();
    let html = page(&sandbox, run);
    assert!(html.contains("again</h3>") && html.contains("metrics</h3>"));
}

#[test]
fn a_report_that_cannot_be_written_fails_the_run() {
    let sandbox = with_report();
    sandbox.run("run small.yaml --to folds").succeeded();
    let run = runs(&sandbox).remove(0);
    // A directory stands where the page should be.
    std::fs::create_dir(sandbox.path(format!("results/run/{run}/report.html"))).unwrap();
    let ran = sandbox.run(&format!("report {run}"));
    assert_eq!(ran.code, 73, "{}", ran.stderr);
    assert!(ran.stderr.contains("report.html"), "{}", ran.stderr);
}
