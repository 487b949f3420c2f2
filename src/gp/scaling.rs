//! Brings features and target to the scale on which hyper-parameters are defined, and predictions back.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kernel::Hyper;

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

impl Scaling {
    /// The scaling that the training rows x: `[n, d]`, y: `[n]` define.
    pub fn fit(x: ArrayView2<'_, f64>, y: ArrayView1<'_, f64>, how: FeatureScaling) -> Self {
        let d = x.ncols();
        let centre: Vec<f64> = x.axis_iter(Axis(1)).map(mean).collect();
        let variances: Vec<f64> = x.axis_iter(Axis(1)).zip(&centre).map(|(c, m)| variance(c, *m)).collect();
        let (feature_centre, feature_scale) = match how {
            FeatureScaling::None => (vec![0.0; d], vec![1.0; d]),
            FeatureScaling::Global => {
                let common = (variances.iter().sum::<f64>() / d.max(1) as f64).sqrt();
                (centre, vec![usable(common); d])
            }
            FeatureScaling::Column => (centre, variances.iter().map(|v| usable(v.sqrt())).collect()),
        };
        let target_mean = mean(y);
        let target_std = usable(variance(y, target_mean).sqrt());
        Self { feature_centre, feature_scale, target_mean, target_std }
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
