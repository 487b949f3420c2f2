//! What is sampled, given everything that an EM iteration may change: hyper-parameters, inducing points, pivots.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2};
use rayon::prelude::*;

use super::design::Design;
use super::hidden::{HiddenLayers, SomeRows, TrainingRows};
use super::m_step::Held;
use super::memory::{Kept, Repeatable};
use super::options::{DeepOptions, EmObjective};
use super::target::{DensityAt, Known, LogDensity, Target};
use super::top::{Start, TopLayer, TopNeighbours};
use super::top_rows::TopInputs;
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::fit_rows::FitRows;
use crate::gp::kernel::Hyper;
use crate::gp::linalg::raised;
use crate::gp::neighbours::Places;
use crate::gp::random::StreamKey;
use crate::gp::row_noise::{RowNoise, ScaledRows};
use crate::gp::sparse::Level;
use crate::gp::team::for_each_of;

/// The log-likelihood of whitened hidden variables, for some training rows.
#[derive(Debug, Clone)]
pub struct DeepProblem {
    pub(super) design: Design,
    pub(super) rows: TrainingRows,
    pub(super) y: Array1<f64>,
    pub(super) noise: RowNoise,
    /// Rows brought to one noise, where they have not the same.
    scaled: Option<ScaledRows>,
    pub(super) hidden: HiddenLayers,
    pub(super) top: &'static dyn TopLayer,
    pub(super) objective: EmObjective,
    /// Of the stationary fit.
    pub(super) start: Hyper,
    /// Of the top layer.
    pub(super) hyper: Hyper,
    pub(super) inducing: Vec<usize>,
    // The same on their way through the hidden layers.
    inducing_rows: SomeRows<'static>,
    pub(super) pivots: Vec<usize>,
    /// Relative to σ².
    pub(super) jitter: f64,
    /// Who is whose neighbour, where the top layer asks.
    pub(super) neighbours: Option<TopNeighbours>,
    /// What is held in memory and not computed again.
    keeps: Kept,
}

/// Inducing points, pivots and jitter.
#[derive(Debug, Clone, PartialEq)]
pub struct SupportPoints {
    /// Training rows that are inducing points, `[m]`; empty with an exact top layer.
    pub inducing: Vec<usize>,
    /// Training rows that anchor the cross approximation, `[r]`; `Err`: chosen from the stationary model, among the
    /// rows given there.
    pub pivots: Result<Vec<usize>, Vec<usize>>,
    /// Relative to σ²; it grows when a factorisation fails.
    pub jitter: f64,
}

impl DeepProblem {
    /// For x: `[n, d]`, y: `[n]`, around the stationary model with the hyper-parameters `start`.
    pub fn new(
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        options: &DeepOptions,
        start: &Hyper,
        points: SupportPoints,
    ) -> Result<Self, GpError> {
        Self::within((x, y, &RowNoise::default()), options, start, points, u64::MAX)
    }

