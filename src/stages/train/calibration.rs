//! Calibration of trained models: by training rows that were left out, and its tensors.

use super::model::predictor;
use super::options::Train;
use super::predictor::Predictor;
use super::tensors::{counts, integers, vector};
use crate::eval::conformal::Calibration;
use crate::gp::GpError;
use crate::gp::fit_rows::FitRows;
use crate::gp::observer::{Observer, Phase, Progress, Recorder};
use crate::gp::random::{StreamKey, permutation};
use crate::gp::row_noise::RowNoise;
use crate::stages::StageError;
use crate::store::{Tensor, Tensors};
use ndarray::{Array1, Array2, Axis};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What intervals are calibrated by.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Calibrate {
    /// Training rows that are left out in turn tell how far true values lie from predictions, in units of `y_std`.
    #[default]
    Conformal,
    /// The same by rows that models of the same kind were trained without, one for each fifth of the rows: six trainings
    /// instead of one. Hidden layers have not seen such rows at all.
    OutOfFold,
    /// Nothing: intervals are those of the normal distribution.
    None,
}

/// How a model with a local layer is calibrated, and how it is without that layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrated {
    /// None for intervals of the normal distribution.
    pub whole: Option<Calibration>,
    /// None without a local layer, too.
    pub global: Option<Calibration>,
}

/// Before the names of ranks and scores of a calibration.
const WHOLE: &str = "calibration";
const GLOBAL: &str = "calibration.global";

/// Parts that rows are left out in.
pub const FOLDS: usize = 5;

/// The rows that a model was trained on.
pub struct TrainingRows<'a> {
    pub of: FitRows<'a>,
    /// Which rows of the source they are, in increasing order.
    pub source: &'a [usize],
}

/// Calibrates as the stage asks.
pub fn calibrate(
    stage: &Train,
    predictor: &Predictor,
    rows: &TrainingRows<'_>,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<Calibrated, StageError> {
    if stage.calibrate == Calibrate::None {
        return Ok(Calibrated::default());
    }
    observer.phase(Phase::Calibrate);
    // A top layer by neighbours has nothing below its local layer.
    let alone = predictor.local().map(|_| predictor.clone().without_local()).filter(|alone| alone.local().is_none());
    if stage.calibrate == Calibrate::OutOfFold && rows.of.all() >= 2 * FOLDS {
        let (whole, global) = out_of_fold(stage, rows, key, observer)?;
        let global = alone.and_then(|_| Calibration::from_scores(global));
        return Ok(Calibrated { whole: Calibration::from_scores(whole), global });
    }
    let watched: &dyn Observer = observer;
    let of = |predictor: &Predictor| {
        let found = predictor.left_out(&rows.of, key, &|| watched.interrupted())?;
        Ok(Calibration::from_scores(found.scores()))
    };
    let global = alone.as_ref().map(of).transpose().map_err(|error: GpError| StageError::from(error))?.flatten();
    Ok(Calibrated { whole: of(predictor)?, global })
}

/// Scores of all rows by models that were trained without them, with their local layers and without.
fn out_of_fold(
    stage: &Train,
    rows: &TrainingRows<'_>,
    key: &StreamKey,
    observer: &mut dyn Observer,
) -> Result<(Vec<f64>, Vec<f64>), StageError> {
    let FitRows { x: all_x, y: all_y, noise: all_noise, .. } = rows.of;
    let n = all_y.len();
    let order = permutation(&mut key.with("folds").generator(), n);
    let (mut whole, mut global) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for fold in 0..FOLDS {
        let progress = Progress { what: "folds to calibrate by", done: fold, total: Some(FOLDS), chains: None };
        observer.progress(progress);
        let (mut test, mut train): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        order.iter().enumerate().for_each(
            |(place, row)| {
                if place % FOLDS == fold { test.push(*row) } else { train.push(*row) }
            },
        );
        test.sort_unstable();
        train.sort_unstable();
        let source: Vec<usize> = train.iter().map(|row| rows.source[*row]).collect();
        let mut stage = stage.clone();
        // Points that are given may be among the rows that are left out.
        if let Some(points) = &mut stage.inducing.rows {
            let count = points.len();
            points.retain(|point| source.binary_search(&(*point as usize)).is_ok());
            if points.is_empty() {
                // All of them are: others take their place.
                (stage.inducing.rows, stage.inducing.count) = (None, count as u32);
            }
        }
        let (x, y) = (all_x.select(Axis(0), &train), all_y.select(Axis(0), &train));
        // Its traces and checkpoints are nobody's business.
        let mut quiet = Recorder::new(&*observer);
        let key = key.with_index(fold as u64);
        let noise = all_noise.select(&train);
        let rows_of = (x.view(), y.view(), &noise).into();
        let (fitted, _) = predictor((&stage, None), &rows_of, &source, &key, None, &mut quiet)?;
        let (x, y) = (all_x.select(Axis(0), &test), all_y.select(Axis(0), &test));
        let noise = all_noise.select(&test);
        whole.extend(scores(&fitted, &x, &y, &noise)?);
        global.extend(scores(&fitted.without_local(), &x, &y, &noise)?);
    }
    Ok((whole, global))
}

fn scores(predictor: &Predictor, x: &Array2<f64>, y: &Array1<f64>, noise: &RowNoise) -> Result<Vec<f64>, GpError> {
    let (predicted, common) = (predictor.predict(x, true)?, predictor.row_noise());
    let latent = predicted.latent_variance.unwrap_or_default();
    let rows = y.iter().zip(&predicted.mean).zip(&latent).enumerate();
    Ok(rows.map(|(row, ((y, mean), latent))| (y - mean) / (latent + noise.variance(row, common)).sqrt()).collect())
}

impl Calibrated {
    /// That of the model without its local layer.
    #[must_use]
    pub fn without_local(self) -> Self {
        Self { whole: self.global, global: None }
    }

    /// The numbers that a model file has to hold.
    pub fn tensors(&self) -> Tensors {
        let named = [(WHOLE, &self.whole), (GLOBAL, &self.global)];
        let known = named.into_iter().filter_map(|(name, calibration)| calibration.as_ref().map(|known| (name, known)));
        let tensors = known.flat_map(|(name, calibration)| {
            let ranks = integers(calibration.ranks().iter().map(|rank| *rank as usize));
            let scores = Tensor::from(Array1::from(calibration.scores().to_vec()));
            [(format!("{name}.ranks"), ranks), (format!("{name}.scores"), scores)]
        });
        tensors.collect()
    }

    /// What is in a file, or what is wrong with it.
    pub fn from_tensors(tensors: &Tensors) -> Result<Self, String> {
        let read = |name: &str| {
            let (ranks, scores) = (format!("{name}.ranks"), format!("{name}.scores"));
            if !tensors.contains_key(&ranks) && !tensors.contains_key(&scores) {
                return Ok(None);
            }
            let known: Vec<u64> = counts(tensors, &ranks)?.into_iter().map(|rank| rank as u64).collect();
            let found = Calibration::from_parts(known, vector(tensors, &scores)?.to_vec());
            found.map(Some).ok_or_else(|| format!("the tensors `{ranks}` and `{scores}` do not fit together"))
        };
        Ok(Self { whole: read(WHOLE)?, global: read(GLOBAL)? })
    }
}
