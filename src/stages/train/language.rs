//! The options of the train stage.

use crate::pipeline::FilePath;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Trains one model per fold.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// The split stage.
    pub input: String,
    /// The regression method.
    pub method: Method,
    /// Scaling of features and target by the training rows.
    pub scale: Option<Scale>,
    /// The covariance function. Default: rbf.
    pub kernel: Option<Kernel>,
    /// One correlation length per feature (`gp`, `sparse_gp`). Default: false.
    pub ard: Option<bool>,
    /// Starting values of the hyper-parameters, in scaled units, and which to optimise.
    pub hyperparameters: Option<Hyperparameters>,
    /// The inducing points (`sparse_gp`, `stride`).
    pub inducing: Option<Inducing>,
    /// The deep prior (`deep_gp`, `stride`).
    pub deep: Option<Deep>,
    /// The training loop (`deep_gp`, `stride`).
    pub em: Option<Box<Em>>,
    /// A set of defaults: `paper` trains as in the paper. Keys written out win.
    pub preset: Option<Preset>,
    /// A directory that gets the trained model, replaced in one step; for one case and one fold.
    #[schemars(length(min = 1))]
    pub publish: Option<FilePath>,
    /// Publish only if the test metrics of this run are good enough: `smse < 0.25`, or several joined by `and`.
    #[schemars(length(min = 1))]
    pub publish_if: Option<String>,
}

/// The regression method.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Exact Gaussian-process regression.
    Gp,
    /// Sparse Gaussian-process regression with inducing points (Titsias).
    SparseGp,
    /// Deep Gaussian-process regression, hidden layers sampled, the top layer marginalised exactly.
    DeepGp,
    /// STRIDE: deep regression whose top layer has inducing points.
    Stride,
}

/// Scaling by the mean and the population standard deviation of the training rows.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Default: column.
    pub features: Option<FeatureScale>,
    /// Targets are always standardised: `true` is the only value.
    #[schemars(extend("const" = true))]
    pub target: Option<bool>,
}

/// How features are scaled.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum FeatureScale {
    /// As they are.
    None,
    /// Columns are centred and share one factor.
    Global,
    /// Every column has mean 0 and standard deviation 1.
    Column,
}

/// The covariance function.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// Squared exponential.
    Rbf,
    /// Matérn, smoothness 1/2.
    Matern12,
    /// Matérn, smoothness 3/2.
    Matern32,
    /// Matérn, smoothness 5/2.
    Matern52,
}

/// Starting values of the hyper-parameters, in scaled units.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
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
    /// Which are optimised: true (all), false (none) or a list of names. Default: true.
    pub optimise: Option<Optimise>,
}

/// Which hyper-parameters are optimised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Optimise {
    /// All or none.
    All(bool),
    /// Those named.
    Some(Vec<HyperparameterName>),
}

/// A hyper-parameter.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HyperparameterName {
    /// Kernel variance.
    Variance,
    /// Correlation length.
    Length,
    /// Noise variance.
    Noise,
}

impl<'de> Deserialize<'de> for Optimise {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::Bool(all) => Ok(Self::All(all)),
            list => serde_json::from_value(list).map(Self::Some).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Optimise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All(all) => all.serialize(serializer),
            Self::Some(names) => names.serialize(serializer),
        }
    }
}

impl JsonSchema for Optimise {
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

/// The inducing points: how many are chosen, or which rows.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Inducing {
    /// How many.
    #[schemars(range(min = 1))]
    pub count: Option<u32>,
    /// Rows tried for each point: a number, or `all`.
    pub candidates: Option<Candidates>,
    /// These rows of the source, kept throughout.
    #[schemars(inner(range(min = 0)))]
    pub rows: Option<Vec<u64>>,
}

/// Rows tried for each inducing point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All rows.
    All,
    /// That many, drawn anew each time.
    Count(u32),
}

impl<'de> Deserialize<'de> for Candidates {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) if text == "all" => Ok(Self::All),
            number => serde_json::from_value(number).map(Self::Count).map_err(D::Error::custom),
        }
    }
}

impl Serialize for Candidates {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => "all".serialize(serializer),
            Self::Count(count) => count.serialize(serializer),
        }
    }
}

