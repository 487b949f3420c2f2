//! What a deep fit can be asked for: names, ranges, defaults and descriptions of the options of a pipeline.
//!
//! An option is declared here, or with the hidden layers or the sampler that it belongs to, and nowhere else.
//! `Deserialize` is what may be written. `Serialize` is what counts: its text is part of cache keys and seeds the random
//! streams, so options that have no effect are not in it, and a new option is left out as long as it has its default.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::hidden::HiddenOptions;
use super::sampler::SamplerOptions;
use super::top::Start;
use crate::gp::GpError;
use crate::gp::sparse::SparseOptions;

/// How to fit a deep Gaussian process.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepOptions {
    /// The stationary fit that comes first.
    pub start: Start,
    /// The deep prior.
    pub layers: LayerOptions,
    /// The training loop.
    pub em: EmOptions,
}

/// The deep prior.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[schemars(rename = "Deep")]
pub struct LayerOptions {
    /// How layers build on each other.
    pub architecture: Architecture,
    /// Layers in all, the top layer included.
    #[schemars(range(min = 2, max = 32))]
    pub layers: u32,
    /// Outputs of a hidden layer (composition); null: the number of features.
    #[schemars(range(min = 1, max = 10_000))]
    pub width: Option<u32>,
    /// Mean of the hidden layers.
    pub prior_mean: PriorMean,
    /// How hidden layers are represented.
    pub hidden: HiddenOptions,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// A layer's values are the next one's inputs.
    #[default]
    Composition,
    /// A layer's values are the next one's local correlation length.
    Convolution,
    /// A layer's values are the next one's slope; one feature only.
    Injective,
}

/// Mean of the hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PriorMean {
    /// Zero.
    #[default]
    Zero,
    /// The layer below.
    // It makes the deep model the stationary one: the layer below, the fitted length, the slope 1.
    Identity,
}

/// The training loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[schemars(rename = "Em")]
pub struct EmOptions {
    /// EM iterations.
    #[schemars(range(min = 0))]
    pub iterations: u32,
    /// Markov chains.
    #[schemars(range(min = 1, max = 10_000))]
    pub particles: u32,
    /// Birth/death updates of inducing points in one M step.
    #[schemars(range(min = 0))]
    pub exchanges: u32,
    /// The M step also moves variance, length and noise.
    pub hyperparameters: bool,
    /// The sampler of the E step. Default: hmc.
    pub sampler: SamplerOptions,
    /// Length of the frozen chain at the end, for diagnostics and `draws`. Default: 50 (`pcn`: at least as many as in an E
    /// step), or as many as `draws` needs.
    #[schemars(range(min = 0))]
    pub final_transitions: Option<u32>,
    /// States of each chain that predictions average over, spread evenly over the frozen chain. The model grows with them,
    /// and the time of a prediction. 1 is the last state alone.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "is_one")]
    pub draws: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_one(draws: &u32) -> bool {
    *draws == 1
}

impl Default for DeepOptions {
    fn default() -> Self {
        Self {
            start: Start::Sparse(SparseOptions::default()),
            layers: LayerOptions::default(),
            em: EmOptions::default(),
        }
    }
}

impl Default for LayerOptions {
    fn default() -> Self {
        Self {
            architecture: Architecture::default(),
            layers: 2,
            width: None,
            prior_mean: PriorMean::default(),
            hidden: HiddenOptions::default(),
            length: None,
            u_min: None,
            u_max: None,
        }
    }
}

impl Default for EmOptions {
    fn default() -> Self {
        Self {
            iterations: 10,
            particles: 10,
            exchanges: 3,
            hyperparameters: true,
            sampler: SamplerOptions::default(),
            final_transitions: None,
            draws: 1,
        }
    }
}

impl Architecture {
    /// Every architecture.
    pub const ALL: [Self; 3] = [Self::Composition, Self::Convolution, Self::Injective];

    /// The name in pipelines and model files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Composition => "composition",
            Self::Convolution => "convolution",
            Self::Injective => "injective",
        }
    }
}

impl LayerOptions {
    /// The same without what the architecture does not use.
    pub(super) fn used(&self) -> Self {
        let mut used = self.clone();
        used.width = self.width.filter(|_| self.architecture == Architecture::Composition);
        used.u_min = self.u_min.filter(|_| self.architecture != Architecture::Composition);
        used.u_max = self.u_max.filter(|_| self.architecture == Architecture::Convolution);
        used
    }
}

