//! Several processes that train on the same rows: each sums its share of the leaves, and all of them go on with the same bits.
//!
//! Small things (hyper-parameters, chains, inducing points) every process computes for itself, from the same sums. A library moves
//! numbers between processes and never adds them: which transport it is, and how many processes there are, changes no bit.
//!
//! A fit belongs to a team by the thread that runs it ([`Team::run`]). Sums on other threads are whole sums of their own.

mod exchange;
#[cfg(feature = "mpi")]
mod mpi;
mod observer;
#[cfg(test)]
pub(crate) mod threads;

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use rayon::prelude::*;

use super::GpError;

pub(crate) use exchange::{Slices, exchanged};
#[cfg(feature = "mpi")]
pub use mpi::{MpiJob, start};
pub use observer::TeamObserver;

/// Moves numbers between the processes of a job. Every one of them makes the same calls in the same order.
pub trait Comm: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// The bytes of rank 0 to all.
    fn broadcast(&self, bytes: &mut Vec<u8>);
    /// The words of all processes, which have the same number of them, in the order of ranks.
    fn gather_words(&self, own: &[u64]) -> Vec<u64>;
    /// `send` holds what goes to every rank, one after the other, `counts.0` numbers for each; `counts.1` come from each.
    fn all_to_all(&self, send: &[f64], counts: (&[usize], &[usize])) -> Vec<f64>;
    /// The numbers of all processes, `counts` from each.
    fn all_gather(&self, own: &[f64], counts: &[usize]) -> Vec<f64>;
}

static WORLD: OnceLock<Arc<dyn Comm>> = OnceLock::new();

/// The processes of this job, if there are several.
pub fn world() -> Option<&'static Arc<dyn Comm>> {
    WORLD.get()
}

/// Makes these the processes of this job, once.
pub fn join(comm: Arc<dyn Comm>) {
    let _ = WORLD.set(comm);
}

thread_local! {
    static TEAM: RefCell<Option<Arc<Team>>> = const { RefCell::new(None) };
}

/// The team of the fit on this thread.
pub(crate) fn current() -> Option<Arc<Team>> {
    TEAM.with_borrow(Clone::clone)
}

/// What is compared before numbers are exchanged: the number of the call, whether all is well, whether to stop, the time.
const WORDS: usize = 4;
/// In place of the number of a call.
const BEGIN: u64 = u64::MAX;
const END: u64 = u64::MAX - 1;

/// Processes that work on one fit.
#[derive(Debug)]
pub struct Team {
    pub(crate) comm: Arc<dyn Comm>,
    calls: AtomicU64,
    // Rank 0 has been asked to stop; and all know.
    asked: AtomicBool,
    agreed: AtomicBool,
    // Seconds since the beginning by the clock of rank 0, as bits, at the last exchange.
    seconds: AtomicU64,
    begun: Instant,
    // All processes have heard of a failure, and exchange nothing more.
    failed: AtomicBool,
    traffic: Mutex<Traffic>,
}

/// What a process has exchanged with the others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Bytes that it has sent.
    pub bytes: u64,
    /// Seconds until they were there, once all had them ready.
    pub moving: f64,
    /// Seconds until all had them ready.
    pub waiting: f64,
    /// How often.
    pub calls: u64,
}

impl Team {
    pub fn new(comm: Arc<dyn Comm>) -> Arc<Self> {
        Arc::new(Self {
            comm,
            calls: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            agreed: AtomicBool::new(false),
            seconds: AtomicU64::new(0),
            begun: Instant::now(),
            failed: AtomicBool::new(false),
            traffic: Mutex::new(Traffic::default()),
        })
    }

    /// Runs a fit with the team, on this thread; `ready` is why this process cannot take part. All processes begin and end
    /// together: if one of them fails, so do the others.
    pub fn run<T, E: From<GpError>>(
        self: &Arc<Self>,
        ready: Result<(), E>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let all_ready = self.agree(BEGIN, ready.is_ok());
        ready?;
        all_ready?;
        TEAM.with_borrow_mut(|team| *team = Some(Arc::clone(self)));
        let result = work();
        TEAM.with_borrow_mut(|team| *team = None);
        if self.failed.load(Ordering::Relaxed) {
            return result;
        }
        let all_done = self.agree(END, result.is_ok() || self.agreed.load(Ordering::Relaxed));
        let value = result?;
        all_done?;
        Ok(value)
    }

    /// Before numbers are exchanged: all processes are at the same call, and none has failed.
    pub(crate) fn before_exchange(&self, well: bool) -> Result<(), GpError> {
        self.agree(self.calls.fetch_add(1, Ordering::Relaxed), well)
    }

