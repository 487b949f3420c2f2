//! The command over one run, several, or all.

use super::{page, runs, with_report};
use crate::sandbox::Sandbox;

fn two_runs() -> (Sandbox, Vec<String>) {
    let sandbox = with_report();
    sandbox.run("run small.yaml --quiet").succeeded();
    sandbox.run("run small.yaml --quiet --set seed=8").succeeded();
    let names = runs(&sandbox);
    (sandbox, names)
}

#[test]
fn one_run_several_or_all() {
    let (sandbox, names) = two_runs();
    let said = sandbox.run("report last").succeeded().stdout;
    assert!(said.starts_with(&format!("results/run/{}/report.html: 1 run(s), ", names[1])), "{said}");
    sandbox.run(&format!("report {} -o one.html", names[0])).succeeded();
    let one = std::fs::read_to_string(sandbox.path("one.html")).unwrap();
    assert!(one.contains(&names[0]) && !one.contains(&names[1]));
    sandbox.run(&format!("report {} last -o two.html", names[0])).succeeded();
    let two = std::fs::read_to_string(sandbox.path("two.html")).unwrap();
    assert_eq!(two.matches("<header class=\"run\" ").count(), 2, "both in detail");
    let said = sandbox.run("report").succeeded().stdout;
    assert!(said.starts_with("results/report.html: 2 run(s), "), "{said}");
    let all = std::fs::read_to_string(sandbox.path("results/report.html")).unwrap();
    assert_eq!(all.matches("<header class=\"run\" ").count(), 1, "the latest in detail");
    assert!(all.contains(&format!("href=\"run/{}/report.html\"", names[0])), "the others are linked");
    assert!(all.contains("data-chart=\"history\""));
    let printed = sandbox.run("report -o -").succeeded().stdout;
    assert!(printed.starts_with("<!DOCTYPE html>") && printed.ends_with("</html>\n"));
    // The results directory of a pipeline file, and runs of one pipeline only.
    sandbox.run("report --file small.yaml --pipeline small -o file.html").succeeded();
}

#[test]
fn the_same_run_gives_the_same_page() {
    let (sandbox, names) = two_runs();
    let before = page(&sandbox, &names[0]);
    sandbox.run(&format!("report {}", names[0])).succeeded();
    assert_eq!(before, page(&sandbox, &names[0]));
}

#[test]
fn wrong_use_says_what_to_do() {
    let (sandbox, _) = two_runs();
    for (arguments, code, message) in [
        ("report 2031", 66, "there is no run `2031`"),
        ("report --results elsewhere", 66, "there is no results directory here"),
        ("report --pipeline other", 66, "there are no runs in results; run a pipeline first"),
        ("report last -o missing/directory/../../small.yaml/x.html", 73, "cannot be written"),
        ("report --last", 2, "unexpected argument"),
    ] {
        let ran = sandbox.run(arguments);
        assert_eq!(ran.code, code, "{arguments}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{arguments}: {}", ran.stderr);
    }
}
