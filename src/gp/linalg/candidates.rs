//! The points that a search in whole numbers cannot rule out.

use super::grids::{Coordinates, HalfNorms, SIDE};
use super::processor::for_this_processor;

/// All points that may be among the nearest, in no order.
#[derive(Debug, Default)]
pub(crate) struct NearCandidates {
    // Squared distances, and how much the distances may be wrong. The first `used` of each; there is always room for sixteen
    // more, and again.
    squares: Vec<f32>,
    errors: Vec<f32>,
    ids: Vec<u32>,
    // Room for bounds on the squared distances.
    bounds: Bounds,
    used: usize,
    count: usize,
    /// So many are kept until the farthest are left out again.
    full: usize,
    /// Only numbers below the first, and not the second.
    among: (u32, u32),
    /// How much a distance may be wrong because coordinates of the query are rounded.
    rounding: f32,
    /// The distance beyond which nothing is wanted.
    reach: f32,
}

/// Points are not nearer than this, and not farther than that.
#[derive(Debug, Default)]
struct Bounds {
    least: Vec<f32>,
    most: Vec<f32>,
}

/// More than what single precision loses of a sum or product here.
const UP: f32 = 1.0 + 8.0 * f32::EPSILON;
const DOWN: f32 = 1.0 - 8.0 * f32::EPSILON;

impl NearCandidates {
    /// Begins anew, for a query that is so far from the middle. Wants numbers below the first of `among`, and not the second.
    pub fn clear(&mut self, count: usize, among: (u32, u32), from_centre: f64, d: usize, blur: f64) {
        self.used = 0;
        self.count = count;
        self.full = (2 * count).max(count + 2 * SIDE);
        self.among = among;
        self.rounding = (4.0 * (f64::from(f32::EPSILON) * (from_centre + 1.0) + d as f64 * blur)) as f32;
        self.reach = f32::INFINITY;
    }

    /// Which of some points may be among the nearest, a bit each.
    #[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
    #[inline(always)]
    pub fn within(&self, halves: &HalfNorms, limit: i32, ids: &[u32; SIDE]) -> u32 {
        let (below, except) = self.among;
        let is_within = |i: usize| halves[i] <= limit && ids[i] < below && ids[i] != except;
        (0..SIDE).fold(0, |bits, i| bits | u32::from(is_within(i)) << i)
    }

    /// Adds some of sixteen points, a bit each, with their squared distances and how wrong the distances may be.
    pub fn add(&mut self, mut which: u32, squares: &Coordinates, error: f32, ids: &[u32; SIDE]) {
        let (mut some, mut numbers, mut count) = ([0.0; SIDE], [0; SIDE], 0);
        while which != 0 {
            let i = which.trailing_zeros() as usize % SIDE;
            (some[count], numbers[count]) = (squares[i], ids[i]);
            count += 1;
            which &= which - 1;
        }
        self.push(count, &some, error, &numbers);
    }

    /// Adds the first `count` of sixteen points.
    #[inline]
    pub fn push(&mut self, count: usize, squares: &Coordinates, error: f32, ids: &[u32; SIDE]) {
        let (first, end) = (self.used, self.used + SIDE);
        if self.squares.len() < end + SIDE {
            self.squares.resize(end + SIDE + self.full, 0.0);
            self.errors.resize(end + SIDE + self.full, 0.0);
            self.ids.resize(end + SIDE + self.full, 0);
        }
        // Sixteen at once, whatever the count: what is too much is overwritten.
        self.squares[first..end].copy_from_slice(squares);
        self.errors[first..end].fill(error);
        self.ids[first..end].copy_from_slice(ids);
        self.used += count;
        if self.used >= self.full {
            // Some too many do no harm, and are found sooner.
            self.keep_nearest(self.count / 8);
        }
    }

