//! Steps of the plan as options of the mathematics.

use crate::eval::folds::Fold;
use crate::gp::deep::{
    Architecture, CrossOptions, DeepOptions, EmOptions, HiddenMethod, HmcOptions, LayerOptions, PcnOptions, PriorMean,
    SamplerOptions, Start,
};
use crate::gp::exact::ExactOptions;
use crate::gp::inducing::Candidates;
use crate::gp::kernel::{Free, Kernel};
use crate::gp::sparse::SparseOptions;
use crate::plan::{
    self, DeepStep, EmStep, GpStep, HiddenStep, InducingStep, LayersStep, SamplerStep, SparseStep, StartStep,
    StrideStep,
};
use crate::stages::StageError;

/// Exact regression.
pub fn exact(options: &GpStep) -> ExactOptions {
    ExactOptions {
        kernel: kernel(options.kernel),
        ard: options.ard,
        variance: options.variance,
        length: options.length,
        noise: options.noise,
        free: free(options.optimise),
        ..ExactOptions::default()
    }
}

/// Sparse regression on the training rows of the fold.
pub fn sparse(options: &SparseStep, fold: &Fold) -> Result<SparseOptions, StageError> {
    sparse_start(&options.gp, &options.inducing, fold)
}

/// Standard deep regression.
pub fn deep(options: &DeepStep) -> DeepOptions {
    let start = Start::Exact(exact(&stationary(&options.start)));
    with_layers(start, 0, &options.deep, &options.em)
}

/// STRIDE on the training rows of the fold.
pub fn stride(options: &StrideStep, fold: &Fold) -> Result<DeepOptions, StageError> {
    let start = Start::Sparse(sparse_start(&stationary(&options.start), &options.inducing, fold)?);
    Ok(with_layers(start, options.exchanges, &options.deep, &options.em))
}

fn sparse_start(gp: &GpStep, inducing: &InducingStep, fold: &Fold) -> Result<SparseOptions, StageError> {
    let (count, candidates, rows) = match inducing {
        InducingStep::Chosen { count, candidates } => (*count as usize, *candidates, None),
        InducingStep::Given { rows } => (rows.len(), None, Some(training_positions(rows, fold)?)),
    };
    let GpStep { kernel: kind, ard, variance, length, noise, optimise } = *gp;
    Ok(SparseOptions {
        kernel: kernel(kind),
        ard,
        variance,
        length,
        noise,
        free: free(optimise),
        count,
        candidates: candidates.map_or(Candidates::All, |count| Candidates::Count(count as usize)),
        rows,
        ..SparseOptions::default()
    })
}

/// Layers share one length, so the fit they start from has one.
const fn stationary(start: &StartStep) -> GpStep {
    let StartStep { kernel, variance, length, noise, optimise } = *start;
    GpStep { kernel, ard: false, variance, length, noise, optimise }
}

fn with_layers(start: Start, exchanges: u32, deep: &LayersStep, em: &EmStep) -> DeepOptions {
    let layers = LayerOptions {
        architecture: match deep.architecture {
            plan::Architecture::Composition => Architecture::Composition,
            plan::Architecture::Convolution => Architecture::Convolution,
            plan::Architecture::Injective => Architecture::Injective,
        },
        layers: deep.layers,
        width: deep.width,
        prior_mean: match deep.prior_mean {
            plan::PriorMean::Zero => PriorMean::Zero,
            plan::PriorMean::Identity => PriorMean::Identity,
        },
        hidden: match deep.hidden {
            HiddenStep::Full => HiddenMethod::Full.into(),
            HiddenStep::Aca { rank, tolerance, repivot } => CrossOptions { rank, tolerance, repivot }.into(),
            HiddenStep::Sparse => HiddenMethod::Sparse.into(),
        },
        length: deep.length,
        u_min: deep.u_min,
        u_max: deep.u_max,
    };
    DeepOptions { start, layers, em: em_options(em, exchanges) }
}

/// The training loop.
pub fn em_options(em: &EmStep, exchanges: u32) -> EmOptions {
    EmOptions {
        iterations: em.iterations,
        particles: em.particles,
        exchanges,
        hyperparameters: em.hyperparameters,
        sampler: match em.sampler {
            SamplerStep::Hmc { transitions, leapfrog } => SamplerOptions::Hmc(HmcOptions { transitions, leapfrog }),
            SamplerStep::Pcn { steps } => SamplerOptions::Pcn(PcnOptions { steps }),
        },
        final_transitions: Some(em.final_transitions),
        draws: em.draws,
    }
}

