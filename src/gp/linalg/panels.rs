//! Products and triangular solves for eight rows at a time, against a matrix that many rows share.
//!
//! BLAS is at its best with large square matrices. Here a few rows meet a matrix of some dozen to some hundred columns,
//! again and again, and what happens to them stays in the first cache: distances, the kernel, the triangular solve.
//! A panel holds eight rows, entry by entry: `panel[j][i]` is entry j of row i, so that one vector instruction
//! serves several rows. What a row becomes does not depend on its neighbours or on its place in the panel.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use super::processor::{for_this_processor, multiply_add};
use crate::gp::GpError;

/// Rows of a panel.
pub(crate) const LANES: usize = 8;
/// Columns that one pass of the inner loop computes: with eight rows, as many sums as registers hold.
pub(crate) const BLOCK: usize = 6;

/// One entry of eight rows.
pub(crate) type Lane = [f64; LANES];
/// One entry of six columns.
pub(crate) type Block = [f64; BLOCK];

/// A matrix `[n, k]` in blocks of six rows, each block entry by entry; the last block is filled up with zeros.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    inner: usize,
    blocks: Vec<Block>,
}

impl Packed {
    /// The matrix b: `[n, k]`.
    pub fn new(b: ArrayView2<'_, f64>) -> Self {
        let (n, inner) = b.dim();
        let mut blocks = vec![[0.0; BLOCK]; n.div_ceil(BLOCK) * inner];
        for (j, row) in b.outer_iter().enumerate() {
            let block = &mut blocks[j / BLOCK * inner..][..inner];
            block.iter_mut().zip(row).for_each(|(block, value)| block[j % BLOCK] = *value);
        }
        Self { inner, blocks }
    }

    /// The blocks, each with its k entries.
    pub fn blocks(&self) -> impl Iterator<Item = &[Block]> {
        self.blocks.chunks_exact(self.inner.max(1))
    }
}

/// How many entries a panel needs room for, so that it can be computed by whole blocks.
pub(crate) fn room(n: usize) -> usize {
    n.div_ceil(BLOCK) * BLOCK
}

/// Σₖ a[k] b[k], for six columns and eight rows.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
pub(crate) fn products<const FUSED: bool>(a: &[Lane], b: &[Block]) -> [Lane; BLOCK] {
    let mut sums = [[0.0; LANES]; BLOCK];
    for (a, b) in a.iter().zip(b) {
        for (sums, b) in sums.iter_mut().zip(b) {
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum = multiply_add::<FUSED>(*a, *b, *sum);
            }
        }
    }
    sums
}

for_this_processor! {
    /// [`products`] into out, for callers that do nothing else with them.
    pub(crate) fn multiply(a: &[Lane], b: &[Block], out: &mut [Lane; BLOCK]) {
        *out = products::<FUSED>(a, b);
    }
}

for_this_processor! {
    /// Σⱼ v[j] w[j] of eight rows.
    pub(crate) fn weighted(v: &[Lane], w: &[f64]) -> Lane {
        let mut sums = [0.0; LANES];
        for (v, w) in v.iter().zip(w) {
            for (sum, v) in sums.iter_mut().zip(v) {
                *sum = multiply_add::<FUSED>(*v, *w, *sum);
            }
        }
        sums
    }
}

for_this_processor! {
    /// Σⱼ v[j]² of eight rows.
    pub(crate) fn squares(v: &[Lane]) -> Lane {
        let mut sums = [0.0; LANES];
        for v in v {
            for (sum, v) in sums.iter_mut().zip(v) {
                *sum = multiply_add::<FUSED>(*v, *v, *sum);
            }
        }
        sums
    }
}

/// A lower triangular matrix, ready to solve with.
#[derive(Debug, Clone)]
pub struct Triangle {
    n: usize,
    // Per six rows of L: what stands left of the diagonal block, then that block with the inverse of its diagonal.
    blocks: Vec<Block>,
}

