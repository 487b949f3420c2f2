//! Small matrices of eight rows side by side: every entry is a lane, and every instruction serves several rows.
//!
//! A symmetric matrix is given by its pairs i > j, row after row, and its diagonal; a triangular one by its rows.

#[cfg(target_arch = "x86_64")]
use crate::gp::linalg::eights;
use crate::gp::linalg::panels::{LANES, Lane};
use crate::gp::linalg::{for_this_processor, multiply_add};

/// How many pairs some sites have; the place of row i in a list of pairs.
pub const fn pairs(sites: usize) -> usize {
    sites * (sites - 1) / 2
}

/// Squared distances of all pairs i > j of some points of d coordinates, into out.
pub fn squared_distances(points: &[Lane], d: usize, out: &mut [Lane]) {
    #[cfg(target_arch = "x86_64")]
    if eights::squared_distances(points, d, out) {
        return;
    }
    plain_distances(points, d, out);
}

for_this_processor! {
    fn plain_distances(points: &[Lane], d: usize, out: &mut [Lane]) {
        // So many sums at once, for two sites: one alone waits for each of its additions, and what is read serves both.
        const SIDE: usize = 4;
        let sites = points.len() / d.max(1);
        for i in (1..sites).step_by(2) {
            let j = (i + 1).min(sites - 1);
            let (at_i, at_j) = (&points[i * d..][..d], &points[j * d..][..d]);
            for block in (0..j).step_by(SIDE) {
                let others: [&[Lane]; SIDE] = std::array::from_fn(|side| &points[(block + side).min(j) * d..][..d]);
                // Two names, not one more dimension: the compiler keeps these in registers.
                let (mut of_i, mut of_j) = ([[0.0; LANES]; SIDE], [[0.0; LANES]; SIDE]);
                for c in 0..d {
                    let (own_i, own_j) = (at_i[c], at_j[c]);
                    for (sums, other) in of_i.iter_mut().zip(&others) {
                        for x in 0..LANES {
                            let difference = own_i[x] - other[c][x];
                            sums[x] = multiply_add::<FUSED>(difference, difference, sums[x]);
                        }
                    }
                    for (sums, other) in of_j.iter_mut().zip(&others) {
                        for x in 0..LANES {
                            let difference = own_j[x] - other[c][x];
                            sums[x] = multiply_add::<FUSED>(difference, difference, sums[x]);
                        }
                    }
                }
                for side in 0..SIDE.min(j - block) {
                    if block + side < i {
                        out[pairs(i) + block + side] = of_i[side];
                    }
                    out[pairs(j) + block + side] = of_j[side];
                }
            }
        }
    }
}

/// The Cholesky factor of the matrix with these pairs and this diagonal, row after row; the inverse of its diagonal stands
/// on the diagonal. `false` if there is none.
pub fn factor(cov: &[Lane], diagonal: &[Lane], out: &mut [Lane]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(is_positive) = eights::factor(cov, diagonal, out) {
        return is_positive;
    }
    plain_factor(cov, diagonal, out)
}

