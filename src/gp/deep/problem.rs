//! What is sampled, given everything that an EM iteration may change: hyper-parameters, inducing points, pivots.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use rayon::prelude::*;

use super::design::Design;
use super::hidden::{CrossOptions, Hidden, HiddenMethod, HiddenOptions, TrainingRows};
use super::options::{DeepOptions, Start};
use super::pivots;
use super::target::{Density, Known, LogDensity, Target, Top};
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, Hyper};
use crate::gp::linalg::raised;

/// The log-likelihood of whitened hidden variables, for some training rows.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(super) design: Design,
    pub(super) rows: TrainingRows,
    pub(super) y: Array1<f64>,
    pub(super) hidden: Hidden,
    kind: HiddenOptions,
    exact: bool,
    /// Of the stationary fit.
    pub(super) start: Hyper,
    /// Of the top layer.
    pub(super) hyper: Hyper,
    pub(super) inducing: Vec<usize>,
    pub(super) pivots: Vec<usize>,
    /// Relative to σ².
    pub(super) jitter: f64,
}

/// Inducing points, pivots and jitter.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// Training rows that are inducing points, `[m]`; empty with an exact top layer.
    pub inducing: Vec<usize>,
    /// Training rows that anchor the cross approximation, `[r]`; `Err`: chosen from the stationary model, among the
    /// rows given there.
    pub pivots: Result<Vec<usize>, Vec<usize>>,
    /// Relative to σ²; it grows when a factorisation fails.
    pub jitter: f64,
}

impl Problem {
    /// For x: `[n, d]`, y: `[n]`, around the stationary model with the hyper-parameters `start`.
    pub fn new(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        options: &DeepOptions,
        start: &Hyper,
        points: Points,
    ) -> Result<Self, GpError> {
        crate::gp::exact::check_training(x, y)?;
        if let Some(row) = points.inducing.iter().find(|row| **row >= x.nrows()) {
            return Err(GpError::shape(format!("inducing row {row} of {} training rows", x.nrows())));
        }
        let design = Design::new(x, options, start)?;
        let rows = TrainingRows::new(&design, x)?;
        let kind = options.layers.hidden;
        let pivots = match (points.pivots, kind.method) {
            (Ok(pivots), _) => pivots,
            (Err(seen), HiddenMethod::Aca) => {
                let at_start = design.top_at_start(&rows, start)?.select(&seen);
                choose_pivots(&[at_start], &kind.cross, &seen)?
            }
            (Err(_), _) => Vec::new(),
        };
        let build = |jitter| represent(&design, &rows, kind.method, (&points.inducing, &pivots), start, jitter);
        let (hidden, jitter) = raising(points.jitter, build)?;
        Ok(Self {
            y: y.to_owned(),
            kind,
            exact: matches!(options.start, Start::Exact(_)),
            start: start.clone(),
            hyper: start.clone(),
            inducing: points.inducing,
            design,
            rows,
            hidden,
            pivots,
            jitter,
        })
    }

    /// The same with other hyper-parameters of the top layer.
    pub fn set_hyper(&mut self, hyper: Hyper) {
        self.hyper = hyper;
    }

    /// Hyper-parameters of the top layer.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }

    /// Training rows that anchor hidden layers.
    pub fn anchors(&self) -> &[usize] {
        &self.hidden.anchors.rows
    }

    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// ξ at which the model is (nearly) the stationary one.
    pub fn start_white(&self) -> Result<Vec<Array2<f64>>, GpError> {
        self.hidden.whiten(&self.design, &vec![self.hidden.anchors.start.clone(); self.design.layers])
    }

    /// The values of all hidden layers at some training rows, `[b, D]` each, bottom layer first.
    pub fn hidden_values(&self, white: &[Array2<f64>], rows: &[usize]) -> Result<Vec<Array2<f64>>, GpError> {
        let prepared = self.hidden.prepare(&self.design, white)?;
        self.hidden.values(&self.design, &prepared, &self.hidden.list(&self.rows, rows))
    }

    /// The top covariance at some training rows.
    pub fn top_covariance(&self, white: &[Array2<f64>], rows: &[usize]) -> Result<Warped, GpError> {
        let (target, rows) = (self.target(), self.hidden.list(&self.rows, rows));
        let prepared = target.prepare(white)?;
        target.warped(&rows, &target.forward(&prepared, &rows, false)?)
    }

    /// The inputs of the top layer at all training rows, `[n, D]`.
    pub fn top_inputs(&self, white: &[Array2<f64>]) -> Result<Array2<f64>, GpError> {
        self.target().all_inputs(white)
    }

