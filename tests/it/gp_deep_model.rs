//! Deep fits and models to the bit: threads, checkpoints, stored parts, rows alone and in company; damaged parts.

use crate::gp_deep_start::{Listener, quick_exact, quick_sparse};
use crate::naive::deep::{FULL, SPARSE, aca, hmc, pcn};
use crate::naive::{normal_matrix, regression, with_threads};
use ndarray::{Array1, Array2, s};
use proptest::prelude::*;
use std::collections::BTreeSet;
use stride_pipe::gp::deep::{
    Architecture, Checkpoint, DeepGp, DeepOptions, DeepParts, EmOptions, HiddenOptions, LayerOptions, PriorMean,
    SamplerOptions, Start, fit,
};
use stride_pipe::gp::kernel::Kernel;
use stride_pipe::gp::observer::{Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;

const ACA: HiddenOptions = aca(6, 1e-9);
const PCN: SamplerOptions = pcn(60);
const HMC: SamplerOptions = hmc(4, 3);

fn options(
    exact: bool,
    architecture: Architecture,
    layers: u32,
    (hidden, prior_mean): (HiddenOptions, PriorMean),
    (sampler, final_transitions): (SamplerOptions, u32),
) -> DeepOptions {
    let kernel = if layers == 2 { Kernel::Rbf } else { Kernel::Matern32 };
    let start = if exact { Start::Exact(quick_exact(kernel)) } else { Start::Sparse(quick_sparse(kernel, 7)) };
    DeepOptions {
        start,
        layers: LayerOptions { architecture, layers, prior_mean, hidden, ..LayerOptions::default() },
        em: EmOptions {
            iterations: Some(3),
            particles: 3,
            exchanges: 2,
            sampler,
            final_transitions: Some(final_transitions),
            ..EmOptions::default()
        },
    }
}

// So many states of a frozen chain of this length.
fn keeping(mut options: DeepOptions, final_transitions: u32, draws: u32) -> DeepOptions {
    (options.em.final_transitions, options.em.draws) = (Some(final_transitions), Some(draws));
    options
}

/// One of each kind, and every sampler.
fn several() -> Vec<DeepOptions> {
    use Architecture::{Composition, Convolution, Injective};
    use PriorMean::{Identity, Zero};
    vec![
        keeping(options(false, Composition, 2, (ACA, Zero), (HMC, 9)), 9, 4),
        options(false, Composition, 3, (SPARSE, Identity), (PCN, 30)),
        options(false, Convolution, 2, (SPARSE, Zero), (HMC, 0)),
        options(false, Convolution, 3, (ACA, Identity), (PCN, 0)),
        options(false, Injective, 3, (FULL, Zero), (HMC, 8)),
        options(true, Composition, 3, (FULL, Identity), (HMC, 8)),
        options(true, Injective, 2, (ACA, Zero), (PCN, 20)),
    ]
}

fn data(options: &DeepOptions, n: usize) -> (Array2<f64>, Array1<f64>) {
    regression(51, n, if options.layers.architecture == Architecture::Injective { 1 } else { 2 }, 0.3)
}

fn run(options: &DeepOptions, n: usize, resume: Option<Checkpoint>) -> (DeepGp, Listener) {
    let (x, y) = data(options, n);
    let mut listener = Listener::default();
    let gp = fit(x.view(), y.view(), options, &StreamKey::new(8), resume, &mut listener).unwrap();
    (gp, listener)
}

// Equal to the bit; NaN equals itself.
fn same_traces(a: &[TracePoint], b: &[TracePoint]) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

#[test]
fn the_same_bits_with_any_number_of_threads() {
    for mut options in several() {
        // More rows than two tiles hold, where that does not take long.
        let n = if matches!(options.start, Start::Exact(_)) || options.layers.hidden == FULL { 70 } else { 1100 };
        options.em.iterations = Some(2);
        if options.em.sampler == PCN {
            options.em.sampler = pcn(10);
        }
        let (one, traces) = with_threads(1, || run(&options, n, None));
        for threads in [2, 3] {
            let (other, again) = with_threads(threads, || run(&options, n, None));
            assert_eq!(one.parts(), other.parts(), "{threads} threads, {options:?}");
            assert!(same_traces(&traces.traces, &again.traces));
            assert_eq!(traces.checkpoints, again.checkpoints);
        }
    }
}

#[test]
fn a_mixture_of_draws_is_that_of_the_models_along_the_frozen_chain() {
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
    for options in several().into_iter().filter(|options| options.em.frozen_moves() >= 3) {
        let (x, _) = regression(52, 20, data(&options, 40).0.ncols(), 0.3);
        let with =
            |final_transitions: u32, draws: u32| run(&keeping(options.clone(), final_transitions, draws), 40, None).0;
        let third = options.em.frozen_moves() / 3;
        let mixture = with(3 * third, 3);
        let ends = [1, 2, 3].map(|parts| with(parts * third, 1).predict(x.view(), true).unwrap());
        let ends = ends.map(|end| (end.mean, end.latent_variance.unwrap()));
        let predicted = mixture.predict(x.view(), true).unwrap();
        let (mean, variance) = (predicted.mean, predicted.latent_variance.unwrap());
        for row in 0..x.nrows() {
            let of_ends = |value: &dyn Fn(usize) -> f64| (0..3).map(value).sum::<f64>() / 3.0;
            let expected = of_ends(&|i| ends[i].0[row]);
            // Every end is a mixture over the chains itself: the variances of variances add up.
            let spread = of_ends(&|i| ends[i].1[row] + (ends[i].0[row] - expected).powi(2));
            assert!(close(mean[row], expected), "mean {} and {expected}, {options:?}", mean[row]);
            assert!(close(variance[row], spread), "variance {} and {spread}, {options:?}", variance[row]);
        }
        let other = with(3 * third, 1);
        assert_eq!(mixture.parts().diagnostics, other.parts().diagnostics);
        assert_ne!(mixture.parts().numbers, other.parts().numbers);
    }
}

/// A long frozen chain is reported in rounds of several moves; no state that is asked for falls between them.
#[test]
fn a_long_frozen_chain_keeps_all_draws() {
    let options = options(false, Architecture::Composition, 2, (SPARSE, PriorMean::Zero), (PCN, 0));
    for (final_transitions, draws) in [(1001, 1000), (1500, 7), (2400, 1100)] {
        let mut options = keeping(options.clone(), final_transitions, draws);
        (options.em.iterations, options.em.particles) = (Some(0), 2);
        let gp = run(&options, 12, None).0;
        let state = |name: &String| name.split_once('.').map(|(state, _)| state.to_owned());
        let states: BTreeSet<String> = gp.parts().numbers.keys().filter_map(state).collect();
        assert_eq!(states.len(), 2 * draws as usize, "{final_transitions} moves");
    }
}

#[test]
fn the_frozen_chain_is_as_long_as_the_draws_need() {
    for (final_transitions, draws) in [(4, 5), (0, 2)] {
        let [short, enough] = [final_transitions, draws].map(|moves| keeping(several().remove(0), moves, draws));
        assert_eq!(run(&short, 40, None).0.parts(), run(&enough, 40, None).0.parts());
    }
    let (x, y) = regression(51, 40, 2, 0.3);
    let none = keeping(several().remove(0), 4, 0);
    let fitted = fit(x.view(), y.view(), &none, &StreamKey::new(8), None, &mut Listener::default());
    assert!(fitted.map(|_| ()).unwrap_err().to_string().contains("no state of the chains is kept"));
}

#[test]
fn a_fit_goes_on_from_every_checkpoint() {
    for options in several() {
        let (whole, said) = run(&options, 40, None);
        assert_eq!(said.checkpoints.len(), 3);
        for (number, state) in said.checkpoints.iter().enumerate() {
            assert_eq!(state.iteration, number + 1);
            assert_eq!(state.particles.len(), 3);
            let (resumed, later) = run(&options, 40, Some(state.clone()));
            assert_eq!(resumed.parts(), whole.parts(), "from {number}, {options:?}");
            assert!(same_traces(&later.traces, &said.traces[said.marks[number]..]), "from {number}, {options:?}");
            assert_eq!(later.checkpoints, said.checkpoints[number + 1..]);
        }
    }
}

#[test]
fn checkpoints_of_another_fit_are_refused() {
    let options = &several()[0];
    let (_, said) = run(options, 40, None);
    let (x, y) = data(options, 40);
    let good = &said.checkpoints[0];
    let mut fewer = good.clone();
    fewer.particles.pop();
    let mut sampler = good.clone();
    sampler.particles[0].sampler.pop();
    let mut narrow = good.clone();
    narrow.particles[1].xi[0] = narrow.particles[1].xi[0].slice(s![1.., ..]).to_owned();
    let mut layers = good.clone();
    layers.particles[2].xi.clear();
    let mut pivots = good.clone();
    pivots.pivots[0] = 40;
    let mut inducing = good.clone();
    inducing.inducing[0] = 4000;
    let mut lengths = good.clone();
    lengths.hyper.lengths.clear();
    for (number, bad) in [fewer, sampler, narrow, layers, pivots, inducing, lengths].into_iter().enumerate() {
        let refused = fit(x.view(), y.view(), options, &StreamKey::new(8), Some(bad), &mut Silent);
        assert!(refused.is_err(), "{number}");
    }
}

#[test]
fn stored_parts_and_single_rows_predict_the_same_bits() {
    for options in several() {
        let (gp, _) = run(&options, 40, None);
        let d = data(&options, 1).0.ncols();
        let stars = normal_matrix(61, 230, d) * 1.5;
        let all = gp.predict(stars.view(), true).unwrap();
        let variances = all.latent_variance.clone().unwrap();
        assert!(variances.iter().all(|v| *v >= 0.0));
        let again = DeepGp::from_parts(gp.parts().clone()).unwrap().predict(stars.view(), true).unwrap();
        assert_eq!((&again.mean, again.latent_variance.as_ref()), (&all.mean, Some(&variances)));
        for row in [0, 1, 47, 95, 96, 200, 229] {
            let one = gp.predict(stars.slice(s![row..=row, ..]), true).unwrap();
            assert_eq!(one.mean[0], all.mean[row], "row {row} alone, {options:?}");
            assert_eq!(one.latent_variance.unwrap()[0], variances[row], "row {row} alone, {options:?}");
            let some = gp.predict(stars.slice(s![row / 2..=row, ..]), true).unwrap();
            assert_eq!(some.mean[row - row / 2], all.mean[row], "row {row} among some, {options:?}");
            assert_eq!(some.latent_variance.unwrap()[row - row / 2], variances[row]);
        }
        let turned = stars.slice(s![..;-1, ..]);
        let backwards = gp.predict(turned, false).unwrap();
        assert!((0..230).all(|i| backwards.mean[229 - i] == all.mean[i]));
        assert!(gp.predict(normal_matrix(1, 3, d + 1).view(), true).is_err());
        assert_eq!(gp.predict(stars.slice(s![..0, ..]), true).unwrap().mean.len(), 0);
    }
}

#[test]
fn a_row_that_is_no_number_spoils_only_itself() {
    for options in several() {
        let (gp, _) = run(&options, 40, None);
        let d = data(&options, 1).0.ncols();
        let mut stars = normal_matrix(62, 5, d);
        let good = gp.predict(stars.view(), true).unwrap();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            stars[[2, 0]] = bad;
            let found = gp.predict(stars.view(), true).unwrap();
            for row in [0, 1, 3, 4] {
                assert_eq!(found.mean[row], good.mean[row]);
            }
            if bad.is_nan() {
                assert!(found.mean[2].is_nan() && found.latent_variance.unwrap()[2].is_nan(), "{options:?}");
            }
        }
    }
}

