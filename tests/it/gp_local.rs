//! The local layer: residuals against refits, predictions against plain loops, the same bits, damaged parts.

use crate::gp_deep_gradient::neighbour_start;
use crate::gp_deep_start::{Listener, quick_sparse};
use crate::naive::deep::{Deep, FULL, aca, hmc, mixture, pcn, submatrix};
use crate::naive::local::{Local, Places, log_density, refits};
use crate::naive::{covariance, generator, kernel, normal_matrix, posterior, regression, relative_error, with_threads};
use ndarray::{Array1, Array2, ArrayView1, Axis, concatenate, s};
use stride_pipe::gp::deep::{
    Architecture, Checkpoint, DeepGp, DeepOptions, EmOptions, HiddenOptions, LayerOptions, PriorMean, SamplerOptions,
    Start, fit,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::neighbours::{LocalFit, LocalKernel, LocalOptions, LocalParts};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::predict::Prediction;
use stride_pipe::gp::random::{StreamKey, below, sample_without_replacement};
use stride_pipe::gp::row_noise::RowNoise;
use stride_pipe::gp::sparse::{JITTER, SparseGp};

const ACA: HiddenOptions = aca(8, 1e-9);
const TEN: LocalOptions =
    LocalOptions { neighbours: 10, kernel: LocalKernel::Auto, rows: None, known_noise: false, states: 1 };

/// Waves that few inducing points cannot follow; standardised.
fn waves(seed: u64, n: usize, d: usize) -> (Array2<f64>, Array1<f64>) {
    let (x, y) = regression(seed, n, d, 0.0);
    let noise = normal_matrix(seed + 7, n, 1);
    let y = Array1::from_shape_fn(n, |i| y[i] + (4.0 * x[[i, 0]]).sin() + 0.1 * noise[[i, 0]]);
    let (mean, std) = (y.mean().unwrap(), y.std(0.0));
    (x, (y - mean) / std)
}

fn local(neighbours: u32, kernel: LocalKernel, rows: Option<u32>) -> LocalOptions {
    LocalOptions { neighbours, kernel, rows, known_noise: false, states: 1 }
}

fn hyper_of(parts: &LocalParts, particle: usize) -> Hyper {
    let row = parts.hyper.row(particle);
    Hyper::isotropic(row[0], row[1], row[2])
}

fn check_prediction(found: &Prediction, (mean, variance): &(Vec<f64>, Vec<f64>), noise: f64, label: &str) {
    let error = relative_error(&found.mean, mean);
    assert!(error < 1e-6, "{label}: mean {error:e}");
    for (found, expected) in found.latent_variance.as_ref().unwrap().iter().zip(variance) {
        assert!((found - expected).abs() < 1e-6 * (expected + noise), "{label}: {found} for {expected}");
    }
}

// ---- above a sparse Gaussian process ----

#[test]
fn above_a_sparse_process_it_is_that_of_the_definition() {
    const N: usize = 40;
    let rows = [3, 11, 0, 27, 39, 18];
    let (x, y) = waves(31, N, 2);
    let targets = y.as_slice().unwrap();
    let stars = concatenate(Axis(0), &[(normal_matrix(32, 20, 2) * 1.5).view(), x.slice(s![..5, ..])]).unwrap();
    let weights = Array1::from_shape_fn(N, |row| [1.0, 2.0, 0.4][row % 3]);
    let known = Array1::from_shape_fn(N, |row| [0.0, 0.3, 0.02, 0.1][row % 4]);
    let noises =
        [RowNoise::default(), RowNoise::new(Some(weights.clone()), None), RowNoise::new(Some(weights), Some(known))];
    for (kernel, noise) in
        [Kernel::Rbf, Kernel::Matern32].into_iter().flat_map(|kernel| noises.each_ref().map(|noise| (kernel, noise)))
    {
        for lengths in [vec![1.1], vec![0.8, 1.7]] {
            for (own, kept) in
                [(LocalKernel::Given(Kernel::Rbf), None), (LocalKernel::Auto, None), (LocalKernel::Auto, Some(33))]
            {
                let label = format!("{kernel} {lengths:?} {own:?} {kept:?} {noise:?}");
                let hyper = Hyper { variance: 1.4, lengths: lengths.clone(), noise: 0.2 };
                let data = (x.view(), y.view(), noise);
                let global = SparseGp::condition_with(data, kernel, &hyper, &rows, JITTER).unwrap();
                let options = local(7, own, kept);
                let (gp, quality) =
                    global.with_local_from(data, &options, None, &StreamKey::new(1), &mut Silent).unwrap();
                assert!(quality.is_better(), "{label}: {quality:?}");
                let parts = gp.parts().local.as_ref().unwrap();
                let kept: Vec<usize> =
                    parts.x.outer_iter().map(|row| x.outer_iter().position(|other| other == row).unwrap()).collect();
                assert_eq!((kept.len(), parts.neighbours), (options.rows.unwrap_or(N as u32) as usize, 7));

                let z = x.select(Axis(0), &rows);
                let mut k_mm = covariance(kernel, &hyper, z.view(), z.view());
                k_mm.diag_mut().iter_mut().for_each(|v| *v += JITTER * hyper.variance);
                let k_mn = covariance(kernel, &hyper, z.view(), x.view());
                let own_noise = |row: usize| noise.variance(row, hyper.noise);
                let left_out = refits((&k_mm, &k_mn), targets, (hyper.variance, &own_noise));
                let residuals: Vec<f64> = kept.iter().map(|row| left_out[*row].0).collect();
                let error = relative_error(&parts.residuals, &residuals);
                assert!(error < 1e-8, "{label}: residuals {error:e}");
                let without = kept.iter().map(|row| log_density(left_out[*row].0, left_out[*row].1));
                let without = without.sum::<f64>() / kept.len() as f64;
                assert!((quality.without - without).abs() < 1e-8, "{label}: {} for {without}", quality.without);

                let scaled = |x: &Array2<f64>| {
                    x / &ArrayView1::from(&if lengths.len() == 1 { vec![lengths[0]; 2] } else { lengths.clone() })
                };
                let places = Places::stationary(scaled(&parts.x));
                let (kernel_of, noise_of) = (parts.kernel, noise.select(&kept));
                let layer = Local {
                    kernel: kernel_of,
                    hyper: hyper_of(parts, 0),
                    places: &places,
                    y: &residuals,
                    noise: noise_of,
                };
                let with = layer.leave_one_out(7);
                assert!((quality.with - with).abs() < 1e-7, "{label}: {} for {with}", quality.with);
                assert_eq!(gp.noise(), layer.hyper.noise);

                let means = global_means(kernel, &hyper, (&z, &k_mm, &k_mn), (targets, &own_noise), &stars);
                let (more, variance): (Vec<f64>, Vec<f64>) =
                    scaled(&stars).outer_iter().map(|star| layer.predict((star, 1.0), 7)).unzip();
                let expected = (means.iter().zip(more).map(|(a, b)| a + b).collect(), variance);
                check_prediction(&gp.predict(stars.view(), true).unwrap(), &expected, gp.noise(), &label);
                let alone = gp.clone().without_local();
                assert_eq!((alone.noise(), alone.parts().local.is_none()), (hyper.noise, true));
                let error = relative_error(&alone.predict(stars.view(), false).unwrap().mean, &means);
                assert!(error < 1e-8, "{label}: without {error:e}");
            }
        }
    }
}

// Regression on inducing points z: K_*m (K_mm + K_mn D⁻¹ K_nm)⁻¹ K_mn D⁻¹ y, with the noise D of the rows.
fn global_means(
    k: Kernel,
    hyper: &Hyper,
    (z, k_mm, k_mn): (&Array2<f64>, &Array2<f64>, &Array2<f64>),
    (y, noise): (&[f64], &dyn Fn(usize) -> f64),
    stars: &Array2<f64>,
) -> Vec<f64> {
    let mut divided = k_mn.clone();
    divided.columns_mut().into_iter().enumerate().for_each(|(row, mut column)| column /= noise(row));
    let lower = crate::naive::cholesky(&(k_mm + &divided.dot(&k_mn.t())));
    let b = divided.dot(&ArrayView1::from(y));
    let right = crate::naive::solve_lower(&lower, b.view());
    let mean = |star: ArrayView1<f64>| {
        let cross = z.outer_iter().map(|z| kernel(k, hyper, z, star)).collect::<Array1<f64>>();
        crate::naive::solve_lower(&lower, cross.view()).dot(&right)
    };
    stars.outer_iter().map(mean).collect()
}

// ---- above a mixture, and as its top layer ----

fn options(
    start: Start,
    architecture: Architecture,
    layers: u32,
    hidden: HiddenOptions,
    sampler: SamplerOptions,
) -> DeepOptions {
    let prior_mean = if layers == 2 { PriorMean::Identity } else { PriorMean::Zero };
    DeepOptions {
        start,
        layers: LayerOptions { architecture, layers, prior_mean, hidden, ..LayerOptions::default() },
        em: EmOptions {
            iterations: Some(2),
            particles: 2,
            exchanges: 1,
            sampler,
            // The chains end where the last checkpoint found them.
            final_transitions: Some(0),
            climb: Some(25),
            ..EmOptions::default()
        },
    }
}

fn data(options: &DeepOptions, n: usize) -> (Array2<f64>, Array1<f64>) {
    waves(41, n, if options.layers.architecture == Architecture::Injective { 1 } else { 2 })
}

fn run(options: &DeepOptions, n: usize, resume: Option<Checkpoint>) -> (DeepGp, Listener) {
    let (x, y) = data(options, n);
    let mut listener = Listener::default();
    let gp = fit(x.view(), y.view(), options, &StreamKey::new(9), resume, &mut listener).unwrap();
    (gp, listener)
}

fn stars(options: &DeepOptions) -> Array2<f64> {
    normal_matrix(42, 24, data(options, 1).0.ncols()) * 1.4
}

#[test]
fn above_a_mixture_it_is_that_of_the_definition() {
    const N: usize = 50;
    for (architecture, layers, hidden, own) in [
        (Architecture::Composition, 2, ACA, LocalKernel::Auto),
        (Architecture::Composition, 3, FULL, LocalKernel::Given(Kernel::Matern52)),
        (Architecture::Convolution, 2, ACA, LocalKernel::Auto),
        (Architecture::Injective, 3, ACA, LocalKernel::Given(Kernel::Matern32)),
    ] {
        let label = format!("{architecture:?} {hidden:?} {layers} layers");
        // Full layers are interpolated at new rows, with jitter, and training rows are new ones to a model.
        let tolerance = if hidden == FULL { 1e-5 } else { 1e-6 };
        let options =
            options(Start::Sparse(quick_sparse(Kernel::Matern32, 5)), architecture, layers, hidden, hmc(3, 3));
        let ((x, y), stars) = (data(&options, N), stars(&options));
        let (global, said) = run(&options, N, None);
        let state = said.checkpoints.last().unwrap();
        let (gp, quality) = global
            .clone()
            .with_local(x.view(), y.view(), &local(6, own, None), &StreamKey::new(2), &mut Silent)
            .unwrap();
        assert!(quality.is_better(), "{label}: {quality:?}");
        let parts = gp.parts().local.as_ref().unwrap();
        let deep = Deep::of(&options, &x, state);
        let (targets, top) = (y.as_slice().unwrap(), &state.hyper);
        let (every, mut all, mut with, mut without) = ((0..N).collect::<Vec<_>>(), Vec::new(), 0.0, 0.0);
        for (number, particle) in state.particles.iter().enumerate() {
            let layers = deep.layers(&particle.xi);
            let k = deep.top(&layers, top);
            let mut k_mm = submatrix(&k, &state.inducing, &state.inducing);
            k_mm.diag_mut().iter_mut().for_each(|v| *v += state.jitter * top.variance);
            let k_mn = submatrix(&k, &state.inducing, &every);
            let left_out = refits((&k_mm, &k_mn), targets, (top.variance, &|_| top.noise));
            let residuals: Vec<f64> = left_out.iter().map(|(residual, _)| *residual).collect();
            let error = relative_error(parts.residuals.row(number), &residuals);
            assert!(error < tolerance, "{label}: residuals {error:e}");
            without += left_out.iter().map(|(residual, variance)| log_density(*residual, *variance)).sum::<f64>();

            let places = Places::of(&deep, &x, &deep.inputs_at(&layers, &x));
            let hyper = hyper_of(parts, number);
            let layer =
                Local { kernel: parts.kernel, hyper, places: &places, y: &residuals, noise: RowNoise::default() };
            with += layer.leave_one_out(6);
            let cross = deep.top_cross(&layers, &stars, top);
            let inducing = Some((&state.inducing[..], state.jitter * top.variance));
            let (mean, _) = crate::naive::deep::posterior((&k, &cross), &y, inducing, (top.variance, top.noise));
            let at = Places::of(&deep, &stars, &deep.inputs_at(&layers, &stars));
            let found = (0..stars.nrows()).map(|star| layer.predict(at.at(star), 6));
            all.push(found.zip(mean).map(|((more, variance), mean)| (mean + more, variance)).unzip());
        }
        let (with, without) = (with / 2.0, without / (2 * N) as f64);
        assert!((quality.with - with).abs() < tolerance, "{label}: {} for {with}", quality.with);
        assert!((quality.without - without).abs() < tolerance, "{label}: {} for {without}", quality.without);
        check_prediction(&gp.predict(stars.view(), true).unwrap(), &mixture(&all), gp.noise(), &label);
        let alone = gp.without_local().predict(stars.view(), true).unwrap();
        let before = global.predict(stars.view(), true).unwrap();
        assert_eq!((alone.mean, alone.latent_variance), (before.mean, before.latent_variance));
    }
}

#[test]
fn as_a_top_layer_it_is_that_of_the_definition() {
    const N: usize = 45;
    for architecture in Architecture::ALL {
        for (layers, hidden, count) in [(2, ACA, 8), (3, FULL, 8), (2, ACA, N as u32), (2, FULL, 200)] {
            let label = format!("{architecture:?} {hidden:?} {layers} layers, {count} neighbours");
            let mut start = neighbour_start(Kernel::Matern52, 5);
            if let Start::Neighbours(start) = &mut start {
                start.predictions.neighbours = count;
                start.top.kernel = LocalKernel::Given(Kernel::Matern32);
            }
            let options = options(start, architecture, layers, hidden, hmc(3, 3));
            let ((x, y), stars) = (data(&options, N), stars(&options));
            let (gp, said) = run(&options, N, None);
            let state = said.checkpoints.last().unwrap();
            let parts = gp.parts().local.as_ref().unwrap();
            assert!(parts.residuals.outer_iter().all(|row| row == y));
            // A tenth of the rows was not there in training, and fits what is expected of neighbours.
            let mut stream = StreamKey::new(9).with("neighbours.held out").generator();
            let held_out = sample_without_replacement(&mut stream, N, N / 10);
            let seen: Vec<usize> = (0..N).filter(|row| !held_out.contains(row)).collect();
            let deep = Deep::of(&options, &x.select(Axis(0), &seen), state);
            let mut all: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
            for (number, particle) in state.particles.iter().enumerate() {
                let own = hyper_of(parts, number);
                let layers = deep.layers(&particle.xi);
                let places = Places::of(&deep, &x, &deep.inputs_at(&layers, &x));
                let at = Places::of(&deep, &stars, &deep.inputs_at(&layers, &stars));
                let layer = Local {
                    kernel: Kernel::Matern32,
                    hyper: own.clone(),
                    places: &places,
                    y: y.as_slice().unwrap(),
                    noise: RowNoise::default(),
                };
                all.push((0..stars.nrows()).map(|star| layer.predict(at.at(star), count as usize)).unzip());
                if count as usize >= N && architecture != Architecture::Convolution {
                    // The exact posterior at the warped rows.
                    let (points, hyper) = (places.points.view(), &own);
                    let exact =
                        at.points.outer_iter().map(|star| posterior(Kernel::Matern32, hyper, points, y.view(), star));
                    let (mean, _): (Vec<f64>, Vec<f64>) = exact.unzip();
                    // The layer has a jitter, which counts for more the less noise there is: that depends on the chain.
                    let (error, jitter) =
                        (relative_error(&mean, &all[all.len() - 1].0), N as f64 * JITTER * own.variance);
                    assert!(error < 1e-5 + jitter / own.noise, "{label}: {error:e}, {own:?}");
                }
            }
            assert_ne!(all[0], all[1], "{label}: particles differ");
            check_prediction(&gp.predict(stars.view(), true).unwrap(), &mixture(&all), gp.noise(), &label);
        }
    }
}

/// One particle: what the model says of its own hidden layers, and the exact posterior above them.
#[test]
fn with_all_rows_as_neighbours_it_is_the_exact_posterior_on_warped_rows() {
    let mut options = options(neighbour_start(Kernel::Rbf, 50), Architecture::Composition, 3, ACA, pcn(20));
    options.em.particles = 1;
    let ((x, y), stars) = (data(&options, 50), stars(&options));
    let (gp, _) = run(&options, 50, None);
    let warped = |x: &Array2<f64>| gp.hidden_layers(x.view()).unwrap().pop().unwrap().mean;
    let (rows, at, hyper) = (warped(&x), warped(&stars), hyper_of(gp.parts().local.as_ref().unwrap(), 0));
    let noise = hyper.noise + JITTER * hyper.variance;
    let exact = Hyper { noise, ..hyper.clone() };
    // The jitter is variance of the prediction, too.
    let predict = |star| posterior(Kernel::Rbf, &exact, rows.view(), y.view(), star);
    let expected = at.outer_iter().map(predict).map(|(mean, left)| (mean, left + JITTER * hyper.variance)).unzip();
    check_prediction(&gp.predict(stars.view(), true).unwrap(), &expected, noise, "exact");
}

// ---- bits ----

// Above inducing points, and as a top layer.
fn several() -> Vec<DeepOptions> {
    use Architecture::{Composition, Convolution, Injective};
    let sparse = || Start::Sparse(quick_sparse(Kernel::Matern32, 5));
    let mut auto = neighbour_start(Kernel::Rbf, 6);
    if let Start::Neighbours(start) = &mut auto {
        start.top.kernel = LocalKernel::Auto;
        start.predictions.rows = Some(30);
    }
    let mut all = vec![
        options(sparse(), Composition, 2, ACA, hmc(3, 3)),
        options(sparse(), Convolution, 2, FULL, pcn(10)),
        options(neighbour_start(Kernel::Matern32, 7), Composition, 3, ACA, hmc(3, 3)),
        options(neighbour_start(Kernel::Matern32, 5), Convolution, 2, FULL, pcn(10)),
        options(auto, Injective, 2, ACA, hmc(2, 3)),
    ];
    (all[2].em.final_transitions, all[2].em.draws) = (Some(6), Some(2));
    all
}

// With its local layer, whatever it is.
fn complete(options: &DeepOptions, n: usize, resume: Option<Checkpoint>) -> (DeepGp, Listener, Option<LocalFit>) {
    let (gp, said) = run(options, n, resume);
    if gp.parts().local.is_some() {
        return (gp, said, None);
    }
    let (x, y) = data(options, n);
    let (gp, quality) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    (gp, said, Some(quality))
}

fn bits(prediction: &Prediction) -> Vec<u64> {
    let variances = prediction.latent_variance.iter().flatten();
    prediction.mean.iter().chain(variances).map(|value| value.to_bits()).collect()
}

#[test]
fn the_same_bits_with_any_number_of_threads() {
    for (number, options) in several().into_iter().enumerate() {
        let work = || {
            let (gp, said, quality) = complete(&options, 280, None);
            let predicted = gp.predict(stars(&options).view(), true).unwrap();
            (gp.parts().clone(), said.checkpoints, quality, bits(&predicted))
        };
        let one = with_threads(1, work);
        assert!(one.0.local.is_some(), "{number}: {:?}", one.2);
        for threads in [2, 3] {
            assert!(one == with_threads(threads, work), "{number}, {threads} threads");
        }
    }
    let (x, y) = waves(33, 700, 3);
    let work = || {
        let hyper = Hyper { variance: 1.2, lengths: vec![1.0, 2.0, 1.5], noise: 0.2 };
        let gp = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &[3, 99, 500, 610], JITTER).unwrap();
        let (gp, quality) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
        let predicted = gp.predict(x.view(), true).unwrap();
        (gp.into_parts(), quality, bits(&predicted))
    };
    let one = with_threads(1, work);
    assert!(one.0.local.is_some());
    assert!([2, 3].into_iter().all(|threads| one == with_threads(threads, work)));
}

