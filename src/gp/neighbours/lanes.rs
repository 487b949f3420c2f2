//! Small matrices of eight rows side by side: every entry is a lane, and every instruction serves several rows.
//!
//! A symmetric matrix is given by its pairs i > j, row after row, and its diagonal; a triangular one by its rows.

use crate::gp::linalg::panels::{LANES, Lane};
use crate::gp::linalg::{for_this_processor, multiply_add};

/// How many pairs some sites have; the place of row i in a list of pairs.
pub const fn pairs(sites: usize) -> usize {
    sites * (sites - 1) / 2
}

for_this_processor! {
    /// Squared distances of all pairs i > j of some points of d coordinates, into out.
    pub fn squared_distances(points: &[Lane], d: usize, out: &mut [Lane]) {
        // So many sums at once: one alone waits for each of its additions.
        const SIDE: usize = 4;
        let sites = points.len() / d.max(1);
        for i in 1..sites {
            let own = &points[i * d..][..d];
            let row = &mut out[pairs(i)..][..i];
            for (block, sums_out) in row.chunks_mut(SIDE).enumerate() {
                let others: [&[Lane]; SIDE] =
                    std::array::from_fn(|side| &points[(block * SIDE + side).min(i) * d..][..d]);
                let mut sums = [[0.0; LANES]; SIDE];
                for c in 0..d {
                    for (sums, other) in sums.iter_mut().zip(&others) {
                        for x in 0..LANES {
                            let difference = own[c][x] - other[c][x];
                            sums[x] = multiply_add::<FUSED>(difference, difference, sums[x]);
                        }
                    }
                }
                sums_out.copy_from_slice(&sums[..sums_out.len()]);
            }
        }
    }
}

for_this_processor! {
    /// The Cholesky factor of the matrix with these pairs and this diagonal, row after row; the inverse of its diagonal stands
    /// on the diagonal. `false` if there is none.
    pub fn factor(cov: &[Lane], diagonal: &[Lane], out: &mut [Lane]) -> bool {
        const SIDE: usize = 4;
        let n = diagonal.len();
        let at = |i: usize| pairs(i + 1);
        for (i, diagonal) in diagonal.iter().enumerate() {
            out[at(i)..at(i) + i].copy_from_slice(&cov[pairs(i)..pairs(i) + i]);
            out[at(i) + i] = *diagonal;
        }
        for column in 0..n {
            let (above, below) = out.split_at_mut(at(column + 1));
            let own = &mut above[at(column)..];
            let mut pivot = own[column];
            for done in &own[..column] {
                for x in 0..LANES {
                    pivot[x] = multiply_add::<FUSED>(-done[x], done[x], pivot[x]);
                }
            }
            // NaN is not positive.
            if !pivot.iter().all(|pivot| *pivot > 0.0) {
                return false;
            }
            let inverse: Lane = std::array::from_fn(|x| 1.0 / pivot[x].sqrt());
            own[column] = inverse;
            let start = at(column + 1);
            for first in (column + 1..n).step_by(SIDE) {
                let row = |side: usize| at((first + side).min(n - 1)) - start;
                let mut sums: [Lane; SIDE] = std::array::from_fn(|side| below[row(side) + column]);
                for p in 0..column {
                    let left = &own[p];
                    for (side, sums) in sums.iter_mut().enumerate() {
                        let right = &below[row(side) + p];
                        for x in 0..LANES {
                            sums[x] = multiply_add::<FUSED>(-left[x], right[x], sums[x]);
                        }
                    }
                }
                for (side, sums) in sums.iter().enumerate().take(n - first) {
                    let to = &mut below[row(side) + column];
                    for x in 0..LANES {
                        to[x] = sums[x] * inverse[x];
                    }
                }
            }
        }
        true
    }
}

for_this_processor! {
    /// L t = y, for the first rows of a factor.
    pub fn forward(factor: &[Lane], y: &[Lane], out: &mut [Lane]) {
        for i in 0..y.len() {
            let row = &factor[pairs(i + 1)..][..=i];
            let mut sum = y[i];
            for (left, done) in row.iter().zip(&out[..i]) {
                for x in 0..LANES {
                    sum[x] = multiply_add::<FUSED>(-left[x], done[x], sum[x]);
                }
            }
            out[i] = std::array::from_fn(|x| sum[x] * row[i][x]);
        }
    }
}

for_this_processor! {
    /// Lᵀ t = values, in place, for the first rows of a factor.
    pub fn backward(factor: &[Lane], values: &mut [Lane]) {
        for i in (0..values.len()).rev() {
            let row = &factor[pairs(i + 1)..][..=i];
            let own: Lane = std::array::from_fn(|x| values[i][x] * row[i][x]);
            values[i] = own;
            for (left, to) in row.iter().zip(&mut values[..i]) {
                for x in 0..LANES {
                    to[x] = multiply_add::<FUSED>(-left[x], own[x], to[x]);
                }
            }
        }
    }
}

for_this_processor! {
    /// Σ over others of −rate · pull · (own − other), for all sites.
    pub fn pull_points(points: &[Lane], d: usize, pulls: &[Lane], rate: f64, out: &mut [Lane]) {
        const SIDE: usize = 4;
        let sites = points.len() / d.max(1);
        for i in 0..sites {
            let own = &points[i * d..][..d];
            let pulls = &pulls[i * sites..][..sites];
            for first in (0..d).step_by(SIDE) {
                let count = SIDE.min(d - first);
                let mut sums = [[0.0; LANES]; SIDE];
                for (j, pull) in pulls.iter().enumerate() {
                    if j == i {
                        continue;
                    }
                    let other = &points[j * d + first..][..count];
                    for ((sum, own), other) in sums.iter_mut().zip(&own[first..]).zip(other) {
                        for x in 0..LANES {
                            sum[x] = multiply_add::<FUSED>(pull[x], other[x] - own[x], sum[x]);
                        }
                    }
                }
                for (to, sum) in out[i * d + first..][..count].iter_mut().zip(&sums) {
                    *to = sum.map(|sum| sum * rate);
                }
            }
        }
    }
}
