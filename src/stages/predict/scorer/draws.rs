//! Random values of a row's predicted distribution: calibrated where its intervals are.

use crate::eval::conformal::Calibration;
use crate::eval::metrics::score_at;
use crate::gp::random::{StreamKey, uniform};
use arrow::array::{ArrayRef, FixedSizeListArray, Float64Array};
use arrow::datatypes::{DataType, Field};
use rayon::prelude::*;
use std::sync::Arc;

/// How many values of each row, and the seed that they follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    count: i32,
    seed: u64,
}

/// The name of their column.
const NAME: &str = "y_samples";
/// The smallest step of uniform numbers; half of it keeps them away from 0 and 1.
const HALF_STEP: f64 = 1.0 / (1_u64 << 54) as f64;

impl Draws {
    /// So many values of each row; none where that is none.
    pub fn new(count: u16, seed: u64) -> Option<Self> {
        (count > 0).then(|| Self { count: count.into(), seed })
    }

    /// Their column.
    pub fn field(self) -> Field {
        Field::new(NAME, DataType::FixedSizeList(Arc::new(Self::item()), self.count), false)
    }

    fn item() -> Field {
        Field::new("item", DataType::Float64, true)
    }

    /// Values of rows, the first of which has this number; null where there is no prediction. `value` gives that of a prediction
    /// at a score: so many standard deviations from the mean.
    ///
    /// A row's values follow from its number and the seed alone, whatever chunk it is in.
    pub fn of_rows(
        self,
        first: u64,
        predictions: &[Option<usize>],
        calibration: Option<&Calibration>,
        value_at: impl Fn(usize, f64) -> f64 + Sync,
    ) -> ArrayRef {
        let width = self.count as usize;
        let key = StreamKey::new(self.seed).with("samples");
        let mut values = vec![f64::NAN; width * predictions.len()];
        values.par_chunks_mut(width).zip(predictions).enumerate().for_each(|(row, (values, prediction))| {
            let Some(prediction) = prediction else { return };
            let mut generator = key.with_index(first + row as u64).generator();
            for value in values {
                *value = value_at(*prediction, score_at(calibration, uniform(&mut generator) + HALF_STEP));
            }
        });
        let values: Float64Array = values.into_iter().map(|value| (!value.is_nan()).then_some(value)).collect();
        Arc::new(FixedSizeListArray::new(Arc::new(Self::item()), self.count, Arc::new(values), None))
    }
}