// Whole, one by one, in sevens, backwards; and a row that is no number spoils only itself.
fn check_rows(predict: impl Fn(&Array2<f64>) -> Prediction, stars: &Array2<f64>, label: &str) {
    let whole = predict(stars);
    let (mean, variance) = (&whole.mean, whole.latent_variance.as_ref().unwrap());
    assert!(variance.iter().all(|value| *value >= 0.0));
    for size in [1, 7] {
        for first in (0..stars.nrows()).step_by(size) {
            let range = first..(first + size).min(stars.nrows());
            let part = predict(&stars.slice(s![range.clone(), ..]).to_owned());
            assert_eq!(part.mean, mean.slice(s![range.clone()]), "{label}, from {first}");
            assert_eq!(part.latent_variance.unwrap(), variance.slice(s![range]), "{label}, from {first}");
        }
    }
    let backwards = predict(&stars.slice(s![..;-1, ..]).to_owned());
    assert_eq!(backwards.mean.slice(s![..;-1]), mean, "{label}");
    for bad in [f64::NAN, f64::INFINITY] {
        let mut spoiled = stars.clone();
        spoiled[[4, 0]] = bad;
        let found = predict(&spoiled);
        assert!((0..stars.nrows()).all(|row| row == 4 || found.mean[row] == mean[row]), "{label} {bad}");
        assert!(!bad.is_nan() || found.mean[4].is_nan() && found.latent_variance.unwrap()[4].is_nan(), "{label}");
    }
}