impl Triangle {
    /// lower: `[n, n]`, of which only the lower triangle is read.
    pub fn new(lower: ArrayView2<'_, f64>) -> Result<Self, GpError> {
        let n = lower.nrows();
        if lower.ncols() != n {
            return Err(GpError::shape(format!("triangle {:?}", lower.shape())));
        }
        let mut blocks = Vec::with_capacity((room(n) + BLOCK) * room(n) / (2 * BLOCK));
        for first in (0..n).step_by(BLOCK) {
            // Rows beyond the last are those of the unit matrix.
            let entry = |i: usize, j: usize| if i < n { lower[[i, j]] } else { 0.0 };
            blocks.extend((0..first).map(|j| std::array::from_fn(|c| entry(first + c, j))));
            blocks.extend((0..BLOCK).map(|i| -> Block {
                std::array::from_fn(|j| match (first + i, first + j) {
                    (row, column) if column < row => entry(row, column),
                    (row, column) if column == row => {
                        if row < n {
                            1.0 / lower[[row, row]]
                        } else {
                            1.0
                        }
                    }
                    _ => 0.0,
                })
            }));
        }
        Ok(Self { n, blocks })
    }

    /// Whether it has n rows.
    pub(crate) fn check(&self, n: usize) -> Result<(), GpError> {
        if self.n == n { Ok(()) } else { Err(GpError::shape(format!("triangle of {} against {n}", self.n))) }
    }

    /// Solves L v = k for the rows of a panel, in their place; the panel has [`room`] for n entries.
    pub(crate) fn solve(&self, panel: &mut [Lane]) {
        solve(&self.blocks, panel);
    }

    /// Solves X Lᵀ = B in place of x: `[b, n]`: L v = k for every row.
    pub fn solve_rows(&self, mut x: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        let b = x.nrows();
        self.check(x.ncols())?;
        let mut panel = vec![[0.0; LANES]; room(self.n)];
        for first in (0..b).step_by(LANES) {
            let count = LANES.min(b - first);
            load(x.slice(ndarray::s![first..first + count, ..]), &mut panel);
            self.solve(&mut panel);
            store(&panel, x.slice_mut(ndarray::s![first..first + count, ..]));
        }
        Ok(())
    }
}

for_this_processor! {
    fn solve(blocks: &[Block], panel: &mut [Lane]) {
        let mut blocks = blocks;
        for done in (0..panel.len()).step_by(BLOCK) {
            let (before, rest) = panel.split_at_mut(done);
            let (left, others) = blocks.split_at(done);
            let (diagonal, others) = others.split_at(BLOCK);
            blocks = others;
            let sums = products::<FUSED>(before, left);
            for j in 0..BLOCK {
                let mut value = rest[j];
                for (value, sum) in value.iter_mut().zip(&sums[j]) {
                    *value -= sum;
                }
                for l in 0..j {
                    for (value, known) in value.iter_mut().zip(&rest[l]) {
                        *value = multiply_add::<FUSED>(-diagonal[j][l], *known, *value);
                    }
                }
                for value in &mut value {
                    *value *= diagonal[j][j];
                }
                rest[j] = value;
            }
        }
    }
}

/// All rows of a matrix in panels, for whoever reads them again and again.
#[derive(Debug, Clone)]
pub(crate) struct PanelRows {
    inner: usize,
    lanes: Vec<Lane>,
}

