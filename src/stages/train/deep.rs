//! Trained deep models: their tensors, figures and warnings.

use super::local;
use super::tensors::{count, counts, integers, matrix, one, optional, rows, scalar, shape};
use crate::gp::deep::{ChainDiagnostics, DeepGp, DeepParts, EmOptions, SamplerMethod, Until};
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::sparse::JITTER;
use crate::store::{ModelFile, Tensor, Tensors};
use crate::tables::TraceRow;
use ndarray::Array1;
use std::collections::BTreeMap;

/// The model's own numbers have this before their names.
const OWN: &str = "deep.";

/// The numbers that a model file has to hold, beside the hyper-parameters.
pub fn tensors(parts: &DeepParts, source_rows: &[i64]) -> Tensors {
    let DeepParts { inducing, numbers, bound, log_likelihood, diagnostics, .. } = parts;
    let ChainDiagnostics { rhat, ess, rhat_predictions, ess_predictions, acceptance, draws, jitter } = diagnostics;
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
        ("diagnostics.rhat_predictions", rhat_predictions),
        ("diagnostics.ess_predictions", ess_predictions),
        ("diagnostics.acceptance", acceptance),
    ];
    let known = |(name, value): (&str, &Option<f64>)| value.map(|value| (name.to_owned(), scalar(value)));
    tensors.extend(optional.into_iter().filter_map(known));
    tensors.extend(numbers.iter().map(|(name, values)| (format!("{OWN}{name}"), Tensor::from(values.clone()))));
    tensors
}

/// The model in a file and its inducing points as rows of the source, or what is wrong with the file.
pub fn from_file(file: &ModelFile, kernel: Kernel, hyper: Hyper) -> Result<(DeepGp, Vec<i64>), String> {
    let (parts, source_rows) = parts(file, kernel, hyper)?;
    let gp = DeepGp::from_parts(parts).map_err(|error| error.to_string())?;
    Ok((gp, source_rows))
}

fn parts(file: &ModelFile, kernel: Kernel, hyper: Hyper) -> Result<(DeepParts, Vec<i64>), String> {
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
        diagnostics: ChainDiagnostics {
            rhat: optional(tensors, "diagnostics.rhat")?,
            ess: optional(tensors, "diagnostics.ess")?,
            rhat_predictions: optional(tensors, "diagnostics.rhat_predictions")?,
            ess_predictions: optional(tensors, "diagnostics.ess_predictions")?,
            acceptance: optional(tensors, "diagnostics.acceptance")?,
            draws: count(tensors, "diagnostics.draws")?,
            jitter: one(tensors, "diagnostics.jitter")?,
        },
        local: local::from_file(file)?,
    };
    Ok((parts, source_rows))
}

/// What the chains say about themselves, as metrics.
pub fn chain_metrics(gp: &DeepGp) -> Vec<(&'static str, Option<f64>)> {
    let ChainDiagnostics { rhat, ess, rhat_predictions, ess_predictions, acceptance, .. } = gp.parts().diagnostics;
    vec![
        ("rhat_log_likelihood", rhat),
        ("ess_log_likelihood", ess),
        ("rhat_predictions", rhat_predictions),
        ("ess_predictions", ess_predictions),
        ("acceptance", acceptance),
    ]
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

/// What the user should know of M steps that could not be made; from the phases of the traces.
pub fn skipped_warning<'a>(phases: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    phases.filter_map(|phase| phase.strip_suffix(".skipped")).for_each(|part| *counts.entry(part).or_default() += 1);
    if counts.is_empty() {
        return None;
    }
    let parts: Vec<String> = counts.iter().map(|(part, count)| format!("{part} {count} time(s)")).collect();
    Some(format!(
        "parts of M steps were skipped because a covariance could not be factored ({}): give a larger `noise`, or another \
         kernel (matern32)",
        parts.join(", ")
    ))
}