#[test]
fn rows_alone_and_stored_parts_predict_the_same_bits() {
    for (number, options) in several().into_iter().enumerate() {
        let (gp, ..) = complete(&options, 50, None);
        let (label, stars) = (format!("model {number}"), normal_matrix(43, 230, data(&options, 1).0.ncols()));
        check_rows(|x| gp.predict(x.view(), true).unwrap(), &stars, &label);
        let again = DeepGp::from_parts(gp.parts().clone()).unwrap();
        let [found, expected] = [&again, &gp].map(|gp| bits(&gp.predict(stars.view(), true).unwrap()));
        assert!(found == expected && again.parts() == gp.parts() && again.noise() == gp.noise(), "{label}");
    }
    let (x, y) = waves(34, 60, 2);
    let hyper = Hyper::isotropic(1.2, 1.3, 0.2);
    let gp = SparseGp::condition(x.view(), y.view(), Kernel::Matern32, &hyper, &[3, 9, 50], JITTER).unwrap();
    let (gp, _) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    assert!(gp.parts().local.is_some());
    let stars = normal_matrix(43, 230, 2);
    check_rows(|x| gp.predict(x.view(), true).unwrap(), &stars, "sparse");
    let again = SparseGp::from_parts(gp.parts().clone()).unwrap();
    assert_eq!(bits(&again.predict(stars.view(), true).unwrap()), bits(&gp.predict(stars.view(), true).unwrap()));
}

