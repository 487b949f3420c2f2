//! Bayesian linear regression: y = b + (x − c)ᵀ w + ε, w ~ N(0, (γ²/λ) I), ε ~ N(0, γ²), b unknown.
//!
//! The strength λ of the ridge is the one with the largest evidence. One eigendecomposition of the features' moments gives
//! the evidence of every strength in d steps; γ² has its closed form for each, and b is integrated out, which leaves n − 1
//! observations.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};

use super::LEAST_NOISE;
use crate::gp::GpError;
use crate::gp::exact::check_training;
use crate::gp::kernel::{ROW_TILE, column_means};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::linalg::{Span, add_gram, dot, eigen, gemm_nt, row_slices, sum_rows, tiles};
use crate::gp::observer::{Observer, Phase};
use crate::gp::predict::{Prediction, Tile, in_tiles};
use crate::gp::row_noise::RowNoise;

/// Strengths that are tried, as powers of ten of the largest eigenvalue.
const POWERS: (i32, i32) = (-10, 4);
/// Strengths that are tried per power of ten.
const PER_POWER: i32 = 8;
/// Halvings of the interval around the best of them.
const REFINEMENTS: usize = 60;

/// Everything that makes up a fitted line, as a model file keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct RidgeParts {
    /// Means of the features, `[d]`.
    pub centre: Array1<f64>,
    /// The target at the centre.
    pub intercept: f64,
    /// `[d]`.
    pub weights: Array1<f64>,
    /// Turns a centred row into coordinates whose squares add up to the variance of its line, `[d, d]`.
    pub factor: Array2<f64>,
    /// γ².
    pub noise: f64,
    /// λ.
    pub strength: f64,
    /// Variance of the intercept.
    pub intercept_variance: f64,
    /// Log density of the training targets but for their mean.
    pub log_likelihood: f64,
}

/// A fitted line.
#[derive(Debug, Clone)]
pub struct Ridge {
    parts: RidgeParts,
}

impl Ridge {
    /// Fits x: `[n, d]`, y: `[n]`.
    pub fn fit(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>, observer: &mut dyn Observer) -> Result<Self, GpError> {
        Self::fit_with(x, y, &RowNoise::default(), observer)
    }

    /// The same where rows have weights, which are 1 on average.
    pub fn fit_with(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        noise: &RowNoise,
        observer: &mut dyn Observer,
    ) -> Result<Self, GpError> {
        check_training(x, y)?;
        noise.check(x.nrows())?;
        observer.phase(Phase::Condition);
        let (n, d) = x.dim();
        let weighted = noise.weights.as_ref();
        let centre = weighted.map_or_else(|| column_means(x).into(), |weights| x.t().dot(weights) / n as f64);
        let intercept = weighted.map_or_else(|| y.iter().sum::<f64>(), |weights| y.dot(weights)) / n as f64;
        let (moments, by_target) = moments(x, y, noise, &centre, intercept)?;
        if observer.interrupted() {
            return Err(GpError::Interrupted);
        }
        let (values, axes) = eigen(moments)?;
        let evidence = Evidence {
            observations: n as f64 - 1.0,
            squares: y.iter().enumerate().map(|(i, value)| noise.weight(i) * (value - intercept).powi(2)).sum(),
            along: axes.dot(&by_target).to_vec(),
            // Rounding may leave them below zero.
            values: values.iter().map(|value| value.max(0.0)).collect(),
        };
        let strength = evidence.best_strength();
        let inside: Vec<f64> = evidence.values.iter().map(|value| 1.0 / (value + strength)).collect();
        let shrunk: Array1<f64> = evidence.along.iter().zip(&inside).map(|(along, inside)| along * inside).collect();
        let weights = axes.t().dot(&shrunk);
        let residuals = squared_residuals((x, y, noise), (&centre, intercept), &weights)?;
        // Of one row nothing is left to measure noise by.
        let left = (n as f64 - 1.0).max(1.0);
        let variance = (residuals + strength * weights.dot(&weights)) / left;
        let mut factor = axes;
        for (mut axis, inside) in factor.axis_iter_mut(Axis(0)).zip(&inside) {
            axis *= (variance * inside).sqrt();
        }
        let log_likelihood = evidence.log_density(strength) + noise.log_density();
        let noise = variance.max(LEAST_NOISE);
        let intercept_variance = noise / n as f64;
        debug_assert_eq!(factor.dim(), (d, d));
        let parts =
            RidgeParts { centre, intercept, weights, factor, noise, strength, intercept_variance, log_likelihood };
        Self::from_parts(parts)
    }

