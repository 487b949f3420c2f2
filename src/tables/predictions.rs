//! The `predictions` table: one row per predicted row, built by columns because it is the large one.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    new_empty_array, new_null_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int32Type, Schema, SchemaRef};

use super::TableError;
use super::cell::{Cell, field};

/// Raised with every change of the columns. 2: `y_mean` may be null, for rows that could not be scored. 3: `y_mean_global` and
/// `nearest_distance`. 4: `y_pit`.
pub const SCHEMA_VERSION: u32 = 4;

pub(super) const TABLE: &str = "predictions";

/// Predictions of one stage, case and fold. All vectors have the same length; NaN becomes null where nulls may be.
#[derive(Debug, Clone, Default)]
pub struct PredictionBlock {
    pub stage: String,
    /// Case, as `method=stride,m=50`, or `default`.
    pub case: String,
    pub fold: i32,
    /// `test` or `score`.
    pub split: String,
    /// Key of each row, as text.
    pub key: Vec<String>,
    /// Number of each row in the input, over all its files, from 0.
    pub row: Vec<i64>,
    /// Observed target, where there is one.
    pub y_true: Option<Vec<f64>>,
    pub y_mean: Vec<f64>,
    /// Predicted standard deviation of an observation.
    pub y_std: Option<Vec<f64>>,
    /// The part of it that is doubt about the function.
    pub f_std: Option<Vec<f64>>,
    /// The part of it that is noise.
    pub noise_std: Option<Vec<f64>>,
    /// The prediction of the model without its local layer, of models that have one above something else.
    pub y_mean_global: Option<Vec<f64>>,
    /// Distance to the nearest training row, where 1 is usual among training rows, of models with a local layer.
    pub nearest_distance: Option<Vec<f64>>,
    /// The share of the predicted distribution, calibrated if the model is, that lies below the observed target.
    pub y_pit: Option<Vec<f64>>,
    /// Mean and standard deviation on the scale on which the target is modelled, where that is not its own.
    pub on_scale: Option<(Vec<f64>, Vec<f64>)>,
    /// Additional quantiles by column name, see [`interval_columns`].
    pub quantiles: Vec<(String, Vec<f64>)>,
    /// Columns of the input that are passed through.
    pub keep: Vec<(FieldRef, ArrayRef)>,
}

/// The columns that every predictions file has.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(base_fields()))
}

fn base_fields() -> Vec<Field> {
    vec![
        field::<String>("run_id"),
        field::<String>("stage"),
        field::<String>("case"),
        field::<i32>("fold"),
        field::<String>("split"),
        field::<String>("key"),
        field::<i64>("row"),
        field::<Option<f64>>("y_true"),
        field::<Option<f64>>("y_mean"),
        field::<Option<f64>>("y_std"),
        field::<Option<f64>>("f_std"),
        field::<Option<f64>>("noise_std"),
        field::<Option<f64>>("y_mean_global"),
        field::<Option<f64>>("nearest_distance"),
        field::<Option<f64>>("y_pit"),
    ]
}

/// The columns of a quantile: `y_q05` for 0.05, `y_q25` for 0.25, `y_q975` for 0.975.
///
/// The digits are those after the decimal point, at least two, so that names of different quantiles differ.
pub fn quantile_column(quantile: f64) -> Result<String, TableError> {
    let level = TableError::Level { level: quantile };
    if !(quantile > 0.0 && quantile < 1.0) {
        return Err(level);
    }
    // Intervals have at most six decimals, their ends at most seven.
    let text = format!("{quantile:.7}");
    let exact = text.parse::<f64>().is_ok_and(|parsed| (parsed - quantile).abs() < 1e-12);
    let digits = text.trim_start_matches("0.").trim_end_matches('0');
    if !exact || digits.is_empty() {
        return Err(level);
    }
    Ok(format!("y_q{digits:0<2}"))
}

/// The two columns of a central interval: 0.9 gives `y_q05` and `y_q95`, 0.95 gives `y_q025` and `y_q975`.
pub fn interval_columns(level: f64) -> Result<(String, String), TableError> {
    if level <= 0.0 {
        return Err(TableError::Level { level });
    }
    let name = |quantile| quantile_column(quantile).map_err(|_| TableError::Level { level });
    let (lower, upper) = interval_quantiles(level);
    Ok((name(lower)?, name(upper)?))
}

/// The two quantiles of a central interval: 0.9 gives 0.05 and 0.95.
pub fn interval_quantiles(level: f64) -> (f64, f64) {
    ((1.0 - level) / 2.0, f64::midpoint(1.0, level))
}

/// One batch per block, all with the columns that any of the blocks has; no blocks give the schema alone.
pub fn batches(run_id: &str, blocks: &[PredictionBlock]) -> Result<(SchemaRef, Vec<RecordBatch>), TableError> {
    let schema = joint_schema(blocks)?;
    let batches = blocks.iter().map(|block| block.batch(run_id, &schema)).collect::<Result<_, _>>()?;
    Ok((schema, batches))
}

