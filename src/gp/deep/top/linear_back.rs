//! Derivatives of rows whose hidden layers are linear in ξ, eight rows at a time: what [`super::inducing`] does in tiles.
//!
//! From the row to its covariances, from there to ∂ℓ/∂K, to the row's own point, the inducing points and the weights of
//! the hidden layer, everything stays in the first cache.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

use crate::gp::deep::hidden::Linear;
use crate::gp::kernel::{Against, Covariance, PointRows, Stationary, multiply_lanes};
use crate::gp::linalg::panels::{BLOCK, LANES, Lane, Packed, multiply, products, room, squares, weighted};
use crate::gp::linalg::{Cross, Triangle, clear_missing, for_this_processor, multiply_add};
use crate::gp::sparse::RowWeights;

/// What all rows share.
pub(super) struct LinearBack<'a> {
    linear: &'a Linear<'a>,
    inducing: &'a Stationary,
    // What rows are solved with, if they are.
    lower: Option<&'a Triangle>,
    against: Against,
    noise: f64,
    // What a row is multiplied by: β̃ if it is solved, else L⁻ᵀ β̃, `[m]`.
    beta: Array1<f64>,
    // L⁻ᵀ β̃, `[m]`, with room for whole blocks.
    alpha: Vec<f64>,
    // −L⁻ᵀ B⁻¹/γ² if rows are solved, else that times L⁻¹, `[m, m]`.
    turned: Packed,
    // Where rows have weights of their own: those, and L⁻ᵀ, `[m, m]`.
    weighed: Option<(RowWeights<'a>, Packed)>,
    // The inducing points by coordinates, `[D, m]`.
    places: Packed,
}

/// The derivatives of some rows.
pub(super) struct LinearAdjoints {
    /// By the weights, `[r, D]`.
    pub weights: Array2<f64>,
    /// By the points of the top covariance at the inducing points, `[m, D]`.
    pub inducing: Array2<f64>,
}

impl<'a> LinearBack<'a> {
    /// Rows are solved with `lower`, if it is given: beta and turned, `[m]` and `[m, m]`, are β̃ and L⁻ᵀ B⁻¹ then, else
    /// L⁻ᵀ β̃ and L⁻ᵀ B⁻¹ L⁻¹; alpha is L⁻ᵀ β̃ in any case.
    pub fn new(
        linear: &'a Linear<'a>,
        (inducing, lower): (&'a Stationary, Option<&'a Triangle>),
        noise: f64,
        (beta, alpha): (Array1<f64>, &Array1<f64>),
        mut turned: Array2<f64>,
    ) -> Self {
        turned /= -noise;
        let mut padded = alpha.to_vec();
        padded.resize(room(alpha.len()), 0.0);
        Self {
            linear,
            inducing,
            lower,
            against: Against::new(inducing.points(), inducing.len()),
            noise,
            beta,
            alpha: padded,
            turned: Packed::new(turned.view()),
            weighed: None,
            places: Packed::new(inducing.points().rows().reversed_axes()),
        }
    }

    /// Rows, which are solved, have weights of their own: inverse is L⁻ᵀ, `[m, m]`.
    pub fn weigh_rows(&mut self, weights: RowWeights<'a>, inverse: ArrayView2<'_, f64>) {
        self.weighed = Some((weights, Packed::new(inverse)));
    }