    /// Restores a line from [`Ridge::parts`]; its predictions are the same bits.
    pub fn from_parts(parts: RidgeParts) -> Result<Self, GpError> {
        let d = parts.centre.len();
        if parts.weights.len() != d || parts.factor.dim() != (d, d) {
            return Err(GpError::shape(format!(
                "a line through {d} features with weights {:?} and a factor {:?}",
                parts.weights.shape(),
                parts.factor.shape()
            )));
        }
        let single = [parts.intercept, parts.noise, parts.strength, parts.intercept_variance];
        let all = parts.centre.iter().chain(&parts.weights).chain(&parts.factor).chain(&single);
        if !all.into_iter().all(|value| value.is_finite()) {
            return Err(GpError::NonFinite { what: "the line" });
        }
        if parts.noise <= 0.0 || parts.intercept_variance < 0.0 {
            return Err(GpError::value(format!("a line with a noise of {}", parts.noise)));
        }
        let factor = parts.factor.as_standard_layout().into_owned();
        Ok(Self { parts: RidgeParts { factor, ..parts } })
    }

    /// What a model file has to hold.
    pub fn parts(&self) -> &RidgeParts {
        &self.parts
    }

    /// The rows x: `[n, d]`, y: `[n]`, each by the line through the others.
    pub(super) fn left_out(
        &self,
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        noise: &RowNoise,
    ) -> Result<LeaveOneOut, GpError> {
        let (predicted, mut found) = (self.predict(x, true)?, LeaveOneOut::default());
        let variances = predicted.latent_variance.into_iter().flatten();
        for (row, ((y, mean), variance)) in y.iter().zip(&predicted.mean).zip(variances).enumerate() {
            found.push(y - mean, 0.0, variance, noise.variance(row, self.parts.noise));
        }
        Ok(found)
    }

    pub(super) fn predict(&self, x_star: ArrayView2<'_, f64>, variance: bool) -> Result<Prediction, GpError> {
        let centre = self.parts.centre.as_slice().unwrap_or_default();
        in_tiles(x_star, centre, variance, |rows, count| self.predict_tile(rows, count, variance))
    }

    fn predict_tile(&self, mut rows: Array2<f64>, count: usize, variance: bool) -> Result<Tile, GpError> {
        let parts = &self.parts;
        rows -= &parts.centre;
        let weights = parts.weights.as_slice().unwrap_or_default();
        let mean = row_slices(&rows).take(count).map(|row| parts.intercept + dot(row, weights)).collect();
        if !variance {
            return Ok((mean, Vec::new()).into());
        }
        let mut along = Array2::zeros((ROW_TILE, weights.len()));
        gemm_nt(1.0, rows.view(), parts.factor.view(), 0.0, along.view_mut())?;
        let spread = |row: &[f64]| parts.intercept_variance + dot(row, row);
        Ok((mean, row_slices(&along).take(count).map(spread).collect()).into())
    }
}

/// What the evidence of a strength is computed from.
struct Evidence {
    /// Observations that are left when the mean is known: n − 1.
    observations: f64,
    /// Sum of squares of the centred targets.
    squares: f64,
    /// Eigenvalues of the moments of the features, `[d]`.
    values: Vec<f64>,
    /// Moments of features and target along the axes, `[d]`.
    along: Vec<f64>,
}

