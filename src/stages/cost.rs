//! About how much processor time work takes: a simple model, so that a plan can say "about 25 min" and a bar moves evenly.
//!
//! Every figure is in seconds of one core. They were fitted to `cpu_s` in the `timings` of trainings on 2 cores of a small server
//! (exact processes of 400 to 1,600 rows with 4 and 16 features, deep ones of 277 rows), and are good to a factor of two or
//! three: how many steps a search takes, and how fast a machine is, is not known before. A run corrects them by how fast
//! it goes.

use super::train::{CALIBRATION_FOLDS, Calibrate, Method, Train};
use crate::gp::deep::{Architecture, SamplerOptions};

/// A multiplication and an addition within a product of large matrices.
const MULTIPLY: f64 = 4e-11;
/// A covariance of two rows, and the same for each feature.
const COVARIANCE: f64 = 2e-9;
const PER_FEATURE: f64 = 3e-10;
/// A number that is read, checked, scaled or written.
const NUMBER: f64 = 2e-8;
/// Whatever else a piece of work does.
const PIECE: f64 = 0.02;

/// Evaluations of the likelihood on all rows, and per length when every feature has its own.
const EXACT_EVALUATIONS: f64 = 25.0;
const EXACT_PER_LENGTH: f64 = 30.0;
/// The derivative of a covariance by a length.
const DERIVATIVE: f64 = 1e-9;
/// The search from several starts on a subset of so many rows, for each length.
const STARTS: f64 = 0.25;
const SUBSET: f64 = 300.0;
/// Rows from which relevance is known, at most.
const RELEVANCE_ROWS: f64 = 1000.0;
/// The same for inducing points.
const SPARSE_EVALUATIONS: f64 = 60.0;
const SPARSE_PER_LENGTH: f64 = 6.0;
/// Choosing an inducing point, for each candidate row and point.
const GAIN: f64 = 4e-9;
/// The share of a fit that is left after a start from an earlier model.
pub const STARTED: f64 = 0.3;
/// The local layer: how often the likelihood of all neighbourhoods is evaluated.
const LOCAL_EVALUATIONS: f64 = 60.0;
/// What a gradient of a deep density costs, in passes over the rows.
const DEEP_PASSES: f64 = 9.0;
/// Batches of frozen chains that are made until they have mixed, where nobody knows how many.
const BATCHES: f64 = 5.0;
/// Gradients of the climb before the sampling, where it is not asked for, with a top layer of neighbours.
const CLIMB: f64 = 100.0;

/// Rows and features that a piece of work is about.
pub type WorkSize = (f64, f64);

/// Work that only passes over its rows.
pub fn passing((rows, features): WorkSize) -> f64 {
    PIECE + NUMBER * rows * (features + 2.0)
}

/// Training on so many rows, those of the models that calibrate it included.
pub fn training(train: &Train, (rows, features): WorkSize) -> f64 {
    let others = if train.calibrate == Calibrate::OutOfFold { CALIBRATION_FOLDS } else { 0 };
    let part = rows * (1.0 - 1.0 / CALIBRATION_FOLDS as f64);
    let whole = fitting(train, (rows, features)) + others as f64 * fitting(train, (part, features));
    // A budget is time on the clock, of all processors.
    let most = train.em.time_budget.filter(|_| train.method.is_deep());
    let most = most.map(|budget| (1 + others) as f64 * budget.seconds() * processors());
    most.map_or(whole, |most| whole.min(most))
}

