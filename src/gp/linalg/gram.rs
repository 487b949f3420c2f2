//! V Vᵀ, V y and A Bᵀ, from panels of eight rows as they come.
//!
//! Panels wait until there are enough of them for a product of matrices. The left factor is used as it comes, block by block;
//! the right one is turned, so that one vector instruction serves several of its entries.

use ndarray::{Array1, Array2, ArrayView1};

use super::panels::{BLOCK, LANES, Lane};
use super::processor::{for_this_processor, multiply_add};

/// Panels of a tile: what a left and a right block need of it stays in the first cache.
const PANELS: usize = 16;
/// Left blocks that meet all right ones before the next ones do: they stay in the second cache.
const GROUP: usize = 32;

/// Six left entries of eight rows.
type Left = [Lane; BLOCK];
/// Eight right entries of eight rows, row by row.
type Right = [[f64; LANES]; LANES];
/// Sums of products of six left and eight right entries.
type Square = [[f64; LANES]; BLOCK];

/// A Bᵀ over the rows that have been added, whose entries are those of two panels.
#[derive(Debug, Clone)]
pub(crate) struct Cross {
    size: (usize, usize),
    // Whether only the lower triangle is wanted.
    lower: bool,
    // Panels waiting to be multiplied, by blocks: `[blocks][PANELS]`.
    left: Vec<Left>,
    right: Vec<Right>,
    waiting: usize,
    // By left blocks.
    squares: Vec<Square>,
}

impl Cross {
    /// No rows yet, of `size` entries on the left and on the right.
    pub fn new(size: (usize, usize)) -> Self {
        Self::of(size, false)
    }

    fn of(size: (usize, usize), lower: bool) -> Self {
        let (left, right) = (size.0.div_ceil(BLOCK), size.1.div_ceil(LANES));
        Self {
            size,
            lower,
            left: vec![[[0.0; LANES]; BLOCK]; left * PANELS],
            right: vec![[[0.0; LANES]; LANES]; right * PANELS],
            waiting: 0,
            squares: vec![[[0.0; LANES]; BLOCK]; left * right],
        }
    }

    /// Adds eight rows; of a row that is missing, one side must be zero and the other finite.
    pub fn add(&mut self, left: &[Lane], right: &[Lane]) {
        let now = self.waiting;
        for (block, entries) in self.left.chunks_exact_mut(PANELS).zip(left.chunks(BLOCK)) {
            match <&Left>::try_from(entries) {
                Ok(entries) => block[now] = *entries,
                Err(_) => block[now][..entries.len()].copy_from_slice(entries),
            }
        }
        for (block, entries) in self.right.chunks_exact_mut(PANELS).zip(right.chunks(LANES)) {
            if let Ok(entries) = <&[Lane; LANES]>::try_from(entries) {
                turn(entries, &mut block[now]);
            } else {
                let mut padded = [[0.0; LANES]; LANES];
                padded[..entries.len()].copy_from_slice(entries);
                turn(&padded, &mut block[now]);
            }
        }
        self.waiting += 1;
        if self.waiting == PANELS {
            self.multiply();
        }
    }

    // Adds the waiting panels to the squares.
    fn multiply(&mut self) {
        let (lefts, rights) = (self.left.len() / PANELS, self.right.len() / PANELS);
        let waiting = std::mem::take(&mut self.waiting);
        for group in (0..lefts).step_by(GROUP) {
            for (b, right) in self.right.chunks_exact(PANELS).enumerate() {
                let first = if self.lower { b * LANES / BLOCK } else { 0 };
                for a in first.max(group)..lefts.min(group + GROUP) {
                    let left = &self.left[a * PANELS..][..waiting];
                    add_products(left, &right[..waiting], &mut self.squares[a * rights + b]);
                }
            }
        }
    }

    /// The sums, `[left, right]`.
    pub fn finish(mut self) -> Array2<f64> {
        self.multiply();
        let (rows, columns) = self.size;
        let mut sums = Array2::zeros(self.size);
        let by_left = self.squares.chunks_exact(columns.div_ceil(LANES).max(1));
        for (squares, a) in by_left.zip((0..rows).step_by(BLOCK)) {
            for (square, b) in squares.iter().zip((0..columns).step_by(LANES)) {
                for (i, row) in (a..rows).zip(square) {
                    (b..columns).zip(row).for_each(|(j, value)| sums[[i, j]] = *value);
                }
            }
        }
        sums
    }
}

/// V Vᵀ and V y over the rows that have been added.
#[derive(Debug, Clone)]
pub(crate) struct Gram {
    w: Cross,
    // V y, not yet summed over the lanes.
    vy: Vec<Lane>,
}

impl Gram {
    /// No rows yet, of m entries.
    pub fn new(m: usize) -> Self {
        Self { w: Cross::of((m, m), true), vy: vec![[0.0; LANES]; m] }
    }