    pub(super) fn target(&self) -> Target<'_> {
        let top = if self.exact {
            Top::Exact
        } else {
            Top::sparse(&self.rows, &self.hidden, &self.inducing, self.hyper.noise, self.jitter)
        };
        Target {
            design: &self.design,
            rows: &self.rows,
            y: self.y.view(),
            hidden: &self.hidden,
            hyper: &self.hyper,
            top,
        }
    }

    /// Ten times the jitter; `false` when it has grown enough.
    pub(super) fn raise_jitter(&mut self) -> Result<bool, GpError> {
        let Some(jitter) = raised(self.jitter) else { return Ok(false) };
        self.jitter = jitter;
        let anchors = (&self.inducing[..], &self.pivots[..]);
        self.hidden = represent(&self.design, &self.rows, self.kind.method, anchors, &self.start, self.jitter)?;
        Ok(true)
    }

    /// Takes other inducing points. Hidden variables that live at them move along: points that stay keep their
    /// values, new ones get the interpolated.
    pub fn move_inducing(&mut self, inducing: Vec<usize>, whites: Vec<&mut Vec<Array2<f64>>>) -> Result<(), GpError> {
        if self.hidden.follows_inducing() {
            self.move_anchors((&inducing, &[]), whites)?;
        }
        self.inducing = inducing;
        Ok(())
    }

    /// Chooses new pivots for what the top covariance has become, looking at the rows `seen`; hidden values at the new
    /// pivots stay what they are.
    pub fn repivot(&mut self, seen: &[usize], whites: Vec<&mut Vec<Array2<f64>>>) -> Result<(), GpError> {
        if self.kind.method != HiddenMethod::Aca {
            return Ok(());
        }
        let members: Vec<Warped> =
            whites.par_iter().map(|white| self.top_covariance(white, seen)).collect::<Result<_, _>>()?;
        let pivots = choose_pivots(&members, &self.kind.cross, seen)?;
        drop(members);
        self.move_anchors((&[], &pivots), whites)?;
        self.pivots = pivots;
        Ok(())
    }

    // ξ such that hidden layers keep their values at the new anchors.
    fn move_anchors(
        &mut self,
        anchors: (&[usize], &[usize]),
        whites: Vec<&mut Vec<Array2<f64>>>,
    ) -> Result<(), GpError> {
        let (design, old, rows) = (&self.design, &self.hidden, &self.rows);
        let build = |jitter| represent(design, rows, self.kind.method, anchors, &self.start, jitter);
        let (new, jitter) = raising(self.jitter, build)?;
        let at = old.list(rows, &new.anchors.rows);
        let moved: Vec<Vec<Array2<f64>>> = whites
            .par_iter()
            .map(|white| new.whiten(design, &old.values(design, &old.prepare(design, white)?, &at)?))
            .collect::<Result<_, GpError>>()?;
        whites.into_iter().zip(moved).for_each(|(white, moved)| *white = moved);
        (self.hidden, self.jitter) = (new, jitter);
        Ok(())
    }
}

impl LogDensity for Problem {
    fn value(&self, white: &[Array2<f64>]) -> Result<Density, GpError> {
        self.target().value(white)
    }

    fn know(&self, white: &[Array2<f64>]) -> Result<Known, GpError> {
        self.target().know(white)
    }

    fn value_of_layer(&self, white: &[Array2<f64>], layer: usize, known: &Known) -> Result<(Density, Known), GpError> {
        self.target().value_of_layer(white, layer, known)
    }

    fn value_and_gradient(&self, white: &[Array2<f64>]) -> Result<(Density, Vec<Array2<f64>>), GpError> {
        self.target().value_and_gradient(white)
    }
}

fn choose_pivots(members: &[Warped], options: &CrossOptions, seen: &[usize]) -> Result<Vec<usize>, GpError> {
    let chosen = pivots::choose(members, options.rank as usize, options.tolerance)?;
    Ok(chosen.into_iter().map(|pivot| seen[pivot]).collect())
}

fn represent(
    design: &Design,
    rows: &TrainingRows,
    method: HiddenMethod,
    (inducing, pivots): (&[usize], &[usize]),
    start: &Hyper,
    jitter: f64,
) -> Result<Hidden, GpError> {
    match method {
        HiddenMethod::Full => Hidden::full(design, rows, jitter),
        HiddenMethod::Aca => Hidden::cross(design, rows, pivots, jitter),
        HiddenMethod::Sparse => Hidden::sparse(design, rows, inducing, start, jitter),
    }
}

// Ten times the jitter, when a factorisation fails.
fn raising<T>(mut jitter: f64, work: impl Fn(f64) -> Result<T, GpError>) -> Result<(T, f64), GpError> {
    loop {
        match (work(jitter), raised(jitter)) {
            (Err(GpError::NotPositiveDefinite { .. }), Some(more)) => jitter = more,
            (result, _) => return result.map(|value| (value, jitter)),
        }
    }
}