/// Fitting a model to so many rows.
fn fitting(train: &Train, size: WorkSize) -> f64 {
    let (rows, features) = size;
    let lengths = if train.ard { features } else { 1.0 };
    let points = train.inducing.rows.as_ref().map_or(f64::from(train.inducing.count), |rows| rows.len() as f64);
    let points = points.min(rows);
    let pair = COVARIANCE + PER_FEATURE * features;
    let starts = |lengths: f64| STARTS * lengths * (rows / SUBSET).min(1.0).powi(2);
    let exact = |lengths: f64| {
        starts(lengths) + (EXACT_EVALUATIONS + EXACT_PER_LENGTH * (lengths - 1.0)) * dense(rows, pair, lengths)
    };
    let sparse = |lengths: f64| {
        let pass = rows * points * (MULTIPLY * points + pair + PER_FEATURE * (lengths - 1.0));
        starts(lengths)
            + GAIN * rows.min(1000.0) * points * points
            + (SPARSE_EVALUATIONS + SPARSE_PER_LENGTH * (lengths - 1.0)) * pass
    };
    let local = || train.local().map_or(0.0, |local| neighbourhoods(rows, features, f64::from(local.neighbours)));
    // Relevance comes from an exact model of some rows.
    let relevance = if train.ard && train.method.is_deep() {
        let some = rows.min(RELEVANCE_ROWS);
        let evaluations = EXACT_EVALUATIONS + EXACT_PER_LENGTH * (features - 1.0);
        STARTS * features * (some / SUBSET).min(1.0).powi(2) + evaluations * dense(some, pair, features)
    } else {
        0.0
    };
    // Layers share one length.
    let lengths = if train.method.is_deep() { 1.0 } else { lengths };
    passing(size)
        + relevance
        + match train.method {
            Method::Mean => 0.0,
            Method::Ridge => MULTIPLY * rows * features * features,
            Method::Knn => PER_FEATURE * rows * rows.min(10_000.0) * features,
            Method::Gp => exact(lengths),
            Method::SparseGp => sparse(lengths) + local(),
            Method::DeepGp => exact(lengths) + gradients(train) * dense(rows, pair, 1.0),
            Method::Stride => {
                let top =
                    train.top.map(|top| neighbourhoods(rows, features, f64::from(top.neighbours)) / LOCAL_EVALUATIONS);
                let pass = rows * points * (MULTIPLY * points + pair);
                let hidden = rows * points * width(train, features) * MULTIPLY;
                sparse(1.0) + local() + gradients(train) * (DEEP_PASSES * (top.unwrap_or(pass) + hidden))
            }
        }
}

/// Predicting so many rows with a model that was trained on `trained` rows.
pub fn predicting(train: &Train, trained: f64, (rows, features): WorkSize) -> f64 {
    let pair = COVARIANCE + PER_FEATURE * features;
    let points = f64::from(train.inducing.count).min(trained);
    let local = train.local().map_or(0.0, |local| neighbourhoods(rows, features, f64::from(local.neighbours)) / 10.0);
    let components = f64::from(train.em.particles) * f64::from(train.em.draws());
    let each = match train.method {
        Method::Mean | Method::Ridge => 0.0,
        Method::Knn => PER_FEATURE * trained.min(10_000.0) * features,
        Method::Gp => trained * (MULTIPLY * trained + pair),
        Method::SparseGp => points * (2.0 * MULTIPLY * points + pair),
        Method::DeepGp => components * trained * (MULTIPLY * trained + pair),
        Method::Stride => components * points * (4.0 * MULTIPLY * points + 2.0 * pair),
    };
    // An exact model is factored again when it is read.
    let factor = if train.method == Method::Gp { MULTIPLY * trained.powi(3) / 3.0 } else { 0.0 };
    passing((rows, features)) + factor + rows * each + local
}

fn processors() -> f64 {
    std::thread::available_parallelism().map_or(1.0, |count| usize::from(count) as f64)
}

/// One likelihood with its gradient from the covariance of all rows: factor, inverse, derivatives.
fn dense(rows: f64, pair: f64, lengths: f64) -> f64 {
    MULTIPLY * rows.powi(3) + rows * rows * (pair + DERIVATIVE * (lengths - 1.0))
}

fn neighbourhoods(rows: f64, features: f64, neighbours: f64) -> f64 {
    LOCAL_EVALUATIONS * rows * neighbours * neighbours * (4.0 * MULTIPLY * neighbours / 3.0 + PER_FEATURE * features)
}

/// Gradients of the density of hidden layers in a whole fit.
fn gradients(train: &Train) -> f64 {
    let em = &train.em;
    let batches = if em.until.is_some() { BATCHES } else { 1.0 };
    let frozen = batches * f64::from(em.frozen_moves());
    let moves = f64::from(em.iterations()) * f64::from(em.sampler.method().moves()) + frozen;
    let each = match &em.sampler {
        SamplerOptions::Hmc(options) => f64::from(options.leapfrog),
        // A value costs about half of a gradient.
        SamplerOptions::Pcn(_) => 0.5,
    };
    let climb = em.climb.map_or(if train.top.is_some() { CLIMB } else { 0.0 }, f64::from);
    f64::from(em.particles) * (moves * each + climb)
}

/// Outputs of all hidden layers.
fn width(train: &Train, features: f64) -> f64 {
    let deep = &train.deep;
    let outputs = match deep.architecture {
        Architecture::Composition => deep.width.map_or(features, f64::from),
        Architecture::Convolution | Architecture::Injective => 1.0,
    };
    outputs * f64::from(deep.layers.saturating_sub(1))
}
