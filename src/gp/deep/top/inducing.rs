//! The top layer with inducing points: one pass over the rows for ℓ, a second one for its gradient.
//!
//! With β̃ = B⁻¹Vy/γ², the derivatives by the covariances are, in a form that stays accurate where K_mm is
//! ill-conditioned,
//!
//! ```text
//! ∂ℓ/∂K_mn = L⁻ᵀ [β̃ (y − Vᵀβ̃)ᵀ − B⁻¹V]/γ²        ∂ℓ/∂K_mm = ½ L⁻ᵀ (I − B⁻¹ − β̃β̃ᵀ) L⁻¹
//! ```
//!
//! Where a bound is sampled and not ℓ (see `penalty.rs` of sparse regression), V D and −½ L⁻ᵀ V D Vᵀ L⁻¹ are added: with the same
//! weight d for all rows that is γ²dI − B⁻¹ for −B⁻¹ on the left.
//!
//! Where rows differ in their noise, all this is about rows times factors such that they do not; derivatives by K_mn are
//! multiplied by the factors once more.
//!
//! From there they go back to the inputs of the top layer and through the hidden layers, tile by tile. The inducing
//! rows are a tile of their own.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView1, s};

use super::linear_back::LinearBack;
use super::{NamedNumbers, Posterior, RegressionPosterior, TopLayer, as_row};
use crate::gp::GpError;
use crate::gp::deep::hidden::{Adjoints, LayersAtRows, Prepared, back_to_sites};
use crate::gp::deep::m_step::Held;
use crate::gp::deep::model::PartsReader;
use crate::gp::deep::options::{Architecture, EmObjective};
use crate::gp::deep::target::{DensityAt, Target};
use crate::gp::deep::top_rows::{TopInputs, TopRows};
use crate::gp::deep::warped::{Slopes, Warped};
use crate::gp::fit_rows::FitRows;
use crate::gp::hyper::Evaluation;
use crate::gp::kernel::{Covariance, Hyper, multiply_lanes, multiply_rows};
use crate::gp::linalg::panels::Lane;
use crate::gp::linalg::{Cholesky, Side, TILE, Triangle, dot, gemm_nt, solve_triangular, sum_rows, tiles};
use crate::gp::sparse::{
    Level, PassSums, RowTotals, RowWeights, State, Sums, Whitening, factor_at, level_gradient, objective_of,
    objective_with_rows,
};

/// The name in model files.
pub(super) const NAME: &str = "sparse";

#[derive(Debug)]
pub(super) struct InducingTop;

// The top layer on the values of the hidden ones.
struct SolvedTop {
    // Its sparse model.
    state: State<Warped>,
    // The hidden layers at the inducing points.
    at_inducing: LayersAtRows,
    whitening: Whitening,
}

// The sparse model of the top layer.
fn solve(target: &Target<'_>, prepared: &Prepared) -> Result<SolvedTop, GpError> {
    let Target { inducing, inducing_rows: rows, level, .. } = target;
    let penalty = target.objective.penalty();
    let tile = target.forward(prepared, rows, true)?;
    let at_inducing = target.warped(rows, &tile)?;
    let lower = factor_at(&at_inducing, *level)?;
    let (m, whitening) = (inducing.len(), Whitening::choose(lower.lower(), target.rows.all(), level.noise, penalty)?);
    let linear = target.hidden.linear(target.design, target.rows, prepared, target.hyper.lengths[0]);
    let (y, factors) = target.scaled();
    let weights = RowWeights { variance: target.hyper.variance, noise: level.noise, factors };
    let sums = sum_rows(
        target.rows.span(),
        m * m,
        || Sums::zeros(m, penalty),
        |chunk| {
            let mut sums = PassSums::new(m, penalty, weights);
            let mut add_rows = |rows: Range<usize>, v: &mut [Lane]| {
                if let Some(factors) = factors {
                    multiply_lanes(v, &factors[rows.clone()]);
                }
                sums.add(rows.start, v, y.slice(s![rows]));
            };
            match (&linear, &at_inducing) {
                (Some(linear), Warped::Stationary(inducing)) => {
                    inducing.for_panels_from(&mut linear.rows(), chunk, whitening.triangle(), &mut add_rows)?;
                }
                _ => {
                    for range in tiles(chunk) {
                        let rows = target.hidden.range(target.design, target.rows, range.clone());
                        let covariance = target.warped(&rows, &target.forward(prepared, &rows, false)?)?;
                        let first = range.start;
                        let mut add =
                            |rows: Range<usize>, v: &mut [Lane]| add_rows(first + rows.start..first + rows.end, v);
                        covariance.for_panels(0..range.len(), &at_inducing, whitening.triangle(), &mut add)?;
                    }
                }
            }
            Ok(sums.finish())
        },
    )?;
    let sums = whitening.finish(lower.lower(), sums)?;
    let totals = RowTotals::new(target.rows.span(), y, factors)?;
    let state = State::from_sums(inducing, at_inducing, (lower, sums), totals, *level, penalty)?;
    Ok(SolvedTop { state, at_inducing: tile, whitening })
}

