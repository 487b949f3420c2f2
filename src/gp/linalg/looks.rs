//! Squared distances in single precision, sixteen points side by side: the first look of a search for neighbours.
//!
//! Where the processor has instructions for sixteen numbers at once, they are called by name: which of sixteen distances are
//! small is one instruction there, and the compiler makes dozens of it. What is found does not depend on that: sums may be
//! rounded in another order, and a search has room for rounding.

use super::candidates::NearCandidates;
use super::processor::for_this_processor;

/// Points, or queries, that are looked at side by side.
pub(crate) const SIDE: usize = 16;
/// One coordinate of so many points.
pub(crate) type Coordinates = [f32; SIDE];
/// Coordinates after which a look tells whether the rest of a distance is needed. There are always whole looks: coordinates
/// beyond the last are zero everywhere.
pub(crate) const LOOK: usize = 8;
/// So many coordinates of some points.
pub(crate) type LookedAt = [Coordinates; LOOK];

/// How many looks there are at points of so many coordinates.
pub(crate) fn looks(d: usize) -> usize {
    d.div_ceil(LOOK).max(1)
}

/// The points of a leaf, some side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafPoints<'a> {
    /// First coordinates, close together: most points are left out by them.
    pub first: &'a [LookedAt],
    /// The others, as many looks for each of the first.
    pub others: &'a [LookedAt],
    /// Their numbers; `u32::MAX` for what is not there.
    pub ids: &'a [[u32; SIDE]],
}

for_this_processor! {
    /// The squared distances of sixteen points, coordinate by coordinate, to a box with these corners.
    pub(crate) fn outside(points: &[Coordinates], low: &[f32], high: &[f32]) -> Coordinates {
        let (mut even, mut odd) = ([0.0; SIDE], [0.0; SIDE]);
        let (points, rest) = points.as_chunks::<2>();
        let (low, _) = low.as_chunks::<2>();
        let (high, _) = high.as_chunks::<2>();
        debug_assert!(rest.is_empty(), "coordinates come in whole looks");
        for ((points, low), high) in points.iter().zip(low).zip(high) {
            add_outside::<FUSED>(&points[0], (low[0], high[0]), &mut even);
            add_outside::<FUSED>(&points[1], (low[1], high[1]), &mut odd);
        }
        std::array::from_fn(|i| even[i] + odd[i])
    }
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_outside<const FUSED: bool>(points: &Coordinates, (low, high): (f32, f32), sums: &mut Coordinates) {
    for i in 0..SIDE {
        let (below, above) = (low - points[i], points[i] - high);
        let out = if below > above { below } else { above };
        let out = if out > 0.0 { out } else { 0.0 };
        sums[i] = add_square::<FUSED>(out, sums[i]);
    }
}

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_square<const FUSED: bool>(difference: f32, sum: f32) -> f32 {
    if FUSED { difference.mul_add(difference, sum) } else { difference * difference + sum }
}

/// Puts the points of a leaf that may be among the nearest to the query into `near`.
pub(crate) fn look(query: &[[f32; LOOK]], leaf: LeafPoints<'_>, near: &mut NearCandidates) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
        // SAFETY: the processor was just asked whether it has them.
        return unsafe { wide::look(query, leaf, near) };
    }
    look_anywhere(query, leaf, near);
}

for_this_processor! {
    // The same on any processor.
    fn look_anywhere(query: &[[f32; LOOK]], leaf: LeafPoints<'_>, near: &mut NearCandidates) {
        let Some((first, others)) = query.split_first() else { return };
        for ((place, look), ids) in leaf.first.iter().enumerate().zip(leaf.ids) {
            let mut sums = add_squares::<FUSED>(first, look, [0.0; SIDE]);
            let mut within = near.within(&sums, ids);
            for (query, look) in others.iter().zip(&leaf.others[place * others.len()..]) {
                if within == 0 {
                    break;
                }
                sums = add_squares::<FUSED>(query, look, sums);
                within = near.within(&sums, ids);
            }
            near.add(within, &sums, ids);
        }
    }
}

// Some more coordinates; even and odd ones apart, so that one sum need not wait for the other.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_squares<const FUSED: bool>(query: &[f32; LOOK], points: &LookedAt, mut even: Coordinates) -> Coordinates {
    let mut odd = [0.0; SIDE];
    for j in (0..LOOK).step_by(2) {
        for i in 0..SIDE {
            even[i] = add_square::<FUSED>(points[j][i] - query[j], even[i]);
            odd[i] = add_square::<FUSED>(points[j + 1][i] - query[j + 1], odd[i]);
        }
    }
    std::array::from_fn(|i| even[i] + odd[i])
}