#[test]
fn a_fit_goes_on_from_every_checkpoint() {
    for (number, mut options) in several().into_iter().enumerate() {
        options.em.iterations = Some(3);
        let (whole, said, _) = complete(&options, 35, None);
        assert_eq!(said.checkpoints.len(), 3);
        for (iteration, state) in said.checkpoints.iter().enumerate() {
            let (resumed, later, _) = complete(&options, 35, Some(state.clone()));
            assert_eq!(resumed.parts(), whole.parts(), "{number}, from {iteration}");
            assert_eq!(later.checkpoints, said.checkpoints[iteration + 1..]);
            // The kernel of a top layer is chosen again, and says so; from then on they say the same.
            let rest = &said.traces[said.marks[iteration]..];
            let tail = &later.traces[later.traces.len() - rest.len()..];
            assert_eq!(format!("{tail:?}"), format!("{rest:?}"), "{number}, from {iteration}");
        }
    }
}

// ---- what does not fit, and what is too good to be true ----

fn damaged(good: &LocalParts) -> Vec<(&'static str, LocalParts)> {
    let n = good.x.nrows();
    let with = |change: &dyn Fn(&mut LocalParts)| {
        let mut bad = good.clone();
        change(&mut bad);
        bad
    };
    vec![
        ("a row lost", with(&|bad| bad.x = bad.x.slice(s![..n - 1, ..]).to_owned())),
        ("all rows lost", with(&|bad| bad.x = bad.x.slice(s![..0, ..]).to_owned())),
        (
            "all lost",
            with(&|bad| {
                bad.x = bad.x.slice(s![..0, ..]).to_owned();
                bad.residuals = bad.residuals.slice(s![.., ..0]).to_owned();
            }),
        ),
        ("a feature more", with(&|bad| bad.x = Array2::zeros((n, bad.x.ncols() + 1)))),
        ("a residual lost", with(&|bad| bad.residuals = bad.residuals.slice(s![.., 1..]).to_owned())),
        ("residuals of a particle lost", with(&|bad| bad.residuals = bad.residuals.slice(s![1.., ..]).to_owned())),
        ("residuals turned", with(&|bad| bad.residuals = bad.residuals.t().to_owned())),
        ("a particle lost", with(&|bad| bad.hyper = bad.hyper.slice(s![1.., ..]).to_owned())),
        ("a number lost", with(&|bad| bad.hyper = bad.hyper.slice(s![.., ..2]).to_owned())),
        ("NaN in a row", with(&|bad| bad.x[[n / 2, 0]] = f64::NAN)),
        ("infinite residual", with(&|bad| bad.residuals[[0, n - 1]] = f64::INFINITY)),
        ("NaN as residual", with(&|bad| bad.residuals[[0, 0]] = f64::NAN)),
        ("no variance", with(&|bad| bad.hyper[[0, 0]] = 0.0)),
        ("negative length", with(&|bad| bad.hyper[[0, 1]] = -1.0)),
        ("negative noise", with(&|bad| bad.hyper[[0, 2]] = -1e-9)),
        ("NaN as noise", with(&|bad| bad.hyper[[0, 2]] = f64::NAN)),
    ]
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    for options in several() {
        let (gp, ..) = complete(&options, 50, None);
        for (what, bad) in damaged(gp.parts().local.as_ref().unwrap()) {
            let mut parts = gp.parts().clone();
            parts.local = Some(bad);
            assert!(DeepGp::from_parts(parts).is_err(), "{what}");
        }
    }
    let (x, y) = waves(35, 60, 2);
    let hyper = Hyper::isotropic(1.2, 1.3, 0.2);
    let gp = SparseGp::condition(x.view(), y.view(), Kernel::Matern32, &hyper, &[3, 9, 50], JITTER).unwrap();
    let (gp, _) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    for (what, bad) in damaged(gp.parts().local.as_ref().unwrap()) {
        let mut parts = gp.parts().clone();
        parts.local = Some(bad);
        assert!(SparseGp::from_parts(parts).is_err(), "{what}");
    }
}

