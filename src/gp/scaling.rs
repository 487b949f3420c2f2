//! Brings features and target to the scale on which hyper-parameters are defined, and predictions back.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, s};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GpError;
use super::kernel::Hyper;
use super::linalg::Span;

/// How features are scaled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeatureScaling {
    /// As they are.
    None,
    /// Columns are centred and share one factor.
    Global,
    /// Every column has mean 0 and standard deviation 1.
    #[default]
    Column,
}

/// Shift and scale of features and target, from the training rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Subtracted from each feature.
    pub feature_centre: Vec<f64>,
    pub feature_scale: Vec<f64>,
    pub target_mean: f64,
    /// Population standard deviation of the target; 1 when it is constant.
    pub target_std: f64,
}

/// A standard deviation below this share of the mean is rounding: the mean of forty times 0.1 is not 0.1.
const ROUNDING: f64 = 1e-12;

/// A spread of zero cannot divide: a constant column stays constant (zero, once centred).
fn usable(std: f64) -> f64 {
    if std > 0.0 && std.is_finite() { std } else { 1.0 }
}

fn mean(values: ArrayView1<'_, f64>) -> f64 {
    values.mean().unwrap_or(0.0)
}

/// Zero where all values are the same but for rounding.
fn variance(values: ArrayView1<'_, f64>, mean: f64) -> f64 {
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len().max(1)) as f64;
    if variance.sqrt() < ROUNDING * mean.abs() { 0.0 } else { variance }
}

/// Whether the values are all the same, as far as scaling can tell.
pub fn is_constant(values: ArrayView1<'_, f64>) -> bool {
    variance(values, mean(values)) == 0.0
}

impl FeatureScaling {
    // Centre and scale of columns with these means and variances.
    fn scales(self, centre: Vec<f64>, variances: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = centre.len();
        match self {
            Self::None => (vec![0.0; d], vec![1.0; d]),
            Self::Global => {
                let common = (variances.iter().sum::<f64>() / d.max(1) as f64).sqrt();
                (centre, vec![usable(common); d])
            }
            Self::Column => (centre, variances.iter().map(|v| usable(v.sqrt())).collect()),
        }
    }
}

/// The sum of every column of the held rows x: `[b, d]`, over all rows, in the order in which ndarray adds up a column: eight
/// sums side by side where its values follow each other in memory.
fn sums(x: ArrayView2<'_, f64>, span: &Span) -> Result<Vec<f64>, GpError> {
    const LANES: usize = 8;
    let plain = |rows: Range<usize>, sums: &mut [f64]| {
        for row in x.slice(s![rows, ..]).outer_iter() {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    };
    if span.is_long() {
        return span.plain_sums(x.ncols(), plain);
    }
    if x.ncols() != 1 {
        return span.in_turn(vec![0.0; x.ncols()], |rows, sums| {
            plain(rows, sums);
            Ok(())
        });
    }
    // What is left over after the last eight, and how many values that are, follow the eight sums.
    let found = span.in_turn(vec![0.0; 2 * LANES], |rows, found| {
        for (place, value) in x.slice(s![rows.clone(), 0]).iter().enumerate() {
            let left = rows.len() - rows.len() % LANES;
            if place < left {
                found[place % LANES] += value;
            } else {
                found[LANES + place - left] = *value;
                found[2 * LANES - 1] += 1.0;
            }
        }
        Ok(())
    })?;
    let (lanes, rest) = found.split_at(LANES);
    let sum = (0..LANES / 2).fold(0.0, |sum, lane| sum + (lanes[lane] + lanes[lane + LANES / 2]));
    Ok(vec![rest[..rest[LANES - 1] as usize].iter().fold(sum, |sum, value| sum + value)])
}

impl Scaling {
    /// The scaling that the training rows x: `[n, d]`, y: `[n]` define.
    pub fn fit(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>, how: FeatureScaling) -> Self {
        let centre: Vec<f64> = x.axis_iter(Axis(1)).map(mean).collect();
        let variances: Vec<f64> = x.axis_iter(Axis(1)).zip(&centre).map(|(c, m)| variance(c, *m)).collect();
        let (feature_centre, feature_scale) = how.scales(centre, &variances);
        let target_mean = mean(y);
        let target_std = usable(variance(y, target_mean).sqrt());
        Self { feature_centre, feature_scale, target_mean, target_std }
    }

    /// The same of rows x: `[b, d]`, y: `[b]` that are held of all.
    pub fn fit_over(
        (x, y): (ArrayView2<'_, f64>, ArrayView1<'_, f64>),
        span: &Span,
        how: FeatureScaling,
    ) -> Result<Self, GpError> {
        let (d, n) = (x.ncols(), span.all().max(1) as f64);
        let (y, x) = (y.insert_axis(Axis(1)), x);
        let (x_sums, y_sums) = (sums(x, span)?, sums(y, span)?);
        let centre: Vec<f64> = x_sums.into_iter().map(|sum| sum / n).collect();
        let target_mean = y_sums[0] / n;
        let squares = span.plain_sums(d + 1, |rows, sums| {
            for (x, y) in x.slice(s![rows.clone(), ..]).outer_iter().zip(y.slice(s![rows, 0])) {
                sums.iter_mut()
                    .zip(x.iter().zip(&centre))
                    .for_each(|(sum, (value, mean))| *sum += (value - mean).powi(2));
                sums[d] += (y - target_mean).powi(2);
            }
        })?;
        let spread = |sum: f64, mean: f64| if (sum / n).sqrt() < ROUNDING * mean.abs() { 0.0 } else { sum / n };
        let variances: Vec<f64> = squares.iter().zip(&centre).map(|(sum, mean)| spread(*sum, *mean)).collect();
        let target_std = usable(spread(squares[d], target_mean).sqrt());
        let (feature_centre, feature_scale) = how.scales(centre, &variances);
        Ok(Self { feature_centre, feature_scale, target_mean, target_std })
    }

    /// Multiplies scaled features by these factors.
    pub fn weigh(&mut self, factors: &[f64]) {
        self.feature_scale.iter_mut().zip(factors).for_each(|(scale, factor)| *scale /= factor);
    }

    /// Features x: `[p, d]` on the training scale.
    pub fn features(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        self.scaled(x.to_owned())
    }

    /// The same in their place, where they stand by rows.
    pub fn scaled(&self, x: Array2<f64>) -> Array2<f64> {
        let mut scaled = if x.is_standard_layout() { x } else { x.as_standard_layout().into_owned() };
        for mut row in scaled.rows_mut() {
            for ((value, centre), scale) in row.iter_mut().zip(&self.feature_centre).zip(&self.feature_scale) {
                *value = (*value - centre) / scale;
            }
        }
        scaled
    }

    /// Targets y: `[n]` on the training scale.
    pub fn target(&self, y: ArrayView1<'_, f64>) -> Array1<f64> {
        y.mapv(|value| (value - self.target_mean) / self.target_std)
    }

    /// Means on the training scale in the target's own units.
    pub fn mean_back(&self, mean: f64) -> f64 {
        mean.mul_add(self.target_std, self.target_mean)
    }

    /// A variance on the training scale as a standard deviation in the target's own units.
    pub fn std_back(&self, variance: f64) -> f64 {
        variance.max(0.0).sqrt() * self.target_std
    }
}

/// From the scaled units of an earlier model to those of new rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Rescaling {
    factor: Vec<f64>,
    shift: Vec<f64>,
    target: f64,
}

