//! V Vᵀ, V y and A Bᵀ, from panels of eight rows as they come.
//!
//! A panel holds entry j of its eight rows side by side, and that is the direction these sums run in: no factor has to
//! be copied into another order, and the sums of six by two entries stay in registers for a whole tile of rows.

use ndarray::{Array1, Array2, ArrayView1};

use super::panels::{BLOCK, LANES, Lane};
use super::processor::{for_this_processor, multiply_add};

/// Panels of a tile: what two blocks of entries need of it stays in the first cache.
const PANELS: usize = 32;
/// Blocks that meet all others before the next ones do: they stay in the second cache.
const GROUP: usize = 8;
/// What one vector instruction takes.
const QUAD: usize = 4;
/// Entries on the right side of one pass: with six on the left side, as many sums as registers hold.
const RIGHT: usize = 2;

type Square = [[f64; BLOCK]; BLOCK];
/// Six entries of eight rows.
type Entries = [Lane; BLOCK];

// Panels waiting to be multiplied.
#[derive(Debug, Clone)]
struct Tile {
    blocks: usize,
    // Block by block: `[blocks][PANELS]`.
    entries: Vec<Entries>,
    filled: usize,
}

impl Tile {
    fn new(m: usize) -> Self {
        let blocks = m.div_ceil(BLOCK);
        Self { blocks, entries: vec![[[0.0; LANES]; BLOCK]; blocks * PANELS], filled: 0 }
    }

    // Whether it is full then.
    fn add(&mut self, panel: &[Lane]) -> bool {
        let (whole, rest) = panel.as_chunks::<BLOCK>();
        let mut blocks = self.entries.chunks_exact_mut(PANELS);
        for (entries, block) in whole.iter().zip(&mut blocks) {
            block[self.filled] = *entries;
        }
        if let (false, Some(block)) = (rest.is_empty(), blocks.next()) {
            block[self.filled][..rest.len()].copy_from_slice(rest);
        }
        self.filled += 1;
        self.filled == PANELS
    }

    fn block(&self, number: usize) -> &[Entries] {
        &self.entries[number * PANELS..][..self.filled]
    }
}

/// V Vᵀ and V y over the rows that have been added.
#[derive(Debug, Clone)]
pub(crate) struct Gram {
    m: usize,
    tile: Tile,
    // The blocks of the lower triangle of V Vᵀ, row by row.
    squares: Vec<Square>,
    // V y, not yet summed over the lanes.
    products: Vec<Lane>,
}

impl Gram {
    /// No rows yet, of m entries.
    pub fn new(m: usize) -> Self {
        let tile = Tile::new(m);
        Self {
            m,
            squares: vec![[[0.0; BLOCK]; BLOCK]; tile.blocks * (tile.blocks + 1) / 2],
            products: vec![[0.0; LANES]; m],
            tile,
        }
    }

    /// Adds up to eight rows with their y: `[b]`. What the panel holds of rows that are missing is cleared.
    pub fn add(&mut self, panel: &mut [Lane], y: ArrayView1<'_, f64>) {
        clear_missing(panel, y.len());
        let lane: Lane = std::array::from_fn(|i| y.get(i).copied().unwrap_or(0.0));
        add_products(&mut self.products, panel, &lane);
        if self.tile.add(panel) {
            self.empty();
        }
    }

    // Adds the tile to the squares.
    fn empty(&mut self) {
        let tile = &self.tile;
        for group in (0..tile.blocks).step_by(GROUP) {
            for left in group..tile.blocks {
                for right in group..(group + GROUP).min(left + 1) {
                    add_square(tile.block(left), tile.block(right), &mut self.squares[left * (left + 1) / 2 + right]);
                }
            }
        }
        self.tile.filled = 0;
    }

    /// V Vᵀ, `[m, m]`, of which only the lower triangle is meant, and V y, `[m]`.
    pub fn finish(mut self) -> (Array2<f64>, Array1<f64>) {
        self.empty();
        let mut w = Array2::zeros((self.m, self.m));
        let places = (0..self.tile.blocks).flat_map(|left| (0..=left).map(move |right| (left, right)));
        places.zip(&self.squares).for_each(|(place, square)| put(square, place, &mut w));
        (w, self.products.iter().map(|lane| lane.iter().sum()).collect())
    }
}

