//! Decides every option of a train stage: what is written, then the preset, then the defaults.

use super::defaults::{CANDIDATES, Defaults, INDUCING, Sampler, defaults};
use super::language::{self, Architecture, HiddenMethod, HyperparameterName, Kernel, Optimise};
use super::step_deep::{DeepStep, EmStep, HiddenStep, LayersStep, SamplerStep, StartStep, StrideStep};
use super::step_train::{FreeHyperparameters, GpStep, InducingStep, Method, SparseStep};

/// The method with the options that it uses.
pub fn method(train: &language::Train) -> Method {
    let defaults = defaults(train.preset);
    match train.method {
        language::Method::Gp => Method::Gp(gp(train)),
        language::Method::SparseGp => {
            Method::SparseGp(SparseStep { gp: gp(train), inducing: inducing(train.inducing.as_ref()) })
        }
        language::Method::DeepGp => Method::DeepGp(DeepStep {
            start: start(train),
            deep: layers(train, defaults, defaults.hidden_of_deep_gp),
            em: em(train, defaults),
        }),
        language::Method::Stride => {
            let inducing = inducing(train.inducing.as_ref());
            let written = train.em.as_ref().and_then(|em| em.exchanges);
            let exchanges = match inducing {
                InducingStep::Chosen { .. } => written.unwrap_or(defaults.exchanges),
                InducingStep::Given { .. } => 0,
            };
            let deep = layers(train, defaults, defaults.hidden_of_stride);
            Method::Stride(StrideStep { start: start(train), inducing, exchanges, deep, em: em(train, defaults) })
        }
    }
}

fn gp(train: &language::Train) -> GpStep {
    let StartStep { kernel, variance, length, noise, optimise } = start(train);
    GpStep { kernel, ard: train.ard.unwrap_or(false), variance, length, noise, optimise }
}

fn start(train: &language::Train) -> StartStep {
    let hyper = train.hyperparameters.clone().unwrap_or_default();
    StartStep {
        kernel: train.kernel.unwrap_or(Kernel::Rbf),
        variance: hyper.variance,
        length: hyper.length,
        noise: hyper.noise,
        optimise: free(hyper.optimise.as_ref()),
    }
}

fn inducing(written: Option<&language::Inducing>) -> InducingStep {
    if let Some(rows) = written.and_then(|inducing| inducing.rows.clone()) {
        return InducingStep::Given { rows };
    }
    let candidates = match written.and_then(|inducing| inducing.candidates) {
        Some(language::Candidates::All) => None,
        Some(language::Candidates::Count(count)) => Some(count),
        None => Some(CANDIDATES),
    };
    InducingStep::Chosen { count: written.and_then(|inducing| inducing.count).unwrap_or(INDUCING), candidates }
}

fn free(optimise: Option<&Optimise>) -> FreeHyperparameters {
    let all = |free| FreeHyperparameters { variance: free, length: free, noise: free };
    match optimise {
        None => all(true),
        Some(Optimise::All(free)) => all(*free),
        Some(Optimise::Some(names)) => FreeHyperparameters {
            variance: names.contains(&HyperparameterName::Variance),
            length: names.contains(&HyperparameterName::Length),
            noise: names.contains(&HyperparameterName::Noise),
        },
    }
}

fn layers(train: &language::Train, defaults: &Defaults, hidden: HiddenMethod) -> LayersStep {
    let written = train.deep.clone().unwrap_or_default();
    let architecture = written.architecture.unwrap_or(defaults.architecture);
    let only = |used: bool, value: Option<f64>| value.filter(|_| used);
    LayersStep {
        architecture,
        layers: written.layers.unwrap_or(defaults.layers),
        width: written.width.filter(|_| architecture == Architecture::Composition),
        prior_mean: written.prior_mean.unwrap_or(defaults.prior_mean),
        hidden: hidden_layers(&written.hidden.unwrap_or_default(), defaults, hidden),
        length: written.length,
        u_min: only(architecture != Architecture::Composition, written.u_min),
        u_max: only(architecture == Architecture::Convolution, written.u_max),
    }
}

fn hidden_layers(written: &language::Hidden, defaults: &Defaults, method: HiddenMethod) -> HiddenStep {
    match written.method.unwrap_or(method) {
        HiddenMethod::Full => HiddenStep::Full,
        HiddenMethod::Sparse => HiddenStep::Sparse,
        HiddenMethod::Aca => HiddenStep::Aca {
            rank: written.rank.unwrap_or(defaults.rank),
            tolerance: written.tolerance.unwrap_or(defaults.tolerance),
            repivot: written.repivot.unwrap_or(defaults.repivot),
        },
    }
}

fn em(train: &language::Train, defaults: &Defaults) -> EmStep {
    let written = train.em.clone().unwrap_or_default();
    let sampler = sampler(written.sampler.as_ref(), defaults);
    // A step of pcn goes far less far than a transition of hmc: as many as in an E step.
    let final_transitions = match sampler {
        SamplerStep::Pcn { steps } if defaults.final_transitions > 0 => steps.max(defaults.final_transitions),
        _ => defaults.final_transitions,
    };
    let draws = written.draws.unwrap_or(1);
    // The last state needs no frozen chain.
    let needed = if draws > 1 { draws } else { 0 };
    EmStep {
        iterations: written.iterations.unwrap_or(defaults.iterations),
        particles: written.particles.unwrap_or(defaults.particles),
        hyperparameters: written.hyperparameters.unwrap_or(defaults.hyperparameters),
        sampler,
        final_transitions: written.final_transitions.unwrap_or_else(|| final_transitions.max(needed)),
        draws,
    }
}

fn sampler(written: Option<&language::Sampler>, defaults: &Defaults) -> SamplerStep {
    let hmc = |written: &language::Hmc| SamplerStep::Hmc {
        transitions: written.transitions.unwrap_or(defaults.transitions),
        leapfrog: written.leapfrog.unwrap_or(defaults.leapfrog),
    };
    let pcn = |written: &language::Pcn| SamplerStep::Pcn { steps: written.steps.unwrap_or(defaults.steps) };
    match (written, defaults.sampler) {
        (Some(language::Sampler::Hmc(written)), _) => hmc(written),
        (Some(language::Sampler::Pcn(written)), _) => pcn(written),
        (None, Sampler::Hmc) => hmc(&language::Hmc::default()),
        (None, Sampler::Pcn) => pcn(&language::Pcn::default()),
    }
}