for_this_processor! {
    fn plain_factor(cov: &[Lane], diagonal: &[Lane], out: &mut [Lane]) -> bool {
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
    /// rate Σ over others of pull · (other − own), for all sites; coordinates are relative to the last one.
    ///
    /// That is a product: what a site's own coordinates get is the sum of its pulls, which takes its place on the diagonal.
    pub fn pull_points(points: &[Lane], d: usize, pulls: &mut [Lane], rate: f64, out: &mut [Lane]) {
        // Two sites and three coordinates: as many sums as registers hold, each of which is read for several.
        const SITES: usize = 2;
        const COORDINATES: usize = 3;
        let sites = points.len() / d.max(1);
        for i in 0..sites {
            let row = &mut pulls[i * sites..][..sites];
            let mut sum = [0.0; LANES];
            for (_, pull) in row.iter().enumerate().filter(|(j, _)| *j != i) {
                for x in 0..LANES {
                    sum[x] += pull[x];
                }
            }
            row[i] = sum.map(|sum| -sum);
        }
        // The last site lies at the origin, and pulls nothing by its coordinates.
        let inner = sites.saturating_sub(1);
        for i in (0..sites).step_by(SITES) {
            let rows: [&[Lane]; SITES] = std::array::from_fn(|side| &pulls[(i + side).min(inner) * sites..][..inner]);
            for c in (0..d).step_by(COORDINATES) {
                let places: [usize; COORDINATES] = std::array::from_fn(|side| (c + side).min(d - 1));
                let mut sums = [[[0.0; LANES]; COORDINATES]; SITES];
                for j in 0..inner {
                    let point = &points[j * d..][..d];
                    for (sums, row) in sums.iter_mut().zip(&rows) {
                        for (sums, place) in sums.iter_mut().zip(&places) {
                            for x in 0..LANES {
                                sums[x] = multiply_add::<FUSED>(row[j][x], point[*place][x], sums[x]);
                            }
                        }
                    }
                }
                // Sums that stand twice are written twice, the same ones.
                for (side, sums) in sums.iter().enumerate() {
                    for (sum, place) in sums.iter().zip(&places) {
                        out[(i + side).min(inner) * d + place] = sum.map(|sum| sum * rate);
                    }
                }
            }
        }
    }
}

for_this_processor! {
    /// Multiplies all values by a number.
    pub fn multiply(values: &mut [f64], by: f64) {
        for value in values {
            *value *= by;
        }
    }
}

for_this_processor! {
    /// Eight rows of numbers side by side, entry by entry.
    pub fn to_lanes(rows: &[&[f64]; LANES], out: &mut [Lane]) {
        let rows = rows.map(|row| &row[..out.len()]);
        let whole = out.len() / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            // A square at a time, which stays in registers.
            let square: [Lane; LANES] = std::array::from_fn(|i| std::array::from_fn(|j| rows[i][first + j]));
            for j in 0..LANES {
                out[first + j] = std::array::from_fn(|i| square[i][j]);
            }
        }
        for j in whole..out.len() {
            out[j] = std::array::from_fn(|i| rows[i][j]);
        }
    }
}

for_this_processor! {
    /// And back, into eight rows that follow each other.
    pub fn from_lanes(lanes: &[Lane], rows: &mut [f64]) {
        let n = lanes.len();
        let whole = n / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            let square: [Lane; LANES] = std::array::from_fn(|j| lanes[first + j]);
            for i in 0..LANES {
                let row: Lane = std::array::from_fn(|j| square[j][i]);
                rows[i * n + first..][..LANES].copy_from_slice(&row);
            }
        }
        for (j, lane) in lanes.iter().enumerate().skip(whole) {
            for (i, value) in lane.iter().enumerate() {
                rows[i * n + j] = *value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_processors_round_every_number_as_the_plain_form_does() {
        for (sites, d) in [(1, 3), (2, 1), (4, 7), (5, 2), (9, 30), (41, 30), (42, 8), (43, 5), (44, 1)] {
            let value = |i: usize| (i as f64 * 0.7).sin();
            let points: Vec<Lane> = (0..sites * d).map(|i| std::array::from_fn(|x| value(8 * i + x))).collect();
            let mut found = [vec![[0.0; LANES]; pairs(sites)], vec![[0.0; LANES]; pairs(sites)]];
            squared_distances(&points, d, &mut found[0]);
            plain_distances(&points, d, &mut found[1]);
            assert_eq!(found[0], found[1], "{sites} sites, {d} coordinates");
            let cov: Vec<Lane> = found[0].iter().map(|r2| r2.map(|r2| (-r2 / d as f64).exp())).collect();
            for noise in [1e-3, -1.0, f64::NAN] {
                // What is asked of one row alone must show, too.
                let own =
                    |i: usize| std::array::from_fn(|x| if i + 1 == sites && x == 5 { 1.0 + noise } else { 1.001 });
                let diagonal: Vec<Lane> = (0..sites).map(own).collect();
                let mut found = [vec![[0.0; LANES]; pairs(sites + 1)], vec![[0.0; LANES]; pairs(sites + 1)]];
                let is_there = factor(&cov, &diagonal, &mut found[0]);
                assert_eq!(plain_factor(&cov, &diagonal, &mut found[1]), is_there, "{sites} sites, noise {noise}");
                assert_eq!(is_there, noise > 0.0, "{sites} sites, noise {noise}");
                assert!(!is_there || found[0] == found[1], "{sites} sites");
            }
        }
    }
}
