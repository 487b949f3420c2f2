//! Trained baselines: their tensors, figures and messages.

use super::tensors::{ROW_WEIGHTS, columns, count, integers, one, optional_vector, scalar, vector};
use crate::gp::baseline::{Baseline, KnnParts, NearestRows, Ridge, RidgeParts, TargetMean};
use crate::store::{ModelFile, Tensor, Tensors};
use std::collections::BTreeMap;

/// The name of the method.
pub const fn method(baseline: &Baseline) -> &'static str {
    match baseline {
        Baseline::Mean(_) => "mean",
        Baseline::Ridge(_) => "ridge",
        Baseline::Knn(_) => "knn",
    }
}

/// What was chosen or fitted, by name, in scaled units.
pub fn hyperparameters(baseline: &Baseline) -> BTreeMap<String, f64> {
    let own = match baseline {
        Baseline::Mean(_) => None,
        Baseline::Ridge(ridge) => Some(("strength", ridge.parts().strength)),
        Baseline::Knn(knn) => Some(("neighbours", knn.neighbours() as f64)),
    };
    let all = own.into_iter().chain([("noise", baseline.noise())]);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What the fit ended at, by name.
pub fn figures(baseline: &Baseline) -> BTreeMap<String, Option<f64>> {
    let figure = match baseline {
        Baseline::Mean(_) => None,
        Baseline::Ridge(ridge) => Some(("log_likelihood", ridge.parts().log_likelihood)),
        Baseline::Knn(knn) => Some(("left_out_rmse", knn.error().sqrt())),
    };
    figure.into_iter().map(|(name, value)| (name.to_owned(), Some(value))).collect()
}

/// The numbers that a model file has to hold.
pub fn tensors(baseline: &Baseline) -> Tensors {
    let named: Vec<(&str, Tensor)> = match baseline {
        Baseline::Mean(TargetMean { mean, noise }) => vec![("mean", scalar(*mean)), ("noise", scalar(*noise))],
        Baseline::Ridge(ridge) => {
            let RidgeParts { centre, intercept, weights, factor, noise, strength, intercept_variance, log_likelihood } =
                ridge.parts();
            vec![
                ("centre", Tensor::from(centre.clone())),
                ("intercept", scalar(*intercept)),
                ("weights", Tensor::from(weights.clone())),
                ("factor", Tensor::from(factor.clone())),
                ("noise", scalar(*noise)),
                ("strength", scalar(*strength)),
                ("intercept_variance", scalar(*intercept_variance)),
                ("log_likelihood", scalar(*log_likelihood)),
            ]
        }
        Baseline::Knn(knn) => {
            let KnnParts { x, y, weights, errors, neighbours, error } = knn.parts();
            let weights = weights.map(|weights| (ROW_WEIGHTS, Tensor::from(weights)));
            let mut all = vec![
                ("x", Tensor::from(x)),
                ("y", Tensor::from(y)),
                ("errors", Tensor::from(errors)),
                ("neighbours", integers([neighbours])),
                ("error", scalar(error)),
            ];
            all.extend(weights);
            all
        }
    };
    named.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

/// The baseline in a file, if it is one, or what is wrong with it.
pub fn from_file(file: &ModelFile) -> Result<Option<Baseline>, String> {
    let (tensors, features) = (&file.tensors, file.meta.feature_names.len());
    let number = |name: &str| one(tensors, name);
    let baseline = match file.meta.method.as_str() {
        "mean" => {
            let (mean, noise) = (number("mean")?, number("noise")?);
            if !(mean.is_finite() && noise > 0.0 && noise.is_finite()) {
                return Err(format!("a mean of {mean} with a variance of {noise}"));
            }
            TargetMean { mean, noise }.into()
        }
        "ridge" => {
            let parts = RidgeParts {
                centre: vector(tensors, "centre")?,
                intercept: number("intercept")?,
                weights: vector(tensors, "weights")?,
                factor: columns(tensors, "factor", features)?,
                noise: number("noise")?,
                strength: number("strength")?,
                intercept_variance: number("intercept_variance")?,
                log_likelihood: number("log_likelihood")?,
            };
            Ridge::from_parts(parts).map_err(|error| error.to_string())?.into()
        }
        "knn" => {
            let parts = KnnParts {
                x: columns(tensors, "x", features)?,
                y: vector(tensors, "y")?,
                weights: optional_vector(tensors, ROW_WEIGHTS)?,
                errors: vector(tensors, "errors")?,
                neighbours: count(tensors, "neighbours")?,
                error: number("error")?,
            };
            NearestRows::from_parts(parts).map_err(|error| error.to_string())?.into()
        }
        _ => return Ok(None),
    };
    Ok(Some(baseline))
}