/// The columns of predictions of a target that is modelled on another scale.
pub const ON_SCALE: [&str; 2] = ["t_mean", "t_std"];

/// The contract's columns, then those of another scale, quantiles, then columns passed through, each in order of first appearance.
fn joint_schema(blocks: &[PredictionBlock]) -> Result<SchemaRef, TableError> {
    let mut fields: Vec<FieldRef> = base_fields().into_iter().map(Arc::new).collect();
    if blocks.iter().any(|block| block.on_scale.is_some()) {
        fields.extend(ON_SCALE.map(|name| Arc::new(Field::new(name, DataType::Float64, true))));
    }
    let base = fields.len();
    for (name, _) in blocks.iter().flat_map(|block| &block.quantiles) {
        add_field(&mut fields, base, &Arc::new(Field::new(name, DataType::Float64, true)))?;
    }
    let fixed = fields.len();
    for (kept, _) in blocks.iter().flat_map(|block| &block.keep) {
        // Nullable, because another block may not have the column.
        add_field(&mut fields, fixed, &Arc::new(kept.as_ref().clone().with_nullable(true)))?;
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Adds `new` unless it is there already; the first `taken` names belong to others.
fn add_field(fields: &mut Vec<FieldRef>, taken: usize, new: &FieldRef) -> Result<(), TableError> {
    let refuse = |detail: String| TableError::Column { table: TABLE, column: new.name().clone(), detail };
    match fields.iter().position(|field| field.name() == new.name()) {
        Some(position) if position < taken => Err(refuse("has the name of a column of the table".to_owned())),
        Some(position) if fields[position].data_type() != new.data_type() => {
            Err(refuse(format!("is {} here and {} there", fields[position].data_type(), new.data_type())))
        }
        Some(_) => Ok(()),
        None => {
            fields.push(Arc::clone(new));
            Ok(())
        }
    }
}

/// Whether a column is one that every file has; those of older versions have fewer.
fn is_base(field: &Field) -> bool {
    base_fields().iter().any(|base| base.name() == field.name())
}

/// A block without rows that has the additional columns of a file's schema.
pub fn template(schema: &Schema) -> PredictionBlock {
    let mut block = PredictionBlock::default();
    for field in schema.fields().iter().filter(|field| !is_base(field)) {
        if field.name().starts_with("y_q") {
            block.quantiles.push((field.name().clone(), Vec::new()));
        } else if ON_SCALE.contains(&field.name().as_str()) {
            block.on_scale = Some((Vec::new(), Vec::new()));
        } else {
            block.keep.push((Arc::clone(field), new_empty_array(field.data_type())));
        }
    }
    block
}

impl PredictionBlock {
    pub fn rows(&self) -> usize {
        self.y_mean.len()
    }

    /// The block as a batch with the columns of `schema`, which comes from [`batches`].
    pub fn batch(&self, run_id: &str, schema: &SchemaRef) -> Result<RecordBatch, TableError> {
        let rows = self.rows();
        let mut columns: Vec<ArrayRef> = vec![
            constant(run_id, rows),
            constant(&self.stage, rows),
            constant(&self.case, rows),
            Arc::new(Int32Array::from_value(self.fold, rows)),
            constant(&self.split, rows),
            Arc::new(StringArray::from_iter_values(&self.key)),
            Arc::new(Int64Array::from_iter_values(self.row.iter().copied())),
            optional(self.y_true.as_deref(), rows),
            optional(Some(&self.y_mean), rows),
            optional(self.y_std.as_deref(), rows),
            optional(self.f_std.as_deref(), rows),
            optional(self.noise_std.as_deref(), rows),
            optional(self.y_mean_global.as_deref(), rows),
            optional(self.nearest_distance.as_deref(), rows),
            optional(self.y_pit.as_deref(), rows),
        ];
        for field in schema.fields().iter().skip(columns.len()) {
            columns.push(self.additional(field, rows));
        }
        for (field, column) in schema.fields().iter().zip(&columns) {
            if column.len() != rows {
                let (column, found) = (field.name().clone(), column.len());
                return Err(TableError::Ragged { table: TABLE, column, expected: rows, found });
            }
        }
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|source| TableError::Arrow { table: TABLE, source })
    }

    /// A quantile, a column passed through, or nulls when this block has neither.
    fn additional(&self, field: &Field, rows: usize) -> ArrayRef {
        if let (Some(place), Some((mean, std))) =
            (ON_SCALE.iter().position(|name| name == field.name()), &self.on_scale)
        {
            return optional(Some([mean, std][place]), rows);
        }
        let quantile = self.quantiles.iter().find(|(name, _)| name == field.name());
        let kept = self.keep.iter().find(|(kept, _)| kept.name() == field.name());
        match (quantile, kept) {
            (Some((_, values)), _) => optional(Some(values), rows),
            (None, Some((_, column))) => Arc::clone(column),
            (None, None) => new_null_array(field.data_type(), rows),
        }
    }
}

impl PredictionBlock {
    /// The block that [`batches`] made these from; `None` when they are something else. No rows give an empty block.
    pub fn from_batches(batches: &[RecordBatch]) -> Option<Self> {
        let mut block = Self::default();
        for batch in batches {
            block.extend(batch)?;
        }
        Some(block)
    }

    /// Adds what metrics need of a batch: the numbers of rows that have a prediction and a true value. `None` when it is
    /// not of a predictions table.
    pub fn extend_known(&mut self, batch: &RecordBatch) -> Option<()> {
        let column = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Float64Type>();
        let (y_true, y_mean) = (column("y_true")?, column("y_mean")?);
        let (y_std, noise_std) = (column("y_std")?, column("noise_std")?);
        if batch.num_rows() > 0 {
            self.fold = batch.column_by_name("fold")?.as_primitive_opt::<Int32Type>()?.value(0);
            batch.column_by_name("split")?.as_string_opt::<i32>()?.value(0).clone_into(&mut self.split);
        }
        let on_scale = column(ON_SCALE[0]).zip(column(ON_SCALE[1]));
        for row in (0..batch.num_rows()).filter(|row| y_true.is_valid(*row) && y_mean.is_valid(*row)) {
            if let Some((mean, std)) = on_scale.filter(|(mean, _)| mean.is_valid(row)) {
                let (means, stds) = self.on_scale.get_or_insert_default();
                means.push(mean.value(row));
                stds.push(std.value(row));
            }
            self.y_mean.push(y_mean.value(row));
            self.y_true.get_or_insert_default().push(y_true.value(row));
            // A prediction has them in every row, or in none.
            for (all, column) in [(&mut self.y_std, y_std), (&mut self.noise_std, noise_std)] {
                if column.is_valid(row) {
                    all.get_or_insert_default().push(column.value(row));
                }
            }
        }
        Some(())
    }

    fn extend(&mut self, batch: &RecordBatch) -> Option<()> {
        let text = |name: &str| <String as Cell>::values(batch.column_by_name(name)?);
        let optional = |name: &str| <Option<f64> as Cell>::values(batch.column_by_name(name)?);
        let first = |name: &str| text(name)?.into_iter().next();
        if let Some(stage) = first("stage") {
            self.stage = stage;
            self.case = first("case")?;
            self.split = first("split")?;
            self.fold = <i32 as Cell>::values(batch.column_by_name("fold")?)?.first().copied()?;
        }
        self.key.extend(text("key")?);
        self.row.extend(<i64 as Cell>::values(batch.column_by_name("row")?)?);
        self.y_mean.extend(optional("y_mean")?.into_iter().map(|value| value.unwrap_or(f64::NAN)));
        append(&mut self.y_true, optional("y_true")?);
        append(&mut self.y_std, optional("y_std")?);
        append(&mut self.f_std, optional("f_std")?);
        append(&mut self.noise_std, optional("noise_std")?);
        // Older files do not have these.
        append(&mut self.y_mean_global, optional("y_mean_global").unwrap_or_default());
        append(&mut self.nearest_distance, optional("nearest_distance").unwrap_or_default());
        append(&mut self.y_pit, optional("y_pit").unwrap_or_default());
        if let (Some(mean), Some(std)) = (optional(ON_SCALE[0]), optional(ON_SCALE[1])) {
            let (means, stds) = self.on_scale.get_or_insert_default();
            means.extend(mean.into_iter().map(|value| value.unwrap_or(f64::NAN)));
            stds.extend(std.into_iter().map(|value| value.unwrap_or(f64::NAN)));
        }
        // Columns that were passed through are not taken back.
        let quantiles = |field: &&FieldRef| field.name().starts_with("y_q");
        for field in batch.schema().fields().iter().filter(|field| !is_base(field)).filter(quantiles) {
            let values: Vec<f64> = optional(field.name())?.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            match self.quantiles.iter_mut().find(|(name, _)| name == field.name()) {
                Some((_, known)) => known.extend(values),
                None => self.quantiles.push((field.name().clone(), values)),
            }
        }
        Some(())
    }
}

/// A column without any value was not there; in one that was, null stands for NaN.
fn append(column: &mut Option<Vec<f64>>, values: Vec<Option<f64>>) {
    if values.iter().any(Option::is_some) {
        column.get_or_insert_default().extend(values.into_iter().map(|value| value.unwrap_or(f64::NAN)));
    }
}

/// A column with the same text in every row.
pub(crate) fn constant(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

fn optional(values: Option<&[f64]>, rows: usize) -> ArrayRef {
    match values {
        Some(values) => {
            Arc::new(values.iter().map(|&value| (!value.is_nan()).then_some(value)).collect::<Float64Array>())
        }
        None => Arc::new(Float64Array::new_null(rows)),
    }
}