/// A model by neighbours alone knows nothing without them.
#[test]
fn a_top_layer_that_has_lost_its_rows_is_refused() {
    let (gp, ..) = complete(&several()[2], 50, None);
    let mut parts = gp.parts().clone();
    parts.local = None;
    assert!(DeepGp::from_parts(parts).is_err());
}

// The same rows several times, with the same target rounded to a grid: neighbours that know everything.
fn copies() -> (Array2<f64>, Array1<f64>, f64) {
    let (x, y) = waves(36, 40, 2);
    let step = 0.25;
    let y = y.mapv(|v| (v / step).round() * step);
    let mut rng = generator(37);
    let rows: Vec<usize> = (0..160).map(|i| if i < 40 { i } else { below(&mut rng, 40) }).collect();
    (x.select(Axis(0), &rows), y.select(Axis(0), &rows), step * step / 12.0)
}

#[test]
fn copies_of_rows_do_not_promise_more_than_the_grid_of_the_targets() {
    let (x, y, floor) = copies();
    let hyper = Hyper::isotropic(1.0, 1.2, 0.3);
    let gp = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &[0, 7, 13, 22], JITTER).unwrap();
    let (gp, quality) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    let noise = gp.parts().local.as_ref().unwrap().hyper[[0, 2]];
    assert!(noise >= floor * (1.0 - 1e-9), "{noise} for {floor}");
    // A density of a target that is known to a step cannot be better than that of the step.
    assert!(quality.with < -0.5 * (std::f64::consts::TAU * floor).ln(), "{quality:?}");
    let options = options(Start::Sparse(quick_sparse(Kernel::Rbf, 4)), Architecture::Composition, 2, ACA, hmc(2, 2));
    let gp = fit(x.view(), y.view(), &options, &StreamKey::new(1), None, &mut Silent).unwrap();
    let (gp, _) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    let noises = gp.parts().local.as_ref().unwrap().hyper.column(2).to_owned();
    assert!(noises.iter().all(|noise| *noise >= floor * (1.0 - 1e-9)), "{noises} for {floor}");
    // As a top layer, where the bound is a soft one.
    let options = self::options(neighbour_start(Kernel::Matern32, 8), Architecture::Composition, 2, ACA, hmc(2, 2));
    let gp = fit(x.view(), y.view(), &options, &StreamKey::new(1), None, &mut Silent).unwrap();
    assert!(gp.noise() >= 0.5 * floor, "{} for {floor}", gp.noise());
}

