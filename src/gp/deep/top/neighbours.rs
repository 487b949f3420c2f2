//! The top layer by neighbours: ℓ is the likelihood of Vecchia, every row given its nearest among the rows before it in a fixed
//! random order. Nothing is lost to inducing points, and the cost is linear in the rows.
//!
//! Who is whose neighbour depends on the hidden layers, but stands still while they are sampled, so that the chains have one
//! density to sample from; see [`TopNeighbours::refreshed`].

use std::sync::Arc;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NamedNumbers, Posterior, TopLayer};
use crate::gp::GpError;
use crate::gp::deep::hidden::{Adjoints, LayersAtRows, Prepared};
use crate::gp::deep::m_step::Held;
use crate::gp::deep::options::Architecture;
use crate::gp::deep::target::{DensityAt, Target};
use crate::gp::deep::warped::Warped;
use crate::gp::exact::{self, ExactOptions};
use crate::gp::hyper::Evaluation;
use crate::gp::kernel::{Hyper, Kernel, StationaryOptions};
use crate::gp::linalg::{Span, sum_rows, tiles};
use crate::gp::neighbours::{
    AdjointRoom, LocalKernel, LocalLikelihood, LocalOptions, NeighbourLists, Places, best_kernel, noise_rule,
};
use crate::gp::observer::{Observer, Phase};
use crate::gp::random::{StreamKey, permutation, sample_without_replacement};
use crate::gp::row_noise::RowNoise;

/// The name in model files.
pub(super) const NAME: &str = "neighbours";
/// Rows of the exact fit that comes first, and of the subset on which its starts are tried.
const START_ROWS: (usize, usize) = (500, 300);

/// One row of so many, and at most so many rows, are left out of training.
const HELD_OUT: usize = 10;
const HELD_OUT_ROWS: usize = 3000;

/// A top layer by neighbours instead of inducing points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Top")]
pub struct TopOptions {
    /// Nearest earlier rows that a row is conditioned on in training.
    #[schemars(range(min = 1, max = 200))]
    pub neighbours: u32,
    /// Covariance function of the top layer: its name, or `auto` for the best of matern12, matern32 and rbf on the features.
    pub kernel: LocalKernel,
}

impl Default for TopOptions {
    fn default() -> Self {
        Self { neighbours: 16, kernel: LocalKernel::Auto }
    }
}

/// How a fit with a top layer by neighbours starts.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourStart {
    pub stationary: StationaryOptions,
    pub top: TopOptions,
    /// How predictions look for neighbours.
    pub predictions: LocalOptions,
}

impl NeighbourStart {
    /// Hyper-parameters of an exact fit on some of the rows.
    pub(super) fn fit(
        &self,
        (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<Hyper, GpError> {
        let (rows, subset) = START_ROWS;
        let some = sample_without_replacement(&mut key.with("neighbours.subset").generator(), x.nrows(), rows);
        let options = ExactOptions { stationary: self.stationary, subset, ..ExactOptions::default() };
        let (x, y, noise) = (x.select(Axis(0), &some), y.select(Axis(0), &some), noise.select(&some));
        let gp = exact::fit_with(x.view(), y.view(), &noise, &options, &key.with("neighbours.start"), observer)?;
        Ok(gp.hyper().clone())
    }

    /// The rows, of n, that training does not see; in increasing order.
    pub(in crate::gp::deep) fn held_out(n: usize, key: &StreamKey) -> Vec<usize> {
        sample_without_replacement(
            &mut key.with("neighbours.held out").generator(),
            n,
            (n / HELD_OUT).min(HELD_OUT_ROWS),
        )
    }

    /// The covariance function of the top layer, and its hyper-parameters where hidden layers change nothing.
    pub(in crate::gp::deep) fn top(
        &self,
        (x, y, rows): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
        start: &Hyper,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<(Kernel, Hyper), GpError> {
        observer.phase(Phase::Neighbours);
        let places = Places { points: x.to_owned(), lengths: None };
        let count = self.top.neighbours as usize;
        let noise = noise_rule(&self.predictions, (y, &Span::whole(y.len())), start.noise, rows)?;
        best_kernel(places, y, count, (self.top.kernel, noise), &key.with("neighbours.kernel"), observer)
    }
}

/// The neighbours of every row, for every particle.
#[derive(Debug, Clone)]
pub(in crate::gp::deep) struct TopNeighbours {
    count: usize,
    // The fixed order of the rows.
    order: Arc<Vec<u32>>,
    /// Of every particle.
    pub lists: Vec<Arc<NeighbourLists>>,
    /// Shared by all particles.
    pub room: Arc<AdjointRoom>,
}

impl TopNeighbours {
    /// With an order of n rows; no neighbours yet.
    pub fn new(count: usize, n: usize, key: &StreamKey) -> Self {
        let order = permutation(&mut key.with("deep").with("order").generator(), n);
        let order = order.into_iter().map(|row| row as u32).collect();
        Self { count, order: Arc::new(order), lists: Vec::new(), room: Arc::default() }
    }

    /// The same for particles whose top layer sees the rows at these places.
    pub fn refreshed(&self, places: &[Places]) -> Result<Self, GpError> {
        let lists =
            |places: &Places| NeighbourLists::earlier(places.points.view(), &self.order, self.count).map(Arc::new);
        Ok(Self { lists: places.iter().map(lists).collect::<Result<_, GpError>>()?, ..self.clone() })
    }
}

#[derive(Debug)]
pub(super) struct NeighbourTop;

fn likelihood<'a>(
    kernel: Kernel,
    places: &'a Places,
    (y, noise): (ArrayView1<'a, f64>, &'a RowNoise),
    lists: Option<&'a NeighbourLists>,
) -> Result<LocalLikelihood<'a>, GpError> {
    let lists = lists.ok_or_else(|| GpError::shape("rows without neighbours"))?;
    Ok(LocalLikelihood { kernel, sites: places.sites(), y, lists, noise })
}

impl TopLayer for NeighbourTop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn value(&self, target: &Target<'_>, prepared: &Prepared) -> Result<DensityAt, GpError> {
        let inputs = target.inputs(prepared)?;
        let places = target.design.places(target.rows.x.view(), inputs);
        let density = likelihood(target.design.top_kernel, &places, (target.y, target.noise), target.neighbours)?;
        Ok(DensityAt::likelihood(density.value(target.hyper)?))
    }