impl JsonSchema for Candidates {
    fn schema_name() -> Cow<'static, str> {
        "Candidates".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a whole number from 1, or `all`",
            "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, { "const": "all" }]
        })
    }
}

/// The deep prior.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Deep {
    /// How layers build on each other. Default: composition.
    pub architecture: Option<Architecture>,
    /// Layers in all, the top layer included. Default: 2.
    #[schemars(range(min = 2, max = 32))]
    pub layers: Option<u32>,
    /// Outputs of a hidden layer (composition); null: the number of features.
    #[schemars(range(min = 1, max = 10_000))]
    pub width: Option<u32>,
    /// Mean of the hidden layers. Default: zero.
    pub prior_mean: Option<PriorMean>,
    /// How hidden layers are represented.
    pub hidden: Option<Hidden>,
    /// Hidden correlation length; null: the fitted one.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub length: Option<f64>,
    /// Lower end of the local length (convolution) or slope (injective).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub u_min: Option<f64>,
    /// Upper end of the local length (convolution).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub u_max: Option<f64>,
}

/// How layers build on each other.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// A layer's values are the next one's inputs.
    Composition,
    /// A layer's values are the next one's local correlation length.
    Convolution,
    /// A layer's values are the next one's slope; one feature only.
    Injective,
}

/// Mean of the hidden layers.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PriorMean {
    /// Zero.
    Zero,
    /// The layer below.
    Identity,
}

/// How hidden layers are represented.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Hidden {
    /// The representation. Default: aca; full for `deep_gp`.
    pub method: Option<HiddenMethod>,
    /// Columns of the cross approximation, at most. Default: 50.
    #[schemars(range(min = 1))]
    pub rank: Option<u32>,
    /// Stop earlier when the relative residual trace falls below this. Default: 1e-6.
    #[schemars(range(min = 0))]
    pub tolerance: Option<f64>,
    /// Choose the columns anew after every M step but the last. Default: true.
    pub repivot: Option<bool>,
}

/// The representation of hidden layers.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HiddenMethod {
    /// At all rows.
    Full,
    /// Adaptive cross approximation.
    Aca,
    /// At the inducing points.
    Sparse,
}

/// The training loop.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Em {
    /// EM iterations. Default: 10.
    #[schemars(range(min = 0))]
    pub iterations: Option<u32>,
    /// Markov chains. Default: 10; 50 with the preset `paper`.
    #[schemars(range(min = 1, max = 10_000))]
    pub particles: Option<u32>,
    /// Birth/death updates of inducing points in one M step. Default: 3; 5 with the preset `paper`.
    #[schemars(range(min = 0))]
    pub exchanges: Option<u32>,
    /// The M step also moves variance, length and noise. Default: true; false with the preset `paper`.
    pub hyperparameters: Option<bool>,
    /// The sampler of the E step. Default: hmc; pcn with the preset `paper`.
    pub sampler: Option<Sampler>,
    /// Length of the frozen chain at the end, for diagnostics and `draws`. Default: 50, and 0 with the preset
    /// `paper`, or as many as `draws` needs.
    #[schemars(range(min = 0))]
    pub final_transitions: Option<u32>,
    /// States of each chain that predictions average over, spread evenly over the frozen chain. The model grows with them,
    /// and the time of a prediction. Default: 1, the last state.
    #[schemars(range(min = 1, max = 10_000))]
    pub draws: Option<u32>,
}

/// The sampler of the E step.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sampler {
    /// Hamiltonian sampler.
    Hmc(Hmc),
    /// Preconditioned Crank–Nicolson, as in the paper.
    Pcn(Pcn),
}

/// Hamiltonian sampler.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Hmc {
    /// Transitions per E step. Default: 12.
    #[schemars(range(min = 0))]
    pub transitions: Option<u32>,
    /// Steps per transition. Default: 8.
    #[schemars(range(min = 1))]
    pub leapfrog: Option<u32>,
}

/// Preconditioned Crank–Nicolson.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Pcn {
    /// Steps per E step. Default: 400.
    #[schemars(range(min = 0))]
    pub steps: Option<u32>,
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// As in the paper.
    Paper,
}
