//! Trained deep models: their tensors, figures and warnings.

use super::tensors::{Tensors, count, counts, integers, matrix, one, optional, rows, scalar, shape};
use crate::gp::deep::{DeepGp, DeepParts, Diagnostics};
use crate::gp::kernel::{Hyper, Kernel};
use crate::plan::{EmStep, SamplerStep};
use crate::store::{ModelFile, Tensor};
use ndarray::Array1;
use std::collections::BTreeMap;

/// The model's own numbers have this before their names.
const OWN: &str = "deep.";

/// The numbers that a model file has to hold, beside the hyper-parameters.
pub fn tensors(gp: &DeepGp, source_rows: &[i64]) -> Tensors {
    let DeepParts { inducing, numbers, bound, log_likelihood, diagnostics, .. } = gp.parts();
    let Diagnostics { rhat, ess, acceptance, draws, jitter } = diagnostics;
    let mut tensors = Tensors::from([
        ("inducing.rows".to_owned(), Tensor::from(Array1::from(source_rows.to_vec()))),
        ("inducing.positions".to_owned(), integers(inducing.iter().copied())),
        ("log_likelihood".to_owned(), scalar(*log_likelihood)),
        ("diagnostics.draws".to_owned(), integers([*draws])),
        ("diagnostics.jitter".to_owned(), scalar(*jitter)),
    ]);
    let optional = [
        ("bound", bound),
        ("diagnostics.rhat", rhat),
        ("diagnostics.ess", ess),
        ("diagnostics.acceptance", acceptance),
    ];
    let known = |(name, value): (&str, &Option<f64>)| value.map(|value| (name.to_owned(), scalar(value)));
    tensors.extend(optional.into_iter().filter_map(known));
    tensors.extend(numbers.iter().map(|(name, values)| (format!("{OWN}{name}"), Tensor::from(values.clone()))));
    tensors
}

/// The words that a model file has to hold.
pub fn words(gp: &DeepGp) -> BTreeMap<String, String> {
    gp.parts().words.clone()
}

/// The model in a file and its inducing points as rows of the source, or what is wrong with the file.
pub fn from_file(file: &ModelFile, kernel: Kernel, hyper: Hyper) -> Result<(DeepGp, Vec<i64>), String> {
    let tensors = &file.tensors;
    if file.meta.words.is_empty() {
        return Err("its description has no `words`".to_owned());
    }
    let (source_rows, inducing) = (rows(tensors, "inducing.rows")?, counts(tensors, "inducing.positions")?);
    if source_rows.len() != inducing.len() {
        return Err(shape("inducing.rows"));
    }
    let own = |name: &String| Some((name.strip_prefix(OWN)?.to_owned(), matrix(tensors, name)));
    let numbers = tensors.keys().filter_map(own).map(|(name, values)| values.map(|values| (name, values)));
    let parts = DeepParts {
        kernel,
        hyper,
        inducing,
        words: file.meta.words.clone(),
        numbers: numbers.collect::<Result<_, String>>()?,
        bound: optional(tensors, "bound")?,
        log_likelihood: one(tensors, "log_likelihood")?,
        diagnostics: Diagnostics {
            rhat: optional(tensors, "diagnostics.rhat")?,
            ess: optional(tensors, "diagnostics.ess")?,
            acceptance: optional(tensors, "diagnostics.acceptance")?,
            draws: count(tensors, "diagnostics.draws")?,
            jitter: one(tensors, "diagnostics.jitter")?,
        },
    };
    let gp = DeepGp::from_parts(parts).map_err(|error| error.to_string())?;
    Ok((gp, source_rows))
}

/// What the chains say about themselves, as metrics.
pub fn chain_metrics(gp: &DeepGp) -> Vec<(&'static str, Option<f64>)> {
    let Diagnostics { rhat, ess, acceptance, .. } = gp.parts().diagnostics;
    vec![("rhat_log_likelihood", rhat), ("ess_log_likelihood", ess), ("acceptance", acceptance)]
}

/// What the fit ended at, by name.
pub fn figures(gp: &DeepGp) -> BTreeMap<String, Option<f64>> {
    let DeepParts { bound, log_likelihood, .. } = gp.parts();
    let mut figures = vec![("log_likelihood", Some(*log_likelihood))];
    figures.extend(bound.map(|bound| ("bound", Some(bound))));
    figures.extend(chain_metrics(gp));
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Chains that agree have an R̂ below this.
const RHAT: f64 = 1.05;
/// Fewer independent draws than this say little, where there could have been several times as many.
const ESS: f64 = 100.0;
const DRAWS_FOR_ESS: usize = 400;
/// Jitter relative to the kernel variance, unless it had to grow.
const JITTER: f64 = 1e-8;

/// What the user should know about how the chains did, and what to do about it.
pub fn warnings(diagnostics: &Diagnostics, em: &EmStep) -> Vec<String> {
    let mut warnings = Vec::new();
    let all_draws = diagnostics.draws * em.particles as usize;
    if let Some(rhat) = diagnostics.rhat.filter(|rhat| *rhat > RHAT || rhat.is_nan()) {
        let other = match em.sampler {
            SamplerStep::Hmc { .. } => "more `transitions` of the sampler",
            SamplerStep::Pcn { .. } => "the sampler `hmc`",
        };
        warnings.push(format!(
            "the chains have not mixed (R̂ = {rhat:.2}, {RHAT} at most is good): raise `em.iterations` or \
             `em.final_transitions`, or use {other}"
        ));
    }
    if let Some(ess) = diagnostics.ess.filter(|ess| *ess < ESS && all_draws >= DRAWS_FOR_ESS) {
        let other = match em.sampler {
            SamplerStep::Hmc { .. } => "`leapfrog` of the sampler",
            SamplerStep::Pcn { .. } => "use the sampler `hmc`",
        };
        warnings.push(format!(
            "{all_draws} draws are worth about {ess:.0} independent ones (ESS): raise `em.final_transitions`, or {other}"
        ));
    }
    warnings.extend(diagnostics.acceptance.and_then(|acceptance| acceptance_warning(acceptance, em.sampler)));
    // The last factor leaves room for rounding.
    if diagnostics.jitter > JITTER * (1.0 + 1e-9) {
        warnings.push(format!(
            "jitter had to grow to {:.1e} of the kernel variance: rows may be nearly equal, or lengths too long: give a \
             larger `noise`, a shorter `deep.length`, or another kernel (matern32)",
            diagnostics.jitter
        ));
    }
    warnings
}

/// A sampler that nearly always, or hardly ever, moves explores slowly.
fn acceptance_warning(acceptance: f64, sampler: SamplerStep) -> Option<String> {
    let (low, high) = match sampler {
        SamplerStep::Hmc { .. } => (0.5, 0.98),
        SamplerStep::Pcn { .. } => (0.1, 0.6),
    };
    let (problem, advice) = if acceptance < low {
        ("too long", "raise `em.iterations`, which gives the step size time to adapt")
    } else if acceptance > high {
        match sampler {
            SamplerStep::Hmc { .. } => ("too short", "raise `em.iterations` so that they adapt, or `leapfrog`"),
            SamplerStep::Pcn { .. } => ("too short", "raise `em.iterations` so that they adapt, or use `hmc`"),
        }
    } else {
        return None;
    };
    Some(format!(
        "the sampler accepts {:.0} % of its proposals ({:.0} to {:.0} % are good): its steps are {problem}; {advice}",
        100.0 * acceptance,
        100.0 * low,
        100.0 * high
    ))
}
