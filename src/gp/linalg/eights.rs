//! The two longest loops over small matrices of eight rows side by side, with the registers of the widest processors called by
//! name: the compiler cuts such loops into pieces that fit no register. Every number is rounded as in the plain form, which
//! stands in `neighbours::lanes`.
//!
//! A triangular matrix is given by its rows, one after another: entry j of row i stands at i (i + 1) / 2 + j.

use std::arch::x86_64::{
    __m512d, _CMP_NGT_UQ, _mm512_cmp_pd_mask, _mm512_div_pd, _mm512_fmadd_pd, _mm512_fnmadd_pd, _mm512_loadu_pd,
    _mm512_mul_pd, _mm512_set1_pd, _mm512_setzero_pd, _mm512_sqrt_pd, _mm512_storeu_pd, _mm512_sub_pd,
};

use super::panels::Lane;

/// Rows and columns of a tile: sixteen sums stay in registers, and what is read serves four of them.
const TILE: usize = 4;

type RegisterTile = [[__m512d; TILE]; TILE];

/// Whether the processor has the instructions.
pub(crate) fn has_eights() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// Squared distances of all pairs i > j of some points of d coordinates, into out, if the processor has the instructions.
pub(crate) fn squared_distances(points: &[Lane], d: usize, out: &mut [Lane]) -> bool {
    if !has_eights() {
        return false;
    }
    #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
    // SAFETY: the processor was just asked whether it has them.
    unsafe {
        distances(points, d, out);
    }
    true
}

/// The factor of the matrix with these pairs and this diagonal into out, the inverse of its diagonal on the diagonal; whether
/// there is one. `None` if the processor does not have the instructions.
pub(crate) fn factor(cov: &[Lane], diagonal: &[Lane], out: &mut [Lane]) -> Option<bool> {
    if !has_eights() {
        return None;
    }
    #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
    // SAFETY: the processor was just asked whether it has them.
    Some(unsafe { factor_by_tiles(cov, diagonal, out) })
}

#[target_feature(enable = "avx512f")]
fn distances(points: &[Lane], d: usize, out: &mut [Lane]) {
    let sites = points.len() / d.max(1);
    for i in (1..sites).step_by(TILE) {
        let rows: [&[Lane]; TILE] = std::array::from_fn(|side| &points[(i + side).min(sites - 1) * d..][..d]);
        let last = (i + TILE).min(sites) - 1;
        for j in (0..last).step_by(TILE) {
            let others: [&[Lane]; TILE] = std::array::from_fn(|side| &points[(j + side).min(last) * d..][..d]);
            let mut sums: RegisterTile = [[_mm512_setzero_pd(); TILE]; TILE];
            for c in 0..d {
                let others = [load(&others[0][c]), load(&others[1][c]), load(&others[2][c]), load(&others[3][c])];
                for (sums, row) in sums.iter_mut().zip(&rows) {
                    let own = load(&row[c]);
                    for (sum, other) in sums.iter_mut().zip(&others) {
                        let difference = _mm512_sub_pd(own, *other);
                        *sum = _mm512_fmadd_pd(difference, difference, *sum);
                    }
                }
            }
            for (row, sums) in (i..sites).zip(&sums) {
                for (column, sum) in (j..row).zip(sums) {
                    store(*sum, &mut out[row * (row - 1) / 2 + column]);
                }
            }
        }
    }
}

fn start(row: usize) -> usize {
    row * (row + 1) / 2
}

#[target_feature(enable = "avx512f")]
fn factor_by_tiles(cov: &[Lane], diagonal: &[Lane], out: &mut [Lane]) -> bool {
    let n = diagonal.len();
    let whole = n / TILE * TILE;
    for column in (0..whole).step_by(TILE) {
        let mut own = less_products((cov, diagonal), out, column, std::array::from_fn(|side| column + side));
        if !factor_tile(&mut own) {
            return false;
        }
        store_tile(&own, column, column..column + TILE, out);
        for first in (column + TILE..n).step_by(TILE) {
            let mut tile =
                less_products((cov, diagonal), out, column, std::array::from_fn(|side| (first + side).min(n - 1)));
            for row in &mut tile {
                finish_row(row, &own);
            }
            store_tile(&tile, column, first..(first + TILE).min(n), out);
        }
    }
    for column in whole..n {
        for row in column..n {
            let mut sum = load(entry(cov, diagonal, row, column));
            for p in 0..column {
                sum = _mm512_fnmadd_pd(load(&out[start(column) + p]), load(&out[start(row) + p]), sum);
            }
            let value = if row == column {
                if !is_positive(sum) {
                    return false;
                }
                inverse_root(sum)
            } else {
                _mm512_mul_pd(sum, load(&out[start(column) + column]))
            };
            store(value, &mut out[start(row) + column]);
        }
    }
    true
}

