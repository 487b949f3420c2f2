//! Squared distances in whole numbers, sixteen points side by side: the first look of a search for neighbours.
//!
//! Some neighbouring leaves are on a grid around their middle. A coordinate is then a number of 16 bits, a processor multiplies
//! and adds 32 pairs of them at once, and half a squared distance is ½‖p‖² + ½‖q‖² − pᵀq, each half rounded down. These are
//! whole numbers: every processor finds the same.

use super::candidates::NearCandidates;
use super::grids::{Asked, Coordinates, GridQuery, HalfNorms, LeafPoints, LookedAt, SIDE};
use super::processor::for_this_processor;

for_this_processor! {
    /// The squared distances of sixteen points, coordinate by coordinate, to a box with these corners.
    pub(crate) fn outside(points: &[Coordinates], low: &[f32], high: &[f32]) -> Coordinates {
        let (mut even, mut odd) = ([0.0; SIDE], [0.0; SIDE]);
        let (points, rest) = points.as_chunks::<2>();
        let (low, _) = low.as_chunks::<2>();
        let (high, _) = high.as_chunks::<2>();
        debug_assert!(rest.is_empty(), "coordinates come in pairs");
        for ((points, low), high) in points.iter().zip(low).zip(high) {
            add_outside::<FUSED>(&points[0], (low[0], high[0]), &mut even);
            add_outside::<FUSED>(&points[1], (low[1], high[1]), &mut odd);
        }
        std::array::from_fn(|i| even[i] + odd[i])
    }
}

