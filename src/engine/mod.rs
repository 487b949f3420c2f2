//! Makes it happen: order, cache, events, clock, interruption.
//!
//! [`run`] walks the cases and stages of a plan. Every finished piece of work is put into the cache under a hash of
//! what it depends on, and taken from there when nothing of that has changed.

mod cancel;
mod case;
mod clock;
mod error;
mod forecast;
mod inspect;
mod key;
mod listener;
mod locks;
mod note;
mod observer;
mod pace;
mod predicted;
mod preview;
mod record;
mod resume;
mod run;
mod scoring;
mod source;

pub use cancel::Cancel;
pub use error::RunError;
pub use forecast::{Decision, forecast};
pub use inspect::{Inspected, Inspection, inspect};
pub use listener::{Chains, Finished, Listener, Progressed, Task};
pub use note::Noting;
pub use preview::preview;
pub use resume::Resume;
pub use run::{RunFailure, RunOptions, Selected, Summary, run};
pub use scoring::{Destination, Origin, ScoreRequest, ScoreSummary, score};