    /// The derivatives of some rows with their targets y: `[b]`, which are multiplied by factors: `[b]` if there are any.
    pub fn rows(&self, rows: Range<usize>, y: ArrayView1<'_, f64>, factors: Option<&[f64]>) -> LinearAdjoints {
        let (m, size, coordinates) = (self.inducing.len(), self.against.room(), self.inducing.points().rows().ncols());
        let lanes = |count: usize| vec![[0.0; LANES]; count];
        let (mut points, mut own) = (lanes(coordinates), lanes(room(coordinates)));
        let (mut weight, mut v, mut adjoint) = (lanes(size), lanes(size), lanes(size));
        let mut column_sums = lanes(m);
        let (mut by_weights, mut by_inducing) =
            (Cross::new((self.linear.anchors(), coordinates)), Cross::new((m, coordinates)));
        let (kernel, variance) = (self.inducing.kernel(), self.inducing.variance());
        let mut from = self.linear.rows();
        for first in rows.clone().step_by(LANES) {
            let eight = first..(first + LANES).min(rows.end);
            let norms = from.panel(eight.clone(), &mut points);
            self.against.squared_distances(&points, &norms, &mut weight);
            v.copy_from_slice(&weight);
            kernel.covariances(variance, v.as_flattened_mut());
            kernel.length_weights(v.as_flattened(), weight.as_flattened_mut(), |weight, _| weight);
            if let Some(lower) = self.lower {
                lower.solve(&mut v);
            }
            let place = first - rows.start;
            let factors = factors.map(|factors| &factors[place..place + eight.len()]);
            if let Some(factors) = factors {
                multiply_lanes(&mut v, factors);
            }
            let y: Lane = std::array::from_fn(|i| y.get(place + i).copied().unwrap_or(0.0));
            // (y − Vᵀβ̃)/γ²
            let explained = weighted(&v, self.beta.as_slice().unwrap_or_default());
            let residual = std::array::from_fn(|i| (y[i] - explained[i]) / self.noise);
            let blocks = self.turned.blocks().zip(self.alpha.as_chunks::<BLOCK>().0);
            for ((turned, alpha), adjoint) in blocks.zip(adjoint.as_chunks_mut::<BLOCK>().0) {
                by_covariance(&v[..m], turned, alpha, &residual, adjoint);
            }
            if let Some((weights, inverse)) = &self.weighed {
                let q = squares(&v[..m]);
                let last = eight.end - 1;
                let weights: Lane = std::array::from_fn(|i| weights.of((first + i).min(last), q[i]).1);
                for (inverse, adjoint) in inverse.blocks().zip(adjoint.as_chunks_mut::<BLOCK>().0) {
                    add_weighed(&v[..m], inverse, &weights, adjoint);
                }
            }
            if let Some(factors) = factors {
                multiply_lanes(&mut adjoint, factors);
            }
            clear_missing(&mut adjoint, eight.len());
            let row_sums = weigh(&mut adjoint[..m], &weight, &mut column_sums);
            for (places, own) in self.places.blocks().zip(own.as_chunks_mut::<BLOCK>().0) {
                multiply(&adjoint[..m], places, own);
            }
            subtract(&mut own, &row_sums, &points, self.linear.length());
            by_inducing.add(&adjoint[..m], &points);
            by_weights.add(from.basis(), &own[..coordinates]);
        }
        let mut inducing = by_inducing.finish();
        let column_sums: Array1<f64> = column_sums.iter().map(|lane| lane.iter().sum()).collect();
        inducing -= &(&self.inducing.points().rows() * &column_sums.insert_axis(Axis(1)));
        LinearAdjoints { weights: by_weights.finish(), inducing }
    }
}

for_this_processor! {
    // ∂ℓ/∂k for six inducing points.
    fn by_covariance(v: &[Lane], turned: &[[f64; BLOCK]], alpha: &[f64; BLOCK], residual: &Lane, adjoint: &mut [Lane; BLOCK]) {
        let sums = products::<FUSED>(v, turned);
        for ((adjoint, sum), alpha) in adjoint.iter_mut().zip(&sums).zip(alpha) {
            for i in 0..LANES {
                adjoint[i] = multiply_add::<FUSED>(residual[i], *alpha, sum[i]);
            }
        }
    }
}

for_this_processor! {
    // dᵢ L⁻ᵀvᵢ for six inducing points.
    fn add_weighed(v: &[Lane], inverse: &[[f64; BLOCK]], weights: &Lane, adjoint: &mut [Lane; BLOCK]) {
        let sums = products::<FUSED>(v, inverse);
        for (adjoint, sum) in adjoint.iter_mut().zip(&sums) {
            for i in 0..LANES {
                adjoint[i] = multiply_add::<FUSED>(weights[i], sum[i], adjoint[i]);
            }
        }
    }
}

for_this_processor! {
    // adjoint ← adjoint · weight; its sums over the inducing points are returned, those over the rows added.
    fn weigh(adjoint: &mut [Lane], weight: &[Lane], column_sums: &mut [Lane]) -> Lane {
        let mut sums = [0.0; LANES];
        for ((adjoint, weight), column) in adjoint.iter_mut().zip(weight).zip(column_sums) {
            for i in 0..LANES {
                adjoint[i] *= weight[i];
                sums[i] += adjoint[i];
                column[i] += adjoint[i];
            }
        }
        sums
    }
}

for_this_processor! {
    // own ← (own − sums · points)/length
    fn subtract(own: &mut [Lane], sums: &Lane, points: &[Lane], length: f64) {
        for (own, point) in own.iter_mut().zip(points) {
            for i in 0..LANES {
                own[i] = multiply_add::<FUSED>(-sums[i], point[i], own[i]) / length;
            }
        }
    }
}
