//! The local layer above a sparse Gaussian process: neighbours are looked for in features divided by their lengths.

use std::sync::Arc;

use ndarray::{Array2, ArrayView1, ArrayView2, s};
use rayon::prelude::*;

use super::SparseGp;
use crate::gp::GpError;
use crate::gp::fit_rows::{FitRows, PickedRows};
use crate::gp::kernel::{Covariance, ROW_TILE, Stationary};
use crate::gp::leave_one_out::{LeaveOneOut, left_out_places, left_out_rows};
use crate::gp::linalg::{Side, dot, row_slices, solve_triangular};
use crate::gp::neighbours::{
    GlobalParticle, LocalFit, LocalOptions, LocalParts, Places, fit_local, kept_rows, noise_rule,
};
use crate::gp::observer::{Observer, Phase};
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::warm::LocalStart;

impl SparseGp {
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
        let leave_one_out = self.leave_one_out(rows.view(), targets.view(), &of_kept)?;
        let particle = GlobalParticle { places: self.places(rows.view())?, leave_one_out };
        let noise = noise_rule(options, (data.y, &data.span), self.parts.hyper.noise, &of_kept)?;
        let (parts, fit) = fit_local((rows.view(), &[particle]), options, earlier, (noise, &[]), key, observer)?;
        if fit.is_better() {
            self.parts.local = Some(parts);
            self.restore_local()?;
            if let (Some(parts), Some(layer)) = (&mut self.parts.local, &self.local) {
                parts.measure([layer.as_ref()].into_iter())?;
            }
            self.restore_local()?;
        }
        Ok((self, fit))
    }

    /// The same model without its local layer.
    #[must_use]
    pub fn without_local(mut self) -> Self {
        (self.parts.local, self.local) = (None, None);
        self
    }

    /// Noise variance of a prediction's target.
    pub fn noise(&self) -> f64 {
        self.parts.local.as_ref().map_or(self.parts.hyper.noise, LocalParts::noise)
    }

    /// What is said of some of the training rows x: `[n, d]`, y: `[n]`, each left out in its turn. Inducing points and
    /// hyper-parameters stay.
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
        if let Some(local) = &self.local {
            return local.left_out(&left_out_places(local.len(), key));
        }
        let data = data.into();
        let PickedRows { x, y, noise } = data.pick(&left_out_rows(data.all(), key))?;
        self.leave_one_out(x.view(), y.view(), &noise)
    }

    pub(super) fn restore_local(&mut self) -> Result<(), GpError> {
        let Some(local) = &self.parts.local else { return Ok(()) };
        local.check(self.centre.len(), 1)?;
        self.local = Some(Arc::new(local.layer(0, self.places(local.x.view())?)?));
        Ok(())
    }

    fn at(&self, x: ArrayView2<'_, f64>) -> Result<Stationary, GpError> {
        Stationary::new(self.parts.kernel, &self.parts.hyper, x, &self.centre)
    }

    fn places(&self, x: ArrayView2<'_, f64>) -> Result<Places, GpError> {
        Ok(Places { points: self.at(x)?.points().rows().to_owned(), lengths: None })
    }

    fn leave_one_out(
        &self,
        x: ArrayView2<'_, f64>,
        y: ArrayView1<'_, f64>,
        noise: &RowNoise,
    ) -> Result<LeaveOneOut, GpError> {
        let (n, parts) = (x.nrows(), &self.parts);
        let starts: Vec<usize> = (0..n).step_by(ROW_TILE).collect();
        let tile = |first: usize| {
            let rows = x.slice(s![first..(first + ROW_TILE).min(n), ..]);
            let mut k = Array2::zeros((rows.nrows(), self.inducing.len()));
            self.at(rows)?.tile(0, &self.inducing, k.view_mut())?;
            let alpha = parts.alpha.as_slice().unwrap_or_default();
            let means: Vec<f64> = row_slices(&k).map(|row| dot(row, alpha)).collect();
            solve_triangular(Side::RightTransposed, parts.lower.view(), k.view_mut())?;
            let remaining: Vec<f64> = row_slices(&k).map(|row| parts.hyper.variance - dot(row, row)).collect();
            solve_triangular(Side::RightTransposed, parts.lower_b.view(), k.view_mut())?;
            let mut found = LeaveOneOut::default();
            for (i, row) in row_slices(&k).enumerate() {
                let noise = noise.variance(first + i, parts.hyper.noise);
                found.push(y[first + i] - means[i], remaining[i], dot(row, row), noise);
            }
            Ok(found)
        };
        let tiles: Vec<LeaveOneOut> = starts.into_par_iter().map(tile).collect::<Result<_, GpError>>()?;
        let mut all = LeaveOneOut::default();
        for part in tiles {
            all.append(part);
        }
        Ok(all)
    }
}