#[test]
fn the_model_does_not_grow_with_the_rows() {
    let size = |parts: &DeepParts| parts.numbers.values().map(Array2::len).sum::<usize>() + parts.inducing.len();
    for hidden in [ACA, SPARSE] {
        for (architecture, layers) in [(Architecture::Composition, 3), (Architecture::Convolution, 2)] {
            let mut options = options(false, architecture, layers, (hidden, PriorMean::Zero), (HMC, 2));
            options.em.iterations = Some(1);
            let [small, large] = [60, 240].map(|n| run(&options, n, None).0);
            assert_eq!(size(small.parts()), size(large.parts()), "{architecture:?} {hidden:?}");
            let shapes = |gp: &DeepGp| -> Vec<(String, (usize, usize))> {
                gp.parts().numbers.iter().map(|(name, value)| (name.clone(), value.dim())).collect()
            };
            assert_eq!(shapes(&small), shapes(&large));
        }
    }
}

// ---- damage ----

#[derive(Debug, Clone)]
enum Damage {
    Missing,
    Row,
    Column,
    Transposed,
    Empty,
    Number(f64),
}

fn damaged(value: &Array2<f64>, how: &Damage, place: usize) -> Option<Array2<f64>> {
    let (rows, columns) = value.dim();
    match how {
        Damage::Missing => None,
        Damage::Row => Some(Array2::from_shape_fn((rows + 1, columns), |(i, j)| value[[i % rows, j]])),
        Damage::Column => Some(Array2::from_shape_fn((rows, columns + 1), |(i, j)| value[[i, j % columns]])),
        Damage::Transposed => Some(value.t().to_owned()),
        Damage::Empty => Some(Array2::zeros((0, columns))),
        Damage::Number(bad) => {
            let mut spoiled = value.clone();
            let place = place % spoiled.len();
            spoiled.as_slice_mut().unwrap()[place] = *bad;
            Some(spoiled)
        }
    }
}