    fn value_and_adjoints(&self, target: &Target<'_>, prepared: &Prepared) -> Result<(DensityAt, Adjoints), GpError> {
        let inputs = target.inputs(prepared)?;
        // Local lengths are what bounds have made of the inputs; elsewhere the inputs are the places.
        let raw = if target.design.architecture == Architecture::Convolution {
            inputs.clone()
        } else {
            Array2::default((0, 0))
        };
        let places = target.design.places(target.rows.x.view(), inputs);
        let inputs = if places.lengths.is_some() { raw.view() } else { places.points.view() };
        let density = likelihood(target.design.top_kernel, &places, (target.y, target.noise), target.neighbours)?;
        let room = target.room.ok_or_else(|| GpError::shape("rows without neighbours"))?;
        let (sum, by_places) = density.with_adjoint(target.hyper, room)?;
        let adjoint = target.design.places_back(inputs, by_places);
        let zero = || target.hidden.adjoints(target.design);
        let adjoints = sum_rows(target.rows.span(), zero().size(), zero, |chunk| {
            let mut adjoints = zero();
            for range in tiles(chunk) {
                let rows = target.hidden.range(target.design, target.rows, range.clone());
                // With one hidden layer its values are all that going back needs.
                let at_rows = if target.design.layers == 1 {
                    LayersAtRows::from(inputs.slice(s![range.clone(), ..]).to_owned())
                } else {
                    target.forward(prepared, &rows, true)?
                };
                let own = adjoint.slice(s![range, ..]).to_owned();
                target.hidden.backward(target.design, prepared, (&rows, &at_rows), own, &mut adjoints)?;
            }
            Ok(adjoints)
        })?;
        room.give_back(adjoint.into_raw_vec_and_offset().0);
        Ok((DensityAt::likelihood(sum.log_likelihood), adjoints))
    }

    fn objective(
        &self,
        held: &Held<'_>,
        particle: usize,
        hyper: &Hyper,
        _: &[usize],
    ) -> Result<(Evaluation, f64), GpError> {
        let places = held.design.places(held.x, held.inputs[particle].all()?.into_owned());
        let density = likelihood(held.design.top_kernel, &places, (held.y, held.noise), held.neighbours_of(particle))?;
        let sum = density.with_gradient(hyper)?;
        let value = sum.log_likelihood;
        Ok((Evaluation { value, gradient: sum.gradient.to_vec(), jitter: 0.0 }, value))
    }

    fn rows(&self, n: usize, _: &[usize]) -> Vec<usize> {
        (0..n).collect()
    }

    fn keeps_rows(&self) -> bool {
        false
    }

    fn shared_numbers(&self, _: ArrayView1<'_, f64>, _: &RowNoise) -> NamedNumbers {
        NamedNumbers::new()
    }
}

/// What stands below the local layer of a model whose top layer is by neighbours: nothing.
#[derive(Debug)]
pub(super) struct NoMean;

impl Posterior for NoMean {
    fn predict(
        &self,
        _: &Warped,
        hyper: &Hyper,
        count: usize,
        variance: bool,
    ) -> Result<(Vec<f64>, Vec<f64>), GpError> {
        Ok((vec![0.0; count], vec![hyper.variance; if variance { count } else { 0 }]))
    }

    fn is_nothing(&self) -> bool {
        true
    }
}
