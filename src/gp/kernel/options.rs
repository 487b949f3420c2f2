//! What can be asked of a fit of kernel and hyper-parameters: the one declaration of these options.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Kernel;

/// The options that all fits of a stationary Gaussian process share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StationaryOptions {
    pub kernel: Kernel,
    /// One correlation length per feature instead of a common one.
    pub ard: bool,
    /// Starting values, and which of them are optimised.
    #[serde(flatten)]
    pub hyperparameters: Hyperparameters,
}

impl StationaryOptions {
    /// Serialises everything but `ard`, for the methods of which it is no matter of the covariance.
    pub fn without_ard<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text {
            kernel: Kernel,
            #[serde(flatten)]
            hyperparameters: Hyperparameters,
        }
        Text { kernel: self.kernel, hyperparameters: self.hyperparameters }.serialize(serializer)
    }
}

/// Starting values of the hyper-parameters, in scaled units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hyperparameters {
    /// Kernel variance; null chooses from the data.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub variance: Option<f64>,
    /// Correlation length; null chooses from the data.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub length: Option<f64>,
    /// Noise variance; null chooses from the data.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub noise: Option<f64>,
    /// Standard deviation of the noise in the target's own units, where it is known: instead of `noise`. Take noise out of
    /// `optimise` to keep it.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_std: Option<f64>,
    /// Which are optimised: true (all), false (none) or a list of names. Default: true.
    pub optimise: Free,
}

impl Hyperparameters {
    /// The same with all of them in scaled units, for a target of this standard deviation.
    #[must_use]
    pub fn scaled(self, target_std: f64) -> Self {
        let known = self.noise_std.map(|std| (std / target_std).powi(2));
        Self { noise: known.or(self.noise), noise_std: None, ..self }
    }
}

/// Which hyper-parameters a fit may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Free {
    /// σ² moves.
    pub variance: bool,
    /// λ moves; all lengths together.
    pub length: bool,
    /// γ² moves.
    pub noise: bool,
}

impl Free {
    pub const ALL: Self = Self { variance: true, length: true, noise: true };
    pub const NONE: Self = Self { variance: false, length: false, noise: false };

    /// One flag for each entry of [`Hyper::to_log`](super::Hyper::to_log).
    pub fn mask(self, lengths: usize) -> Vec<bool> {
        let mut mask = vec![self.variance];
        mask.resize(lengths + 1, self.length);
        mask.push(self.noise);
        mask
    }
}

impl Default for Free {
    fn default() -> Self {
        Self::ALL
    }
}

/// A hyper-parameter.
#[derive(PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum HyperparameterName {
    /// Kernel variance.
    Variance,
    /// Correlation length.
    Length,
    /// Noise variance.
    Noise,
}

impl<'de> Deserialize<'de> for Free {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use HyperparameterName::{Length, Noise, Variance};
        match Value::deserialize(deserializer)? {
            Value::Bool(true) => Ok(Self::ALL),
            Value::Bool(false) => Ok(Self::NONE),
            list => {
                let names: Vec<HyperparameterName> = serde_json::from_value(list).map_err(D::Error::custom)?;
                let [variance, length, noise] = [Variance, Length, Noise].map(|name| names.contains(&name));
                Ok(Self { variance, length, noise })
            }
        }
    }
}

impl JsonSchema for Free {
    fn schema_name() -> Cow<'static, str> {
        "Optimise".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<HyperparameterName>();
        json_schema!({
            "description": "true, false, or a list of variance, length and noise",
            "anyOf": [{ "type": "boolean" }, { "type": "array", "items": name }]
        })
    }
}