    /// Adds up to eight rows with their y: `[b]`. What the panel holds of rows that are missing is cleared.
    pub fn add(&mut self, panel: &mut [Lane], y: ArrayView1<'_, f64>) {
        clear_missing(panel, y.len());
        let lane: Lane = std::array::from_fn(|i| y.get(i).copied().unwrap_or(0.0));
        add_multiples(&mut self.vy, panel, &lane);
        self.w.add(panel, panel);
    }

    /// V Vᵀ, `[m, m]`, of which only the lower triangle is meant, and V y, `[m]`.
    pub fn finish(self) -> (Array2<f64>, Array1<f64>) {
        (self.w.finish(), self.vy.iter().map(|lane| lane.iter().sum()).collect())
    }
}

/// Clears what a panel holds beyond its first `count` rows.
pub(crate) fn clear_missing(panel: &mut [Lane], count: usize) {
    if count < LANES {
        for lane in panel {
            lane[count..].fill(0.0);
        }
    }
}

for_this_processor! {
    fn add_multiples(total: &mut [Lane], panel: &[Lane], y: &Lane) {
        for (total, values) in total.iter_mut().zip(panel) {
            for ((total, value), y) in total.iter_mut().zip(values).zip(y) {
                *total = multiply_add::<FUSED>(*value, *y, *total);
            }
        }
    }
}

for_this_processor! {
    fn turn(entries: &[Lane; LANES], rows: &mut Right) {
        for (i, row) in rows.iter_mut().enumerate() {
            for (value, lane) in row.iter_mut().zip(entries) {
                *value = lane[i];
            }
        }
    }
}

for_this_processor! {
    // square ← square + the sums over all rows of the products of left and right entries.
    fn add_products(left: &[Left], right: &[Right], square: &mut Square) {
        let mut sums = *square;
        for (left, right) in left.iter().zip(right) {
            for (i, right) in right.iter().enumerate() {
                for (sums, left) in sums.iter_mut().zip(left) {
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = multiply_add::<FUSED>(left[i], *right, *sum);
                    }
                }
            }
        }
        *square = sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The definition, row by row.
    fn naive(rows: &[Vec<f64>], y: &[f64], m: usize) -> (Vec<f64>, Vec<f64>) {
        let mut w = vec![0.0; m * m];
        let mut vy = vec![0.0; m];
        for (row, y) in rows.iter().zip(y) {
            for i in 0..m {
                vy[i] += row[i] * y;
                for j in 0..=i {
                    w[i * m + j] += row[i] * row[j];
                }
            }
        }
        (w, vy)
    }

    #[test]
    fn is_the_sum_over_all_rows_whatever_their_number() {
        for (n, m) in [(1, 1), (8, 6), (9, 7), (255, 5), (256, 12), (257, 13), (700, 31), (300, 203)] {
            let value = |i: usize, j: usize| ((i * 37 + j * 101) % 97) as f64 / 97.0 - 0.4;
            let rows: Vec<Vec<f64>> = (0..n).map(|i| (0..m).map(|j| value(i, j)).collect()).collect();
            let y: Vec<f64> = (0..n).map(|i| value(i, 1000)).collect();
            let mut gram = Gram::new(m);
            for (rows, y) in rows.chunks(LANES).zip(y.chunks(LANES)) {
                let mut panel = vec![[0.0; LANES]; m];
                // Something that must not count.
                for lane in &mut panel {
                    lane[rows.len()..].fill(1.0);
                }
                for (i, row) in rows.iter().enumerate() {
                    row.iter().enumerate().for_each(|(j, value)| panel[j][i] = *value);
                }
                gram.add(&mut panel, ndarray::aview1(y));
            }
            let ((w, vy), (w_naive, vy_naive)) = (gram.finish(), naive(&rows, &y, m));
            for i in 0..m {
                assert!((vy[i] - vy_naive[i]).abs() < 1e-12 * n as f64, "{n} × {m}: V y at {i}");
                for j in 0..=i {
                    assert!((w[[i, j]] - w_naive[i * m + j]).abs() < 1e-12 * n as f64, "{n} × {m}: W at {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn products_of_two_panels_are_summed_over_all_rows() {
        for (n, a, b) in [(8, 1, 1), (264, 6, 7), (512, 20, 3)] {
            let value = |i: usize, j: usize| ((i * 53 + j * 29) % 83) as f64 / 83.0 - 0.5;
            let mut cross = Cross::new((a, b));
            for first in (0..n).step_by(LANES) {
                let panel = |from: usize, m: usize| -> Vec<Lane> {
                    (0..m).map(|j| std::array::from_fn(|i| value(first + i, from + j))).collect()
                };
                cross.add(&panel(0, a), &panel(100, b));
            }
            let sums = cross.finish();
            for ((i, j), sum) in sums.indexed_iter() {
                let naive: f64 = (0..n).map(|row| value(row, i) * value(row, 100 + j)).sum();
                assert!((sum - naive).abs() < 1e-12 * n as f64, "{n} rows: {i}, {j}");
            }
        }
    }
}
