//! The options of the train stage. Those of the mathematics are declared in `gp`, where they are used.

use super::calibration::Calibrate;
use crate::gp::baseline::KnnOptions;
use crate::gp::deep::{
    Architecture, DeepOptions, EmObjective, EmOptions, HiddenMethod, LayerOptions, NeighbourStart, Start, TopOptions,
};
use crate::gp::exact::ExactOptions;
use crate::gp::inducing::InducingOptions;
use crate::gp::kernel::{Hyperparameters, Kernel, StationaryOptions};
use crate::gp::neighbours::{LocalChoice, LocalOptions};
use crate::gp::scaling::FeatureScaling;
use crate::gp::sparse::SparseOptions;
use crate::pipeline::{FilePath, Preset, UsedBy};
use crate::stages::StageError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// Sets of defaults, chosen by the value of a key. Keys that are written out win.
pub const PRESETS: &[Preset] = &[
    Preset {
        key: "preset",
        value: "paper",
        options: "{ local: false, calibrate: none, em: { particles: 50, exchanges: 5, hyperparameters: false, objective: paper, sampler: { pcn: {} }, final_transitions: 0 } }",
    },
    Preset { key: "method", value: "deep_gp", options: "{ deep: { hidden: { method: full } } }" },
];

/// Options that not every method uses. Whoever adds one says here who uses it.
pub const USED_BY: &[UsedBy] = &[
    UsedBy::new("kernel", "method", &["gp", "sparse_gp", "deep_gp", "stride"]),
    UsedBy::new("hyperparameters", "method", &["gp", "sparse_gp", "deep_gp", "stride"]),
    UsedBy::new("ard", "method", &["gp", "sparse_gp", "deep_gp", "stride"]),
    UsedBy::new("inducing", "method", &["sparse_gp", "stride"]),
    UsedBy::new("deep", "method", &["deep_gp", "stride"]),
    UsedBy::new("em", "method", &["deep_gp", "stride"]),
    UsedBy::new("em.exchanges", "method", &["stride"]),
    UsedBy::new("em.objective", "method", &["stride"]),
    UsedBy::new("top", "method", &["stride"]),
    UsedBy::new("local", "method", &["sparse_gp", "stride"]),
    UsedBy::new("start_from", "method", &["gp", "sparse_gp", "deep_gp", "stride"]),
    UsedBy::new("knn", "method", &["knn"]),
    UsedBy { default: "composition", ..UsedBy::new("deep.u_min", "deep.architecture", &["convolution", "injective"]) },
    UsedBy { default: "composition", ..UsedBy::new("deep.u_max", "deep.architecture", &["convolution", "injective"]) },
];

/// Trains one model per fold.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// The split stage.
    pub input: String,
    /// The regression method.
    pub method: Method,
    /// Scaling of features and target by the training rows.
    #[serde(default)]
    pub scale: Scale,
    /// The covariance function (Gaussian processes: `gp`, `sparse_gp`, `deep_gp`, `stride`).
    #[serde(default)]
    pub kernel: Kernel,
    /// One correlation length per feature. For `deep_gp` and `stride` they come from an exact process of at most 1,000 rows, and
    /// features are divided by them before training.
    #[serde(default)]
    pub ard: bool,
    /// Starting values of the hyper-parameters, in scaled units, and which to optimise.
    #[serde(default)]
    pub hyperparameters: Hyperparameters,
    /// The inducing points (`sparse_gp`, `stride`).
    #[serde(default)]
    pub inducing: InducingOptions,
    /// The deep prior (`deep_gp`, `stride`).
    #[serde(default)]
    pub deep: LayerOptions,
    /// The training loop (`deep_gp`, `stride`).
    #[serde(default)]
    pub em: EmOptions,
    /// A top layer by neighbours instead of inducing points (`stride`).
    pub top: Option<TopOptions>,
    /// Predictions that remember the training rows nearby (`sparse_gp`, `stride`): options, or false for none.
    #[serde(default)]
    pub local: LocalChoice,
    /// What the intervals of predictions are calibrated by: `conformal` by training rows that are left out in turn,
    /// `out_of_fold` by rows that further models were trained without (six trainings), `none` for intervals of the normal
    /// distribution.
    #[serde(default)]
    pub calibrate: Calibrate,
    /// The nearest neighbours (`knn`).
    #[serde(default)]
    pub knn: KnnOptions,
    /// The directory of a published model of the same kind, from which training starts (`gp`, `sparse_gp`, `deep_gp`,
    /// `stride`): its hyper-parameters, inducing points, hidden and local layers. Far less training is needed then. Where
    /// nothing is published yet, training starts from scratch.
    #[schemars(length(min = 1))]
    pub start_from: Option<FilePath>,
    /// A set of defaults: `paper` trains as in the paper. Keys written out win.
    pub preset: Option<PresetName>,
    /// A directory that gets the trained model, replaced in one step; for one case and one fold.
    #[schemars(length(min = 1))]
    pub publish: Option<FilePath>,
    /// Publish only if the test metrics of this run are good enough: `smse < 0.25`, `smse < published` (the
    /// model that is published, on the same test rows), or several joined by `and`.
    #[schemars(length(min = 1))]
    pub publish_if: Option<String>,
    /// Versions of the published model that are kept to go back to, the published one included.
    #[schemars(range(min = 1))]
    #[serde(default = "five")]
    pub publish_keep: u32,
}

