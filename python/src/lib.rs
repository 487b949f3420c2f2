//! The library as a Python module, `stride_pipe._core`. What people see is Python, in `stride_pipe/`; here is only what needs
//! Rust: a run, a model, batches of rows, and the command.

#![expect(clippy::needless_pass_by_value, reason = "Python hands arguments over")]

mod batches;
mod failure;
mod model;
mod run;
mod watch;
mod worker;

use pyo3::prelude::*;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;
use stride_pipe::gp::linalg::better_kernels;

/// What `stride_pipe` is made of.
#[pymodule]
mod _core {
    use super::batches::Batches;
    use pyo3::prelude::*;
    use std::ffi::OsString;
    use stride_pipe::cli::embedded;
    use stride_pipe::gp::linalg;
    use stride_pipe::tables::TableKind;

    #[pymodule_export]
    use super::batches::Batches as BatchesClass;
    #[pymodule_export]
    use super::model::Model;
    #[pymodule_export]
    use super::run::run;

    /// The command `stride-pipe` with these words, its name first; returns the exit code.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
        py.detach(|| embedded::main(words))
    }

    /// The inner loops that `OpenBLAS` runs, and those that it should run instead, if any.
    #[pyfunction]
    fn kernels() -> (String, Option<&'static str>) {
        (linalg::kernels(), linalg::better_kernels())
    }

    /// The result tables by name, each without rows.
    #[pyfunction]
    fn tables() -> Vec<(&'static str, Batches)> {
        TableKind::ALL.into_iter().map(|kind| (kind.name(), Batches::empty(kind.schema()))).collect()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", stride_pipe::VERSION)?;
        module.add("KERNELS_VARIABLE", linalg::KERNELS_VARIABLE)
    }
}

/// The name of better loops than those that `OpenBLAS` runs, for `_load.py`, which asks before the module is one of Python;
/// null where there are none.
#[expect(unsafe_code, reason = "found by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn stride_pipe_better_kernels() -> *const c_char {
    static NAME: OnceLock<Option<CString>> = OnceLock::new();
    let name = NAME.get_or_init(|| better_kernels().and_then(|name| CString::new(name).ok()));
    name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr())
}