    /// The same with at most so many bytes for what can be computed again; results are the same bits.
    pub fn within<'d>(
        data: impl Into<FitRows<'d>>,
        options: &DeepOptions,
        start: &Hyper,
        points: SupportPoints,
        memory: u64,
    ) -> Result<Self, GpError> {
        let data = data.into();
        data.check()?;
        let FitRows { x, y, ref span, .. } = data;
        // All processes decide alike.
        let size = (span.widest() as u64, x.ncols() as u64);
        let by_points = matches!(options.start, Start::Sparse(_));
        let repeatable = Repeatable::new((&options.layers, &options.em), by_points, size, points.inducing.len() as u64);
        let keeps = repeatable.keep(memory);
        if let Some(row) = points.inducing.iter().find(|row| **row >= span.all()) {
            return Err(GpError::shape(format!("inducing row {row} of {} training rows", span.all())));
        }
        let design = Design::new((x, span), options, start)?;
        let rows = TrainingRows::new(&design, data.kept(), span)?;
        let representation = options.layers.hidden.representation();
        let pivots = match (points.pivots, representation.cross()) {
            (Ok(pivots), _) => pivots,
            (Err(seen), Some(cross)) => {
                let at_start = design.top_at_start(&rows, &seen, start)?;
                cross.choose_pivots(&[at_start], &seen)?
            }
            (Err(_), None) => Vec::new(),
        };
        let build = |jitter| {
            let anchors = (&points.inducing[..], &pivots[..]);
            HiddenLayers::new(Arc::clone(&representation), &design, &rows, anchors, start, (jitter, keeps.basis))
        };
        let (hidden, jitter) = raising(points.jitter, build)?;
        Ok(Self {
            inducing_rows: hidden.list(&design, &rows, &points.inducing)?,
            y: y.to_owned(),
            noise: RowNoise::default(),
            scaled: None,
            top: options.start.top(),
            objective: options.objective(),
            start: start.clone(),
            hyper: start.clone(),
            inducing: points.inducing,
            design,
            rows,
            hidden,
            pivots,
            jitter,
            neighbours: None,
            keeps,
        })
    }

    /// Looks for neighbours of all rows, as the top layer sees them with each of these ξ; nothing to do where the top layer
    /// does not ask for them. They stay as they are until this is called again.
    pub fn refresh_neighbours(
        &mut self,
        options: &DeepOptions,
        key: &StreamKey,
        all_xi: &[&[Array2<f64>]],
    ) -> Result<(), GpError> {
        let Some(start) = options.start.neighbours() else { return Ok(()) };
        let before = match self.neighbours.take() {
            Some(before) => before,
            None => TopNeighbours::new(start.top.neighbours as usize, self.y.len(), key),
        };
        let target = self.target();
        let places: Vec<Places> = all_xi
            .iter()
            .map(|xi| Ok(self.design.places(self.rows.x.view(), target.all_inputs(xi)?)))
            .collect::<Result<_, GpError>>()?;
        self.neighbours = Some(before.refreshed(&places)?);
        Ok(())
    }

    /// The same with other hyper-parameters of the top layer.
    pub fn set_hyper(&mut self, hyper: Hyper) {
        let moved = hyper.noise.to_bits() != self.hyper.noise.to_bits();
        self.hyper = hyper;
        if moved && self.noise.known.is_some() {
            self.scale_rows();
        }
    }

    /// The same with noise that differs from row to row.
    pub fn set_noise(&mut self, noise: RowNoise) {
        self.noise = noise;
        self.scale_rows();
    }

    fn scale_rows(&mut self) {
        self.scaled = self.noise.scaled(self.y.view(), self.hyper.noise);
    }

    /// Hyper-parameters of the top layer.
    pub fn hyper(&self) -> &Hyper {
        &self.hyper
    }

    /// Training rows that anchor hidden layers.
    pub fn anchors(&self) -> &[usize] {
        &self.hidden.anchors.rows
    }

    /// ξ at which the model is (nearly) the stationary one.
    pub fn start_xi(&self) -> Result<Vec<Array2<f64>>, GpError> {
        self.hidden.whiten(&self.design, &vec![self.hidden.anchors.start.clone(); self.design.layers])
    }

    /// The values of all hidden layers at some training rows, `[b, D]` each, bottom layer first.
    pub fn hidden_values(&self, xi: &[Array2<f64>], rows: &[usize]) -> Result<Vec<Array2<f64>>, GpError> {
        let prepared = self.hidden.prepare(&self.design, xi)?;
        self.hidden.values(&self.design, &prepared, &self.hidden.list(&self.design, &self.rows, rows)?)
    }

    /// The posterior means at some training rows, with the ξ of a particle; empty where the top layer has none.
    pub(super) fn means_at(&self, particle: usize, xi: &[Array2<f64>], rows: &[usize]) -> Result<Vec<f64>, GpError> {
        let target = self.target_of(particle);
        target.top.means(&target, &target.prepare(xi)?, rows)
    }

    /// The top covariance at some training rows.
    pub fn top_covariance(&self, xi: &[Array2<f64>], rows: &[usize]) -> Result<Warped, GpError> {
        let (target, rows) = (self.target(), self.hidden.list(&self.design, &self.rows, rows)?);
        let prepared = target.prepare(xi)?;
        target.warped(&rows, &target.forward(&prepared, &rows, false)?)
    }

    /// The inputs of the top layer at all training rows, `[n, D]`.
    pub fn top_inputs(&self, xi: &[Array2<f64>]) -> Result<Array2<f64>, GpError> {
        self.target().all_inputs(xi)
    }

    pub(super) fn target(&self) -> Target<'_> {
        self.target_of(0)
    }

    /// What a particle samples.
    pub(super) fn target_of(&self, particle: usize) -> Target<'_> {
        let neighbours = self.neighbours.as_ref().and_then(|all| all.lists.get(particle));
        Target {
            design: &self.design,
            rows: &self.rows,
            y: self.y.view(),
            noise: &self.noise,
            scaled: self.scaled.as_ref(),
            hidden: &self.hidden,
            hyper: &self.hyper,
            top: self.top,
            inducing: &self.inducing,
            inducing_rows: &self.inducing_rows,
            level: Level { noise: self.noise.level(self.hyper.noise), jitter: self.jitter },
            objective: self.objective,
            neighbours: neighbours.map(Arc::as_ref),
            room: self.neighbours.as_ref().map(|all| all.room.as_ref()),
        }
    }

    /// What an M step works on, with these ξ of the particles.
    pub(super) fn held(&self, all_xi: &[&[Array2<f64>]]) -> Result<Held<'_>, GpError> {
        let target = self.target();
        Ok(Held {
            design: &self.design,
            x: self.rows.x.view(),
            y: self.y.view(),
            span: self.rows.span().clone(),
            noise: &self.noise,
            // Rows that differ in their noise are held: what is computed again is not multiplied.
            inputs: for_each_of(all_xi.to_vec(), |xi| {
                TopInputs::new(&target, xi, self.keeps.inputs || !self.noise.is_uniform())
            })?,
            jitter: self.jitter,
            top: self.top,
            penalty: self.objective.penalty(),
            neighbours: self.neighbours.as_ref(),
        })
    }

    /// Ten times the jitter; `false` when it has grown enough.
    pub(super) fn raise_jitter(&mut self) -> Result<bool, GpError> {
        let Some(jitter) = raised(self.jitter) else { return Ok(false) };
        self.jitter = jitter;
        self.hidden = self.anchored((&self.inducing, &self.pivots), jitter)?;
        self.list_inducing()?;
        Ok(true)
    }

    /// After inducing points or hidden layers have changed.
    pub(super) fn list_inducing(&mut self) -> Result<(), GpError> {
        self.inducing_rows = self.hidden.list(&self.design, &self.rows, &self.inducing)?;
        Ok(())
    }

    /// Takes other inducing points. Hidden variables that live at them move along: points that stay keep their
    /// values, new ones get the interpolated.
    pub fn move_inducing(&mut self, inducing: Vec<usize>, all_xi: Vec<&mut Vec<Array2<f64>>>) -> Result<(), GpError> {
        if self.hidden.representation.follows_inducing() {
            self.move_anchors((&inducing, &[]), all_xi)?;
        }
        self.inducing = inducing;
        self.list_inducing()
    }

    // Hidden layers with other inducing points and pivots.
    pub(super) fn anchored(&self, anchors: (&[usize], &[usize]), jitter: f64) -> Result<HiddenLayers, GpError> {
        let representation = Arc::clone(&self.hidden.representation);
        HiddenLayers::new(representation, &self.design, &self.rows, anchors, &self.start, (jitter, self.keeps.basis))
    }

    // ξ such that hidden layers keep their values at the new anchors.
    fn move_anchors(
        &mut self,
        anchors: (&[usize], &[usize]),
        all_xi: Vec<&mut Vec<Array2<f64>>>,
    ) -> Result<(), GpError> {
        let (design, old, rows) = (&self.design, &self.hidden, &self.rows);
        let (new, jitter) = raising(self.jitter, |jitter| self.anchored(anchors, jitter))?;
        let at = old.list(design, rows, &new.anchors.rows)?;
        let moved: Vec<Vec<Array2<f64>>> = all_xi
            .par_iter()
            .map(|xi| new.whiten(design, &old.values(design, &old.prepare(design, xi)?, &at)?))
            .collect::<Result<_, GpError>>()?;
        all_xi.into_iter().zip(moved).for_each(|(xi, moved)| *xi = moved);
        (self.hidden, self.jitter) = (new, jitter);
        Ok(())
    }
}

impl LogDensity for DeepProblem {
    fn value(&self, xi: &[Array2<f64>]) -> Result<DensityAt, GpError> {
        self.target().value(xi)
    }

    fn know(&self, xi: &[Array2<f64>]) -> Result<Known, GpError> {
        self.target().know(xi)
    }

    fn value_of_layer(&self, xi: &[Array2<f64>], layer: usize, known: &Known) -> Result<(DensityAt, Known), GpError> {
        self.target().value_of_layer(xi, layer, known)
    }

    fn value_and_gradient(&self, xi: &[Array2<f64>]) -> Result<(DensityAt, Vec<Array2<f64>>), GpError> {
        self.target().value_and_gradient(xi)
    }
}

// Ten times the jitter, when a factorisation fails.
pub(super) fn raising<T>(mut jitter: f64, work: impl Fn(f64) -> Result<T, GpError>) -> Result<(T, f64), GpError> {
    loop {
        match (work(jitter), raised(jitter)) {
            (Err(GpError::NotPositiveDefinite { .. }), Some(more)) => jitter = more,
            (result, _) => return result.map(|value| (value, jitter)),
        }
    }
}
