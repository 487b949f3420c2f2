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
use super::until::{TimeBudget, Until};
use crate::gp::GpError;
use crate::gp::sparse::{Penalty, SparseOptions};

/// EM iterations where nothing is written: from the stationary model, and from an earlier deep one.
const ITERATIONS: u32 = 10;
const ITERATIONS_STARTED: u32 = 2;
/// The frozen chain after a start from an earlier model is so many times shorter.
const SHORTER: u32 = 3;
/// So many of its states are kept, where they cost little: as good as longer chains, for much less time.
const DRAWS_STARTED: u32 = 4;

/// Steps uphill before the first E step, where the top layer has neighbours.
const CLIMB: usize = 60;

/// How to fit a deep Gaussian process.
#[derive(Debug, Clone, PartialEq)]
pub struct DeepOptions {
    /// The stationary fit that comes first.
    pub start: Start,
    pub layers: LayerOptions,
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

/// What training is about: the density that chains sample, and what the M step maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Objective")]
pub enum EmObjective {
    /// Chains sample the likelihood of the sparse model; the M step maximises its lower bound (Titsias, 2009).
    Paper,
    /// That bound in both.
    Bound,
    /// A tighter bound in both, at no further cost: by the trace of what inducing points leave unexplained (Artemev et al., 2021).
    Trace,
    /// The tightest in both, row by row, for a third more time (Titsias, 2025).
    Tight,
}

/// The training loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[schemars(rename = "Em")]
pub struct EmOptions {
    /// EM iterations. Default: 10; 2 after a start from a published model (`start_from`).
    #[schemars(range(min = 0))]
    pub iterations: Option<u32>,
    /// Markov chains.
    #[schemars(range(min = 1, max = 10_000))]
    pub particles: u32,
    /// Birth/death updates of inducing points in one M step.
    #[schemars(range(min = 0))]
    pub exchanges: u32,
    /// The M step also moves variance, length and noise.
    pub hyperparameters: bool,
    /// What chains sample and the M step maximises, with inducing points. Default: `paper` for composition and injective,
    /// `tight` for convolution.
    #[serde(skip_serializing)]
    pub objective: Option<EmObjective>,
    /// The sampler of the E step. Default: hmc.
    pub sampler: SamplerOptions,
    /// Length of the frozen chain at the end, for diagnostics and `draws`. Default: 50 (`pcn`: at least as many as in an E
    /// step), a third of that after a start from a published model, or as many as `draws` needs.
    #[schemars(range(min = 0))]
    pub final_transitions: Option<u32>,
    /// States of each chain that predictions average over, spread evenly over the frozen chain. The model grows with them,
    /// and the time of a prediction. 1 is the last state alone. Default: 1; 4 after a start from a published model with inducing
    /// points.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draws: Option<u32>,
    /// EM ends when what chains sample no longer rises beyond their noise, and batches of `final_transitions` are made until these
    /// are met, for the log-likelihood and for predictions at 50 training rows; at most 40 batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Time that training may take, about: EM ends after half of it, and with `until` no batch begins after all of it. Results
    /// depend on the machine then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_budget: Option<TimeBudget>,
    /// Gradient steps uphill before the first E step; null: 60 with `top: { neighbours }`, 0 otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub climb: Option<u32>,
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
            iterations: None,
            particles: 10,
            exchanges: 3,
            hyperparameters: true,
            objective: None,
            sampler: SamplerOptions::default(),
            final_transitions: None,
            draws: None,
            until: None,
            time_budget: None,
            climb: None,
        }
    }
}

impl Architecture {
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
        let (iterations, final_transitions) = (Some(self.iterations()), Some(self.frozen_moves()));
        // One state was all there was before this option.
        let draws = self.draws.filter(|draws| *draws != 1);
        Self::serialize(&Self { iterations, final_transitions, draws, ..self.clone() }, serializer)
    }
}

impl<'de> Deserialize<'de> for EmOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl EmOptions {
    /// EM iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations.unwrap_or(ITERATIONS)
    }

    /// States of each chain that are kept.
    pub fn draws(&self) -> u32 {
        self.draws.unwrap_or(1)
    }

    /// The same after a start from an earlier model: chains need not find their way, and what is not written is shorter. More
    /// of their states are kept where the top layer makes that cheap.
    #[must_use]
    pub fn started(&self, cheap: bool) -> Self {
        let usual = if cheap { DRAWS_STARTED } else { 1 };
        let most = self.final_transitions.unwrap_or(u32::MAX).max(1);
        let draws = self.draws.unwrap_or(usual.min(most));
        let short = (self.sampler.method().frozen_moves() / SHORTER).max(needed(draws));
        Self {
            iterations: Some(self.iterations.unwrap_or(ITERATIONS_STARTED)),
            final_transitions: Some(self.final_transitions.unwrap_or(short)),
            draws: Some(draws),
            climb: Some(0),
            ..self.clone()
        }
    }

    /// Length of the frozen chain at the end. The last state needs none; several draws need as many moves.
    pub fn frozen_moves(&self) -> u32 {
        self.final_transitions.unwrap_or_else(|| self.sampler.method().frozen_moves()).max(needed(self.draws()))
    }
}

// Moves that so many states need.
const fn needed(draws: u32) -> u32 {
    if draws > 1 { draws } else { 0 }
}

impl EmObjective {
    /// The form of the bound.
    pub fn penalty(self) -> Penalty {
        match self {
            Self::Paper | Self::Bound => Penalty::Linear,
            Self::Trace => Penalty::Trace,
            Self::Tight => Penalty::Tight,
        }
    }

    /// Whether chains sample the likelihood and not the bound.
    pub(super) fn samples_likelihood(self) -> bool {
        self == Self::Paper
    }

    /// What is used where nothing is written.
    pub fn of(architecture: Architecture) -> Self {
        match architecture {
            Architecture::Composition | Architecture::Injective => Self::Paper,
            Architecture::Convolution => Self::Tight,
        }
    }
}

impl DeepOptions {
    /// What training is about.
    pub fn objective(&self) -> EmObjective {
        self.em.objective.unwrap_or_else(|| EmObjective::of(self.layers.architecture))
    }

    /// Gradient steps before the first E step.
    pub(super) fn climb(&self) -> usize {
        let usual = if self.start.neighbours().is_some() { CLIMB } else { 0 };
        self.em.climb.map_or(usual, |steps| steps as usize)
    }

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
        if !matches!(self.start, Start::Sparse(_)) && hidden.follows_inducing() {
            return Err(GpError::value("hidden layers at the inducing points need a method that has such points"));
        }
        if [length, u_min, u_max].into_iter().flatten().any(|value| !value.is_finite() || *value <= 0.0) {
            return Err(GpError::value("lengths must be positive"));
        }
        if self.em.until.is_some() && self.em.frozen_moves() == 0 {
            return Err(GpError::value("`until` needs `final_transitions`"));
        }
        if self.em.draws() == 0 {
            return Err(GpError::value("no state of the chains is kept"));
        }
        hidden.check()?;
        self.em.sampler.method().check()
    }
}