// Rows that were recorded twice say nothing of the noise: with them the layer has that of the rows that were recorded once, and a
// copy with another target is not predicted with certainty.
#[test]
fn rows_that_were_recorded_twice_leave_the_noise_as_it_is() {
    let (x, y) = waves(41, 400, 2);
    let y = &y + &(normal_matrix(42, 400, 1).column(0).to_owned() * 0.3);
    let twice: Vec<usize> = (0..400).chain((0..400).step_by(6)).collect();
    let fitted = |rows: &[usize]| {
        let (x, y) = (x.select(Axis(0), rows), y.select(Axis(0), rows));
        let hyper = Hyper::isotropic(1.0, 1.2, 0.3);
        let gp = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &[0, 7, 13, 22], JITTER).unwrap();
        let (gp, quality) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
        assert!(quality.is_better(), "{quality:?}");
        gp
    };
    let (once, both) = (fitted(&(0..400).collect::<Vec<_>>()), fitted(&twice));
    let ratio = both.noise() / once.noise();
    assert!((0.75..1.33).contains(&ratio), "{} for {}", both.noise(), once.noise());
    // Where a row has its copy: two observations of one place know it better than one, and no better than their noise.
    let stars = x.select(Axis(0), &[0, 6, 12]);
    let variances = both.predict(stars.view(), true).unwrap().latent_variance.unwrap();
    assert!(variances.iter().all(|variance| *variance < both.noise()), "{variances:?} {}", both.noise());
}