/// What the user should know about how the chains did, and what to do about it.
pub fn warnings(diagnostics: &ChainDiagnostics, em: &EmOptions) -> Vec<String> {
    let (advice, mut warnings) = (em.sampler.method().advice(), Vec::new());
    let all_draws = diagnostics.draws * em.particles as usize;
    // The worse of the two; NaN is worst.
    let rhat = match (diagnostics.rhat, diagnostics.rhat_predictions) {
        (Some(rhat), Some(of_predictions)) if of_predictions > rhat => Some(of_predictions),
        (rhat, of_predictions) => rhat.or(of_predictions),
    };
    if let Some(rhat) = rhat.filter(|rhat| *rhat > RHAT || rhat.is_nan()) {
        warnings.push(format!(
            "the chains have not mixed (R̂ = {rhat:.2}, {RHAT} at most is good): raise `em.iterations` or \
             `em.final_transitions`, or use {}",
            advice.to_mix
        ));
    }
    let ess = diagnostics.ess.into_iter().chain(diagnostics.ess_predictions).reduce(f64::min);
    if let Some(ess) = ess.filter(|ess| *ess < ESS && all_draws >= DRAWS_FOR_ESS) {
        warnings.push(format!(
            "{all_draws} draws are worth about {ess:.0} independent ones (ESS): raise `em.final_transitions`, or {}",
            advice.for_more_draws
        ));
    }
    warnings.extend(em.until.and_then(|until| until_warning(diagnostics, until, em)));
    warnings.extend(diagnostics.acceptance.and_then(|acceptance| acceptance_warning(acceptance, em.sampler.method())));
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

/// What chains were to reach, and have not.
fn until_warning(diagnostics: &ChainDiagnostics, until: Until, em: &EmOptions) -> Option<String> {
    let ChainDiagnostics { rhat, ess, rhat_predictions, ess_predictions, .. } = *diagnostics;
    let rhat = rhat.into_iter().chain(rhat_predictions).fold(f64::NAN, f64::max);
    let ess = ess.into_iter().chain(ess_predictions).fold(f64::NAN, f64::min);
    if rhat <= until.rhat && ess >= until.ess {
        return None;
    }
    let why = if em.time_budget.is_some() { "raise `em.time_budget`" } else { "raise `em.final_transitions`" };
    let Until { rhat: least, ess: most } = until;
    Some(format!("`em.until` was not met (R̂ = {rhat:.2} for {least}, ESS = {ess:.0} for {most}): {why}"))
}

/// How far training came where it was to end by itself; from the traces.
pub fn ended(em: &EmOptions, traces: &[TraceRow]) -> String {
    if em.until.is_none() && em.time_budget.is_none() {
        return String::new();
    }
    let last = |phase: &str, of: fn(&TraceRow) -> i32| traces.iter().filter(|row| row.phase == phase).map(of).max();
    let iterations = last("e_step", |row| row.iteration).unwrap_or(0);
    let moves = last("final", |row| row.step).unwrap_or(0);
    format!(", {iterations} of {} EM iterations, {moves} final {}", em.iterations(), em.sampler.method().unit())
}

/// A sampler that nearly always, or hardly ever, moves explores slowly.
fn acceptance_warning(acceptance: f64, sampler: &dyn SamplerMethod) -> Option<String> {
    let (low, high) = sampler.good_acceptance();
    let advice = if acceptance < low {
        "too long; raise `em.iterations`, which gives the step size time to adapt".to_owned()
    } else if acceptance > high {
        format!(
            "short; raise `em.iterations` if `step_size` in the traces is below {}, its largest; otherwise nothing is wrong",
            sampler.advice().largest_step
        )
    } else {
        return None;
    };
    Some(format!(
        "the sampler accepts {:.0} % of its proposals ({:.0} to {:.0} % are good): its steps are {advice}",
        100.0 * acceptance,
        100.0 * low,
        100.0 * high
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::deep::{HmcOptions, PcnOptions, SamplerOptions};

    fn parts_of_a_model() -> DeepParts {
        let numbers =
            [("hidden.0", ndarray::array![[f64::NAN, -0.0], [5e-324, 1.0 / 3.0]]), ("row", ndarray::array![[7.0]])];
        DeepParts {
            kernel: Kernel::Matern52,
            hyper: Hyper { variance: 0.1 + 0.2, lengths: vec![2.0], noise: 1e-300 },
            inducing: vec![4, 0],
            words: BTreeMap::from([("architecture".to_owned(), "größer, \"kühner\"".to_owned())]),
            numbers: numbers.into_iter().map(|(name, values)| (name.to_owned(), values)).collect(),
            bound: Some(-0.0),
            log_likelihood: -1.0 / 3.0,
            diagnostics: good(),
            local: None,
        }
    }

    fn file(parts: &DeepParts) -> ModelFile {
        let meta = serde_json::json!({
            "format_version": 1, "method": "stride", "kernel": "rbf", "feature_names": [],
            "feature_scaling": { "centre": [], "scale": [] }, "target_scaling": { "mean": 0.0, "std": 1.0 },
            "training": { "rows": 5, "inputs": [], "seed": 1, "case": "default", "fold": 0, "run_id": "", "version": "",
                "created": "2026-11-16T00:00:00.000000Z" },
            "hyperparameters": {}, "metrics": {}, "feature_ranges": [], "options": null, "words": parts.words,
        });
        let meta = serde_json::from_value(meta).unwrap_or_else(|error| unreachable!("{error}"));
        let model = ModelFile { meta, tensors: tensors(parts, &[40, 2]) };
        let path = std::path::Path::new("m");
        let bytes = model.to_bytes(path).unwrap_or_else(|error| unreachable!("{error}"));
        ModelFile::from_bytes(&bytes, path).unwrap_or_else(|error| unreachable!("{error}"))
    }

    #[test]
    fn a_model_comes_back_to_the_bit() -> Result<(), String> {
        for (bound, rhat) in [(Some(-0.0), Some(1.5)), (None, None)] {
            let mut written = parts_of_a_model();
            (written.bound, written.diagnostics.rhat) = (bound, rhat);
            let (mut back, source_rows) = parts(&file(&written), written.kernel, written.hyper.clone())?;
            assert_eq!(source_rows, [40, 2]);
            // By bits, which tell NaN and the sign of zero.
            assert_eq!(tensors(&back, &source_rows), tensors(&written, &source_rows));
            back.numbers.clone_from(&written.numbers);
            written.numbers.clear();
            back.numbers.clear();
            assert_eq!(back, written);
        }
        Ok(())
    }

    #[test]
    fn what_is_missing_is_named() {
        let whole = file(&parts_of_a_model());
        let read = |file: &ModelFile| parts(file, Kernel::Rbf, Hyper::isotropic(1.0, 1.0, 1.0));
        let optional = [
            "bound",
            "diagnostics.rhat",
            "diagnostics.ess",
            "diagnostics.rhat_predictions",
            "diagnostics.ess_predictions",
            "diagnostics.acceptance",
        ];
        for name in whole.tensors.keys().filter(|name| !name.starts_with(OWN)) {
            let mut without = whole.clone();
            without.tensors.remove(name);
            assert!(
                optional.contains(&name.as_str()) || read(&without).is_err_and(|error| error.contains(name)),
                "{name}"
            );
        }
        for name in whole.tensors.keys() {
            let mut other = whole.clone();
            other.tensors.insert(name.clone(), Tensor::F64(ndarray::ArrayD::zeros(ndarray::IxDyn(&[1, 2, 3]))));
            assert!(read(&other).is_err_and(|error| error.contains(name)), "{name}");
        }
        let mut fewer = whole.clone();
        fewer.tensors.insert("inducing.rows".to_owned(), Tensor::from(ndarray::array![1_i64]));
        assert!(read(&fewer).is_err_and(|error| error.contains("inducing.rows")));
        let mut silent = whole;
        silent.meta.words.clear();
        assert!(read(&silent).is_err_and(|error| error.contains("words")));
    }

    const HMC: SamplerOptions =
        SamplerOptions::Hmc(HmcOptions { transitions: 12, leapfrog: 8, final_leapfrog: None, acceptance: 0.8 });
    const PCN: SamplerOptions = SamplerOptions::Pcn(PcnOptions { steps: 400 });

    fn said(diagnostics: &ChainDiagnostics, sampler: SamplerOptions) -> Vec<String> {
        warnings(diagnostics, &EmOptions { sampler, ..EmOptions::default() })
    }

    fn good() -> ChainDiagnostics {
        ChainDiagnostics {
            rhat: Some(1.01),
            ess: Some(300.0),
            rhat_predictions: Some(1.02),
            ess_predictions: Some(250.0),
            acceptance: Some(0.55),
            draws: 50,
            jitter: 1e-8,
        }
    }

    #[test]
    fn good_chains_are_not_warned_of() {
        assert!(said(&good(), HMC).is_empty() && said(&good(), PCN).is_empty());
        // Without a frozen phase nothing is known, which is what was asked for.
        let unknown = ChainDiagnostics {
            rhat: None,
            ess: None,
            rhat_predictions: None,
            ess_predictions: None,
            acceptance: None,
            draws: 0,
            jitter: 1e-8,
        };
        assert!(said(&unknown, PCN).is_empty());
        let few = ChainDiagnostics { ess: Some(60.0), draws: 8, ..good() };
        assert!(said(&few, HMC).is_empty(), "80 draws cannot be worth 100");
    }

    #[test]
    fn skipped_parts_of_m_steps_are_counted() {
        assert_eq!(skipped_warning(["e_step", "hyper", "exchange"].into_iter()), None);
        let said = skipped_warning(["hyper.skipped", "exchange.skipped", "hyper", "hyper.skipped"].into_iter());
        assert_eq!(
            said.as_deref(),
            Some(
                "parts of M steps were skipped because a covariance could not be factored (exchange 1 time(s), hyper 2 \
                 time(s)): give a larger `noise`, or another kernel (matern32)"
            )
        );
    }

    #[test]
    fn warnings_say_what_to_do() {
        let bad =
            ChainDiagnostics { rhat: Some(1.234), ess: Some(37.4), acceptance: Some(0.991), jitter: 1e-6, ..good() };
        let jitter = "jitter had to grow to 1.0e-6 of the kernel variance: rows may be nearly equal, or lengths too long: \
            give a larger `noise`, a shorter `deep.length`, or another kernel (matern32)";
        let hmc = [
            "the chains have not mixed (R̂ = 1.23, 1.05 at most is good): raise `em.iterations` or \
             `em.final_transitions`, or use more `transitions` of the sampler",
            "500 draws are worth about 37 independent ones (ESS): raise `em.final_transitions`, or `leapfrog` of the \
             sampler",
            "the sampler accepts 99 % of its proposals (50 to 98 % are good): its steps are short; raise \
             `em.iterations` if `step_size` in the traces is below π/2 divided by `leapfrog`, its largest; otherwise \
             nothing is wrong",
            jitter,
        ];
        assert_eq!(said(&bad, HMC), hmc);
        let slow = ChainDiagnostics { acceptance: Some(0.03), ..bad };
        let pcn = [
            "the chains have not mixed (R̂ = 1.23, 1.05 at most is good): raise `em.iterations` or \
             `em.final_transitions`, or use the sampler `hmc`",
            "500 draws are worth about 37 independent ones (ESS): raise `em.final_transitions`, or use the sampler `hmc`",
            "the sampler accepts 3 % of its proposals (10 to 60 % are good): its steps are too long; raise \
             `em.iterations`, which gives the step size time to adapt",
            jitter,
        ];
        assert_eq!(said(&slow, PCN), pcn);
        let unsteady = ChainDiagnostics { rhat_predictions: Some(1.3), ess_predictions: Some(20.0), ..good() };
        let [mixed, worth] = &said(&unsteady, HMC)[..] else { unreachable!("two warnings") };
        assert!(mixed.contains("R̂ = 1.30, 1.05") && worth.contains("about 20"), "{mixed} {worth}");
        let until = EmOptions { until: Some(Until::default()), ..EmOptions::default() };
        assert!(warnings(&good(), &until).is_empty());
        let more = EmOptions { until: Some(Until { rhat: 1.05, ess: 400.0 }), ..EmOptions::default() };
        let [missed] = &warnings(&good(), &more)[..] else { unreachable!("one warning") };
        assert!(missed.contains("ESS = 250 for 400"), "{missed}");
        assert_eq!(said(&ChainDiagnostics { acceptance: Some(0.7), ..good() }, HMC).len(), 0);
        assert_eq!(said(&ChainDiagnostics { acceptance: Some(0.7), ..good() }, PCN).len(), 1);
    }
}