impl Evidence {
    /// The strength with the largest evidence.
    fn best_strength(&self) -> f64 {
        let largest = self.values.iter().copied().fold(0.0, f64::max);
        // Nothing varies, or there is nothing to compare: the weights are zero with any strength.
        if largest <= 0.0 || self.observations <= 0.0 || self.squares <= 0.0 {
            return largest.max(1.0);
        }
        let at = |step: f64| largest * 10_f64.powf(step / f64::from(PER_POWER));
        let value = |step: f64| self.log_density(at(step));
        let steps = POWERS.0 * PER_POWER..=POWERS.1 * PER_POWER;
        let better = |best: (f64, f64), step: i32| {
            let step = f64::from(step);
            let found = value(step);
            if found > best.1 { (step, found) } else { best }
        };
        let (best, _) = steps.fold((0.0, f64::NEG_INFINITY), better);
        let (mut low, mut high) = (best - 1.0, best + 1.0);
        let share = (5_f64.sqrt() - 1.0) / 2.0;
        for _ in 0..REFINEMENTS {
            let (left, right) = (high - share * (high - low), low + share * (high - low));
            if value(left) >= value(right) {
                high = right;
            } else {
                low = left;
            }
        }
        at(0.5 * (low + high))
    }

    /// The log density of the targets but for their mean, with the noise that is best for this strength.
    fn log_density(&self, strength: f64) -> f64 {
        let (mut explained, mut log_determinant) = (0.0, 0.0);
        for (value, along) in self.values.iter().zip(&self.along) {
            explained += along * along / (value + strength);
            log_determinant += (value / strength).ln_1p();
        }
        // What is left of a perfect line is rounding.
        let left = (self.squares - explained).max(1e-14 * self.squares).max(f64::MIN_POSITIVE);
        let noise = left / self.observations.max(1.0);
        -0.5 * (self.observations * ((std::f64::consts::TAU * noise).ln() + 1.0) + log_determinant)
    }
}

/// Moments of the centred features, `[d, d]` (the lower triangle), and of features and target, `[d]`.
fn moments(
    x: ArrayView2<'_, f64>,
    y: ArrayView1<'_, f64>,
    noise: &RowNoise,
    centre: &Array1<f64>,
    intercept: f64,
) -> Result<(Array2<f64>, Array1<f64>), GpError> {
    let (d, roots) = (x.ncols(), noise.roots());
    let zero = || (Array2::zeros((d, d)), Array1::zeros(d));
    sum_rows(&Span::whole(x.nrows()), d * (d + 1), zero, |rows| {
        let (mut moments, mut by_target) = zero();
        for tile in tiles(rows) {
            let mut centred = &x.slice(s![tile.clone(), ..]) - centre;
            for (row, (values, target)) in centred.outer_iter().zip(y.slice(s![tile.clone()])).enumerate() {
                by_target.scaled_add(noise.weight(tile.start + row) * (target - intercept), &values);
            }
            if let Some(roots) = &roots {
                for (mut row, root) in centred.outer_iter_mut().zip(roots.slice(s![tile])) {
                    row *= *root;
                }
            }
            add_gram(centred.view(), moments.view_mut())?;
        }
        Ok((moments, by_target))
    })
}

/// The sum of squares that the line leaves.
fn squared_residuals(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    (centre, intercept): (&Array1<f64>, f64),
    weights: &Array1<f64>,
) -> Result<f64, GpError> {
    sum_rows(
        &Span::whole(x.nrows()),
        1,
        || 0.0,
        |rows| {
            let squares = rows.map(|row| {
                let line: f64 = x.row(row).iter().zip(centre).zip(weights).map(|((x, c), w)| (x - c) * w).sum();
                noise.weight(row) * (y[row] - intercept - line).powi(2)
            });
            Ok(squares.sum::<f64>())
        },
    )
}