// Most rows that were recorded twice agree, some do not: a third one may be as far off as they are from each other.
#[test]
fn a_prediction_where_rows_are_is_no_surer_than_copies_agree() {
    let (x, y) = waves(45, 400, 2);
    // Smooth targets without noise: rows apart say that there is next to none.
    let twice: Vec<usize> = (0..400).chain((0..400).step_by(10)).collect();
    let (x, mut y) = (x.select(Axis(0), &twice), y.select(Axis(0), &twice));
    (400..440).step_by(4).for_each(|row| y[row] += 0.8);
    let hyper = Hyper::isotropic(1.0, 1.2, 0.3);
    let global = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &[0, 7, 13, 22], JITTER).unwrap();
    let fitted = |options: &LocalOptions| {
        let (gp, quality) =
            global.clone().with_local(x.view(), y.view(), options, &StreamKey::new(3), &mut Silent).unwrap();
        assert!(quality.is_better(), "{quality:?}");
        gp
    };
    let gp = fitted(&TEN);
    let local = gp.parts().local.as_ref().unwrap();
    // The mean square within the pairs.
    let pairs = (0..40).map(|pair| (local.residuals[[0, 10 * pair]] - local.residuals[[0, 400 + pair]]).powi(2) / 2.0);
    let within = pairs.sum::<f64>() / 40.0;
    let variance = |gp: &SparseGp, row: usize| {
        let stars = x.select(Axis(0), &[row]);
        gp.predict(stars.view(), true).unwrap().latent_variance.unwrap()[0] + gp.noise()
    };
    assert!(within > 2.0 * gp.noise(), "{within} {}", gp.noise());
    for (row, copies) in [(0, 2.0), (390, 2.0), (401, 2.0), (1, 1.0), (399, 1.0)] {
        let (found, least) = (variance(&gp, row), within * (1.0 + 1.0 / copies));
        assert!((found / least - 1.0).abs() < 1e-9, "row {row}: {found} for {least}");
    }
    // What is said of training rows that are left out is no surer.
    let left_out = gp.left_out(x.view(), y.view(), &StreamKey::new(5)).unwrap();
    assert!((left_out.variances[0] / (2.0 * within) - 1.0).abs() < 1e-9 && left_out.variances[1] != 2.0 * within);
    // Noise that is known needs no such evidence.
    let known = fitted(&LocalOptions { known_noise: true, ..TEN });
    assert_eq!(known.parts().local.as_ref().unwrap().training[[0, 2]], 0.0);
}

