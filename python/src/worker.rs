//! Long work in a thread of its own, while Python waits: other Python threads go on, and Ctrl-C is heard.

use crate::failure::exception;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stride_pipe::cli::Failure;
use stride_pipe::stages::job::Cancel;

/// How often Python is asked for signals, and told how far the work is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// An interruption this long after the first does not wait for the next safe place any more.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of SIGINT.
const INTERRUPT: usize = 2;

/// Does the work; `look` is called now and then. An exception in `look`, such as Ctrl-C, ends the work at its next safe place.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    cancel: &Cancel,
    mut look: impl FnMut() -> PyResult<()>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more after a second Ctrl-C.
        let _ = sender.send(work());
    });
    // `Receiver` is not `Sync`; it is only used by this thread.
    let receiver = std::sync::Mutex::new(receiver);
    let mut first: Option<(Instant, PyErr)> = None;
    loop {
        let next = py.detach(|| {
            let receiver = receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            receiver.recv_timeout(BETWEEN_LOOKS)
        });
        match next {
            Ok(outcome) => return finished(py, cancel, outcome, first.map(|(_, error)| error)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(pyo3::exceptions::PyRuntimeError::new_err("the thread of the work is gone"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let looked = if first.is_some() { py.check_signals() } else { py.check_signals().and_then(|()| look()) };
        let Err(error) = looked else { continue };
        match &first {
            None => {
                cancel.cell().store(INTERRUPT, Ordering::Relaxed);
                first = Some((Instant::now(), error));
            }
            Some((at, _)) if at.elapsed() < PATIENCE => {}
            Some(_) => return Err(error),
        }
    }
}

/// What came out; an interruption is the exception that the work has made of it, anything else that was raised comes first.
fn finished<T>(py: Python<'_>, cancel: &Cancel, outcome: Result<T, Failure>, raised: Option<PyErr>) -> PyResult<T> {
    match (outcome, raised) {
        (Ok(value), None) => Ok(value),
        (Err(failure), None) => Err(exception(py, &failure)),
        (Err(failure), Some(error)) if cancel.is_set() && is_interrupt(py, &error) => Err(exception(py, &failure)),
        (_, Some(error)) => Err(error),
    }
}

fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py)
}
