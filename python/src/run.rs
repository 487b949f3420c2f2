//! `run`: a pipeline from beginning to end.

use crate::batches::Batches;
use crate::failure::exception;
use crate::watch::RunWatch;
use crate::worker::wait_for;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::sync::Arc;
use stride_pipe::cli::Failure;
use stride_pipe::cli::embedded::{self, RunOutcome};
use stride_pipe::stages::job::Cancel;
use stride_pipe::tables::{MetricRow, TableRow as _};

/// Runs a pipeline as the command with these words would. `look` is called now and then with how far it is: share done,
/// seconds left, task, what it is at, what was said (whether it is a warning, and the text).
#[pyfunction]
pub fn run<'py>(py: Python<'py>, words: Vec<OsString>, look: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let (cancel, watch) = (Cancel::default(), Arc::new(RunWatch::default()));
    let (shared, seen) = (cancel.clone(), Arc::clone(&watch));
    let outcome = wait_for(
        py,
        &cancel,
        || look.call1(watch.snapshot()).map(drop),
        move || embedded::run(words, &shared, seen.as_ref()),
    );
    // What was said last is said also where the run failed.
    look.call1(watch.snapshot())?;
    described(py, outcome?)
}

fn described(py: Python<'_>, run: RunOutcome) -> PyResult<Bound<'_, PyDict>> {
    let RunOutcome { summary, pipeline, results, text, verdict } = run;
    let metrics = MetricRow::batch(&summary.metrics)
        .map_err(|error| exception(py, &Failure::new(70, format!("stride-pipe: {error}"))))?;
    let all = PyDict::new(py);
    all.set_item("run_id", summary.run_id)?;
    all.set_item("pipeline", pipeline)?;
    // As text: a path of Python would make `s3:/b` of `s3://b`.
    all.set_item("results", results.as_os_str())?;
    all.set_item("report", summary.report.as_ref().map(|report| report.as_os_str()))?;
    all.set_item("summary", text)?;
    all.set_item("done", summary.done)?;
    all.set_item("cached", summary.cached)?;
    all.set_item("metrics", Batches::new(metrics.schema(), vec![metrics]).into_pyobject(py)?)?;
    all.set_item("error", verdict.err().map(|failure| exception(py, &failure)))?;
    Ok(all)
}
