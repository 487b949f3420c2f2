//! Searches the settings of a train stage on rows inside its training rows, within a budget of time, and writes the pipeline
//! with the best of them.
//!
//! What may be tried is declared in `space`; `subject` makes pipelines of it, those of the trials and the one that is
//! written; `halving` runs trials: many on few rows, those that did best on more, the best of all on most.

mod candidate;
mod halving;
mod space;
mod subject;

pub use candidate::Setting;
pub use halving::{Halving, SettingOutcome, SettingTrial, best_setting};
pub use subject::{METRICS, TuneMistake, TuneRequest, TuneSubject};
