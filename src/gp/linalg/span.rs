//! Which rows of a fit a process holds, and what is asked of rows that others hold.
//!
//! A process holds the rows of its own leaves (see `tiles.rs`) and nothing of the others. Numbers of rows are those among all
//! of them wherever rows are picked; sums and what is held count from the first row that is held.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2, s};

use super::tiles::{Leaves, TILE, add_all, sum_rows};
use crate::gp::GpError;
use crate::gp::team::{self, Team};

/// Rows that are held begin and end at a multiple of this: whole tiles of passes, and whole blocks in which BLAS computes rows.
const BLOCK: usize = 3 * TILE;

/// The rows of a fit, and which of them this process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    all: usize,
    held: Range<usize>,
    // The rows of every process in a team: each row belongs to one of them. `None`: all rows are here.
    shares: Option<Arc<Shares>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Shares {
    rank: usize,
    // Where the rows of each process begin, and the end of all.
    starts: Vec<usize>,
    // The most rows that one of them holds.
    widest: usize,
}

impl Span {
    /// All rows are held.
    pub fn whole(n: usize) -> Self {
        Self { all: n, held: 0..n, shares: None }
    }

    /// The rows of one of several processes, for sums over them of these sizes. With many numbers in a sum there are fewer and
    /// longer leaves, which may reach into rows that belong to others: such rows are held by both.
    pub fn shared(n: usize, (rank, ranks): (usize, usize), sizes: &[usize]) -> Self {
        let starts: Vec<usize> = (0..=ranks).map(|rank| Leaves::new(n, 1).begin(rank, ranks)).collect();
        let held = |rank: usize| {
            let mut held = starts[rank]..starts[rank + 1];
            for size in sizes {
                let leaves = Leaves::new(n, *size);
                if leaves.is_one() {
                    return 0..n;
                }
                let own = leaves.begin(rank, ranks)..leaves.begin(rank + 1, ranks);
                if !own.is_empty() {
                    held = if held.is_empty() { own } else { held.start.min(own.start)..held.end.max(own.end) };
                }
            }
            held.start / BLOCK * BLOCK..held.end.next_multiple_of(BLOCK).min(n)
        };
        let widest = (0..ranks).map(|rank| held(rank).len()).max().unwrap_or(n);
        let held = held(rank);
        Self { all: n, held, shares: Some(Arc::new(Shares { rank, starts, widest })) }
    }

    /// Number of all rows.
    pub fn all(&self) -> usize {
        self.all
    }

    /// Those that are held.
    pub fn held(&self) -> Range<usize> {
        self.held.clone()
    }

    /// Whether there are so many rows that sums over them are added by the tree.
    pub(crate) fn is_long(&self) -> bool {
        Leaves::new(self.all, 1).is_tree()
    }

    /// The most rows that one process holds.
    pub fn widest(&self) -> usize {
        self.shares.as_ref().map_or(self.all, |shares| shares.widest)
    }

    /// Whether other processes hold rows that this one does not.
    pub fn is_shared(&self) -> bool {
        self.shares.is_some()
    }

    /// Numbers among the held rows of rows that are.
    pub(crate) fn local(&self, rows: Range<usize>) -> Result<Range<usize>, GpError> {
        if rows.start < self.held.start || rows.end > self.held.end {
            let Range { start, end } = &self.held;
            return Err(GpError::shape(format!("rows {rows:?} where {start}..{end} are held")));
        }
        Ok(rows.start - self.held.start..rows.end - self.held.start)
    }

    /// The team that holds the rows together, and what each of its processes has of them.
    fn team(&self) -> Result<Option<(Arc<Team>, &Shares)>, GpError> {
        let Some(shares) = &self.shares else { return Ok(None) };
        let team = team::current().ok_or_else(|| GpError::shape("rows of other processes, asked for without them"))?;
        Ok(Some((team, shares)))
    }

