//! What a stage gets from its run: its task and key, spans that time it, the wish to stop, and a place for results.

mod cancel;
mod key;
mod pace;
mod record;
mod spans;
mod task;
mod workload;

pub use crate::gp::observer::{ChainProgress, Progress};
pub use cancel::Cancel;
pub use key::{Key, reason};
pub use pace::Pace;
pub use record::{FinishedRun, Record};
pub use spans::Spans;
pub use task::{Finished, Listener, Task};
pub use workload::{Course, Workload};
