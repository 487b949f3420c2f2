//! The local layer above the particles of a mixture.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::DeepGp;
use super::component::Component;
use crate::gp::GpError;
use crate::gp::fit_rows::{FitRows, PickedRows};
use crate::gp::kernel::{Kernel, ROW_TILE};
use crate::gp::leave_one_out::{LeaveOneOut, left_out_places, left_out_rows};
use crate::gp::linalg::Span;
use crate::gp::neighbours::{
    GlobalParticle, LocalFit, LocalKernel, LocalOptions, LocalParts, Places, fit_local, kept_rows, noise_rule,
};
use crate::gp::observer::{Observer, Phase};
use crate::gp::predict::filled;
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::warm::LocalStart;

/// From so many rows on, to bring them into order costs less than it saves.
const ORDERED_ROWS: usize = 1000;

impl DeepGp {
    /// The same model with a local layer fitted to the training rows x: `[n, d]`, y: `[n]`, where that is better than the
    /// model alone.
    pub fn with_local(
        self,
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        options: &LocalOptions,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<(Self, LocalFit), GpError> {
        self.with_local_from((x, y, &RowNoise::default()), options, None, key, observer)
    }

    /// The same with noise that differs from row to row, and from where an earlier local layer ended.
    pub fn with_local_from<'d>(
        mut self,
        data: impl Into<FitRows<'d>>,
        options: &LocalOptions,
        earlier: Option<&LocalStart>,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<(Self, LocalFit), GpError> {
        observer.phase(Phase::Local);
        let data = data.into();
        let kept = kept_rows(data.all(), options, key);
        let PickedRows { x: rows, y: targets, noise: of_kept } = data.pick(&kept)?;
        let particles: Vec<GlobalParticle> = self
            .components
            .iter()
            .map(|component| self.global_particle(component, (rows.view(), targets.view(), &of_kept)))
            .collect::<Result<_, _>>()?;
        let noise = noise_rule(options, (data.y, &data.span), self.parts.hyper.noise, &of_kept)?;
        let (parts, fit) = fit_local((rows.view(), &particles), options, earlier, (noise, &[]), key, observer)?;
        if fit.is_better() {
            self.parts.local = Some(parts);
            self.measure_local()?;
        }
        Ok((self, fit))
    }

    /// A model whose top layer is by neighbours, conditioned on the rows x: `[n, d]`, y: `[n]`. What it may expect of
    /// neighbours is fitted to the rows that training has not seen.
    pub fn with_neighbours(
        mut self,
        (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
        (kernel, earlier): (Kernel, Option<&LocalStart>),
        held_out: &[usize],
        options: &LocalOptions,
        key: &StreamKey,
        observer: &mut dyn Observer,
    ) -> Result<Self, GpError> {
        observer.phase(Phase::Local);
        let mut kept = kept_rows(x.nrows(), options, key);
        kept.extend(held_out);
        kept.sort_unstable();
        kept.dedup();
        let (rows, targets) = (x.select(Axis(0), &kept), y.select(Axis(0), &kept));
        let unseen: Vec<u32> =
            held_out.iter().filter_map(|row| kept.binary_search(row).ok()).map(|place| place as u32).collect();
        let all = LeaveOneOut::of_nothing(targets.view());
        let particle =
            |component| Ok(GlobalParticle { places: self.places(component, rows.view())?, leave_one_out: all.clone() });
        let particles: Vec<GlobalParticle> = self.components.iter().map(particle).collect::<Result<_, GpError>>()?;
        let options = LocalOptions { kernel: LocalKernel::Given(kernel), ..*options };
        let of_kept = noise.select(&kept);
        let noise = noise_rule(&options, (y, &Span::whole(y.len())), self.parts.hyper.noise, &of_kept)?;
        let (parts, _) = fit_local((rows.view(), &particles), &options, earlier, (noise, &unseen), key, observer)?;
        self.parts.local = Some(parts);
        self.measure_local()?;
        self.unseen = unseen;
        Ok(self)
    }

    /// What is said of some of the training rows x: `[n, d]`, y: `[n]`, each left out in its turn of the top layer and of the
    /// local one; hidden layers and hyper-parameters stay. Of a top layer by neighbours, these are rows that training has not
    /// seen at all; a model that was read from a file does not know them.
    pub fn left_out(
        &self,
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        key: &StreamKey,
    ) -> Result<LeaveOneOut, GpError> {
        self.left_out_with((x, y, &RowNoise::default()), key)
    }

    /// The same where rows differ in their noise.
    pub fn left_out_with<'d>(&self, data: impl Into<FitRows<'d>>, key: &StreamKey) -> Result<LeaveOneOut, GpError> {
        let (data, mut particles) = (data.into(), Vec::with_capacity(self.components.len()));
        let PickedRows { x, y, noise } = data.pick(&left_out_rows(data.all(), key))?;
        for component in &self.components {
            particles.push(match &component.local {
                Some(local) if component.top.is_nothing() => local.left_out(&self.unseen)?,
                Some(local) => local.left_out(&left_out_places(local.len(), key))?,
                None => self.global_particle(component, (x.view(), y.view(), &noise))?.leave_one_out,
            });
        }
        Ok(LeaveOneOut::mixed(&particles))
    }

    /// The same model without its local layer; a model whose top layer is by neighbours has nothing else, and stays.
    #[must_use]
    pub fn without_local(mut self) -> Self {
        if self.components.iter().any(|component| component.top.is_nothing()) {
            return self;
        }
        self.parts.local = None;
        self.components.iter_mut().for_each(|component| component.local = None);
        self
    }

    /// An order of many rows x: `[p, d]` in which those that are near each other follow each other: they have neighbours in
    /// common, which are in the processor's cache by then.
    pub(super) fn near_order(&self, x: ArrayView2<'_, f64>) -> Result<Option<Vec<usize>>, GpError> {
        let Some((component, Some(local))) = self.components.first().map(|first| (first, &first.local)) else {
            return Ok(None);
        };
        if x.nrows() < ORDERED_ROWS || x.ncols() != self.design.x_centre.len() {
            return Ok(None);
        }
        Ok(Some(local.near_order(&self.places(component, x)?.sites())))
    }

    /// Noise variance of a prediction's target.
    pub fn noise(&self) -> f64 {
        self.parts.local.as_ref().map_or(self.parts.hyper.noise, LocalParts::noise)
    }

    // Puts the local layer in place for the first time.
    pub(super) fn measure_local(&mut self) -> Result<(), GpError> {
        self.restore_local()?;
        let layers = self.components.iter().filter_map(|component| component.local.as_deref());
        if let Some(local) = &mut self.parts.local {
            local.measure(layers)?;
        }
        self.restore_local()
    }

    // Warps the rows of the local layer again: they are not kept.
    pub(super) fn restore_local(&mut self) -> Result<(), GpError> {
        let Some(local) = &self.parts.local else { return Ok(()) };
        local.check(self.design.x_centre.len(), self.components.len())?;
        let layers = self
            .components
            .par_iter()
            .enumerate()
            .map(|(index, component)| local.layer(index, self.places(component, local.x.view())?).map(Arc::new))
            .collect::<Result<Vec<_>, GpError>>()?;
        self.components.iter_mut().zip(layers).for_each(|(component, layer)| component.local = Some(layer));
        Ok(())
    }

    // Where a particle sees the rows x: [n, d].
    fn places(&self, component: &Component, x: ArrayView2<'_, f64>) -> Result<Places, GpError> {
        let mut inputs = Array2::zeros((x.nrows(), self.design.width()));
        crate::gp::linalg::for_row_blocks(&mut inputs, ROW_TILE, |first, mut part| {
            let rows = x.slice(s![first..first + part.nrows(), ..]);
            let tile = self.begun(filled(rows, &self.design.x_centre))?;
            part.assign(&component.last_inputs(&self.design, &tile)?.slice(s![..rows.nrows(), ..]));
            Ok(())
        })?;
        Ok(self.design.places(x, inputs))
    }

    fn global_particle(
        &self,
        component: &Component,
        (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    ) -> Result<GlobalParticle, GpError> {
        let (places, hyper) = (self.places(component, x)?, &self.parts.hyper);
        let starts: Vec<usize> = (0..x.nrows()).step_by(ROW_TILE).collect();
        let tile = |first: usize| {
            let range = first..(first + ROW_TILE).min(x.nrows());
            let tile = self.begun(filled(x.slice(s![range.clone(), ..]), &self.design.x_centre))?;
            let inputs = component.last_inputs(&self.design, &tile)?;
            let stars = self.design.top(tile.x.view(), inputs.view(), hyper)?;
            let variances: Vec<f64> = range.clone().map(|row| noise.variance(row, hyper.noise)).collect();
            let y = y.slice(s![range]).to_vec();
            let found = component.top.leave_one_out(&stars, hyper, (&y, &variances))?;
            found.ok_or_else(|| GpError::value("a local layer needs a top layer with inducing points"))
        };
        let parts: Vec<LeaveOneOut> = starts.into_par_iter().map(tile).collect::<Result<_, GpError>>()?;
        let mut leave_one_out = LeaveOneOut::default();
        for part in parts {
            leave_one_out.append(part);
        }
        Ok(GlobalParticle { places, leave_one_out })
    }
}
