//! The points that a search in single precision cannot rule out.

/// All points that may be among the nearest, with their squared distances in single precision, the nearest first.
#[derive(Debug, Default)]
pub(super) struct NearCandidates {
    distances: Vec<f32>,
    ids: Vec<u32>,
    count: usize,
    /// How much a distance may be wrong because coordinates are rounded, and its square as a share because sums are.
    rounding: (f32, f32),
    /// The squared distance beyond which nothing is wanted.
    limit: f32,
}

impl NearCandidates {
    /// Begins anew, for a query that is so far from the middle: a point at distance r is at most r farther away, and its
    /// coordinates are rounded by as much as that.
    pub fn clear(&mut self, count: usize, from_centre: f64, d: usize, blur: f64) {
        self.distances.clear();
        self.ids.clear();
        self.count = count;
        self.rounding.0 = (4.0 * (f64::from(f32::EPSILON) * from_centre + d as f64 * blur)) as f32;
        self.rounding.1 = f32::EPSILON * (2.0 * d as f32 + 16.0);
        self.limit = f32::INFINITY;
    }

    pub fn insert(&mut self, distance: f32, id: u32) {
        if distance > self.limit {
            return;
        }
        // From the far end: most candidates are nearly as far as the last.
        let place = self.distances.iter().rposition(|old| *old <= distance).map_or(0, |before| before + 1);
        self.distances.insert(place, distance);
        self.ids.insert(place, id);
        let Some(last) = self.distances.get(self.count - 1) else { return };
        // Both that one and another may be wrong.
        let (coordinates, sums) = self.rounding;
        self.limit = last + 2.0 * (coordinates * (2.0 * last.sqrt() + 3.0 * coordinates) + sums * last);
        while self.distances.last().is_some_and(|last| *last > self.limit) {
            self.distances.pop();
            self.ids.pop();
        }
    }

    /// Numbers of the points.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The squared distance beyond which nothing is wanted.
    pub fn limit(&self) -> f32 {
        self.limit
    }
}
