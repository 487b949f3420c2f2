//! Sums of parts that lie with several processes.
//!
//! Every process has the sums of some nodes of the tree. It sends slice q of each to process q, which finishes the tree for that slice;
//! then all slices go to all. Nothing is sent twice, and everything is added in the order of the tree.

use super::Team;
use crate::gp::GpError;

/// How numbers are cut into one slice for every process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    count: usize,
    ranks: usize,
}

impl Slices {
    pub fn new(count: usize, ranks: usize) -> Self {
        Self { count, ranks }
    }

    fn of(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.count / self.ranks..(rank + 1) * self.count / self.ranks
    }
}

/// The total of the nodes of all processes: `own` are the numbers of this one's nodes, `nodes` how many each process has, and `finish`
/// adds up one slice of all of them, in their order.
pub(crate) fn exchanged(
    team: &Team,
    slices: Slices,
    own: &[Vec<f64>],
    nodes: &[usize],
    finish: impl FnOnce(Vec<&[f64]>) -> Vec<f64>,
) -> Result<Vec<f64>, GpError> {
    let comm = &team.comm;
    let (rank, ranks) = (comm.rank(), comm.size());
    let width = |rank: usize| slices.of(rank).len();
    let send: Vec<f64> =
        (0..ranks).flat_map(|to| own.iter().flat_map(move |part| &part[slices.of(to)])).copied().collect();
    let sent: Vec<usize> = (0..ranks).map(|to| own.len() * width(to)).collect();
    let received: Vec<usize> = nodes.iter().map(|count| count * width(rank)).collect();
    // MPI counts in 32 bits.
    if send.len().max(received.iter().sum()).max(slices.count) > i32::MAX as usize {
        return Err(GpError::value(format!("sums of {} numbers are too large to be exchanged", slices.count)));
    }
    let all = team.moving(send.len(), || comm.all_to_all(&send, (&sent, &received)));
    drop(send);
    let parts: Vec<&[f64]> =
        if width(rank) == 0 { vec![&[]; nodes.iter().sum()] } else { all.chunks_exact(width(rank)).collect() };
    if parts.len() != nodes.iter().sum::<usize>() {
        return Err(GpError::shape("sums of other ranks"));
    }
    let total = finish(parts);
    let widths: Vec<usize> = (0..ranks).map(width).collect();
    Ok(team.all_gather(&total, &widths))
}