const fn five() -> u32 {
    5
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
    /// Baseline: mean and standard deviation of the training targets.
    Mean,
    /// Baseline: Bayesian linear regression, the strength of its ridge by the evidence.
    Ridge,
    /// Baseline: the mean target of the nearest training rows.
    Knn,
}

/// Scaling by the mean and the population standard deviation of the training rows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Scale {
    /// How features are scaled.
    pub features: FeatureScaling,
    /// Targets are always standardised: `true` is the only value.
    #[schemars(extend("const" = true))]
    target: Option<bool>,
}

/// A set of defaults.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PresetName {
    /// As in the paper.
    Paper,
}

impl Method {
    /// The name in tables and in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gp => "gp",
            Self::SparseGp => "sparse_gp",
            Self::DeepGp => "deep_gp",
            Self::Stride => "stride",
            Self::Mean => "mean",
            Self::Ridge => "ridge",
            Self::Knn => "knn",
        }
    }

    /// Whether it has hidden layers.
    pub const fn is_deep(self) -> bool {
        matches!(self, Self::DeepGp | Self::Stride)
    }
}

impl Train {
    /// Whether the method is for one feature only.
    pub fn takes_one_feature(&self) -> bool {
        self.method.is_deep() && self.deep.architecture == Architecture::Injective
    }

    /// The same after a start from a published model.
    #[must_use]
    pub fn started(&self) -> Self {
        // States cost little above inducing points; an exact top layer keeps all rows for each.
        let cheap = self.method == Method::Stride && self.top.is_none();
        Self { em: self.em.started(cheap), ..self.clone() }
    }

    /// Whether the method can start from a published model.
    pub fn can_start(&self) -> bool {
        !matches!(self.method, Method::Mean | Method::Ridge | Method::Knn)
    }

    /// The options whose text seeds the random streams: the same for cases that differ in nothing that counts in training.
    /// A local layer comes after it, and the model below it is the same with any or none.
    pub fn stream_options(&self) -> Json {
        json!({ "scale": self.scale.features, "method": self.used() })
    }

    /// The options that the method uses, under its name; those that it does not use are not there, so they cannot matter.
    pub fn used(&self) -> Json {
        let stationary = self.stationary();
        // Exchanges count where there are points to exchange.
        let em = || {
            let mut em = json!(self.em);
            em.as_object_mut().map(|options| options.shift_remove("exchanges"));
            em
        };
        let start = || {
            let mut start = stationary.without_ard(serde_json::value::Serializer).unwrap_or_default();
            if self.ard {
                start["ard"] = json!(true);
            }
            start
        };
        let options = match self.method {
            Method::Mean | Method::Ridge => json!({}),
            Method::Knn => json!(self.knn),
            Method::Gp => json!(stationary),
            Method::SparseGp => json!({ "gp": stationary, "inducing": self.inducing }),
            Method::DeepGp => json!({ "start": start(), "deep": self.deep, "em": em() }),
            Method::Stride if self.top.is_some() => {
                json!({ "start": start(), "top": self.top, "local": self.predictions(), "deep": self.deep, "em": em() })
            }
            Method::Stride => {
                // Points that are given are kept.
                let exchanges = if self.inducing.rows.is_some() { 0 } else { self.em.exchanges };
                let mut options = json!({
                    "start": start(), "inducing": self.inducing, "exchanges": exchanges, "deep": self.deep,
                    "em": em(),
                });
                // What it is by default depends on the architecture: what counts is what it comes to.
                let objective = self.em.objective.unwrap_or_else(|| EmObjective::of(self.deep.architecture));
                if objective != EmObjective::Paper {
                    options["objective"] = json!(objective);
                }
                options
            }
        };
        json!({ self.method.name(): options })
    }

    /// Whether its hidden layers are of a low rank.
    pub fn has_rank(&self) -> bool {
        self.method == Method::Stride && self.deep.hidden.method == HiddenMethod::Aca
    }

    /// The options of the local layer, where the method has one.
    pub fn local(&self) -> Option<LocalOptions> {
        let possible = matches!(self.method, Method::SparseGp) || self.method == Method::Stride && self.top.is_none();
        let known_noise = !self.hyperparameters.optimise.noise;
        let states = if self.method.is_deep() { self.em.draws() as usize } else { 1 };
        self.local.options().filter(|_| possible).map(|options| LocalOptions { known_noise, states, ..*options })
    }