    /// Leaves out what is certainly not among the nearest, but for about so many.
    pub fn keep_nearest(&mut self, more: usize) {
        if self.used <= self.count {
            return;
        }
        // Whole sixteens, for which there is room: NaN is within nothing.
        self.squares[self.used..self.used + SIDE].fill(f32::NAN);
        let whole = self.used.next_multiple_of(SIDE);
        let Bounds { least, most } = &mut self.bounds;
        least.resize(whole, 0.0);
        most.resize(whole, 0.0);
        enclose(&self.squares[..whole], &self.errors[..whole], least, most);
        let limit = enclosing(most, self.count, more + 1);
        self.reach = limit.sqrt() * UP;
        let (squares, errors, ids) = (&mut self.squares[..whole], &mut self.errors[..whole], &mut self.ids[..whole]);
        let mut kept = 0;
        for (i, least) in least[..self.used].iter().enumerate() {
            let (square, error, id) = (squares[i], errors[i], ids[i]);
            (squares[kept], errors[kept], ids[kept]) = (square, error, id);
            kept += usize::from(*least <= limit);
        }
        self.used = kept;
        // Where many are equally far, not to look again at every point.
        self.full = self.full.max(2 * kept);
    }

    /// Numbers of the points.
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.used]
    }

    /// The distance beyond which nothing is wanted.
    pub fn reach(&self) -> f32 {
        self.reach
    }

    /// The squared distance beyond which no box is wanted, in coordinates that are rounded.
    pub fn limit(&self) -> f32 {
        let reach = (self.reach + self.rounding) * (1.0 + 1e-5);
        reach * reach
    }

    /// How much a distance may be wrong because coordinates of the query are rounded.
    pub fn rounding(&self) -> f32 {
        self.rounding
    }

    /// Wanted are numbers below the first, and not the second.
    pub fn among(&self) -> (u32, u32) {
        self.among
    }
}

for_this_processor! {
    // Bounds on squared distances.
    fn enclose(squares: &[f32], errors: &[f32], least: &mut [f32], most: &mut [f32]) {
        for ((square, error), (least, most)) in squares.iter().zip(errors).zip(least.iter_mut().zip(most)) {
            let distance = square.sqrt();
            let below = distance * DOWN - error;
            // Also where both are infinite.
            let below = if below > 0.0 { below } else { 0.0 };
            let above = distance * UP + error;
            (*least, *most) = (below * below * DOWN, above * above * UP);
        }
    }
}

// A value that at least `count` of some distances do not exceed, and at most `more` others where that can be: the bits of
// numbers that are not negative are in the order of the numbers, and are halved until they are found. NaN is not counted.
fn enclosing(distances: &[f32], count: usize, more: usize) -> f32 {
    let (least, most) = ends(distances);
    let (mut low, mut high) = (least.to_bits(), most.to_bits());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let within = count_within(distances, f32::from_bits(middle));
        if within < count {
            low = middle;
            continue;
        }
        high = middle;
        if within <= count + more {
            break;
        }
    }
    f32::from_bits(high)
}

for_this_processor! {
    // The least and the largest of whole sixteens that are not negative.
    fn ends(distances: &[f32]) -> (f32, f32) {
        let (mut least, mut most) = ([f32::INFINITY; SIDE], [0.0_f32; SIDE]);
        for some in distances.as_chunks::<SIDE>().0 {
            for i in 0..SIDE {
                least[i] = if some[i] < least[i] { some[i] } else { least[i] };
                most[i] = if some[i] > most[i] { some[i] } else { most[i] };
            }
        }
        let least = least.iter().fold(f32::INFINITY, |least, value| if *value < least { *value } else { least });
        (least, most.iter().fold(0.0_f32, |most, value| if *value > most { *value } else { most }))
    }
}

fn count_within(distances: &[f32], bound: f32) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("popcnt") {
        #[expect(unsafe_code, reason = "a function for a processor that has these instructions")]
        // SAFETY: the processor was just asked whether it has them.
        return unsafe { wide::count_within(distances, bound) };
    }
    distances.iter().filter(|value| **value <= bound).count()
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{_CMP_LE_OQ, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_set1_ps};

    use super::SIDE;

    // Of whole sixteens.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn count_within(distances: &[f32], bound: f32) -> usize {
        let bound = _mm512_set1_ps(bound);
        let mut count = 0;
        for some in distances.as_chunks::<SIDE>().0 {
            #[expect(unsafe_code, reason = "reading a register is by address")]
            // SAFETY: there are sixteen numbers.
            let some = unsafe { _mm512_loadu_ps(some.as_ptr()) };
            count += _mm512_cmp_ps_mask::<_CMP_LE_OQ>(some, bound).count_ones();
        }
        count as usize
    }
}
