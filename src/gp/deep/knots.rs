//! The monotone map g(x) = ∫ max(u(z), u_min)² dz of one feature, known from the slope at fixed knots.
//!
//! Between knots g is linear, its slope the mean of those at both ends; outside it goes on with the slope at the end.
//! The knots belong to the model, so that the map of a row does not depend on the rows it comes with.

use ndarray::{Array2, ArrayView1, ArrayView2};

/// The largest number of knots.
pub(super) const LARGEST: usize = 1024;

/// Knots, and the smallest slope's root.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Knots {
    /// Where they are, strictly increasing.
    pub at: Vec<f64>,
    u_min: f64,
}

/// Where a value lies: g = g[left] + share (g[left + 1] − g[left]), plus `left_out` or `right_out` times the slope at
/// that end when it lies outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spot {
    left: usize,
    share: f64,
    left_out: f64,
    right_out: f64,
}

/// Training rows whose features are the knots, in increasing order: the distinct ones, or [`LARGEST`] of them.
pub(super) fn choose(x: ArrayView1<'_, f64>) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..x.len()).collect();
    rows.sort_by(|a, b| x[*a].total_cmp(&x[*b]).then(a.cmp(b)));
    // Zero has two signs, which are no distance apart.
    rows.dedup_by(|a, b| x[*a] - x[*b] <= 0.0);
    if rows.len() <= LARGEST {
        return rows;
    }
    // Evenly by rank, both ends included.
    (0..LARGEST).map(|k| rows[k * (rows.len() - 1) / (LARGEST - 1)]).collect()
}

impl Knots {
    /// Knots at these strictly increasing places.
    pub fn new(at: Vec<f64>, u_min: f64) -> Self {
        Self { at, u_min }
    }

    /// Where the value x lies.
    pub fn spot(&self, x: f64) -> Spot {
        let last = self.at.len() - 1;
        if x < self.at[0] || last == 0 {
            return Spot { left: 0, share: 0.0, left_out: x - self.at[0], right_out: 0.0 };
        }
        if x >= self.at[last] {
            return Spot { left: last - 1, share: 1.0, left_out: 0.0, right_out: x - self.at[last] };
        }
        // NaN lies nowhere; its share is NaN.
        let left = self.at.partition_point(|knot| *knot <= x).saturating_sub(1);
        let share = (x - self.at[left]) / (self.at[left + 1] - self.at[left]);
        Spot { left, share, left_out: 0.0, right_out: 0.0 }
    }

    /// The spots of x: `[k, 1]`.
    pub fn spots(&self, x: ArrayView2<'_, f64>) -> Vec<Spot> {
        x.iter().map(|x| self.spot(*x)).collect()
    }

    fn slope(&self, u: f64) -> f64 {
        let u = if u < self.u_min { self.u_min } else { u };
        u * u
    }

    /// g at the knots, `[T]`, from u: `[T]` there.
    pub fn integrate(&self, u: ArrayView1<'_, f64>) -> Vec<f64> {
        let mut g = Vec::with_capacity(u.len());
        let mut total = self.at[0];
        g.push(total);
        for k in 1..u.len() {
            total += 0.5 * (self.slope(u[k - 1]) + self.slope(u[k])) * (self.at[k] - self.at[k - 1]);
            g.push(total);
        }
        g
    }

    /// The slopes at both ends.
    pub fn ends(&self, u: ArrayView1<'_, f64>) -> (f64, f64) {
        (self.slope(u[0]), self.slope(u[u.len() - 1]))
    }

    /// The derivative by u: `[T]` of something whose derivative by g is adjoint: `[T]`.
    pub fn integrate_back(&self, u: ArrayView1<'_, f64>, adjoint: &[f64]) -> Vec<f64> {
        let mut back = vec![0.0; u.len()];
        let mut later = 0.0;
        for k in (1..u.len()).rev() {
            later += adjoint[k];
            let half = 0.5 * (self.at[k] - self.at[k - 1]) * later;
            back[k - 1] += half;
            back[k] += half;
        }
        for (back, u) in back.iter_mut().zip(u) {
            *back *= if *u > self.u_min { 2.0 * u } else { 0.0 };
        }
        back
    }
}

impl Spot {
    /// g here, from g at the knots and the slopes at both ends.
    pub fn value(&self, g: &[f64], (left_slope, right_slope): (f64, f64)) -> f64 {
        let base = g[self.left];
        let next = g.get(self.left + 1).copied().unwrap_or(base);
        base + self.share * (next - base) + self.left_out * left_slope + self.right_out * right_slope
    }

    /// Adds the derivative by g at the knots of something whose derivative by g here is adjoint. Training rows never lie
    /// outside, hence the slopes at the ends have no part in it.
    pub fn value_back(&self, adjoint: f64, to: &mut [f64]) {
        to[self.left] += (1.0 - self.share) * adjoint;
        if let Some(next) = to.get_mut(self.left + 1) {
            *next += self.share * adjoint;
        }
    }
}

/// g at many spots, `[k, 1]`.
pub(super) fn values(spots: &[Spot], g: &[f64], ends: (f64, f64)) -> Array2<f64> {
    Array2::from_shape_fn((spots.len(), 1), |(i, _)| spots[i].value(g, ends))
}
