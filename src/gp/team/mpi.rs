//! The processes of an MPI job.

use std::sync::Arc;

use mpi::Threading;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _, Root as _};

use super::{Comm, join};

/// Numbers that one call moves at most: MPI counts in 32 bits.
const MOST: usize = 1 << 30;

/// An MPI job, which ends when this is dropped.
pub struct MpiJob {
    _universe: Option<Universe>,
    pub rank: usize,
    pub size: usize,
}

/// Starts MPI. A job of several processes is the [`world`](super::world) from then on.
pub fn start() -> MpiJob {
    let universe = mpi::initialize_with_threading(Threading::Funneled).map(|(universe, _)| universe);
    let world = SimpleCommunicator::world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    if size > 1 {
        join(Arc::new(MpiComm));
    }
    MpiJob { _universe: universe, rank, size }
}

#[derive(Debug)]
struct MpiComm;

fn world() -> SimpleCommunicator {
    SimpleCommunicator::world()
}

// Counts and where each begins.
fn places(counts: &[usize]) -> (Vec<i32>, Vec<i32>) {
    let begin = counts.iter().scan(0, |sum, count| {
        let begin = *sum;
        *sum += *count as i32;
        Some(begin)
    });
    (counts.iter().map(|count| *count as i32).collect(), begin.collect())
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        world().rank() as usize
    }

    fn size(&self) -> usize {
        world().size() as usize
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) {
        let (world, mut count) = (world(), bytes.len() as u64);
        world.process_at_rank(0).broadcast_into(&mut count);
        bytes.resize(count as usize, 0);
        for piece in bytes.chunks_mut(MOST) {
            world.process_at_rank(0).broadcast_into(piece);
        }
    }

    fn gather_words(&self, own: &[u64]) -> Vec<u64> {
        let mut all = vec![0; own.len() * self.size()];
        world().all_gather_into(own, &mut all[..]);
        all
    }

    fn all_to_all(&self, send: &[f64], (sent, received): (&[usize], &[usize])) -> Vec<f64> {
        let ((sent, from), (received, to)) = (places(sent), places(received));
        let mut all = vec![0.0; received.iter().map(|count| *count as usize).sum()];
        let mut into = PartitionMut::new(&mut all[..], received, to);
        world().all_to_all_varcount_into(&Partition::new(send, sent, from), &mut into);
        all
    }

    fn all_gather(&self, own: &[f64], counts: &[usize]) -> Vec<f64> {
        let (counts, to) = places(counts);
        let mut all = vec![0.0; counts.iter().map(|count| *count as usize).sum()];
        world().all_gather_varcount_into(own, &mut PartitionMut::new(&mut all[..], counts, to));
        all
    }
}
