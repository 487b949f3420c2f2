//! Squared distances in single precision, sixteen points side by side.

use crate::gp::linalg::for_this_processor;

/// Points that are looked at side by side.
pub(super) const SIDE: usize = 16;
/// One coordinate of so many points.
pub(super) type Coordinates = [f32; SIDE];
/// Coordinates after which a look tells whether the rest of a distance is needed. There are always whole looks: coordinates
/// beyond the last are zero everywhere.
pub(super) const LOOK: usize = 8;
/// So many coordinates of some points.
pub(super) type LookedAt = [Coordinates; LOOK];

#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn add_square<const FUSED: bool>(difference: f32, sum: f32) -> f32 {
    if FUSED { difference.mul_add(difference, sum) } else { difference * difference + sum }
}

for_this_processor! {
    // The squared distance of a point to a box.
    pub(super) fn outside(point: &[Coordinates], corners: &[(Coordinates, Coordinates)]) -> f32 {
        let mut sums = [0.0; SIDE];
        for (point, (low, high)) in point.iter().zip(corners) {
            for i in 0..SIDE {
                let (below, above) = (low[i] - point[i], point[i] - high[i]);
                let out = if below > above { below } else { above };
                let out = if out > 0.0 { out } else { 0.0 };
                sums[i] = add_square::<FUSED>(out, sums[i]);
            }
        }
        // In halves: the processor adds lanes side by side.
        let mut half = SIDE / 2;
        while half > 0 {
            for i in 0..half {
                sums[i] += sums[i + half];
            }
            half /= 2;
        }
        sums[0]
    }
}

for_this_processor! {
    // The points of some blocks that are not farther away than `limit`, with their squared distances.
    pub(super) fn points_within(
        query: &[[f32; LOOK]],
        first_looks: &[LookedAt],
        other_looks: &[LookedAt],
        ids: &[[u32; SIDE]],
        limit: f32,
        out: &mut Vec<(f32, u32)>,
    ) {
        let Some((first, others)) = query.split_first() else { return };
        for ((place, look), ids) in first_looks.iter().enumerate().zip(ids) {
            let mut sums = add_squares::<FUSED>(first, look, [0.0; SIDE]);
            let mut near = within(&sums, limit);
            for (query, look) in others.iter().zip(&other_looks[place * others.len()..]) {
                if near == 0 {
                    break;
                }
                sums = add_squares::<FUSED>(query, look, sums);
                near = within(&sums, limit);
            }
            while near != 0 {
                let i = near.trailing_zeros() as usize % SIDE;
                out.push((sums[i], ids[i]));
                near &= near - 1;
            }
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

// Which are within the limit, a bit each.
#[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
#[inline(always)]
fn within(sums: &Coordinates, limit: f32) -> u32 {
    (0..SIDE).fold(0, |bits, i| bits | u32::from(sums[i] <= limit) << i)
}

// How many looks there are at points of so many coordinates.
pub(super) fn looks(d: usize) -> usize {
    d.div_ceil(LOOK).max(1)
}

// One part of some values, filled up with zeros.
pub(super) fn filled_up<const N: usize>(values: &[f64], part: usize) -> [f32; N] {
    std::array::from_fn(|i| values.get(part * N + i).map_or(0.0, |value| *value as f32))
}
