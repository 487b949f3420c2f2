//! Failures as exceptions: `stride_pipe._errors` knows which class belongs to which exit code.

use pyo3::prelude::*;
use stride_pipe::cli::Failure;

/// The exception of a failure, with the text that the command would print.
pub fn exception(py: Python<'_>, failure: &Failure) -> PyErr {
    let made = py
        .import("stride_pipe._errors")
        .and_then(|module| module.call_method1("of", (failure.code(), failure.message())));
    made.map_or_else(|error| error, PyErr::from_value)
}