fn entry<'a>(cov: &'a [Lane], diagonal: &'a [Lane], row: usize, column: usize) -> &'a Lane {
    if column < row { &cov[row * (row - 1) / 2 + column] } else { &diagonal[row] }
}

// Four columns of four rows, less what the columns before them have to do with them. What is above the diagonal is some other
// number, and not used.
#[target_feature(enable = "avx512f")]
fn less_products(
    (cov, diagonal): (&[Lane], &[Lane]),
    out: &[Lane],
    column: usize,
    rows: [usize; TILE],
) -> RegisterTile {
    let mut sums: RegisterTile = [[_mm512_setzero_pd(); TILE]; TILE];
    for (sums, row) in sums.iter_mut().zip(rows) {
        for (side, sum) in sums.iter_mut().enumerate() {
            *sum = load(entry(cov, diagonal, row, column + side));
        }
    }
    let left: [&[Lane]; TILE] = std::array::from_fn(|side| &out[start(column + side)..][..column]);
    let right: [&[Lane]; TILE] = rows.map(|row| &out[start(row)..][..column]);
    for p in 0..column {
        let left = [load(&left[0][p]), load(&left[1][p]), load(&left[2][p]), load(&left[3][p])];
        for (sums, right) in sums.iter_mut().zip(&right) {
            let right = load(&right[p]);
            for (sum, left) in sums.iter_mut().zip(&left) {
                *sum = _mm512_fnmadd_pd(*left, right, *sum);
            }
        }
    }
    sums
}

// The factor of a tile on the diagonal.
#[target_feature(enable = "avx512f")]
fn factor_tile(tile: &mut RegisterTile) -> bool {
    for row in 0..TILE {
        for column in 0..=row {
            let mut sum = tile[row][column];
            for (left, right) in tile[column].iter().zip(&tile[row]).take(column) {
                sum = _mm512_fnmadd_pd(*left, *right, sum);
            }
            if row == column && !is_positive(sum) {
                return false;
            }
            tile[row][column] =
                if row == column { inverse_root(sum) } else { _mm512_mul_pd(sum, tile[column][column]) };
        }
    }
    true
}

// Four columns of a row below a tile on the diagonal.
#[target_feature(enable = "avx512f")]
fn finish_row(row: &mut [__m512d; TILE], own: &RegisterTile) {
    for column in 0..TILE {
        let mut sum = row[column];
        for p in 0..column {
            sum = _mm512_fnmadd_pd(own[column][p], row[p], sum);
        }
        row[column] = _mm512_mul_pd(sum, own[column][column]);
    }
}

#[target_feature(enable = "avx512f")]
fn store_tile(tile: &RegisterTile, column: usize, rows: std::ops::Range<usize>, out: &mut [Lane]) {
    for (row, values) in rows.zip(tile) {
        for (column, value) in (column..=row).zip(values) {
            store(*value, &mut out[start(row) + column]);
        }
    }
}

// NaN is not positive.
#[target_feature(enable = "avx512f")]
fn is_positive(values: __m512d) -> bool {
    _mm512_cmp_pd_mask::<_CMP_NGT_UQ>(values, _mm512_setzero_pd()) == 0
}

#[target_feature(enable = "avx512f")]
fn inverse_root(values: __m512d) -> __m512d {
    _mm512_div_pd(_mm512_set1_pd(1.0), _mm512_sqrt_pd(values))
}

#[target_feature(enable = "avx512f")]
fn load(lane: &Lane) -> __m512d {
    #[expect(unsafe_code, reason = "reading a register is by address")]
    // SAFETY: there are eight numbers.
    unsafe {
        _mm512_loadu_pd(lane.as_ptr())
    }
}

#[target_feature(enable = "avx512f")]
fn store(register: __m512d, lane: &mut Lane) {
    #[expect(unsafe_code, reason = "writing a register is by address")]
    // SAFETY: there is room for eight numbers.
    unsafe {
        _mm512_storeu_pd(lane.as_mut_ptr(), register);
    }
}
