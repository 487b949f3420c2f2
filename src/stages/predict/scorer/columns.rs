//! Scores as columns, in the two layouts that are written: files of scores, and the predictions table.

use super::{Draws, ScoreOrigin, Scorer, StageError};
use crate::store::StoreError;
use crate::store::input::{Columns, text};
use crate::tables::predictions::PredictionBlock;
use crate::tables::{TableError, predictions};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// The numbers that every score has, in order.
const OWN: [&str; 4] = ["y_mean", "y_std", "f_std", "noise_std"];

/// Numbers of one chunk, row by row, while they are computed. NaN stands for null.
pub(super) struct Numbers {
    pub y_mean: Vec<f64>,
    /// Standard deviation of an observation.
    pub y_std: Vec<f64>,
    /// Standard deviation of the function.
    pub f_std: Vec<f64>,
    /// Standard deviation of the noise.
    pub noise_std: Vec<f64>,
    /// The share of the predicted distribution below the target, where that is known.
    pub y_pit: Vec<f64>,
    /// Mean and standard deviation on the scale on which the target is modelled, where that is not its own.
    pub t_mean: Vec<f64>,
    pub t_std: Vec<f64>,
    /// Quantiles, in order.
    pub quantiles: Vec<Vec<f64>>,
    /// Random values, where they are asked for.
    pub draws: Option<ArrayRef>,
}

impl Numbers {
    pub(super) fn none(rows: usize, quantiles: usize) -> Self {
        let none = || vec![f64::NAN; rows];
        let quantiles = (0..quantiles).map(|_| none()).collect();
        let [y_mean, y_std, f_std, noise_std, y_pit, t_mean, t_std] = std::array::from_fn(|_| none());
        Self { y_mean, y_std, f_std, noise_std, y_pit, t_mean, t_std, quantiles, draws: None }
    }
}

/// The scores of one chunk, as columns that every sink shares.
#[derive(Debug)]
pub struct Scored {
    /// The file that the rows come from, counted from 0.
    pub file: usize,
    /// Number of the first row of that file in the input, over all files.
    pub first_of_file: i64,
    /// Number of each row in the input, over all files.
    row: Int64Array,
    /// Key, in its own type.
    key: Option<ArrayRef>,
    /// Target, where it is known.
    target: Option<ArrayRef>,
    /// The share of the predicted distribution below the target.
    pit: ArrayRef,
    /// Mean and standard deviation on the scale on which the target is modelled.
    on_scale: [ArrayRef; 2],
    /// Mean and standard deviations, quantiles, random values.
    numbers: Vec<ArrayRef>,
    keep: Vec<ArrayRef>,
}

impl Scored {
    /// The scores of a chunk that begins with this row of the input.
    pub(super) fn new(
        (file, first_of_file, first_row): (usize, u64, u64),
        numbers: Numbers,
        (key, target, keep): (Option<ArrayRef>, Option<Float64Array>, Vec<ArrayRef>),
    ) -> Self {
        let Numbers { y_mean, y_std, f_std, noise_std, y_pit, t_mean, t_std, quantiles, draws } = numbers;
        let first = first_row as i64;
        let rows = y_mean.len() as i64;
        let columns = [y_mean, y_std, f_std, noise_std].into_iter().chain(quantiles);
        Self {
            file,
            first_of_file: first_of_file as i64,
            row: Int64Array::from_iter_values(first..first + rows),
            key,
            target: target.map(|target| Arc::new(target) as ArrayRef),
            pit: nullable(y_pit),
            on_scale: [nullable(t_mean), nullable(t_std)],
            numbers: columns.map(nullable).chain(draws).collect(),
            keep,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    /// Leaves out the other rows.
    pub(super) fn retain(&mut self, kept: &[bool]) -> Result<(), StageError> {
        let mask = BooleanArray::from(kept.to_vec());
        let arrow = |source| StoreError::from(TableError::Arrow { table: "scores", source });
        let columns = self
            .key
            .iter_mut()
            .chain(&mut self.target)
            .chain([&mut self.pit])
            .chain(&mut self.on_scale)
            .chain(&mut self.numbers)
            .chain(&mut self.keep);
        for column in columns {
            *column = filter(column, &mask).map_err(arrow)?;
        }
        let kept_rows = self.row.values().iter().zip(kept).filter(|(_, kept)| **kept).map(|(row, _)| *row);
        self.row = Int64Array::from_iter_values(kept_rows);
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
    /// Whether the target is modelled on another scale.
    scaled: bool,
    fields: Vec<FieldRef>,
    origin: ScoreOrigin,
    /// Whether the origin is in columns too.
    shows_origin: bool,
}

impl Layout {
    /// What this model's scores of these columns look like.
    pub fn new(scorer: &Scorer, columns: &Columns, origin: ScoreOrigin) -> Result<Self, StageError> {
        let shows_origin = scorer.options.origin;
        let number = |name: &str| Field::new(name, DataType::Float64, true);
        let mut fields: Vec<Field> = vec![match &columns.key {
            Some(key) => key.clone(),
            None => Field::new("row", DataType::Int64, false),
        }];
        fields.extend(OWN.map(number));
        fields.extend(scorer.quantile_names().map(number));
        fields.extend(scorer.draws.map(Draws::field));
        let kept: Vec<bool> = columns
            .keep
            .iter()
            .map(|field| columns.key.as_ref().is_none_or(|key| key.name() != field.name()))
            .collect();
        fields.extend(columns.keep.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(field, _)| field.clone()));
        if shows_origin {
            fields.extend(ScoreOrigin::fields());
        }
        let mut names: Vec<&String> = fields.iter().map(Field::name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(StageError::Data {
                what: format!("two columns of the scores would be called `{name}`"),
                hint: "rename the column in the input, or leave it out of `keep`".to_owned(),
            });
        }
        let metadata: HashMap<String, String> = origin.footer().into_iter().collect();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
            keyed: columns.key.is_some(),
            kept,
            scaled: scorer.scale().is_some(),
            quantiles: scorer.quantile_names().map(str::to_owned).collect(),
            fields: columns.keep.iter().map(|field| Arc::new(field.clone())).collect(),
            origin,
            shows_origin,
        })
    }

