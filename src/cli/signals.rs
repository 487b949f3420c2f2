//! What Ctrl-C and SIGTERM do: the first one ends the work at the next safe place, a later one ends it at once.

use super::exit::{self, Failure};
use crate::stages::job::Cancel;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A signal this soon after the first is the same wish: `timeout`, a terminal and a scheduler may each send one to the
/// process and one to its group.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Listens from now on. `farewell` is what is said last when the work is ended at once: how to go on, for instance.
pub fn listen(farewell: impl Fn() -> String + Send + 'static) -> Result<Cancel, Failure> {
    let cancel = Cancel::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::new(exit::BUG, format!("stride-pipe: signals: {error}")))?;
    let cell = cancel.cell();
    std::thread::spawn(move || {
        let mut first: Option<Instant> = None;
        for signal in &mut signals {
            match first {
                None => {
                    first = Some(Instant::now());
                    cell.store(signal.unsigned_abs() as usize, Ordering::Relaxed);
                    tracing::warn!(signal, "stopping … (the same again ends it at once)");
                }
                Some(first) if first.elapsed() < SAME_WISH => {}
                Some(_) => {
                    let text = format!("stride-pipe: ended at once by signal {signal}{}", farewell());
                    let code = exit::signalled(signal);
                    exit::at_once(&Failure::new(code, text));
                }
            }
        }
    });
    Ok(cancel)
}