/// A Bᵀ over the rows that have been added, whose entries are those of two panels.
#[derive(Debug, Clone)]
pub(crate) struct Cross {
    size: (usize, usize),
    left: Tile,
    right: Tile,
    // By left blocks.
    squares: Vec<Square>,
}

impl Cross {
    /// No rows yet, of `size` entries on the left and on the right.
    pub fn new(size: (usize, usize)) -> Self {
        let (left, right) = (Tile::new(size.0), Tile::new(size.1));
        let squares = vec![[[0.0; BLOCK]; BLOCK]; left.blocks * right.blocks];
        Self { size, left, right, squares }
    }

    /// Adds eight rows; of a row that is missing, one side must be zero and the other finite.
    pub fn add(&mut self, left: &[Lane], right: &[Lane]) {
        self.left.add(left);
        if self.right.add(right) {
            self.empty();
        }
    }

    fn empty(&mut self) {
        for (left, squares) in self.squares.chunks_exact_mut(self.right.blocks.max(1)).enumerate() {
            for (right, square) in squares.iter_mut().enumerate() {
                add_square(self.left.block(left), self.right.block(right), square);
            }
        }
        (self.left.filled, self.right.filled) = (0, 0);
    }

    /// The sums, `[left, right]`.
    pub fn finish(mut self) -> Array2<f64> {
        self.empty();
        let mut sums = Array2::zeros(self.size);
        let right_blocks = self.right.blocks;
        let places = (0..self.left.blocks).flat_map(|left| (0..right_blocks).map(move |right| (left, right)));
        places.zip(&self.squares).for_each(|(place, square)| put(square, place, &mut sums));
        sums
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

// A square to its place among the blocks of a matrix.
fn put(square: &Square, (left, right): (usize, usize), into: &mut Array2<f64>) {
    let (rows, columns) = into.dim();
    for (i, row) in (left * BLOCK..rows).zip(square) {
        (right * BLOCK..columns).zip(row).for_each(|(j, value)| into[[i, j]] = *value);
    }
}

for_this_processor! {
    fn add_products(total: &mut [Lane], panel: &[Lane], y: &Lane) {
        for (total, values) in total.iter_mut().zip(panel) {
            for ((total, value), y) in total.iter_mut().zip(values).zip(y) {
                *total = multiply_add::<FUSED>(*value, *y, *total);
            }
        }
    }
}

// square ← square + the sums over all rows of the products of left and right entries.
fn add_square(left: &[Entries], right: &[Entries], square: &mut Square) {
    for first in (0..BLOCK).step_by(RIGHT) {
        let sums = products_of_entries(left, right, first);
        for (row, sums) in square.iter_mut().zip(&sums) {
            for (value, sum) in row[first..].iter_mut().zip(sums) {
                *value += (sum[0] + sum[1]) + (sum[2] + sum[3]);
            }
        }
    }
}

for_this_processor! {
    // The products with the right entries `first` and its neighbour. The last additions, across a vector, are left to the
    // caller: seen together with them, the compiler takes this loop apart.
    fn products_of_entries(left: &[Entries], right: &[Entries], first: usize) -> [[[f64; QUAD]; RIGHT]; BLOCK] {
        let mut sums = [[[0.0; QUAD]; RIGHT]; BLOCK];
        for (left, right) in left.iter().zip(right) {
            for half in 0..LANES / QUAD {
                let right: [&[f64; QUAD]; RIGHT] =
                    std::array::from_fn(|j| &right[first + j].as_chunks::<QUAD>().0[half]);
                for (sums, left) in sums.iter_mut().zip(left) {
                    let left = &left.as_chunks::<QUAD>().0[half];
                    for (sum, right) in sums.iter_mut().zip(right) {
                        for t in 0..QUAD {
                            sum[t] = multiply_add::<FUSED>(left[t], right[t], sum[t]);
                        }
                    }
                }
            }
        }
        sums
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
        for (n, m) in [(1, 1), (8, 6), (9, 7), (255, 5), (256, 12), (257, 13), (700, 31)] {
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
