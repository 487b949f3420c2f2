//! A trained model as a model file, and back.

use super::calibration::Calibrated;
use super::model::TrainedModel;
use super::predictor::Predictor;
use crate::features::{ColumnEncoding, ColumnKind, Encoder, Encoding, Missing};
use crate::gp::GpError;
use crate::gp::linalg::Span;
use crate::gp::scaling::Scaling;
use crate::store::StoreError;
use crate::store::model::{
    CentreAndScale, FORMAT_VERSION, ModelFile, ModelMeta, Range, TargetScaling, TrainingSummary,
};
use ndarray::{Array2, Axis, s};
use std::path::Path;

/// Where a model comes from, beside the numbers.
pub struct Provenance<'a> {
    pub rows: &'a RowSummary,
    /// The summary that goes into the file.
    pub summary: TrainingSummary,
    /// The options of the train stage, for the reader.
    pub options: serde_json::Value,
}

/// What a model file says of the training rows, encoded, in their own units.
pub struct RowSummary {
    /// Smallest and largest value of every feature.
    ranges: Vec<Range>,
    /// Some of them, evenly spaced where there are many.
    some: Array2<f64>,
}

impl RowSummary {
    /// Of x: `[b, d]`, which are held of all rows.
    pub fn new(x: &Array2<f64>, span: &Span) -> Result<Self, GpError> {
        let step = span.all().div_ceil(VARIANCE_ROWS).max(1);
        let rows: Vec<usize> = (0..span.all()).step_by(step).collect();
        let some = span.gather(&rows, x.ncols(), |own| Ok(x.select(Axis(0), own)))?;
        Ok(Self { ranges: ranges(x, span)?, some })
    }

    /// The columns that are the same in all rows.
    #[expect(clippy::float_cmp, reason = "a constant column is exactly constant")]
    pub fn constant(&self) -> Vec<usize> {
        (0..self.ranges.len()).filter(|column| self.ranges[*column].min == self.ranges[*column].max).collect()
    }
}

impl TrainedModel {
    pub fn to_file(&self, provenance: Provenance<'_>) -> ModelFile {
        let predictor = &self.predictor;
        let meta = ModelMeta {
            format_version: FORMAT_VERSION,
            method: predictor.method().to_owned(),
            kernel: predictor.kernel().map(|kernel| kernel.to_string()).unwrap_or_default(),
            feature_names: self.feature_names.clone(),
            feature_scaling: CentreAndScale {
                centre: self.scaling.feature_centre.clone(),
                scale: self.scaling.feature_scale.clone(),
                relevance: self.relevance.clone(),
            },
            target_scaling: TargetScaling { mean: self.scaling.target_mean, std: self.scaling.target_std },
            feature_ranges: provenance.rows.ranges.clone(),
            training: provenance.summary,
            hyperparameters: predictor.hyperparameters(&self.feature_names),
            metrics: predictor.figures(),
            options: provenance.options,
            words: predictor.words(),
            predictive_variance: self.variance_at(&provenance.rows.some),
            columns: (!self.encoding.is_plain()).then(|| self.encoding.clone()),
            target_transform: self.transform,
            published: None,
            started: None,
            seen: None,
        };
        let tensors = predictor.tensors().into_iter().chain(self.calibrated.tensors()).collect();
        ModelFile { meta, tensors }
    }

    /// The model in a file; `path` is for messages.
    pub fn from_file(file: &ModelFile, path: &Path) -> Result<Self, StoreError> {
        let meta = &file.meta;
        let refuse = |detail: String| StoreError::Model {
            path: path.to_owned(),
            detail,
            hint: "train it again with this version of stride-pipe".to_owned(),
        };
        let predictor = Predictor::from_file(file).map_err(refuse)?;
        let calibrated = Calibrated::from_tensors(&file.tensors).map_err(refuse)?;
        let scaling = Scaling {
            feature_centre: meta.feature_scaling.centre.clone(),
            feature_scale: meta.feature_scaling.scale.clone(),
            target_mean: meta.target_scaling.mean,
            target_std: meta.target_scaling.std,
        };
        let plain = |name: &String| ColumnEncoding {
            name: name.clone(),
            kind: ColumnKind::Number,
            missing: Missing::Error,
            encoder: Encoder::Value,
            fill: Vec::new(),
            indicator: false,
        };
        let as_they_are = || Encoding { columns: meta.feature_names.iter().map(plain).collect() };
        let encoding = meta.columns.clone().unwrap_or_else(as_they_are);
        let (feature_names, transform) = (meta.feature_names.clone(), meta.target_transform);
        let relevance = meta.feature_scaling.relevance.clone();
        Ok(Self { feature_names, encoding, transform, scaling, relevance, predictor, local_fit: None, calibrated })
    }
}

/// So many training rows are enough for a mean.
const VARIANCE_ROWS: usize = 4096;

impl TrainedModel {
    /// Mean predictive variance at training rows, evenly spaced where there are many; none where it is not finite. On the
    /// scale on which the target is modelled: in its own units, a few large predictions would be all that counts.
    fn variance_at(&self, some: &Array2<f64>) -> Option<f64> {
        // Rows that are their own neighbours would be too sure of themselves.
        if let Some(local) = self.predictor.local() {
            let variance = local.training_variance() * self.scaling.target_std.powi(2);
            return (variance > 0.0 && variance.is_finite()).then_some(variance);
        }
        let std = self.predict(some, true).ok()?.spread()?.to_vec();
        let mean = std.iter().map(|std| std * std).sum::<f64>() / std.len().max(1) as f64;
        (mean > 0.0 && mean.is_finite()).then_some(mean)
    }
}

/// Smallest and largest training value of every feature, to recognise rows outside of them later.
fn ranges(x: &Array2<f64>, span: &Span) -> Result<Vec<Range>, GpError> {
    let d = x.ncols();
    let start = [vec![f64::INFINITY; d], vec![f64::NEG_INFINITY; d]].concat();
    let found = span.in_turn(start, |rows, found| {
        let (least, most) = found.split_at_mut(d);
        for row in x.slice(s![rows, ..]).outer_iter() {
            for (value, (least, most)) in row.iter().zip(least.iter_mut().zip(most.iter_mut())) {
                (*least, *most) = (least.min(*value), most.max(*value));
            }
        }
        Ok(())
    })?;
    let (least, most) = found.split_at(d);
    Ok(least.iter().zip(most).map(|(min, max)| Range { min: *min, max: *max }).collect())
}
