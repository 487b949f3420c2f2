//! The top layer integrated out exactly: ℓ = log N(y | 0, K + γ²I) of the top covariance at all training rows, or with the
//! noise that each of them has.

use ndarray::{Array1, Array2, ArrayView1};

use super::{NamedNumbers, Posterior, RegressionPosterior, TopLayer};
use crate::gp::GpError;
use crate::gp::deep::hidden::{Adjoints, LayersAtRows, Prepared, SomeRows, back_to_sites};
use crate::gp::deep::m_step::Held;
use crate::gp::deep::model::PartsReader;
use crate::gp::deep::options::Architecture;
use crate::gp::deep::target::{DensityAt, Target};
use crate::gp::deep::warped::Warped;
use crate::gp::exact::{likelihood_of, log_marginal_with};
use crate::gp::hyper::Evaluation;
use crate::gp::kernel::{Hyper, square_lower};
use crate::gp::linalg::{Cholesky, Triangle};
use crate::gp::row_noise::RowNoise;

/// The name in model files.
pub(super) const NAME: &str = "exact";
/// What it keeps of the noise of rows.
pub(in crate::gp::deep) const WEIGHTS: &str = "row_weights";
pub(in crate::gp::deep) const NOISE: &str = "row_noise";

#[derive(Debug)]
pub(super) struct ExactTop;

// K + γ²I at hidden layers that are known, factored, and what follows for y.
struct ConditionedTop {
    covariance: Warped,
    factor: Cholesky,
    // (K + γ²I)⁻¹ y, `[n]`.
    alpha: Array1<f64>,
    log_likelihood: f64,
}

impl ConditionedTop {
    // Conditions on y: `[n]`; no jitter, the noise stands on the diagonal.
    fn new(covariance: Warped, (y, noise): (ArrayView1<'_, f64>, &RowNoise), own: f64) -> Result<Self, GpError> {
        let mut shifted = square_lower(&covariance)?;
        shifted.diag_mut().iter_mut().enumerate().for_each(|(row, v)| *v += noise.variance(row, own));
        let factor = Cholesky::factor(shifted, "the covariance of the training rows")?;
        let alpha = factor.solve_vector(y)?;
        let log_likelihood = likelihood_of(y, &alpha, &factor);
        if !log_likelihood.is_finite() {
            return Err(GpError::NonFinite { what: "the log-likelihood" });
        }
        Ok(Self { covariance, factor, alpha, log_likelihood })
    }

    // ∂ℓ/∂K = ½ (ααᵀ − (K + γ²I)⁻¹), `[n, n]`.
    fn by_covariance(&self) -> Result<Array2<f64>, GpError> {
        let mut adjoint = self.factor.inverse()?;
        for ((i, j), adjoint) in adjoint.indexed_iter_mut() {
            *adjoint = 0.5 * (self.alpha[i] * self.alpha[j] - *adjoint);
        }
        Ok(adjoint)
    }
}

fn condition<'t>(
    target: &'t Target<'_>,
    prepared: &Prepared,
    keep: bool,
) -> Result<(ConditionedTop, SomeRows<'t>, LayersAtRows), GpError> {
    let rows = target.hidden.range(target.design, target.rows, 0..target.rows.len());
    let at_rows = target.forward(prepared, &rows, keep)?;
    let top = ConditionedTop::new(target.warped(&rows, &at_rows)?, (target.y, target.noise), target.hyper.noise)?;
    Ok((top, rows, at_rows))
}