    /// What the footer of a file of scores says.
    pub fn footer(&self) -> Vec<(String, String)> {
        self.origin.footer()
    }

    /// A batch of a file of scores; row numbers are counted from the one given.
    pub fn batch(&self, scored: &Scored, first_row: i64) -> Result<RecordBatch, StageError> {
        let key = match &scored.key {
            Some(key) if self.keyed => Arc::clone(key),
            _ if first_row == 0 => Arc::new(scored.row.clone()),
            _ => Arc::new(scored.row.unary::<_, Int64Type>(|row| row - first_row)),
        };
        let mut columns = vec![key];
        columns.extend(scored.numbers.iter().cloned());
        columns.extend(
            scored.keep.iter().zip(&self.kept).filter(|(_, kept)| **kept).map(|(column, _)| Arc::clone(column)),
        );
        if self.shows_origin {
            columns.extend(self.origin.columns(scored.row.len()));
        }
        let arrow = |source| StoreError::from(TableError::Arrow { table: "scores", source });
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(arrow)?)
    }

    /// A batch of the predictions table, whose columns are those of `schema`; run, stage and case are filled in later.
    pub fn table_batch(&self, scored: &Scored, fold: i32, schema: &SchemaRef) -> Result<RecordBatch, StageError> {
        let arrow = |source| StoreError::from(TableError::Arrow { table: "predictions", source });
        let rows = scored.row.len();
        let later = predictions::constant("", rows);
        let key: ArrayRef = match &scored.key {
            Some(key) => Arc::new(text(key).map_err(arrow)?),
            None => Arc::new(text(&(Arc::new(scored.row.clone()) as ArrayRef)).map_err(arrow)?),
        };
        let target = scored.target.clone().unwrap_or_else(|| Arc::new(Float64Array::new_null(rows)));
        let mut columns: Vec<ArrayRef> = vec![
            Arc::clone(&later),
            Arc::clone(&later),
            later,
            Arc::new(Int32Array::from_value(fold, rows)),
            predictions::constant("score", rows),
            key,
            Arc::new(scored.row.clone()),
            target,
        ];
        // What the local layer makes of a row is written for test rows, where it can be compared.
        let unsaid = || Arc::new(Float64Array::new_null(rows)) as ArrayRef;
        let (own, quantiles) = scored.numbers.split_at(OWN.len());
        columns.extend(own.iter().cloned().chain([unsaid(), unsaid(), Arc::clone(&scored.pit)]));
        columns.extend(scored.on_scale.iter().filter(|_| self.scaled).cloned());
        columns.extend(quantiles.iter().chain(&scored.keep).cloned());
        Ok(RecordBatch::try_new(Arc::clone(schema), columns).map_err(arrow)?)
    }

    /// The columns of the predictions table, those kept included.
    pub fn table_schema(&self) -> Result<SchemaRef, StageError> {
        let column = |field: &FieldRef| (Arc::clone(field), arrow::array::new_empty_array(field.data_type()));
        let empty = PredictionBlock {
            quantiles: self.quantiles.iter().map(|name| (name.clone(), Vec::new())).collect(),
            keep: self.fields.iter().map(column).collect(),
            on_scale: self.scaled.then(Default::default),
            ..PredictionBlock::default()
        };
        Ok(predictions::batches("", &[empty]).map_err(StoreError::from)?.0)
    }
}

/// NaN as null.
fn nullable(values: Vec<f64>) -> ArrayRef {
    if values.iter().any(|value| value.is_nan()) {
        return Arc::new(values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect::<Float64Array>());
    }
    Arc::new(Float64Array::from(values))
}
