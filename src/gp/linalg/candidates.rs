//! The points that a search in single precision cannot rule out.

use super::looks::{Coordinates, SIDE};
use super::processor::for_this_processor;

/// All points that may be among the nearest, with their squared distances in single precision, in no order.
#[derive(Debug, Default)]
pub(crate) struct NearCandidates {
    // The first `used` of each; there is always room for sixteen more.
    distances: Vec<f32>,
    ids: Vec<u32>,
    used: usize,
    count: usize,
    /// So many are kept until the farthest are left out again.
    full: usize,
    /// Only numbers below the first, and not the second.
    among: (u32, u32),
    /// How much a distance may be wrong because coordinates are rounded, and its square as a share because sums are.
    rounding: (f32, f32),
    /// The squared distance beyond which nothing is wanted.
    limit: f32,
}

impl NearCandidates {
    /// Begins anew, for a query that is so far from the middle: a point at distance r is at most r farther away, and its
    /// coordinates are rounded by as much as that. Wants numbers below the first of `among`, and not the second.
    pub fn clear(&mut self, count: usize, among: (u32, u32), from_centre: f64, d: usize, blur: f64) {
        self.used = 0;
        self.count = count;
        self.full = (2 * count).max(count + 2 * SIDE);
        self.among = among;
        self.rounding.0 = (4.0 * (f64::from(f32::EPSILON) * from_centre + d as f64 * blur)) as f32;
        self.rounding.1 = f32::EPSILON * (2.0 * d as f32 + 16.0);
        self.limit = f32::INFINITY;
    }

    /// Which of some points may be among the nearest, a bit each.
    #[expect(clippy::inline_always, reason = "compiled for the instructions of the function it stands in")]
    #[inline(always)]
    pub fn within(&self, distances: &Coordinates, ids: &[u32; SIDE]) -> u32 {
        let (below, except) = self.among;
        let is_within = |i: usize| distances[i] <= self.limit && ids[i] < below && ids[i] != except;
        (0..SIDE).fold(0, |bits, i| bits | u32::from(is_within(i)) << i)
    }

    /// Adds some of sixteen points, a bit each.
    pub fn add(&mut self, mut which: u32, distances: &Coordinates, ids: &[u32; SIDE]) {
        let (mut some, mut numbers, mut count) = ([0.0; SIDE], [0; SIDE], 0);
        while which != 0 {
            let i = which.trailing_zeros() as usize % SIDE;
            (some[count], numbers[count]) = (distances[i], ids[i]);
            count += 1;
            which &= which - 1;
        }
        if count > 0 {
            self.push(count, &some, &numbers);
        }
    }

    /// Adds the first `count` of sixteen points.
    pub fn push(&mut self, count: usize, distances: &Coordinates, ids: &[u32; SIDE]) {
        if self.distances.len() < self.used + SIDE {
            self.distances.resize(self.used + SIDE + self.full, 0.0);
            self.ids.resize(self.used + SIDE + self.full, 0);
        }
        // Sixteen at once, whatever the count: what is too much is overwritten.
        self.distances[self.used..self.used + SIDE].copy_from_slice(distances);
        self.ids[self.used..self.used + SIDE].copy_from_slice(ids);
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
        let last = enclosing(&self.distances[..self.used], self.count, more + 1);
        // Both that one and another may be wrong.
        let (coordinates, sums) = self.rounding;
        self.limit = last + 2.0 * (coordinates * (2.0 * last.sqrt() + 3.0 * coordinates) + sums * last);
        let mut kept = 0;
        for i in 0..self.used {
            let (distance, id) = (self.distances[i], self.ids[i]);
            (self.distances[kept], self.ids[kept]) = (distance, id);
            kept += usize::from(distance <= self.limit);
        }
        self.used = kept;
        // Where many are equally far, not to look again at every point.
        self.full = self.full.max(2 * kept);
    }

    /// Numbers of the points.
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.used]
    }

    /// The squared distance beyond which nothing is wanted.
    pub fn limit(&self) -> f32 {
        self.limit
    }

    /// Wanted are numbers below the first, and not the second.
    pub fn among(&self) -> (u32, u32) {
        self.among
    }
}

for_this_processor! {
    // A value that at least `count` of some distances do not exceed, and at most `more` others where that can be: the bits of numbers that are not negative
    // are in the order of the numbers, and are halved until they are found.
    fn enclosing(distances: &[f32], count: usize, more: usize) -> f32 {
        let least = distances.iter().fold(f32::INFINITY, |least, value| if *value < least { *value } else { least });
        let most = distances.iter().fold(0.0_f32, |most, value| if *value > most { *value } else { most });
        let (mut low, mut high) = (least.to_bits(), most.to_bits());
        let (whole, rest) = distances.as_chunks::<SIDE>();
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let bound = f32::from_bits(middle);
            let mut lanes = [0_u32; SIDE];
            for some in whole {
                for i in 0..SIDE {
                    lanes[i] += u32::from(some[i] <= bound);
                }
            }
            let within = lanes.iter().sum::<u32>() as usize + rest.iter().filter(|value| **value <= bound).count();
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
}