impl TopLayer for ExactTop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, target: &Target<'_>, prepared: &Prepared) -> Result<DensityAt, GpError> {
        let (top, ..) = condition(target, prepared, false)?;
        Ok(DensityAt::likelihood(top.log_likelihood))
    }

    fn value_and_adjoints(&self, target: &Target<'_>, prepared: &Prepared) -> Result<(DensityAt, Adjoints), GpError> {
        let (top, rows, at_rows) = condition(target, prepared, true)?;
        let by_sites = back_to_sites(&top.covariance, top.by_covariance()?)?;
        let adjoint = target.design.warped_back(at_rows.inputs.view(), by_sites, target.hyper.lengths[0]);
        let mut adjoints = target.hidden.adjoints(target.design);
        target.hidden.backward(target.design, prepared, (&rows, &at_rows), adjoint, &mut adjoints)?;
        Ok((DensityAt::likelihood(top.log_likelihood), adjoints))
    }

    // K α = y − γ²α.
    fn means(&self, target: &Target<'_>, prepared: &Prepared, rows: &[usize]) -> Result<Vec<f64>, GpError> {
        let (top, ..) = condition(target, prepared, false)?;
        let noise = |row: usize| target.noise.variance(row, target.hyper.noise);
        Ok(rows.iter().map(|row| target.y[*row] - noise(*row) * top.alpha[*row]).collect())
    }

    fn objective(
        &self,
        held: &Held<'_>,
        particle: usize,
        hyper: &Hyper,
        _: &[usize],
    ) -> Result<(Evaluation, f64), GpError> {
        let inputs = held.inputs[particle].all()?;
        if held.design.architecture != Architecture::Convolution {
            let at = log_marginal_with(inputs.view(), held.y, held.noise, held.design.kernel, hyper)?;
            let value = at.value;
            return Ok((at, value));
        }
        let rows = (held.y, held.noise);
        let top = ConditionedTop::new(held.design.top(held.x, inputs.view(), hyper)?, rows, hyper.noise)?;
        let adjoint = top.by_covariance()?;
        let by_noise =
            hyper.noise * adjoint.diag().iter().enumerate().map(|(i, a)| a / held.noise.weight(i)).sum::<f64>();
        // The sum of ∂ℓ/∂K ∘ (K + noise) is ½ (yᵀα − n), whatever K is.
        let by_known = held.noise.known.as_ref().map_or(0.0, |known| adjoint.diag().dot(known));
        let by_variance = 0.5 * (held.y.dot(&top.alpha) - held.y.len() as f64) - by_noise - by_known;
        let value = top.log_likelihood;
        Ok((Evaluation { value, gradient: vec![by_variance, 0.0, by_noise], jitter: 0.0 }, value))
    }

    fn rows(&self, n: usize, _: &[usize]) -> Vec<usize> {
        (0..n).collect()
    }

    fn shared_numbers(&self, y: ArrayView1<'_, f64>, noise: &RowNoise) -> NamedNumbers {
        let of_rows = [(WEIGHTS, &noise.weights), (NOISE, &noise.known)];
        let known = of_rows.into_iter().filter_map(|(name, values)| Some((name, values.as_ref()?.view())));
        known.chain([("y", y)]).map(|(name, values)| (name, values.insert_axis(ndarray::Axis(0)).to_owned())).collect()
    }
}

/// The top layer of one particle in a model.
pub(super) fn restore(
    reader: &PartsReader<'_>,
    covariance: Warped,
    hyper: &Hyper,
) -> Result<Box<dyn Posterior>, GpError> {
    let m = crate::gp::kernel::Covariance::len(&covariance);
    let y: Array1<f64> = reader.matrix("y", Some(1), Some(m))?.into_iter().collect();
    let of_rows = |name: &str| -> Result<Option<Array1<f64>>, GpError> {
        let found = reader.has(name).then(|| reader.matrix(name, Some(1), Some(m))).transpose()?;
        Ok(found.map(|values| values.into_iter().collect()))
    };
    let noise = RowNoise { weights: of_rows(WEIGHTS)?, known: of_rows(NOISE)? };
    noise.check(m)?;
    let top = ConditionedTop::new(covariance, (y.view(), &noise), hyper.noise)?;
    let ConditionedTop { covariance, alpha, factor, .. } = top;
    let lower = Triangle::new(factor.lower())?;
    Ok(Box::new(RegressionPosterior { anchors: covariance, alpha, lower, lower_b: None }))
}
