//! What the first screen of a report says to somebody who reads nothing else.

use super::{page, runs};
use crate::sandbox::{SMALL, Sandbox};

const REPORT: &str = "  page:\n    report: { input: metrics }\n";

fn report_of(sandbox: &Sandbox, train: &str) -> String {
    let text = SMALL.replace("method: gp", train);
    sandbox.write("boss.yaml", &format!("{text}{REPORT}"));
    sandbox.run("run boss.yaml --quiet").succeeded();
    page(sandbox, runs(sandbox).last().unwrap())
}

#[test]
fn names_the_target_and_what_matters() {
    let html = report_of(&Sandbox::new(), "method: gp, ard: true");
    let first = html.split("<section").next().unwrap();
    assert!(first.contains("class=\"chip ok\">succeeded<"), "{first}");
    assert!(
        first.contains("% of the variance of y") && first.contains("half of the errors are smaller; RMSE "),
        "{first}"
    );
    assert!(first.contains("in units of y"), "{first}");
    for axis in [">predicted y<", ">true y<", ">true − predicted y, mean ± sd<", ">predictive sd of y<"] {
        assert!(html.contains(axis), "{axis}");
    }
    // Both features have a length of their own, and a place in the order.
    let relevance = html.split("Relevance of features</h2>").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(relevance.contains(">a<") && relevance.contains(">b<"), "{relevance}");
    // What says nothing of how good it is is closed.
    for closed in ["Time", "Pipeline and origin"] {
        assert!(html.contains(&format!("<details><summary><h2>{closed}</h2></summary>")), "{closed}");
    }
    assert!(html.contains("<h2>Predictions</h2>") && !html.contains("<summary><h2>Predictions"));
}

/// What a model has to beat comes after it, in whatever order the pipeline has them.
#[test]
fn the_model_comes_before_its_baseline() {
    let sandbox = Sandbox::new();
    let of_line = "  line:\n    train: { input: folds, method: ridge }\n  by_line:\n    predict: { model: line, input: folds }\n  \
                   a_line:\n    evaluate: { input: by_line }\n  model:";
    let text = SMALL.replacen("  model:", of_line, 1);
    sandbox.write("two.yaml", &format!("{text}{}", REPORT.replace("metrics", "[a_line, metrics]")));
    sandbox.run("run two.yaml --quiet").succeeded();
    let html = page(&sandbox, runs(&sandbox).last().unwrap());
    let cards = html.split("<section").next().unwrap();
    let place = |words: &str| cards.find(words).unwrap_or_else(|| panic!("{words}: {cards}"));
    assert!(place("y, metrics") < place("y, a_line"), "{cards}");
}

#[test]
fn chains_that_have_not_mixed_are_not_green() {
    let sandbox = Sandbox::new();
    let html = report_of(
        &sandbox,
        "method: stride, inducing: { count: 8, candidates: all }, em: { iterations: 1, particles: 3, exchanges: 0, \
         sampler: { hmc: { transitions: 1, leapfrog: 1 } }, final_transitions: 8 }",
    );
    let first = html.split("<section").next().unwrap();
    assert!(first.contains("class=\"chip so\">succeeded, chains have not mixed<"), "{first}");
    assert!(first.contains("have not mixed: train longer"), "{first}");
    assert!(!html.contains("<summary><h2>Markov chains"), "what is wrong is open");
    // Neither in the table of all runs.
    sandbox.run("report --results results").succeeded();
    let all = std::fs::read_to_string(sandbox.path("results/report.html")).unwrap();
    assert!(all.contains("succeeded, chains have not mixed") && !all.contains("chip ok\">succeeded<"));
}