    fn agree(&self, call: u64, well: bool) -> Result<(), GpError> {
        let asked = u64::from(self.asked.load(Ordering::Relaxed));
        let own: [u64; WORDS] = [call, u64::from(well), asked, self.begun.elapsed().as_secs_f64().to_bits()];
        let begun = Instant::now();
        let all = self.comm.gather_words(&own);
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).waiting += begun.elapsed().as_secs_f64();
        self.seconds.store(all[WORDS - 1], Ordering::Relaxed);
        self.agreed.store(all[2] == 1, Ordering::Relaxed);
        let words = |rank: usize| &all[rank * WORDS..(rank + 1) * WORDS];
        let at_fault = (0..self.comm.size()).find(|rank| words(*rank)[1] == 0 || words(*rank)[0] != all[0]);
        let Some(rank) = at_fault else { return Ok(()) };
        self.failed.store(true, Ordering::Relaxed);
        let what = if words(rank)[1] == 0 { "failed" } else { "does something else than rank 0, which is a bug" };
        Err(GpError::Elsewhere { what: format!("rank {rank} {what}") })
    }

    /// The numbers of all processes, `counts` from each, once they have agreed to exchange them.
    pub(crate) fn all_gather(&self, own: &[f64], counts: &[usize]) -> Vec<f64> {
        self.moving(own.len(), || self.comm.all_gather(own, counts))
    }

    // So many numbers are sent.
    fn moving<T>(&self, count: usize, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        let mut traffic = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.moving += begun.elapsed().as_secs_f64();
        traffic.bytes += 8 * count as u64;
        traffic.calls += 1;
        done
    }

    /// What this process has exchanged so far.
    pub fn traffic(&self) -> Traffic {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_to_stop(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn stops(&self) -> bool {
        self.agreed.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        f64::from_bits(self.seconds.load(Ordering::Relaxed))
    }
}

/// `work` on every one of some things: on all threads, or in a team one after the other, so that the sums of one do not come between
/// those of another.
pub(crate) fn for_each_of<T: Send, R: Send>(
    all: Vec<T>,
    work: impl Fn(T) -> Result<R, GpError> + Sync + Send,
) -> Result<Vec<R>, GpError> {
    if current().is_some() { all.into_iter().map(work).collect() } else { all.into_par_iter().map(work).collect() }
}

#[cfg(test)]
mod tests {
    use super::threads::on_ranks;
    use super::*;
    use crate::gp::linalg::{Span, sum_rows};
    use std::ops::Range;

    fn value(row: usize) -> f64 {
        (row as f64 * 0.37).sin() * 10_f64.powi((row % 13) as i32 - 6)
    }

    // Five numbers, in two pieces.
    fn part(rows: Range<usize>) -> (f64, Vec<f64>) {
        rows.fold((0.0, vec![0.0; 4]), |(mut one, mut four), row| {
            one += value(row);
            four.iter_mut().enumerate().for_each(|(i, sum)| *sum += value(3 * row + i));
            (one, four)
        })
    }

    fn sum(n: usize) -> Result<Vec<u64>, GpError> {
        let (one, four) = sum_rows(&Span::whole(n), 5, || (0.0, vec![0.0; 4]), |rows| Ok(part(rows)))?;
        Ok([one].iter().chain(&four).map(|value| value.to_bits()).collect())
    }

    #[test]
    fn a_team_has_the_bits_of_one_process() -> Result<(), GpError> {
        // In order and pairwise; fewer leaves than ranks; ranks that own no whole half.
        for n in [0, 700, 2000, 40_000, 1_100_000, 2_200_000] {
            let alone = sum(n)?;
            for ranks in 1..=5 {
                for together in on_ranks(ranks, |team| team.run(Ok(()), || sum(n))) {
                    assert_eq!(together?, alone, "{n} rows on {ranks} ranks");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_failure_of_one_is_a_failure_of_all() {
        let fails = |team: &Arc<Team>| {
            let rank = team.comm.rank();
            team.run(Ok(()), || {
                sum(40_000)?;
                let work =
                    |rows: Range<usize>| if rank == 1 { Err(GpError::shape("no")) } else { Ok(rows.len() as f64) };
                sum_rows(&Span::whole(40_000), 1, || 0.0, work)
            })
        };
        let outcomes = on_ranks(3, fails);
        assert!(matches!(&outcomes[1], Err(GpError::BadShape { .. })), "{outcomes:?}");
        let elsewhere = |outcome: &Result<f64, GpError>| {
            outcome.as_ref().is_err_and(|error| error.to_string() == "rank 1 failed" && !error.is_recoverable())
        };
        assert!(elsewhere(&outcomes[0]) && elsewhere(&outcomes[2]), "{outcomes:?}");
        // Before it begins, and after the last sum.
        let late = on_ranks(2, |team| {
            let ready = if team.comm.rank() == 1 { Err(GpError::shape("no input")) } else { Ok(()) };
            team.run(ready, || sum(40_000))
        });
        assert!(late.iter().all(Result::is_err), "{late:?}");
        let end = on_ranks(2, |team| {
            let rank = team.comm.rank();
            team.run(Ok(()), || if rank == 1 { Err(GpError::shape("no")) } else { sum(40_000).map(drop) })
        });
        assert!(end.iter().all(Result::is_err), "{end:?}");
    }

    #[test]
    fn a_rank_that_does_something_else_is_noticed() {
        let outcomes = on_ranks(2, |team| {
            let rank = team.comm.rank();
            team.run(Ok(()), || if rank == 0 { sum(40_000) } else { Ok(Vec::new()) })
        });
        let bug = |outcome: &Result<Vec<u64>, GpError>| {
            outcome.as_ref().is_err_and(|error| error.to_string().contains("does something else than rank 0"))
        };
        assert!(outcomes.iter().all(bug), "{outcomes:?}");
    }

    #[test]
    fn all_stop_when_rank_0_is_asked_to() {
        let stopped = on_ranks(3, |team| {
            team.run(Ok(()), || {
                let mut rounds = 0;
                while !team.stops() && rounds < 100 {
                    rounds += 1;
                    if rounds == 4 && team.comm.rank() == 0 {
                        team.ask_to_stop();
                    }
                    sum(3000)?;
                }
                Ok::<_, GpError>(rounds)
            })
        });
        assert!(stopped.iter().all(|rounds| matches!(rounds, Ok(4))), "{stopped:?}");
    }
}