impl TopLayer for InducingTop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn has_bound(&self) -> bool {
        true
    }

    fn value(&self, target: &Target<'_>, prepared: &Prepared) -> Result<DensityAt, GpError> {
        solve(target, prepared).map(|top| density(&top.state, target.objective))
    }

    fn value_and_adjoints(&self, target: &Target<'_>, prepared: &Prepared) -> Result<(DensityAt, Adjoints), GpError> {
        let SolvedTop { state, at_inducing, whitening } = solve(target, prepared)?;
        let inverse_b = state.factor_b().inverse()?;
        let mut turned = inverse_b.clone();
        let bounded = !target.objective.samples_likelihood();
        if bounded {
            let share = state.common_share();
            turned.diag_mut().iter_mut().for_each(|value| *value -= share);
        }
        solve_triangular(Side::LeftTransposed, state.lower(), turned.view_mut())?;
        let (y, factors) = target.scaled();
        let weights = state.row_weights(factors).filter(|_| bounded);
        let back = Back { target, prepared, alpha: state.alpha()?, state: &state, inverse_b, turned, bounded, weights };
        let (m, coordinates) = (state.len(), state.inducing().coordinates());
        let zero = || (target.hidden.adjoints(target.design), Array2::zeros((m, coordinates)));
        let size = m * coordinates + zero().0.size();
        let linear = target.hidden.linear(target.design, target.rows, prepared, target.hyper.lengths[0]);
        let (mut adjoints, mut by_inducing) = match (&linear, state.inducing()) {
            (Some(linear), Warped::Stationary(inducing)) => {
                let noise = state.level().noise;
                let (beta, turned) = back.by_rows(&whitening)?;
                let mut linear_back =
                    LinearBack::new(linear, (inducing, whitening.triangle()), noise, (beta, &back.alpha), turned);
                if let Some(weights) = back.weights {
                    let mut inverse = Array2::eye(m);
                    solve_triangular(Side::LeftTransposed, state.lower(), inverse.view_mut())?;
                    linear_back.weigh_rows(weights, inverse.view());
                }
                sum_rows(target.rows.span(), size, zero, |chunk| {
                    let factors = factors.map(|factors| &factors[chunk.clone()]);
                    let part = linear_back.rows(chunk.clone(), y.slice(s![chunk]), factors);
                    Ok((target.hidden.linear_adjoints(target.design, part.weights), part.inducing))
                })?
            }
            _ => sum_rows(target.rows.span(), size, zero, |chunk| back.chunk(chunk))?,
        };
        by_inducing += &back.between_inducing()?;
        let adjoint = target.design.warped_back(at_inducing.inputs.view(), by_inducing, target.hyper.lengths[0]);
        let at = (target.inducing_rows, &at_inducing);
        target.hidden.backward(target.design, prepared, at, adjoint, &mut adjoints)?;
        Ok((density(&state, target.objective), adjoints))
    }

    fn means(&self, target: &Target<'_>, prepared: &Prepared, rows: &[usize]) -> Result<Vec<f64>, GpError> {
        let state = solve(target, prepared)?.state;
        let rows = target.hidden.list(target.design, target.rows, rows)?;
        let covariance = target.warped(&rows, &target.forward(prepared, &rows, false)?)?;
        let mut k = Array2::zeros((covariance.len(), state.len()));
        covariance.tile(0, state.inducing(), k.view_mut())?;
        Ok(k.dot(&state.alpha()?).to_vec())
    }

    fn objective(
        &self,
        held: &Held<'_>,
        particle: usize,
        hyper: &Hyper,
        inducing: &[usize],
    ) -> Result<(Evaluation, f64), GpError> {
        let (design, jitter, inputs) = (held.design, held.jitter, &held.inputs[particle]);
        let level = Level { noise: held.noise.level(hyper.noise), jitter };
        if design.architecture != Architecture::Convolution {
            let own = (held.noise, hyper.noise);
            let found = match inputs {
                TopInputs::Held(inputs) => {
                    let span = held.span.clone();
                    let rows = FitRows { kept: None, x: inputs.view(), y: held.y, noise: held.noise, span };
                    objective_with_rows(&rows, design.kernel, hyper, inducing, jitter, held.penalty)?
                }
                TopInputs::Recomputed(tiles) => {
                    let covariance = TopRows::around_the_mean(tiles, hyper);
                    objective_of((&covariance, held.y), inducing, (level, held.penalty), own)?
                }
            };
            return Ok((found.at, found.log_likelihood));
        }
        let scaled = held.noise.scaled(held.y, hyper.noise);
        let y = scaled.as_ref().map_or(held.y, |scaled| scaled.y.view());
        let covariance = inputs.covariance((design, held.x, &held.span), hyper, scaled.as_ref())?;
        let state = State::with_penalty(&covariance, y, inducing, level, held.penalty)?;
        let (by_variance, by_noise) = level_gradient(&state, (&covariance, y), (held.noise, hyper.noise))?;
        let gradient = vec![by_variance, 0.0, by_noise];
        Ok((Evaluation { value: state.objective(), gradient, jitter: state.jitter() }, state.log_likelihood()))
    }

    fn rows(&self, _: usize, inducing: &[usize]) -> Vec<usize> {
        inducing.to_vec()
    }

    fn numbers(&self, target: &Target<'_>, prepared: &Prepared) -> Result<NamedNumbers, GpError> {
        let state = solve(target, prepared)?.state;
        Ok(vec![
            ("alpha", as_row(&state.alpha()?.to_vec())),
            ("lower", state.lower().to_owned()),
            ("lower_b", state.lower_b().to_owned()),
        ])
    }
}