impl PanelRows {
    /// The rows of a matrix of this size, which `fill` computes in blocks of so many panels, on all threads.
    pub fn filled(
        (n, inner): (usize, usize),
        panels: usize,
        fill: impl Fn(Range<usize>, ArrayViewMut2<'_, f64>) -> Result<(), GpError> + Sync,
    ) -> Result<Self, GpError> {
        let mut lanes = vec![[0.0; LANES]; n.div_ceil(LANES) * inner];
        let block = panels * LANES;
        lanes.par_chunks_mut((panels * inner).max(1)).enumerate().try_for_each(|(index, lanes)| {
            let rows = index * block..(index * block + block).min(n);
            let mut tile = Array2::zeros((rows.len(), inner));
            fill(rows, tile.view_mut())?;
            let eights = tile.axis_chunks_iter(Axis(0), LANES);
            eights.zip(lanes.chunks_exact_mut(inner.max(1))).for_each(|(rows, panel)| load(rows, panel));
            Ok::<(), GpError>(())
        })?;
        Ok(Self { inner, lanes })
    }

    /// Some rows in their order, `[b, k]`.
    pub fn rows(&self, rows: Range<usize>) -> Array2<f64> {
        if !rows.start.is_multiple_of(LANES) {
            return self.select(&rows.collect::<Vec<_>>());
        }
        let mut some = Array2::zeros((rows.len(), self.inner));
        for (index, eight) in some.axis_chunks_iter_mut(Axis(0), LANES).enumerate() {
            store(self.panel(rows.start + index * LANES), eight);
        }
        some
    }

    /// Some rows in any order, `[b, k]`.
    pub fn select(&self, rows: &[usize]) -> Array2<f64> {
        let mut some = Array2::zeros((rows.len(), self.inner));
        for (row, mut to) in rows.iter().zip(some.outer_iter_mut()) {
            let lane = row % LANES;
            to.iter_mut().zip(self.panel(row - lane)).for_each(|(value, entry)| *value = entry[lane]);
        }
        some
    }

    /// Number of columns k.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// The eight rows from `first` on, a multiple of eight: `[k]`. Rows beyond the last are zero.
    pub fn panel(&self, first: usize) -> &[Lane] {
        assert!(first.is_multiple_of(LANES), "panels begin at multiples of {LANES}, not at {first}");
        &self.lanes[first / LANES * self.inner..][..self.inner]
    }

    /// The eight rows after those from `first` on, or nothing: `[k]`.
    pub fn after(&self, first: usize) -> &[Lane] {
        let next = (first / LANES + 1) * self.inner;
        self.lanes.get(next..next + self.inner).unwrap_or_default()
    }
}

/// Up to eight rows: `[b, n]` into a panel; rows that are missing become zero.
pub(crate) fn load(rows: ArrayView2<'_, f64>, panel: &mut [Lane]) {
    match rows.to_slice() {
        Some(all) if rows.nrows() == LANES => interleave(all, rows.ncols(), panel),
        _ => {
            panel.fill([0.0; LANES]);
            for (i, row) in rows.outer_iter().enumerate() {
                panel.iter_mut().zip(row).for_each(|(lane, value)| lane[i] = *value);
            }
        }
    }
}

/// The first rows of a panel into rows: `[b, n]`.
pub(crate) fn store(panel: &[Lane], mut rows: ArrayViewMut2<'_, f64>) {
    let (count, n) = rows.dim();
    match rows.as_slice_mut() {
        Some(all) if count == LANES => separate(panel, n, all),
        _ => {
            for (i, mut row) in rows.outer_iter_mut().enumerate() {
                row.iter_mut().zip(panel).for_each(|(value, lane)| *value = lane[i]);
            }
        }
    }
}

for_this_processor! {
    fn interleave(all: &[f64], n: usize, panel: &mut [Lane]) {
        let rows: [&[f64]; LANES] = std::array::from_fn(|i| &all[i * n..][..n]);
        for (j, lane) in panel[..n].iter_mut().enumerate() {
            for (value, row) in lane.iter_mut().zip(&rows) {
                *value = row[j];
            }
        }
    }
}

for_this_processor! {
    fn separate(panel: &[Lane], n: usize, all: &mut [f64]) {
        for (i, row) in all.chunks_exact_mut(n.max(1)).enumerate().take(LANES) {
            for (value, lane) in row.iter_mut().zip(panel) {
                *value = lane[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_panels_are_the_rows_of_the_matrix() -> Result<(), GpError> {
        for n in [1, 7, 8, 9, 24] {
            let a = ndarray::Array2::from_shape_fn((n, 3), |(i, j)| (10 * i + j) as f64 + 1.0);
            let fill = |rows: Range<usize>, mut tile: ArrayViewMut2<'_, f64>| {
                tile.assign(&a.slice(ndarray::s![rows, ..]));
                Ok(())
            };
            let panels = PanelRows::filled(a.dim(), 2, fill)?;
            assert_eq!(panels.rows(0..n), a);
            assert_eq!(panels.rows(n / 2..n), a.slice(ndarray::s![n / 2.., ..]));
            let turned: Vec<usize> = (0..n).rev().collect();
            assert_eq!(panels.select(&turned), a.select(Axis(0), &turned));
            for first in (0..n).step_by(LANES) {
                for (j, lane) in panels.panel(first).iter().enumerate() {
                    let expected: Lane = std::array::from_fn(|i| a.get((first + i, j)).copied().unwrap_or(0.0));
                    let same = lane.map(f64::to_bits) == expected.map(f64::to_bits);
                    assert!(same, "{n} rows, from {first}, column {j}: {lane:?}");
                }
            }
        }
        Ok(())
    }

    #[test]
    #[should_panic(expected = "multiples of 8")]
    fn panels_that_begin_elsewhere_are_refused() {
        let panels = PanelRows::filled((16, 2), 1, |_, _| Ok(()));
        panels.unwrap_or_else(|error| unreachable!("{error}")).panel(4);
    }
}