    /// How a model whose top layer is by neighbours predicts.
    pub fn predictions(&self) -> LocalOptions {
        let trained = self.top.map_or(LocalOptions::default().neighbours, |top| top.neighbours);
        let known_noise = !self.hyperparameters.optimise.noise;
        let asked = self.local.options().copied();
        let options = asked.unwrap_or(LocalOptions { neighbours: trained, ..LocalOptions::default() });
        LocalOptions { known_noise, ..options }
    }

    /// The fit that a deep method starts with; `train` are the training rows of the fold, in increasing order.
    pub fn start(&self, train: &[usize]) -> Result<Start, StageError> {
        Ok(match (self.method, self.top) {
            (Method::Stride, Some(top)) => {
                let (stationary, predictions) = (self.stationary(), self.predictions());
                Start::Neighbours(NeighbourStart { stationary, top, predictions })
            }
            (Method::Stride, None) => Start::Sparse(self.sparse(train)?),
            _ => Start::Exact(self.exact()),
        })
    }

    /// What the stationary model of the method is like.
    pub fn stationary(&self) -> StationaryOptions {
        StationaryOptions { kernel: self.kernel, ard: self.ard, hyperparameters: self.hyperparameters }
    }

    pub fn exact(&self) -> ExactOptions {
        ExactOptions { stationary: self.stationary(), ..ExactOptions::default() }
    }

    /// Sparse regression; `train` are the training rows of the fold, in increasing order.
    pub fn sparse(&self, train: &[usize]) -> Result<SparseOptions, StageError> {
        let mut inducing = self.inducing.clone();
        if let Some(rows) = &mut inducing.rows {
            for row in rows {
                *row = training_position(*row, train)?;
            }
        }
        Ok(SparseOptions { stationary: self.stationary(), inducing, ..SparseOptions::default() })
    }

    /// Deep regression with this start. Layers share one length, so the fit they start from has one.
    pub fn layered(&self, mut start: Start) -> DeepOptions {
        match &mut start {
            Start::Sparse(options) => options.stationary.ard = false,
            Start::Exact(options) => options.stationary.ard = false,
            Start::Neighbours(options) => options.stationary.ard = false,
        }
        DeepOptions { start, layers: self.deep.clone(), em: self.em.clone() }
    }
}

/// A row of the source as a position among the training rows.
fn training_position(row: u64, train: &[usize]) -> Result<u64, StageError> {
    train.binary_search(&(row as usize)).map(|position| position as u64).map_err(|_| StageError::Data {
        what: format!("`inducing.rows` names row {row}, which is not a training row of this fold"),
        hint: "name rows that every fold trains on, or let `count` choose".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::Stage as _;

    /// Options that every method uses, and those that are about the stage rather than its model.
    const USED_BY_ALL: [&str; 8] =
        ["input", "method", "scale", "calibrate", "preset", "publish", "publish_if", "publish_keep"];
    const METHODS: [&str; 7] = ["gp", "sparse_gp", "deep_gp", "stride", "mean", "ridge", "knn"];

    fn used(method: &str, options: &Json) -> Json {
        let mut all = json!({ "input": "folds", "method": method });
        if let (Some(all), Some(options)) = (all.as_object_mut(), options.as_object()) {
            all.extend(options.clone());
        }
        serde_json::from_value::<Train>(all).map_or(Json::Null, |train| train.key_options())
    }

    /// What is said of an option is true: it is in the key of those who use it, and of nobody else.
    #[test]
    fn every_option_says_who_uses_it() {
        let schema = schemars::schema_for!(Train).to_value();
        for name in schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys()) {
            let declared = USED_BY.iter().any(|used| used.option == name);
            assert!(declared != USED_BY_ALL.contains(&name.as_str()), "who uses `{name}`?");
        }
        // What a start counts for depends on the model, which `prepare` looks at.
        let counted = USED_BY.iter().filter(|used_by| used_by.decider == "method" && used_by.option != "start_from");
        for used_by in counted {
            let options = match used_by.option {
                "kernel" => json!({ "kernel": "matern32" }),
                "hyperparameters" => json!({ "hyperparameters": { "noise": 0.1 } }),
                "knn" => json!({ "knn": { "neighbours": 7 } }),
                "ard" => json!({ "ard": true }),
                "inducing" => json!({ "inducing": { "count": 7 } }),
                "deep" => json!({ "deep": { "layers": 3 } }),
                "em" => json!({ "em": { "particles": 3 } }),
                "em.objective" => json!({ "em": { "objective": "tight" } }),
                "em.exchanges" => json!({ "em": { "exchanges": 4 } }),
                "top" => json!({ "top": { "neighbours": 8 } }),
                "local" => json!({ "local": false }),
                other => unreachable!("an example of `{other}`"),
            };
            for method in METHODS {
                let counts = used(method, &options) != used(method, &json!({}));
                assert_eq!(counts, used_by.values.contains(&method), "{} with {method}", used_by.option);
            }
        }
    }
}