/// The top layer of one particle in a model; `name` adds the particle to the name of a part.
pub(super) fn restore(
    reader: &PartsReader<'_>,
    name: impl Fn(&str) -> String,
    anchors: Warped,
) -> Result<Box<dyn Posterior>, GpError> {
    let m = anchors.len();
    let alpha: Array1<f64> = reader.matrix(&name("alpha"), Some(1), Some(m))?.into_iter().collect();
    let factor = |what: &str| {
        let lower = reader.matrix(&name(what), Some(m), Some(m))?;
        Triangle::new(Cholesky::from_lower(lower)?.lower())
    };
    let (lower, lower_b) = (factor("lower")?, Some(factor("lower_b")?));
    Ok(Box::new(RegressionPosterior { anchors, alpha, lower, lower_b }))
}

fn density(state: &State<Warped>, objective: EmObjective) -> DensityAt {
    let (log_likelihood, bound) = (state.log_likelihood(), state.objective());
    let sampled = if objective.samples_likelihood() { log_likelihood } else { bound };
    DensityAt { sampled, log_likelihood, bound: Some(bound) }
}

struct Back<'a, 't> {
    target: &'a Target<'t>,
    prepared: &'a Prepared,
    state: &'a State<Warped>,
    // L⁻ᵀ β̃, `[m]`.
    alpha: Array1<f64>,
    // B⁻¹, and L⁻ᵀ B⁻¹ or L⁻ᵀ (B⁻¹ − γ²dI), `[m, m]`.
    inverse_b: Array2<f64>,
    turned: Array2<f64>,
    // Whether a bound is sampled, and how it weighs rows where each has its own weight.
    bounded: bool,
    weights: Option<RowWeights<'t>>,
}

impl Back<'_, '_> {
    // What multiplies a row in ∂ℓ/∂K_mn: β̃ and L⁻ᵀB⁻¹ if it is whitened, L⁻ᵀβ̃ and L⁻ᵀB⁻¹L⁻¹ if it is not.
    fn by_rows(&self, whitening: &Whitening) -> Result<(Array1<f64>, Array2<f64>), GpError> {
        if whitening.triangle().is_some() {
            return Ok((self.state.beta().to_owned(), self.turned.clone()));
        }
        let mut turned = self.turned.clone();
        solve_triangular(Side::Right, self.state.lower(), turned.view_mut())?;
        Ok((self.alpha.clone(), turned))
    }

