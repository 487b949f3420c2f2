//! What a stage gets from the run that it is part of: its task, its key, a clock, the wish to stop, and a place for results.

mod cancel;
mod clock;
mod key;
mod pace;
mod record;
mod task;

pub use crate::gp::observer::{ChainProgress, Progress};
pub use cancel::Cancel;
pub use clock::{Measured, Stopwatch};
pub use key::{Key, reason};
pub use pace::Pace;
pub use record::Record;
pub use task::{Finished, Listener, Task};