impl Rescaling {
    /// What was scaled by `old` as `new` scales it; both have the same features in the same order.
    pub fn between(old: &Scaling, new: &Scaling) -> Self {
        let both = || old.feature_scale.iter().zip(&new.feature_scale);
        let centres = old.feature_centre.iter().zip(&new.feature_centre);
        Self {
            factor: both().map(|(old, new)| old / new).collect(),
            shift: centres.zip(&new.feature_scale).map(|((old, new), scale)| (old - new) / scale).collect(),
            target: old.target_std / new.target_std,
        }
    }

    /// Old features, or hidden values in their units, x: `[p, d]` in new units.
    pub fn to_new(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        self.mapped(x, f64::mul_add)
    }

    /// New features x: `[p, d]` in old units.
    pub fn to_old(&self, x: ArrayView2<'_, f64>) -> Array2<f64> {
        self.mapped(x, |value, factor, shift| (value - shift) / factor)
    }

    fn mapped(&self, x: ArrayView2<'_, f64>, to: impl Fn(f64, f64, f64) -> f64) -> Array2<f64> {
        let mut mapped = x.as_standard_layout().into_owned();
        for mut row in mapped.rows_mut() {
            let units = self.factor.iter().zip(&self.shift);
            row.iter_mut().zip(units).for_each(|(value, (factor, shift))| *value = to(*value, *factor, *shift));
        }
        mapped
    }

    /// The factor of a length that all features share: the median, which a column that was constant does not move.
    pub fn length(&self) -> f64 {
        let mut sorted = self.factor.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(1.0)
    }

    /// A variance of the target in new units.
    pub fn variance(&self, variance: f64) -> f64 {
        variance * self.target * self.target
    }

    /// Hyper-parameters of a covariance of the features, in new units.
    pub fn hyper(&self, hyper: &Hyper) -> Hyper {
        let lengths = match &hyper.lengths[..] {
            [length] => vec![length * self.length()],
            own => own.iter().zip(&self.factor).map(|(length, factor)| length * factor).collect(),
        };
        Hyper { variance: self.variance(hyper.variance), lengths, noise: self.variance(hyper.noise) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::team::threads::on_ranks;

    #[test]
    fn the_scale_of_shared_rows_is_that_of_all() -> Result<(), GpError> {
        for (n, d) in [(1, 2), (13, 1), (5303, 1), (5303, 3)] {
            let x = Array2::from_shape_fn((n, d), |(i, j)| {
                ((i * (7 + j)) as f64 * 0.31).sin() * 10_f64.powi((i % 9) as i32)
            });
            let y = Array1::from_shape_fn(n, |i| (i as f64 * 0.7).cos() + 3.0);
            for how in [FeatureScaling::None, FeatureScaling::Global, FeatureScaling::Column] {
                let alone = Scaling::fit(x.view(), y.view(), how);
                let bits = |scaling: &Scaling| -> Vec<u64> {
                    let Scaling { feature_centre, feature_scale, target_mean, target_std } = scaling;
                    let all = feature_centre.iter().chain(feature_scale).chain([target_mean, target_std]);
                    all.map(|value| value.to_bits()).collect()
                };
                for ranks in 1..=4 {
                    let found = on_ranks(ranks, |team| {
                        team.run(Ok(()), || {
                            let span = Span::shared(n, (team.comm.rank(), ranks), &[1]);
                            let (x, y) = (x.slice(s![span.held(), ..]), y.slice(s![span.held()]));
                            Scaling::fit_over((x, y), &span, how)
                        })
                    });
                    for found in found {
                        assert_eq!(bits(&found?), bits(&alone), "{n} × {d} on {ranks} ranks");
                    }
                }
            }
        }
        Ok(())
    }
}
