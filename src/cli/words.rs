//! The words of the command: those that this process was started with, or that a program gave which uses us as a library.

use crate::text;
use std::cell::RefCell;
use std::ffi::OsString;
use std::sync::OnceLock;

/// What the whole process is, where it was started by something else, such as Python.
static OF_PROCESS: OnceLock<Vec<OsString>> = OnceLock::new();

thread_local! {
    /// What this thread does, where a process does several things.
    static OF_THREAD: RefCell<Option<Vec<OsString>>> = const { RefCell::new(None) };
}

/// Says what the process is, once.
pub fn set_for_process(words: Vec<OsString>) {
    let _ = OF_PROCESS.set(words);
}

/// Does something under these words.
pub fn with<T>(words: Vec<OsString>, work: impl FnOnce() -> T) -> T {
    let before = OF_THREAD.replace(Some(words));
    let outcome = work();
    OF_THREAD.set(before);
    outcome
}

/// The words, the name of the program first.
pub fn words() -> Vec<OsString> {
    let given = OF_THREAD.with_borrow(Clone::clone).or_else(|| OF_PROCESS.get().cloned());
    given.unwrap_or_else(|| std::env::args_os().collect())
}

/// The same as text.
pub fn arguments() -> impl Iterator<Item = String> {
    words().into_iter().map(|word| word.to_string_lossy().into_owned())
}

/// The command line, as a shell would take it.
pub fn command_line() -> String {
    text::command_line(arguments())
}