/// Rows of the source as positions among the training rows, which are in increasing order.
fn training_positions(rows: &[u64], fold: &Fold) -> Result<Vec<usize>, StageError> {
    let position = |row: &u64| {
        fold.train.binary_search(&(*row as usize)).map_err(|_| StageError::Data {
            what: format!("`inducing.rows` names row {row}, which is not a training row of this fold"),
            hint: "name rows that every fold trains on, or let `count` choose".to_owned(),
        })
    };
    rows.iter().map(position).collect()
}

const fn free(optimise: plan::FreeHyperparameters) -> Free {
    Free { variance: optimise.variance, length: optimise.length, noise: optimise.noise }
}

const fn kernel(kernel: plan::Kernel) -> Kernel {
    match kernel {
        plan::Kernel::Rbf => Kernel::Rbf,
        plan::Kernel::Matern12 => Kernel::Matern12,
        plan::Kernel::Matern32 => Kernel::Matern32,
        plan::Kernel::Matern52 => Kernel::Matern52,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Method, PlanRequest, Step, build};
    use std::path::Path;

    fn planned(train: &str) -> Option<Method> {
        let text = format!(
            "version: 1\nname: small\nstages:\n  rows: {{ ingest: {{ path: x, features: [a], target: y }} }}\n  \
             folds: {{ split: {{ input: rows, all: {{}} }} }}\n  model: {{ train: {{ input: folds, {train} }} }}\n"
        );
        let request =
            PlanRequest { file: Path::new("p.yaml"), text: &text, sets: &[], results: None, env: &|_: &str| None };
        let plan = build(&request).ok()?;
        match &plan.cases[0].stage("model")?.step {
            Step::Train(train) => Some(train.method.clone()),
            _ => None,
        }
    }

    fn options(train: &str) -> Option<DeepOptions> {
        let fold = Fold { train: vec![2, 3, 5, 7], test: Vec::new() };
        match planned(train)? {
            Method::DeepGp(step) => Some(deep(&step)),
            Method::Stride(step) => stride(&step, &fold).ok(),
            _ => None,
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_mathematics() {
        let mut plain = DeepOptions::default();
        plain.em.final_transitions = Some(plain.em.frozen_moves());
        assert_eq!(options("method: stride"), Some(plain.clone()));
        let mut exact = DeepOptions { start: Start::Exact(ExactOptions::default()), ..plain.clone() };
        (exact.layers.hidden, exact.em.exchanges) = (HiddenMethod::Full.into(), 0);
        assert_eq!(options("method: deep_gp"), Some(exact));
        let em = EmOptions {
            particles: 50,
            exchanges: 5,
            hyperparameters: false,
            sampler: SamplerOptions::Pcn(PcnOptions::default()),
            final_transitions: Some(0),
            ..EmOptions::default()
        };
        assert_eq!(options("method: stride, preset: paper"), Some(DeepOptions { em, ..plain }));
    }

    #[test]
    fn every_option_arrives() {
        let written = "method: stride, kernel: matern52, inducing: { rows: [3, 7] }, \
            hyperparameters: { variance: 2, length: 0.5, noise: 0.1, optimise: [noise] }, \
            deep: { architecture: convolution, layers: 3, width: 1, prior_mean: identity, hidden: { method: aca, rank: 7, \
            tolerance: 0.01, repivot: false }, length: 0.7, u_min: 0.1, u_max: 3 }, em: { iterations: 4, particles: 6, \
            exchanges: 9, hyperparameters: false, sampler: { hmc: { transitions: 5, leapfrog: 2 } }, final_transitions: 8, draws: 2 }";
        let expected = DeepOptions {
            start: Start::Sparse(SparseOptions {
                kernel: Kernel::Matern52,
                variance: Some(2.0),
                length: Some(0.5),
                noise: Some(0.1),
                free: Free { variance: false, length: false, noise: true },
                count: 2,
                candidates: Candidates::All,
                rows: Some(vec![1, 3]),
                ..SparseOptions::default()
            }),
            layers: LayerOptions {
                architecture: Architecture::Convolution,
                layers: 3,
                width: None,
                prior_mean: PriorMean::Identity,
                hidden: CrossOptions { rank: 7, tolerance: 0.01, repivot: false }.into(),
                length: Some(0.7),
                u_min: Some(0.1),
                u_max: Some(3.0),
            },
            em: EmOptions {
                iterations: 4,
                particles: 6,
                // Rows that are given are kept.
                exchanges: 0,
                hyperparameters: false,
                sampler: SamplerOptions::Hmc(HmcOptions { transitions: 5, leapfrog: 2 }),
                final_transitions: Some(8),
                draws: 2,
            },
        };
        assert_eq!(options(written), Some(expected));
    }
}