/// The sum of some numbers in halves: the processor adds them side by side.
pub(crate) fn total(values: &Coordinates) -> f32 {
    let mut sums = *values;
    let mut half = SIDE / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_outside<const FUSED: bool>(points: &Coordinates, (low, high): (f32, f32), sums: &mut Coordinates) {
    for i in 0..SIDE {
        let (below, above) = (low - points[i], points[i] - high);
        let out = if below > above { below } else { above };
        let out = if out > 0.0 { out } else { 0.0 };
        sums[i] = if FUSED { out.mul_add(out, sums[i]) } else { out * out + sums[i] };
    }
}

/// Puts the points of a leaf that may be among the nearest to the query into `near`; `false` if the query is too far from the
/// leaf for its grid.
pub(crate) fn look(query: &GridQuery, leaf: LeafPoints<'_>, near: &mut NearCandidates) -> bool {
    if !query.is_near {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vnni")
    {
        #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
        // SAFETY: the processor was just asked whether it has them.
        unsafe {
            wide::look(query, leaf, near);
        }
        return true;
    }
    look_anywhere(query, leaf, near);
    true
}

for_this_processor! {
    // The same on any processor.
    fn look_anywhere(query: &GridQuery, leaf: LeafPoints<'_>, near: &mut NearCandidates) {
        let scale = query.scale;
        let (Some((first, others)), [own, rest @ ..]) = (query.coordinates.split_first(), &query.norms[..]) else { return };
        let limit = scale.limit(near);
        for (place, look) in leaf.first.iter().enumerate() {
            let mut sums = leaf.first_norms[place];
            let mut known = *own;
            add_products(first, look, &mut sums);
            let mut within = near.within(&sums, limit - known, &leaf.ids[place]);
            for (number, (asked, norm)) in others.iter().zip(rest).enumerate() {
                if within == 0 {
                    break;
                }
                let at = place * others.len() + number;
                known += norm;
                (0..SIDE).for_each(|i| sums[i] += leaf.other_norms[at][i]);
                add_products(asked, &leaf.others[at], &mut sums);
                within = near.within(&sums, limit - known, &leaf.ids[place]);
            }
            if within != 0 {
                let squares = std::array::from_fn(|i| scale.square(sums[i] + known));
                near.add(within, &squares, scale.error + scale.step, &leaf.ids[place]);
            }
        }
    }
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_products(query: &Asked, points: &LookedAt, sums: &mut HalfNorms) {
    for (asked, points) in query.iter().zip(points) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let (a, b) = (i32::from(points[2 * i]), i32::from(points[2 * i + 1]));
            *sum += a * i32::from(asked[0]) + b * i32::from(asked[1]);
        }
    }
}

/// Thirty-two pairs in one register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512, __m512i, _mm512_add_epi32, _mm512_cmple_epi32_mask, _mm512_cmplt_epu32_mask, _mm512_cmpneq_epi32_mask,
        _mm512_cvtepi32_ps, _mm512_dpwssd_epi32, _mm512_loadu_si512, _mm512_maskz_compress_epi32,
        _mm512_maskz_compress_ps, _mm512_max_epi32, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_storeu_ps,
        _mm512_storeu_si512,
    };

    use super::{Asked, GridQuery, LeafPoints, LookedAt, NearCandidates, SIDE};
    use crate::gp::linalg::grids::BLOCKS;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,popcnt")]
    pub(super) fn look(query: &GridQuery, leaf: LeafPoints<'_>, near: &mut NearCandidates) {
        let scale = query.scale;
        let (Some((first, others)), [own, ..]) = (query.coordinates.split_first(), &query.norms[..]) else {
            return;
        };
        let limit = scale.limit(near);
        let all = query.norm;
        let (below, except) = near.among();
        let (below, except) = (_mm512_set1_epi32(below.cast_signed()), _mm512_set1_epi32(except.cast_signed()));
        let (leaves, _) = leaf.first.as_chunks::<BLOCKS>();
        let (norms, _) = leaf.first_norms.as_chunks::<BLOCKS>();
        for ((number, points), norms) in leaves.iter().enumerate().zip(norms) {
            let start = number * BLOCKS;
            let mut sums: [__m512i; BLOCKS] = std::array::from_fn(|block| load(&norms[block]));
            for (pair, asked) in first.iter().enumerate() {
                let asked = both(*asked);
                for (sums, points) in sums.iter_mut().zip(points) {
                    *sums = _mm512_dpwssd_epi32(*sums, load_pairs(&points[pair]), asked);
                }
            }
            // All masks first: what follows is then one loop over the blocks that have a point, and seldom guessed wrong.
            let bound = _mm512_set1_epi32(limit - own);
            let mut left = 0_u32;
            for (block, sums) in sums.iter().enumerate() {
                left |= u32::from(_mm512_cmple_epi32_mask(*sums, bound) != 0) << block;
            }
            let bound = _mm512_set1_epi32(limit - all);
            while left != 0 {
                let block = left.trailing_zeros() as usize % BLOCKS;
                left &= left - 1;
                let at = start + block;
                let mut sum = sums[block];
                let behind = at * others.len()..(at + 1) * others.len();
                let norms = &leaf.other_norms[behind.clone()];
                for ((asked, points), norms) in others.iter().zip(&leaf.others[behind]).zip(norms) {
                    sum = add_products(asked, points, _mm512_add_epi32(sum, load(norms)));
                }
                let ids = load_ids(&leaf.ids[at]);
                let within = _mm512_cmple_epi32_mask(sum, bound)
                    & _mm512_cmplt_epu32_mask(ids, below)
                    & _mm512_cmpneq_epi32_mask(ids, except);
                if within != 0 {
                    let half = _mm512_max_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(all)), _mm512_set1_epi32(0));
                    let twice = _mm512_add_epi32(_mm512_add_epi32(half, half), _mm512_set1_epi32(1));
                    let squares = _mm512_mul_ps(_mm512_cvtepi32_ps(twice), _mm512_set1_ps(scale.step * scale.step));
                    let squares = store_floats(_mm512_maskz_compress_ps(within, squares));
                    let ids = store(_mm512_maskz_compress_epi32(within, ids));
                    near.push(within.count_ones() as usize, &squares, scale.error + scale.step, &ids);
                }
            }
        }
    }

    // One more look: two sums, of which none waits for the other.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[inline]
    fn add_products(query: &Asked, points: &LookedAt, sum: __m512i) -> __m512i {
        let (mut even, mut odd) = (sum, _mm512_set1_epi32(0));
        for pair in (0..query.len()).step_by(2) {
            even = _mm512_dpwssd_epi32(even, load_pairs(&points[pair]), both(query[pair]));
            odd = _mm512_dpwssd_epi32(odd, load_pairs(&points[pair + 1]), both(query[pair + 1]));
        }
        _mm512_add_epi32(even, odd)
    }

    // A pair of the query beside every point.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn both([a, b]: [i16; 2]) -> __m512i {
        _mm512_set1_epi32((u32::from(a.cast_unsigned()) | u32::from(b.cast_unsigned()) << 16).cast_signed())
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(values: &[i32; SIDE]) -> __m512i {
        #[expect(unsafe_code, reason = "reading a register is by address")]
        // SAFETY: there are sixteen numbers of 32 bits.
        unsafe {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_pairs(values: &[i16; 2 * SIDE]) -> __m512i {
        #[expect(unsafe_code, reason = "reading a register is by address")]
        // SAFETY: there are 32 numbers of 16 bits.
        unsafe {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_ids(values: &[u32; SIDE]) -> __m512i {
        #[expect(unsafe_code, reason = "reading a register is by address")]
        // SAFETY: there are sixteen numbers of 32 bits.
        unsafe {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store_floats(register: __m512) -> [f32; SIDE] {
        let mut values = [0.0; SIDE];
        #[expect(unsafe_code, reason = "writing a register is by address")]
        // SAFETY: there is room for sixteen numbers of 32 bits.
        unsafe {
            _mm512_storeu_ps(values.as_mut_ptr(), register);
        }
        values
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(register: __m512i) -> [u32; SIDE] {
        let mut values = [0; SIDE];
        #[expect(unsafe_code, reason = "writing a register is by address")]
        // SAFETY: there is room for sixteen numbers of 32 bits.
        unsafe {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), register);
        }
        values
    }
}

#[cfg(test)]
#[path = "looks_tests.rs"]
mod tests;