// In a design with repetitions copies are the rule, and what they differ by is the noise.
#[test]
fn repetitions_of_a_design_know_the_noise() {
    let (places, values) = waves(43, 12, 2);
    let rows: Vec<usize> = (0..240).map(|i| i % 12).collect();
    let noise = normal_matrix(44, 240, 1).column(0).to_owned() * 0.4;
    let (x, y) = (places.select(Axis(0), &rows), values.select(Axis(0), &rows) + &noise);
    let hyper = Hyper::isotropic(1.0, 1.2, 1.0);
    let gp = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, &[0, 5], JITTER).unwrap();
    let (gp, quality) = gp.with_local(x.view(), y.view(), &TEN, &StreamKey::new(3), &mut Silent).unwrap();
    assert!(quality.is_better(), "{quality:?}");
    // The pooled variance within the places, a closed form.
    let within: f64 = (0..12)
        .map(|place| {
            let own: Vec<f64> = (0..240).filter(|i| i % 12 == place).map(|i| y[i]).collect();
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            own.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
        })
        .sum::<f64>()
        / (240.0 - 12.0);
    assert!((gp.noise() / within - 1.0).abs() < 0.2, "{} for {within}", gp.noise());
}

#[test]
fn a_layer_that_makes_nothing_better_is_left_out() {
    let mut refused = 0;
    for seed in 0..3 {
        let x = normal_matrix(seed, 60, 2);
        // Noise alone, or a process that the global model knows exactly.
        let noise = normal_matrix(seed + 50, 60, 1).column(0).to_owned();
        let hyper = Hyper::isotropic(1.0, 1.0, 0.05);
        let mut k = covariance(Kernel::Rbf, &hyper, x.view(), x.view());
        k.diag_mut().iter_mut().for_each(|v| *v += hyper.noise);
        let process = crate::naive::cholesky(&k).dot(&noise);
        let every: Vec<usize> = (0..60).collect();
        for (y, hyper, rows) in
            [(noise, Hyper::isotropic(1e-4, 1.0, 1.0), &[0, 1, 2][..]), (process, hyper.clone(), &every[..])]
        {
            let global = SparseGp::condition(x.view(), y.view(), Kernel::Rbf, &hyper, rows, JITTER).unwrap();
            let before = global.predict(x.view(), true).unwrap();
            let (gp, quality) = global.with_local(x.view(), y.view(), &TEN, &StreamKey::new(4), &mut Silent).unwrap();
            assert!(quality.with.is_finite() && quality.without.is_finite());
            assert_eq!(quality.is_better(), gp.parts().local.is_some(), "{quality:?}");
            if !quality.is_better() {
                refused += 1;
                assert_eq!(bits(&gp.predict(x.view(), true).unwrap()), bits(&before));
                assert_eq!(gp.noise(), hyper.noise);
            }
        }
    }
    assert!(refused > 0, "none of 6");
}