/// Sixteen numbers in one register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m512, __m512i, _CMP_LE_OQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cmplt_epu32_mask,
        _mm512_cmpneq_epi32_mask, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_maskz_compress_epi32,
        _mm512_maskz_compress_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
        _mm512_storeu_si512, _mm512_sub_ps,
    };

    use super::{LOOK, LeafPoints, LookedAt, NearCandidates, SIDE};

    /// Blocks of points whose first looks do not wait for each other.
    const BLOCKS: usize = 4;

    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn look(query: &[[f32; LOOK]], leaf: LeafPoints<'_>, near: &mut NearCandidates) {
        let Some((first, others)) = query.split_first() else { return };
        for start in (0..leaf.first.len()).step_by(BLOCKS) {
            let blocks = BLOCKS.min(leaf.first.len() - start);
            let mut sums = [_mm512_setzero_ps(); BLOCKS];
            for (j, coordinate) in first.iter().enumerate() {
                let coordinate = _mm512_set1_ps(*coordinate);
                for (block, sums) in sums.iter_mut().enumerate() {
                    let points = &leaf.first[start + block.min(blocks - 1)];
                    let difference = _mm512_sub_ps(load(&points[j]), coordinate);
                    *sums = _mm512_fmadd_ps(difference, difference, *sums);
                }
            }
            let limit = _mm512_set1_ps(near.limit());
            // All masks first: what follows is then one loop over the blocks that have a point, and seldom guessed wrong.
            let mut left = 0_u32;
            for (block, sums) in sums.iter().enumerate().take(blocks) {
                left |= u32::from(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(*sums, limit) != 0) << block;
            }
            while left != 0 {
                let block = left.trailing_zeros() as usize % BLOCKS;
                left &= left - 1;
                let place = start + block;
                let sums = add_others(others, &leaf.others[place * others.len()..], sums[block]);
                let ids = load_ids(&leaf.ids[place]);
                let (below, except) = near.among();
                let within = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(sums, limit)
                    & _mm512_cmplt_epu32_mask(ids, _mm512_set1_epi32(below.cast_signed()))
                    & _mm512_cmpneq_epi32_mask(ids, _mm512_set1_epi32(except.cast_signed()));
                if within != 0 {
                    let distances = store(_mm512_maskz_compress_ps(within, sums));
                    let ids = store_ids(_mm512_maskz_compress_epi32(within, ids));
                    near.push(within.count_ones() as usize, &distances, &ids);
                }
            }
        }
    }

    // The other looks: four sums, of which none waits for another.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn add_others(query: &[[f32; LOOK]], points: &[LookedAt], mut a: __m512) -> __m512 {
        let (mut b, mut c, mut d) = (_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps());
        for (query, points) in query.iter().zip(points) {
            for j in (0..LOOK).step_by(4) {
                a = add_square(&points[j], query[j], a);
                b = add_square(&points[j + 1], query[j + 1], b);
                c = add_square(&points[j + 2], query[j + 2], c);
                d = add_square(&points[j + 3], query[j + 3], d);
            }
        }
        _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d))
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn add_square(points: &[f32; SIDE], coordinate: f32, sums: __m512) -> __m512 {
        let difference = _mm512_sub_ps(load(points), _mm512_set1_ps(coordinate));
        _mm512_fmadd_ps(difference, difference, sums)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load(values: &[f32; SIDE]) -> __m512 {
        #[expect(unsafe_code, reason = "reading a register is by address")]
        // SAFETY: there are sixteen numbers.
        unsafe {
            _mm512_loadu_ps(values.as_ptr())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load_ids(values: &[u32; SIDE]) -> __m512i {
        #[expect(unsafe_code, reason = "reading a register is by address")]
        // SAFETY: there are sixteen numbers.
        unsafe {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store(register: __m512) -> [f32; SIDE] {
        let mut values = [0.0; SIDE];
        #[expect(unsafe_code, reason = "writing a register is by address")]
        // SAFETY: there is room for sixteen numbers.
        unsafe {
            _mm512_storeu_ps(values.as_mut_ptr(), register);
        }
        values
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store_ids(register: __m512i) -> [u32; SIDE] {
        let mut values = [0; SIDE];
        #[expect(unsafe_code, reason = "writing a register is by address")]
        // SAFETY: there is room for sixteen numbers.
        unsafe {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), register);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Numbers that look random, the same every time.
    fn numbers(count: usize) -> impl Iterator<Item = f32> {
        (0..count as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 24) as f32)
    }

    #[test]
    fn both_ways_to_look_find_what_a_plain_loop_finds() {
        for (d, blocks) in [(3, 1), (8, 5), (30, 8), (33, 4)] {
            let points: Vec<Vec<f32>> =
                numbers(blocks * SIDE * d).collect::<Vec<_>>().chunks(d).map(<[f32]>::to_vec).collect();
            let at = |block: usize, i: usize, j: usize| points[block * SIDE + i].get(j).copied().unwrap_or(0.0);
            let part = |block: usize, look: usize| -> LookedAt {
                std::array::from_fn(|j| std::array::from_fn(|i| at(block, i, look * LOOK + j)))
            };
            let first: Vec<LookedAt> = (0..blocks).map(|block| part(block, 0)).collect();
            let others: Vec<LookedAt> = (0..blocks)
                .flat_map(|block| (1..looks(d)).map(move |look| (block, look)))
                .map(|(b, l)| part(b, l))
                .collect();
            let ids: Vec<[u32; SIDE]> =
                (0..blocks).map(|block| std::array::from_fn(|i| (block * SIDE + i) as u32)).collect();
            let query: Vec<[f32; LOOK]> = (0..looks(d))
                .map(|look| std::array::from_fn(|j| if look * LOOK + j < d { 0.4 } else { 0.0 }))
                .collect();
            let leaf = LeafPoints { first: &first, others: &others, ids: &ids };
            let distance = |point: &Vec<f32>| point.iter().map(|x| (x - 0.4) * (x - 0.4)).sum::<f32>();
            let mut all: Vec<(f32, u32)> = points.iter().map(distance).zip(0..).collect();
            all.retain(|(_, id)| *id < 70 && *id != 7);
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            for count in [1, 5, 200] {
                let wanted: Vec<u32> = all.iter().take(count).map(|(_, id)| *id).collect();
                for way in [look, look_anywhere] {
                    let mut near = NearCandidates::default();
                    near.clear(count, (70, 7), 0.0, d, 0.0);
                    way(&query, leaf, &mut near);
                    near.keep_nearest(0);
                    assert!(wanted.iter().all(|id| near.ids().contains(id)), "{d} {count}: {:?}", near.ids());
                    assert!(near.ids().len() <= wanted.len() + 3, "{d} {count}: {:?}", near.ids());
                    assert!(near.ids().iter().all(|id| *id < 70 && *id != 7));
                }
            }
        }
    }
}