// Maps of lower layers are kept for those who want to look at them; no prediction needs them.
fn is_needed(parts: &DeepParts, name: &str) -> bool {
    let layers = parts.numbers["design"][[0, 0]] as usize;
    !name.contains(".u.") || name.ends_with(&format!(".u.{}", layers - 1))
}

fn models() -> Vec<DeepParts> {
    let quick = |mut options: DeepOptions| {
        (options.em.iterations, options.em.particles, options.em.final_transitions, options.em.draws) =
            (Some(1), 3, Some(0), Some(1));
        run(&options, 30, None).0.parts().clone()
    };
    several().into_iter().map(quick).collect()
}

#[test]
fn any_missing_or_misshapen_part_is_an_error() {
    for parts in models() {
        let names: Vec<String> = parts.numbers.keys().cloned().collect();
        for name in names.iter().filter(|name| is_needed(&parts, name)) {
            for how in [Damage::Missing, Damage::Row, Damage::Column, Damage::Transposed, Damage::Empty] {
                let mut bad = parts.clone();
                let old = bad.numbers.remove(name).unwrap();
                if let Some(new) = damaged(&old, &how, 0) {
                    if new.dim() == old.dim() {
                        continue;
                    }
                    bad.numbers.insert(name.clone(), new);
                }
                assert!(DeepGp::from_parts(bad).is_err(), "{name} {how:?} {:?}", parts.words);
            }
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for name in &names {
                let mut bad = parts.clone();
                let spoiled = damaged(&parts.numbers[name], &Damage::Number(number), 1).unwrap();
                bad.numbers.insert(name.clone(), spoiled);
                assert!(DeepGp::from_parts(bad).is_err(), "{name} {number}");
            }
        }
        let mapped = parts.numbers.contains_key("knots");
        for word in
            ["architecture", "prior_mean", "top", "hidden"].into_iter().filter(|word| !mapped || *word != "hidden")
        {
            let mut bad = parts.clone();
            bad.words.remove(word);
            assert!(DeepGp::from_parts(bad.clone()).is_err(), "{word}");
            bad.words.insert(word.into(), "other".into());
            assert!(DeepGp::from_parts(bad).is_err(), "{word}");
        }
        for index in 0..3 {
            // All of one particle: the first (and with it all), one in the middle.
            let mut bad = parts.clone();
            bad.numbers.retain(|name, _| !name.starts_with(&format!("p{index:04}.")));
            assert_eq!(DeepGp::from_parts(bad).is_err(), index < 2, "particle {index}");
        }
        let mut bad = parts.clone();
        bad.numbers.retain(|name, _| !name.starts_with("p0"));
        assert!(DeepGp::from_parts(bad).is_err(), "no particles");
        for (variance, length, noise) in [(0.0, 1.0, 0.1), (1.0, -1.0, 0.1), (1.0, 1.0, f64::NAN)] {
            let mut bad = parts.clone();
            bad.hyper = stride_pipe::gp::kernel::Hyper::isotropic(variance, length, noise);
            assert!(DeepGp::from_parts(bad).is_err());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]
    #[test]
    fn no_number_makes_it_panic(seed: u64) {
        // Any single number replaced by any other: an error, or a model that predicts something.
        let stars = [normal_matrix(5, 3, 1), normal_matrix(5, 3, 2)];
        let mut rng = crate::naive::generator(seed);
        for parts in models() {
            let d = parts.numbers["x_centre"].ncols();
            for name in parts.numbers.keys() {
                let place = stride_pipe::gp::random::below(&mut rng, 1 << 20);
                for bad in [0.0, -1.0, 0.5, 1e300, -1e300, 1e-300] {
                    let mut changed = parts.clone();
                    let new = damaged(&parts.numbers[name], &Damage::Number(bad), place).unwrap();
                    changed.numbers.insert(name.clone(), new);
                    if let Ok(gp) = DeepGp::from_parts(changed) {
                        drop(gp.predict(stars[d - 1].view(), true));
                    }
                }
            }
        }
    }
}

/// Layer by layer from the parts of the model, with plain loops.
#[test]
fn hidden_layers_agree_with_their_definition() {
    let kind = options(false, Architecture::Composition, 3, (ACA, PriorMean::Zero), (HMC, 4));
    let (gp, _) = run(&kind, 40, None);
    let parts = gp.parts();
    let x_new = normal_matrix(9, 11, 2);
    let found = gp.hidden_layers(x_new.view()).unwrap();
    assert_eq!(found.iter().map(|layer| layer.layer).collect::<Vec<_>>(), [0, 1]);
    let length = parts.numbers["design"][[0, 1]];
    let covariance = |a: ndarray::ArrayView1<'_, f64>, b: ndarray::ArrayView1<'_, f64>| {
        let s = 3.0_f64.sqrt() * a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / length;
        (1.0 + s) * (-s).exp()
    };
    let mut sums = vec![(Array2::<f64>::zeros((11, 2)), Array2::<f64>::zeros((11, 2))); 2];
    for particle in 0..3 {
        let mut values = x_new.clone();
        for (level, (sum, squares)) in sums.iter_mut().enumerate() {
            let weights = &parts.numbers[&format!("p{particle:04}.weights.{level}")];
            let anchors = if level == 0 {
                &parts.numbers["anchors"]
            } else {
                &parts.numbers[&format!("p{particle:04}.below.{level}")]
            };
            values = Array2::from_shape_fn((11, 2), |(i, c)| {
                (0..anchors.nrows()).map(|a| covariance(values.row(i), anchors.row(a)) * weights[[a, c]]).sum()
            });
            *sum += &values;
            *squares += &(&values * &values);
        }
    }
    for (layer, (sum, squares)) in found.iter().zip(&sums) {
        for (index, mean) in layer.mean.indexed_iter() {
            let expected = sum[index] / 3.0;
            let spread = (squares[index] / 3.0 - expected * expected).max(0.0).sqrt();
            assert!((mean - expected).abs() < 1e-9 && (layer.spread[index] - spread).abs() < 1e-6, "{index:?}");
        }
    }
    // Injective layers are increasing maps of the feature.
    let kind = options(false, Architecture::Injective, 3, (FULL, PriorMean::Zero), (HMC, 0));
    let (gp, _) = run(&kind, 40, None);
    let line = Array2::from_shape_fn((50, 1), |(i, _)| i as f64 / 25.0 - 1.0);
    let layers = gp.hidden_layers(line.view()).unwrap();
    assert_eq!(layers.len(), 2);
    assert!(layers.iter().all(|layer| layer.mean.column(0).windows(2).into_iter().all(|pair| pair[0] < pair[1])));
    // One interpolation stands for both layers.
    let (gp, _) = run(&options(false, Architecture::Composition, 3, (SPARSE, PriorMean::Zero), (HMC, 0)), 40, None);
    let layers = gp.hidden_layers(x_new.view()).unwrap();
    assert_eq!(layers.iter().map(|layer| layer.layer).collect::<Vec<_>>(), [1]);
}
