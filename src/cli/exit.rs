//! Exit codes, which are part of the interface, and what is said when a command fails.

use crate::engine::RunError;
use crate::stages::StageError;
use crate::store::StoreError;
use crate::text::{one_line, printable};
use std::io::Write as _;

/// Done, or nothing to do.
pub const DONE: u8 = 0;
/// A stage failed.
pub const STAGE_FAILED: u8 = 1;
/// `plan --exit-code`: there is work to do.
pub const WORK_TO_DO: u8 = 3;
/// A `fail_if` condition held; all results are written.
pub const ALARM: u8 = 4;
/// Wrong use of the command line.
pub const USAGE: u8 = 2;
/// Input data, or a model file, invalid.
pub const INVALID_DATA: u8 = 65;
/// Input missing.
pub const MISSING_INPUT: u8 = 66;
/// A bug in stride-pipe.
pub const BUG: u8 = 70;
/// Cannot write.
pub const CANNOT_WRITE: u8 = 73;
/// Another run holds the lock.
const LOCKED: u8 = 75;
/// Pipeline file invalid, or not to be done on this machine.
pub const INVALID_PIPELINE: u8 = 78;
/// A process ended by a signal exits with this plus the signal's number.
const SIGNALLED: u8 = 128;

/// What is said of a panic.
pub const PANICKED: &str = concat!(
    "stride-pipe: this is a bug in stride-pipe ",
    env!("CARGO_PKG_VERSION"),
    "; please report it with the lines above"
);

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// A failure with its exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What a stage said when its data were looked at.
    pub fn in_stage(stage: &str, error: &StageError) -> Self {
        Self::new(stage_code(error), one_sentence(format_args!("{stage}: {error}")))
    }

    /// The same with its text changed: secrets hidden, advice added.
    #[must_use]
    pub fn map_message(self, change: impl FnOnce(&str) -> String) -> Self {
        Self { message: change(&self.message), ..self }
    }

    /// Several failures as one: all their messages, and the exit code of the first.
    pub fn all(failures: Vec<Self>) -> Result<(), Self> {
        let Some(code) = failures.first().map(|failure| failure.code) else { return Ok(()) };
        let messages: Vec<String> = failures.into_iter().map(|failure| failure.message).collect();
        Err(Self { code, message: messages.join("\n") })
    }

    /// The exit code.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// What is said, where nothing of it acts.
    pub fn message(&self) -> String {
        printable(&self.message)
    }

    /// Says it and returns the exit code.
    pub fn report(&self) -> u8 {
        if !self.message.is_empty() {
            say(&self.message);
        }
        self.code
    }
}

/// Says it and ends the process as it is: what would tidy up at the end may itself wait for ever.
pub fn at_once(failure: &Failure) -> ! {
    say(&failure.message);
    signal_hook::low_level::exit(failure.code.into())
}

/// Writes lines to stderr, where nothing of them acts; that nobody reads them any more is no failure.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

// Names in it may have ends of lines, and must not look like other messages.
fn one_sentence(error: std::fmt::Arguments<'_>) -> String {
    format!("stride-pipe: {}", one_line(&error.to_string()))
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(store_code(&error), one_sentence(format_args!("{error}")))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match &error {
            RunError::Stage { source, .. } => stage_code(source),
            RunError::Store(source) => store_code(source),
            RunError::Interrupted { signal, .. } => signalled(*signal),
            RunError::Locked { .. } => LOCKED,
            RunError::NothingToResume { .. } => DONE,
            RunError::Changed { .. } => USAGE,
            RunError::TooLarge { .. } => INVALID_PIPELINE,
        };
        Self::new(code, one_sentence(format_args!("{error}")))
    }
}

impl From<StageError> for Failure {
    fn from(error: StageError) -> Self {
        Self::new(stage_code(&error), one_sentence(format_args!("{error}")))
    }
}

/// The exit code of a process that a signal ended.
pub const fn signalled(signal: i32) -> u8 {
    SIGNALLED.saturating_add(signal as u8)
}

const fn stage_code(error: &StageError) -> u8 {
    match error {
        StageError::Store(source) => store_code(source),
        StageError::Data { .. } => INVALID_DATA,
        StageError::Maths { .. } | StageError::Interrupted { .. } => STAGE_FAILED,
        StageError::Bug(_) => BUG,
    }
}

const fn store_code(error: &StoreError) -> u8 {
    match error {
        StoreError::Missing { .. } | StoreError::Read { .. } | StoreError::Remote { writing: false, .. } => {
            MISSING_INPUT
        }
        StoreError::Invalid { .. } | StoreError::Model { .. } => INVALID_DATA,
        StoreError::Write { .. } | StoreError::Remote { .. } => CANNOT_WRITE,
        StoreError::Conflict { .. } => LOCKED,
        StoreError::Table(_) => BUG,
    }
}
