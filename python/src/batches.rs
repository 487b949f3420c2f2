//! Rows in memory that speak Arrow's `PyCapsule` interface, in both directions, without copies.

use arrow::array::{
    Array as _, ArrayReader as _, ArrayRef, AsArray as _, Float64Array, RecordBatch, RecordBatchIterator,
    RecordBatchOptions, RecordBatchReader, make_array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyTuple};
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::Arc;
use stride_pipe::cli::Failure;
use stride_pipe::store::ParquetSink;

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// Batches of rows with the same columns.
#[pyclass(frozen, module = "stride_pipe._core")]
#[derive(Clone, Debug)]
pub struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    pub const fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    pub const fn empty(schema: SchemaRef) -> Self {
        Self::new(schema, Vec::new())
    }

    fn reader(&self) -> Box<dyn RecordBatchReader + Send> {
        let batches = self.batches.clone().into_iter().map(Ok);
        Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema)))
    }

    /// A column as one array.
    fn whole(&self, name: &str) -> PyResult<ArrayRef> {
        let (index, field) = self
            .schema
            .column_with_name(name)
            .ok_or_else(|| PyKeyError::new_err(format!("there is no column {name}")))?;
        let parts: Vec<&dyn arrow::array::Array> =
            self.batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        match parts[..] {
            [] => Ok(arrow::array::new_empty_array(field.data_type())),
            [_] => Ok(Arc::clone(self.batches[0].column(index))),
            _ => concat(&parts).map_err(refused),
        }
    }
}

fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The batches of anything that speaks the interface. Rows are neither copied nor looked at.
pub fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        #[expect(unsafe_code, reason = "a foreign stream")]
        // SAFETY: a capsule of this name holds such a stream, which is moved out of it and leaves one that is released.
        let arrays = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(refused)?;
        let schema = schema_of(arrays.field())?;
        let own = Arc::clone(&schema);
        let batches = arrays.map(move |array| rows_of(&array?, &own));
        return Ok(Box::new(RecordBatchIterator::new(batches, schema)));
    }
    if object.hasattr("__arrow_c_array__")? {
        return batch_of(object);
    }
    let kind = object.get_type().name()?;
    Err(PyTypeError::new_err(format!(
        "{kind} does not speak the Arrow PyCapsule interface (`__arrow_c_stream__`); give a table of polars, pandas 2.2 or newer, \
         pyarrow or DuckDB"
    )))
}

/// A single batch.
fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    let pair = object.call_method0("__arrow_c_array__")?.cast_into::<PyTuple>()?;
    let schema = pair.get_item(0)?.cast_into::<PyCapsule>()?.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = pair.get_item(1)?.cast_into::<PyCapsule>()?.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    #[expect(unsafe_code, reason = "a foreign array")]
    // SAFETY: capsules of these names hold such structures; the array is moved out, and leaves one that is released.
    let (field, data) = unsafe {
        let schema = schema.as_ref();
        (Field::try_from(schema), from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema))
    };
    let schema = schema_of(&field.map_err(refused)?)?;
    let batch = rows_of(&make_array(data.map_err(refused)?), &schema);
    Ok(Box::new(RecordBatchIterator::new([batch], schema)))
}

/// The columns of a table, which comes as one column of structures.
fn schema_of(field: &Field) -> PyResult<SchemaRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(PyTypeError::new_err("this is one column; give a table"));
    };
    Ok(Arc::new(Schema::new(fields.clone()).with_metadata(field.metadata().clone())))
}

fn rows_of(array: &ArrayRef, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = array.as_struct();
    // What the columns hold there means nothing.
    if rows.null_count() > 0 {
        let text = format!("{} row(s) are null as a whole, not in a column; leave them out", rows.null_count());
        return Err(ArrowError::InvalidArgumentError(text));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), rows.columns().to_vec(), &options)
}

#[pymethods]
impl Batches {
    /// Numbers, column after column, as the columns of these names.
    #[staticmethod]
    fn from_columns(names: Vec<String>, rows: usize, columns: &[u8]) -> PyResult<Self> {
        let width = rows * size_of::<f64>();
        if columns.len() != width * names.len() {
            return Err(PyValueError::new_err("the numbers are not as many as rows and columns say"));
        }
        let column = |index: usize| -> ArrayRef {
            let bytes = columns[index * width..(index + 1) * width].as_chunks::<8>().0;
            Arc::new(Float64Array::from_iter_values(bytes.iter().map(|value| f64::from_ne_bytes(*value))))
        };
        let columns: Vec<ArrayRef> = (0..names.len()).map(column).collect();
        let field = |name: &String| Field::new(name, DataType::Float64, false);
        let schema: SchemaRef = Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(refused)?;
        Ok(Self::new(schema, vec![batch]))
    }

    /// The rows of anything that speaks the interface.
    #[staticmethod]
    fn from_arrow(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let reader = reader_of(table)?;
        let schema = reader.schema();
        let batches = py.detach(|| reader.collect::<Result<Vec<_>, _>>()).map_err(refused)?;
        Ok(Self::new(schema, batches))
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The metadata of the schema.
    #[getter]
    fn metadata(&self) -> std::collections::HashMap<String, String> {
        self.schema.metadata().clone().into()
    }

    /// A column: the bytes of its numbers (null is NaN) and how many a row has; or its values.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.whole(name)?;
        if let DataType::FixedSizeList(_, width) = column.data_type() {
            let width = *width;
            let list = column.as_fixed_size_list();
            let start = list.value_offset_at(0);
            let values = list.values().slice(start, list.len() * width as usize);
            return Ok((numbers(py, &values)?, width).into_pyobject(py)?.into_any());
        }
        if column.data_type().is_floating() {
            return Ok((numbers(py, &column)?, 0).into_pyobject(py)?.into_any());
        }
        if column.data_type().is_integer() {
            let values = cast(&column, &DataType::Int64).map_err(refused)?;
            return Ok(PyList::new(py, values.as_primitive::<Int64Type>().iter())?.into_any());
        }
        if matches!(column.data_type(), DataType::Boolean) {
            return Ok(PyList::new(py, column.as_boolean().iter())?.into_any());
        }
        let values = cast(&column, &DataType::Utf8).map_err(refused)?;
        Ok(PyList::new(py, values.as_string::<i32>().iter())?.into_any())
    }

    /// Writes a Parquet file.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let written = py.detach(|| {
            let mut sink = ParquetSink::create(&path, &self.schema, &[])?;
            self.batches.iter().try_for_each(|batch| sink.write(batch))?;
            sink.finish()
        });
        written.map(drop).map_err(|error| crate::failure::exception(py, &Failure::from(error)))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A wish only; whoever has it converts.
        let _ = requested_schema;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(self.reader()), STREAM)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(refused)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }
}

/// The bytes of numbers, NaN where they are null.
fn numbers<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyBytes>> {
    let column = cast(column, &DataType::Float64).map_err(refused)?;
    let column = column.as_primitive::<Float64Type>();
    if column.null_count() == 0 {
        let bytes = column.values().inner().as_slice();
        return Ok(PyBytes::new(py, bytes));
    }
    let values: Vec<u8> = column.iter().flat_map(|value| value.unwrap_or(f64::NAN).to_ne_bytes()).collect();
    Ok(PyBytes::new(py, &values))
}
