//! Where the local layer helps: what the predictions say of it, the view, and the section of the page.

use super::{page, runs};
use crate::sandbox::{SMALL, Sandbox};
use stride_pipe::store::read_predictions;
use stride_pipe::tables::PredictionBlock;
use stride_pipe::tables::predictions;

/// The small pipeline with another model, and a report.
fn with_model(options: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let text = SMALL.replace("method: gp", options);
    sandbox.write("small.yaml", &format!("{text}  page:\n    report: {{ input: metrics }}\n"));
    sandbox
}

const SPARSE: &str = "method: sparse_gp, inducing: { count: 4, candidates: 20 }, local: { neighbours: 8 }";

/// The predictions of the latest run.
fn predictions(sandbox: &Sandbox) -> PredictionBlock {
    read_predictions(sandbox.table_files("predictions").last().unwrap()).unwrap()
}

#[test]
fn predictions_know_what_the_model_says_without_its_local_layer() {
    let deep = "method: stride, inducing: { count: 4, candidates: 20 }, local: { neighbours: 8 }, \
        deep: { hidden: { method: aca, rank: 6 } }, em: { iterations: 1, particles: 2, final_transitions: 0, \
        sampler: { hmc: { transitions: 1, leapfrog: 2 } } }";
    for options in [SPARSE, deep] {
        let sandbox = with_model(options);
        sandbox.run("run small.yaml --quiet").succeeded();
        let with = predictions(&sandbox);
        let global = with.y_mean_global.clone().expect("the local layer is on");
        let nearest = with.nearest_distance.clone().unwrap();
        assert!(nearest.iter().all(|distance| *distance >= 0.0) && nearest.iter().any(|distance| *distance > 0.2));
        assert_ne!(global, with.y_mean);
        // The very numbers that a prediction without the layer has, and nothing to compare them with.
        sandbox.run("run small.yaml --quiet --set stages.predictions.predict.local=false").succeeded();
        let without = predictions(&sandbox);
        assert_eq!(without.y_mean, global);
        assert_eq!((without.y_mean_global, without.nearest_distance), (None, None));
    }
}

#[test]
fn models_without_anything_below_have_nothing_to_compare() {
    let sandbox = with_model("method: gp");
    sandbox.run("run small.yaml --quiet").succeeded();
    assert_eq!(predictions(&sandbox).y_mean_global, None);
    assert!(!page(&sandbox, &runs(&sandbox)[0]).contains("Local layer"), "nothing that it could have");
    let top = "method: stride, top: { neighbours: 4 }, em: { iterations: 1, particles: 2, final_transitions: 0, \
        sampler: { hmc: { transitions: 1, leapfrog: 2 } } }";
    let sandbox = with_model(top);
    sandbox.run("run small.yaml --quiet").succeeded();
    let found = predictions(&sandbox);
    assert_eq!(found.y_mean_global, None);
    assert!(found.nearest_distance.is_some());
    assert!(page(&sandbox, &runs(&sandbox)[0]).contains("<summary>No local layer to compare</summary>"), "folded");
}

#[test]
fn the_page_says_where_the_local_layer_helps() {
    let sandbox = with_model(SPARSE);
    sandbox.run("run small.yaml --quiet").succeeded();
    let html = page(&sandbox, &runs(&sandbox)[0]);
    let section = html.split("<section id=\"r0-local\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(section.matches("data-chart=\"distance\"").count(), 1, "{section}");
    assert!(section.contains("RMSE (y)") && section.contains("with its local layer"), "{section}");
    // The sentence, from the rows themselves.
    let rows = predictions(&sandbox);
    let truth = rows.y_true.unwrap();
    let rmse = |means: &[f64]| {
        let squares: f64 = truth.iter().zip(means).map(|(truth, mean)| (truth - mean).powi(2)).sum();
        (squares / truth.len() as f64).sqrt()
    };
    let (with, without) = (rmse(&rows.y_mean), rmse(&rows.y_mean_global.unwrap()));
    let smaller = format!("{:.1} % smaller", 100.0 * (1.0 - with / without));
    assert!(section.contains(&smaller), "{smaller}: {section}");
}

/// Files from before there were these columns: what is not in them is not known.
#[test]
fn older_predictions_stay_readable() {
    let sandbox = with_model("method: gp");
    sandbox.run("run small.yaml --quiet").succeeded();
    let path = sandbox.table_files("predictions").remove(0);
    let (schema, batches) = predictions::batches("r", &[predictions(&sandbox)]).unwrap();
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|index| !["y_mean_global", "nearest_distance"].contains(&schema.field(*index).name().as_str()))
        .collect();
    let older = batches[0].project(&kept).unwrap();
    let fields = older.schema();
    let columns = fields.fields().iter().map(|field| field.name().as_str()).zip(older.columns().iter().cloned());
    stride_pipe::store::write_columns(&path, columns.collect()).unwrap();
    let found = read_predictions(&path).unwrap();
    assert_eq!(found.rows(), 60);
    assert_eq!(found.quantiles.len(), 4, "quantiles are told from other columns by their names");
    assert_eq!(predictions::template(&fields).quantiles.len(), 4);
    let run = &runs(&sandbox)[0];
    super::without_hashes(&sandbox, run, &["predictions"]);
    sandbox.run(&format!("report {run}")).succeeded();
    assert!(page(&sandbox, run).contains("data-chart=\"calibration\""));
}
