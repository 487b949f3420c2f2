//! Sparse fits that start from an earlier model.

use super::{Fitter, LARGEST_VARIANCE, check_options};
use crate::gp::GpError;
use crate::gp::exact::{self, median_distance};
use crate::gp::fit_rows::FitRows;
use crate::gp::hyper::Settings;
use crate::gp::inducing::{Choice, Member};
use crate::gp::kernel::{Hyper, StationaryOptions};
use crate::gp::observer::{Observer, Phase, TracePoint};
use crate::gp::random::{StreamKey, sample_without_replacement};
use crate::gp::row_noise::RowNoise;
use crate::gp::sparse::{JITTER, SparseGp, SparseOptions, State};
use crate::gp::warm::WarmStart;
use ndarray::{ArrayView1, ArrayView2, Axis};

/// A fit that starts from an earlier model begins close to where it ends, and one of so many of its points may move.
const FROM_EARLIER: Settings = Settings { iterations: 20, tolerance: 1e-5 };
const EXCHANGED: usize = 10;

/// Fits from an earlier model: its points, some of them exchanged for better ones, and its hyper-parameters.
pub fn fit_from(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &SparseOptions,
    warm: &WarmStart,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<SparseGp, GpError> {
    let x = x.as_standard_layout();
    let mut fitter = Fitter::begun((x.view(), y, noise), options, warm, key)?;
    let start = fitter.given.clone();
    let rows = fitter.raising(|fitter| fitter.renewed(&start, warm, true, observer))?;
    let hyper = fitter.raising(|fitter| fitter.optimise(&start, &rows, 0, &FROM_EARLIER, observer))?;
    observer.phase(Phase::Condition);
    let jitter = fitter.jitter;
    SparseGp::condition_with((x.view(), y, noise), options.stationary.kernel, &hyper, &rows, jitter)
}

/// The inducing points of an earlier model among the rows x: `[n, d]`, as many as are asked for, with the jitter that they
/// need.
pub(crate) fn rows_from(
    (x, y, noise): (ArrayView2<'_, f64>, ArrayView1<'_, f64>, &RowNoise),
    options: &SparseOptions,
    warm: &WarmStart,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<(Vec<usize>, f64), GpError> {
    let x = x.as_standard_layout();
    let mut fitter = Fitter::begun((x.view(), y, noise), options, warm, key)?;
    let start = fitter.given.clone();
    let rows = fitter.raising(|fitter| fitter.renewed(&start, warm, false, observer))?;
    Ok((rows, fitter.jitter))
}

impl<'a> Fitter<'a> {
    // With the hyper-parameters of an earlier model.
    fn begun(
        (x, y, noise): (ArrayView2<'a, f64>, ArrayView1<'a, f64>, &'a RowNoise),
        options: &'a SparseOptions,
        warm: &WarmStart,
        key: &'a StreamKey,
    ) -> Result<Self, GpError> {
        let rows: FitRows<'a> = (x, y, noise).into();
        rows.check()?;
        check_options(options, x.nrows())?;
        let StationaryOptions { ard, hyperparameters, .. } = options.stationary;
        let given = warm.hyper(&hyperparameters, if ard { x.ncols() } else { 1 });
        given.check(x.ncols())?;
        let subset =
            sample_without_replacement(&mut key.with("sparse.subset").generator(), x.nrows(), options.subset.max(1));
        let distance = median_distance(x.select(Axis(0), &subset).view());
        let mut bounds = exact::soft_bounds(given.lengths.len(), distance, x.nrows());
        bounds.upper[0] = LARGEST_VARIANCE.ln();
        Ok(Self { rows, options, key, free: hyperparameters.optimise, given, bounds, jitter: JITTER })
    }

    // The points of an earlier model, as many as are asked for; a tenth of them may be exchanged.
    fn renewed(
        &self,
        hyper: &Hyper,
        warm: &WarmStart,
        exchange: bool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<usize>, GpError> {
        if let Some(rows) = &self.options.inducing.rows {
            return Ok(rows.iter().map(|row| *row as usize).collect());
        }
        observer.phase(Phase::Select);
        let count = (self.options.inducing.count as usize).min(self.rows.all());
        let mut rows = warm.inducing_rows(self.rows.x);
        rows.truncate(count);
        let scaled = self.scaled(hyper);
        let (covariance, y) = (self.covariance(hyper, scaled.as_ref())?, self.targets(scaled.as_ref()));
        let state = State::with_penalty(&covariance, y, &rows, self.level(hyper), self.options.penalty)?;
        let choice = Choice {
            y,
            candidates: self.options.inducing.candidates,
            key: self.key.with("sparse.select").with("renewed"),
            trace: TracePoint::at("select", hyper),
        };
        let mut members = [Member { covariance: &covariance, state }];
        choice.grow(&mut members, count, observer)?;
        if exchange {
            choice.exchange(&mut members, count.div_ceil(EXCHANGED), observer)?;
        }
        Ok(members[0].state.rows().to_vec())
    }
}