impl Serialize for LayerOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(&self.used(), serializer)
    }
}

impl<'de> Deserialize<'de> for LayerOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl Serialize for EmOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(&Self { final_transitions: Some(self.frozen_moves()), ..self.clone() }, serializer)
    }
}

impl<'de> Deserialize<'de> for EmOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl EmOptions {
    /// Length of the frozen chain at the end. The last state needs none; several draws need as many moves.
    pub fn frozen_moves(&self) -> u32 {
        let needed = if self.draws > 1 { self.draws } else { 0 };
        self.final_transitions.unwrap_or_else(|| self.sampler.method().frozen_moves()).max(needed)
    }
}

impl DeepOptions {
    /// Refuses what no fit can do; d is the number of features.
    pub(super) fn check(&self, d: usize) -> Result<(), GpError> {
        let LayerOptions { architecture, layers, width, hidden, length, u_min, u_max, .. } = &self.layers;
        if *layers < 2 || self.em.particles == 0 {
            return Err(GpError::value("a deep model needs at least two layers and one particle"));
        }
        if *architecture == Architecture::Injective && d != 1 {
            return Err(GpError::value(format!("the injective architecture is for one feature; there are {d}")));
        }
        if width.is_some_and(|width| width == 0 || *architecture != Architecture::Composition && width != 1) {
            return Err(GpError::value("hidden layers have one output unless the architecture is `composition`"));
        }
        let hidden = hidden.representation();
        if matches!(self.start, Start::Exact(_)) && hidden.follows_inducing() {
            return Err(GpError::value("hidden layers at the inducing points need a method that has such points"));
        }
        if [length, u_min, u_max].into_iter().flatten().any(|value| !value.is_finite() || *value <= 0.0) {
            return Err(GpError::value("lengths must be positive"));
        }
        if self.em.draws == 0 {
            return Err(GpError::value("no state of the chains is kept"));
        }
        hidden.check()?;
        self.em.sampler.method().check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::deep::{CrossOptions, HmcOptions, PcnOptions};
    use schemars::SchemaGenerator;
    use serde::de::DeserializeOwned;
    use serde_json::{Value as Json, json};

    // What counts of what is written.
    fn counting<T: Serialize + DeserializeOwned>(written: &str) -> String {
        let options: T = serde_json::from_str(written).unwrap_or_else(|error| unreachable!("{written}: {error}"));
        serde_json::to_string(&options).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn what_counts_of_the_layers_keeps_its_text() {
        let aca = r#""hidden":{"aca":{"rank":50,"tolerance":1e-6,"repivot":true}}"#;
        for (written, expected) in [
            (
                "{}",
                format!(
                    r#"{{"architecture":"composition","layers":2,"width":null,"prior_mean":"zero",{aca},"length":null,"u_min":null,"u_max":null}}"#
                ),
            ),
            (
                r#"{"layers":3,"width":4,"prior_mean":"identity","hidden":{"method":"full","rank":3},"u_min":1,"u_max":2}"#,
                r#"{"architecture":"composition","layers":3,"width":4,"prior_mean":"identity","hidden":"full","length":null,"u_min":null,"u_max":null}"#.to_owned(),
            ),
            (
                r#"{"architecture":"convolution","width":1,"hidden":{"rank":7,"tolerance":0,"repivot":false},"length":0.7,"u_min":0.1,"u_max":3}"#,
                r#"{"architecture":"convolution","layers":2,"width":null,"prior_mean":"zero","hidden":{"aca":{"rank":7,"tolerance":0.0,"repivot":false}},"length":0.7,"u_min":0.1,"u_max":3.0}"#.to_owned(),
            ),
            (
                r#"{"architecture":"injective","width":1,"hidden":{"method":"sparse"},"u_min":0.1,"u_max":3}"#,
                r#"{"architecture":"injective","layers":2,"width":null,"prior_mean":"zero","hidden":"sparse","length":null,"u_min":0.1,"u_max":null}"#.to_owned(),
            ),
        ] {
            assert_eq!(counting::<LayerOptions>(written), expected, "{written}");
        }
    }

    #[test]
    fn what_counts_of_the_training_loop_keeps_its_text() {
        let hmc = r#""sampler":{"hmc":{"transitions":12,"leapfrog":8}}"#;
        for (written, expected) in [
            ("{}", format!(r#"{{"iterations":10,"particles":10,"exchanges":3,"hyperparameters":true,{hmc},"final_transitions":50}}"#)),
            (
                r#"{"exchanges":7,"draws":70,"final_transitions":null}"#,
                format!(r#"{{"iterations":10,"particles":10,"exchanges":7,"hyperparameters":true,{hmc},"final_transitions":70,"draws":70}}"#),
            ),
            (
                r#"{"iterations":0,"particles":50,"hyperparameters":false,"sampler":{"pcn":{}},"final_transitions":0}"#,
                r#"{"iterations":0,"particles":50,"exchanges":3,"hyperparameters":false,"sampler":{"pcn":{"steps":400}},"final_transitions":0}"#.to_owned(),
            ),
            (
                r#"{"sampler":{"hmc":{"leapfrog":2}},"final_transitions":0,"draws":4}"#,
                r#"{"iterations":10,"particles":10,"exchanges":3,"hyperparameters":true,"sampler":{"hmc":{"transitions":12,"leapfrog":2}},"final_transitions":4,"draws":4}"#.to_owned(),
            ),
        ] {
            assert_eq!(counting::<EmOptions>(written), expected, "{written}");
        }
    }

    #[test]
    fn the_frozen_chain_fits_the_sampler_and_the_draws() {
        let pcn = |steps| SamplerOptions::Pcn(PcnOptions { steps });
        let hmc = SamplerOptions::Hmc(HmcOptions { transitions: 300, leapfrog: 2 });
        for (sampler, final_transitions, draws, expected) in [
            (hmc, None, 1, 50),
            (hmc, None, 70, 70),
            (pcn(300), None, 70, 300),
            (pcn(20), None, 1, 50),
            (pcn(300), Some(0), 1, 0),
            (pcn(300), Some(0), 4, 4),
            (hmc, Some(9), 4, 9),
        ] {
            let em = EmOptions { sampler, final_transitions, draws, ..EmOptions::default() };
            assert_eq!(em.frozen_moves(), expected, "{em:?}");
        }
    }

    // Every option with its default, as the schema names them.
    fn accepts<T: JsonSchema + Serialize + DeserializeOwned>(defaults: &[(&str, Json)]) {
        let schema = SchemaGenerator::default().into_root_schema_for::<T>();
        let properties = schema.get("properties").and_then(Json::as_object);
        let names: Vec<&str> = properties.into_iter().flat_map(serde_json::Map::keys).map(String::as_str).collect();
        assert_eq!(names, defaults.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
        for (name, value) in defaults {
            let read = |written: Json| serde_json::from_value::<T>(written).map(|options| json!(options));
            assert_eq!(read(json!({ *name: value })).ok(), read(json!({})).ok(), "{name}");
            assert!(read(json!({ *name: ["no such value"] })).is_err(), "{name}");
        }
    }

    #[test]
    fn everything_in_the_schema_can_be_written() {
        let LayerOptions { layers, hidden, .. } = LayerOptions::default();
        let CrossOptions { rank, tolerance, repivot } = hidden.cross;
        let nothing = || Json::Null;
        accepts::<LayerOptions>(&[
            ("architecture", json!(Architecture::default())),
            ("layers", json!(layers)),
            ("width", nothing()),
            ("prior_mean", json!(PriorMean::default())),
            ("hidden", json!({})),
            ("length", nothing()),
            ("u_min", nothing()),
            ("u_max", nothing()),
        ]);
        accepts::<HiddenOptions>(&[
            ("method", json!(hidden.method)),
            ("rank", json!(rank)),
            ("tolerance", json!(tolerance)),
            ("repivot", json!(repivot)),
        ]);
        let em = EmOptions::default();
        accepts::<EmOptions>(&[
            ("iterations", json!(em.iterations)),
            ("particles", json!(em.particles)),
            ("exchanges", json!(em.exchanges)),
            ("hyperparameters", json!(em.hyperparameters)),
            ("sampler", json!(em.sampler)),
            ("final_transitions", nothing()),
            ("draws", json!(em.draws)),
        ]);
        let HmcOptions { transitions, leapfrog } = HmcOptions::default();
        accepts::<HmcOptions>(&[("transitions", json!(transitions)), ("leapfrog", json!(leapfrog))]);
        accepts::<PcnOptions>(&[("steps", json!(PcnOptions::default().steps))]);
    }
}
