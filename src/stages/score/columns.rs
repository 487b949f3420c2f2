//! Scores as columns, in the two layouts that are written: files of scores, and the predictions table.

use super::{Scorer, StageError};
use crate::store::StoreError;
use crate::store::input::{Columns, text};
use crate::tables::predictions::PredictionBlock;
use crate::tables::{TableError, predictions};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

/// The scores of one chunk. NaN stands for null.
#[derive(Debug)]
pub struct Scored {
    /// The file that the rows come from, counted from 0.
    pub file: usize,
    /// Number of the first row of that file in the input, over all files.
    pub first_of_file: i64,
    /// Number of each row in the input, over all files.
    pub row: Vec<i64>,
    /// Key, in its own type.
    pub key: Option<ArrayRef>,
    /// Target, where it is known.
    pub target: Option<Float64Array>,
    /// Mean.
    pub y_mean: Vec<f64>,
    /// Standard deviation of an observation.
    pub y_std: Vec<f64>,
    /// Standard deviation of the function.
    pub f_std: Vec<f64>,
    /// Standard deviation of the noise.
    pub noise_std: Vec<f64>,
    /// Quantiles, in order.
    pub quantiles: Vec<Vec<f64>>,
    /// Columns passed through.
    pub keep: Vec<ArrayRef>,
}

impl Scored {
    /// Rows without scores.
    pub(super) fn empty(file: usize, rows: usize, (first_of_file, first_row): (u64, u64), quantiles: usize) -> Self {
        let none = || vec![f64::NAN; rows];
        Self {
            file,
            first_of_file: first_of_file as i64,
            row: (first_row..first_row + rows as u64).map(|row| row as i64).collect(),
            key: None,
            target: None,
            y_mean: none(),
            y_std: none(),
            f_std: none(),
            noise_std: none(),
            quantiles: (0..quantiles).map(|_| none()).collect(),
            keep: Vec::new(),
        }
    }

    /// Leaves out the other rows.
    pub(super) fn retain(&mut self, kept: &[bool]) -> Result<(), StageError> {
        let mask = BooleanArray::from(kept.to_vec());
        let arrow = |source| StoreError::from(TableError::Arrow { table: "scores", source });
        for column in self.key.iter_mut().chain(&mut self.keep) {
            *column = filter(column, &mask).map_err(arrow)?;
        }
        if let Some(target) = &mut self.target {
            *target = target.iter().zip(kept).filter(|(_, kept)| **kept).map(|(value, _)| value).collect();
        }
        let columns = [&mut self.y_mean, &mut self.y_std, &mut self.f_std, &mut self.noise_std];
        for column in columns.into_iter().chain(&mut self.quantiles) {
            let mut flags = kept.iter();
            column.retain(|_| flags.next().copied().unwrap_or(false));
        }
        let mut flags = kept.iter();
        self.row.retain(|_| flags.next().copied().unwrap_or(false));
        Ok(())
    }
}

/// The columns of scores.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The columns of a file of scores: key (or row number), mean, standard deviations, quantiles, columns kept.
    pub schema: SchemaRef,
    /// Whether there is a key.
    keyed: bool,
    /// Which of the columns kept are written: the key is there already.
    kept: Vec<bool>,
    quantiles: Vec<String>,
    fields: Vec<FieldRef>,
}

impl Layout {
    /// What this model's scores of these columns look like.
    pub fn new(scorer: &Scorer, columns: &Columns) -> Result<Self, StageError> {
        let number = |name: &str| Field::new(name, DataType::Float64, true);
        let mut fields: Vec<Field> = vec![match &columns.key {
            Some(key) => key.clone(),
            None => Field::new("row", DataType::Int64, false),
        }];
        fields.extend(["y_mean", "y_std", "f_std", "noise_std"].map(number));
        fields.extend(scorer.quantile_names().map(number));
        let kept: Vec<bool> = columns
            .keep
            .iter()
            .map(|field| columns.key.as_ref().is_none_or(|key| key.name() != field.name()))
            .collect();
        fields.extend(columns.keep.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(field, _)| field.clone()));
        let mut names: Vec<&String> = fields.iter().map(Field::name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(StageError::Data {
                what: format!("two columns of the scores would be called `{name}`"),
                hint: "rename the column in the input, or leave it out of `keep`".to_owned(),
            });
        }
        Ok(Self {
            schema: Arc::new(Schema::new(fields)),
            keyed: columns.key.is_some(),
            kept,
            quantiles: scorer.quantile_names().map(str::to_owned).collect(),
            fields: columns.keep.iter().map(|field| Arc::new(field.clone())).collect(),
        })
    }

    /// A batch of a file of scores; row numbers are counted from the one given.
    pub fn batch(&self, scored: &Scored, first_row: i64) -> Result<RecordBatch, StageError> {
        let rows = || Int64Array::from_iter_values(scored.row.iter().map(|row| row - first_row));
        let key = match &scored.key {
            Some(key) if self.keyed => Arc::clone(key),
            _ => Arc::new(rows()),
        };
        let mut columns = vec![key];
        columns.extend([&scored.y_mean, &scored.y_std, &scored.f_std, &scored.noise_std].map(|values| numbers(values)));
        columns.extend(scored.quantiles.iter().map(|values| numbers(values)));
        columns.extend(
            scored.keep.iter().zip(&self.kept).filter(|(_, kept)| **kept).map(|(column, _)| Arc::clone(column)),
        );
        let arrow = |source| StoreError::from(TableError::Arrow { table: "scores", source });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(arrow)?)
    }

    /// A block of the predictions table.
    pub fn block(&self, scored: &Scored, fold: i32) -> Result<PredictionBlock, StageError> {
        let arrow = |source| StoreError::from(TableError::Arrow { table: "predictions", source });
        let key = match &scored.key {
            Some(key) => text(key).map_err(arrow)?.iter().map(|key| key.unwrap_or_default().to_owned()).collect(),
            None => scored.row.iter().map(i64::to_string).collect(),
        };
        let known = |target: &Float64Array| target.iter().map(|value| value.unwrap_or(f64::NAN)).collect();
        Ok(PredictionBlock {
            stage: String::new(),
            case: String::new(),
            fold,
            split: "score".to_owned(),
            key,
            row: scored.row.clone(),
            y_true: scored.target.as_ref().map(known),
            y_mean: scored.y_mean.clone(),
            y_std: Some(scored.y_std.clone()),
            f_std: Some(scored.f_std.clone()),
            noise_std: Some(scored.noise_std.clone()),
            quantiles: self.quantiles.iter().cloned().zip(scored.quantiles.iter().cloned()).collect(),
            keep: self.fields.iter().cloned().zip(scored.keep.iter().cloned()).collect(),
        })
    }

    /// The columns of the predictions table, those kept included.
    pub fn table_schema(&self) -> Result<SchemaRef, StageError> {
        let column = |field: &FieldRef| (Arc::clone(field), arrow::array::new_empty_array(field.data_type()));
        let empty = PredictionBlock {
            quantiles: self.quantiles.iter().map(|name| (name.clone(), Vec::new())).collect(),
            keep: self.fields.iter().map(column).collect(),
            ..PredictionBlock::default()
        };
        Ok(predictions::batches("", &[empty]).map_err(StoreError::from)?.0)
    }
}

/// NaN as null.
fn numbers(values: &[f64]) -> ArrayRef {
    if values.iter().any(|value| value.is_nan()) {
        return Arc::new(values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect::<Float64Array>());
    }
    Arc::new(Float64Array::from(values.to_vec()))
}