    // Derivatives of a chunk of rows, and by what the top covariance knows of the inducing points, [m, D].
    fn chunk(&self, chunk: Range<usize>) -> Result<(Adjoints, Array2<f64>), GpError> {
        let Self { target, prepared, state, .. } = *self;
        let (m, inducing) = (state.len(), state.inducing());
        let mut adjoints = target.hidden.adjoints(target.design);
        let mut by_inducing = Array2::zeros((m, inducing.coordinates()));
        let size = (chunk.len().min(TILE), m);
        let (mut whitened, mut adjoint) = (Array2::zeros(size), Array2::zeros(size));
        let mut slopes = Slopes::new(inducing, size.0, size.1);
        let (y, factors) = target.scaled();
        for range in tiles(chunk) {
            let rows = target.hidden.range(target.design, target.rows, range.clone());
            let tile = target.forward(prepared, &rows, true)?;
            let covariance = target.warped(&rows, &tile)?;
            let (mut v, mut by_k) =
                (whitened.slice_mut(s![..range.len(), ..]), adjoint.slice_mut(s![..range.len(), ..]));
            covariance.tile_with_slopes(0, inducing, v.view_mut(), &mut slopes)?;
            solve_triangular(Side::RightTransposed, state.lower(), v.view_mut())?;
            multiply_rows(v.view_mut(), factors, range.start);
            self.by_covariance((range.start, v.view()), y.slice(s![range.clone()]), by_k.view_mut())?;
            multiply_rows(by_k.view_mut(), factors, range.start);
            let mut own = Array2::zeros((range.len(), inducing.coordinates()));
            covariance.pull_back(0, inducing, by_k, &slopes, own.view_mut(), by_inducing.view_mut())?;
            let own = target.design.warped_back(tile.inputs.view(), own, target.hyper.lengths[0]);
            target.hidden.backward(target.design, prepared, (&rows, &tile), own, &mut adjoints)?;
        }
        Ok((adjoints, by_inducing))
    }

    // ∂ℓ/∂K_mn of the rows `first..`, transposed, into out: [b, m], for v: [b, m], y: [b].
    fn by_covariance(
        &self,
        (first, v): (usize, ndarray::ArrayView2<'_, f64>),
        y: ArrayView1<'_, f64>,
        mut out: ndarray::ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        let noise = self.state.level().noise;
        let beta: Array1<f64> = self.state.beta().to_owned();
        let (beta, alpha) = (beta.as_slice().unwrap_or_default(), self.alpha.as_slice().unwrap_or_default());
        for ((mut row, v), y) in out.outer_iter_mut().zip(v.outer_iter()).zip(y) {
            let residual = (y - dot(v.as_slice().unwrap_or_default(), beta)) / noise;
            row.iter_mut().zip(alpha).for_each(|(out, alpha)| *out = residual * alpha);
        }
        gemm_nt(-1.0 / noise, v, self.turned.view(), 1.0, out.view_mut())?;
        if let Some(weights) = self.weights {
            let mut weighed = v.to_owned();
            let rows = weighed.outer_iter_mut().enumerate();
            rows.for_each(|(number, mut row)| row *= weights.of_row(first + number, row.view()).1);
            solve_triangular(Side::Right, self.state.lower(), weighed.view_mut())?;
            out += &weighed;
        }
        Ok(())
    }

    // What the covariances among the inducing points contribute, [m, D].
    fn between_inducing(&self) -> Result<Array2<f64>, GpError> {
        let (m, beta) = (self.state.len(), self.state.beta());
        let mut adjoint = Array2::from_shape_fn((m, m), |(i, j)| {
            let unit = if i == j { 1.0 } else { 0.0 };
            0.5 * (unit - self.inverse_b[[i, j]] - beta[i] * beta[j])
        });
        if self.bounded {
            adjoint.scaled_add(-0.5, &self.state.weighed());
        }
        solve_triangular(Side::LeftTransposed, self.state.lower(), adjoint.view_mut())?;
        solve_triangular(Side::Right, self.state.lower(), adjoint.view_mut())?;
        back_to_sites(self.state.inducing(), adjoint)
    }
}