    /// Rows in the order of `list`, each of so many numbers; `own` gives some of those that this process holds.
    pub(crate) fn gather(
        &self,
        list: &[usize],
        width: usize,
        own: impl FnOnce(&[usize]) -> Result<Array2<f64>, GpError>,
    ) -> Result<Array2<f64>, GpError> {
        if let Some(row) = list.iter().find(|row| **row >= self.all) {
            return Err(GpError::shape(format!("row {row} of {}", self.all)));
        }
        let Some((team, Shares { rank, starts, .. })) = self.team()? else { return own(list) };
        let owner = |row: usize| starts.partition_point(|start| *start <= row) - 1;
        let owners: Vec<usize> = list.iter().map(|row| owner(*row)).collect();
        let mut counts = vec![0; starts.len() - 1];
        for owner in &owners {
            counts[*owner] += width;
        }
        let first = self.held.start;
        let mine: Vec<usize> =
            list.iter().zip(&owners).filter(|(_, owner)| *owner == rank).map(|(row, _)| row - first).collect();
        let found = own(&mine);
        let fits = found.as_ref().is_ok_and(|found| found.dim() == (mine.len(), width));
        let agreed = team.before_exchange(fits);
        let found = found?;
        agreed?;
        if list.len().saturating_mul(width) > i32::MAX as usize {
            return Err(GpError::value(format!("{} rows of {width} numbers are too many to be exchanged", list.len())));
        }
        let found = found.as_standard_layout();
        let all = team.all_gather(found.as_slice().unwrap_or_default(), &counts);
        let mut next: Vec<usize> =
            counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
        let mut rows = Array2::zeros((list.len(), width));
        for (mut row, owner) in rows.outer_iter_mut().zip(&owners) {
            let from = next[*owner];
            row.iter_mut().zip(&all[from..from + width]).for_each(|(to, value)| *to = *value);
            next[*owner] = from + width;
        }
        Ok(rows)
    }

    /// Some numbers that every process changes in its turn, by the rows that belong to it: as one pass over all rows in their
    /// order would.
    pub(crate) fn in_turn(
        &self,
        mut numbers: Vec<f64>,
        work: impl FnOnce(Range<usize>, &mut [f64]) -> Result<(), GpError>,
    ) -> Result<Vec<f64>, GpError> {
        let Some((team, Shares { rank, starts, .. })) = self.team()? else {
            work(0..self.all, &mut numbers)?;
            return Ok(numbers);
        };
        let mut work = Some(work);
        for turn in 0..starts.len() - 1 {
            // Who has no rows changes nothing.
            if starts[turn] == starts[turn + 1] {
                continue;
            }
            let mine = turn == *rank;
            let done = match work.take_if(|_| mine) {
                Some(work) => self.local(starts[turn]..starts[turn + 1]).and_then(|own| work(own, &mut numbers)),
                None => Ok(()),
            };
            let agreed = team.before_exchange(done.is_ok());
            done?;
            agreed?;
            let count = |rank: usize| if rank == turn { numbers.len() } else { 0 };
            let counts: Vec<usize> = (0..starts.len() - 1).map(count).collect();
            numbers = team.all_gather(if mine { &numbers } else { &[] }, &counts);
        }
        Ok(numbers)
    }

    /// Sums of so many numbers over all rows: `add` adds those of a range of held rows, in their order. Few rows are added in
    /// their order, many by the tree.
    pub(crate) fn plain_sums(
        &self,
        width: usize,
        add: impl Fn(Range<usize>, &mut [f64]) + Sync,
    ) -> Result<Vec<f64>, GpError> {
        self.sums_in_order(width, |rows, sums| {
            add(rows, sums);
            Ok(())
        })
    }

    /// The same where adding may fail.
    pub(crate) fn sums_in_order(
        &self,
        width: usize,
        add: impl Fn(Range<usize>, &mut [f64]) -> Result<(), GpError> + Sync,
    ) -> Result<Vec<f64>, GpError> {
        // What a sum of nothing is.
        let nothing = || vec![-0.0; width];
        if !Leaves::new(self.all, width).is_tree() {
            return self.in_turn(nothing(), add);
        }
        sum_rows(self, width, nothing, |rows| {
            let mut part = nothing();
            add(rows, &mut part)?;
            Ok(part)
        })
    }
}

/// The mean of every column of the held rows x: `[b, d]`, over all rows.
pub(crate) fn means_over(span: &Span, x: ArrayView2<'_, f64>) -> Result<Vec<f64>, GpError> {
    let sums = span.plain_sums(x.ncols(), |rows, sums| {
        for row in x.slice(s![rows, ..]).outer_iter() {
            add_all(&mut *sums, row);
        }
    })?;
    let n = span.all.max(1) as f64;
    Ok(sums.into_iter().map(|sum| sum / n).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::team::threads::on_ranks;

    const SIZES: [usize; 3] = [1, 1 << 20, 3 << 20];

    #[test]
    fn every_row_belongs_to_one_process_and_leaves_lie_in_what_is_held() {
        for n in [0, 700, 5300, 40_000, 700_001, 1_100_000] {
            for ranks in 1..=5 {
                let spans: Vec<Span> = (0..ranks).map(|rank| Span::shared(n, (rank, ranks), &SIZES)).collect();
                let starts = &spans[0].shares.as_ref().unwrap_or_else(|| unreachable!("shared")).starts;
                assert!(starts[0] == 0 && starts[ranks] == n && starts.is_sorted(), "{n} {ranks}: {starts:?}");
                for (rank, span) in spans.iter().enumerate() {
                    let held = span.held();
                    assert!(held.is_empty() || held.start % 96 == 0 && (held.end % 96 == 0 || held.end == n));
                    assert!(held.len() <= span.widest());
                    for size in SIZES {
                        let leaves = Leaves::new(n, size);
                        let own = leaves.begin(rank, ranks)..leaves.begin(rank + 1, ranks);
                        assert!(
                            leaves.is_one() || own.is_empty() || span.local(own).is_ok(),
                            "{n} {rank}/{ranks} {size}"
                        );
                    }
                }
                // Small sums of many rows are not held twice.
                let small = Span::shared(n, (0, ranks), &[1]);
                assert!(n < 40_000 || ranks < 2 || small.held().len() <= n.div_ceil(ranks) + n / 16 + BLOCK);
            }
        }
    }

    fn value(row: usize) -> f64 {
        (row as f64 * 0.37).sin() * 10_f64.powi((row % 13) as i32 - 6)
    }

    #[test]
    fn picked_rows_and_plain_sums_are_those_of_one_process() -> Result<(), GpError> {
        for n in [700, 5300, 1_100_000] {
            let add = |rows: Range<usize>, first: usize, sums: &mut [f64]| {
                for row in rows {
                    sums[0] += value(first + row);
                    sums[1] += value(2 * (first + row) + 1);
                }
            };
            let list: Vec<usize> = (0..50).map(|i| (i * 7919) % n).collect();
            let alone = Span::whole(n).plain_sums(2, |rows, sums| add(rows, 0, sums))?;
            for ranks in 1..=4 {
                let found = on_ranks(ranks, |team| {
                    team.run(Ok(()), || {
                        let span = Span::shared(n, (team.comm.rank(), ranks), &SIZES);
                        let first = span.held().start;
                        let sums = span.plain_sums(2, |rows, sums| add(rows, first, sums))?;
                        let of = |own: &[usize]| {
                            Array2::from_shape_fn((own.len(), 2), |(i, j)| value(first + own[i]) + j as f64)
                        };
                        Ok::<_, GpError>((sums, span.gather(&list, 2, |own| Ok(of(own)))?))
                    })
                });
                for found in found {
                    let (sums, rows) = found?;
                    assert!(
                        sums.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()),
                        "{n} rows on {ranks} ranks"
                    );
                    let expected = Array2::from_shape_fn((50, 2), |(i, j)| value(list[i]) + j as f64);
                    assert_eq!(rows, expected, "{n} rows on {ranks} ranks");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn rows_of_others_cannot_be_had_without_them() {
        let span = Span::shared(40_000, (0, 2), &[1]);
        assert!(span.gather(&[3], 1, |own| Ok(Array2::zeros((own.len(), 1)))).is_err());
        assert!(sum_rows(&span, 1, || 0.0, |rows| Ok(rows.len() as f64)).is_err(), "a half is not the whole");
    }
}
