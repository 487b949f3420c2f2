//! What may stand in a column: the Rust types of table rows and their Arrow types.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType};

use super::Timestamp;

/// A Rust type that can be a column of a table.
pub trait Cell: Sized + Clone {
    /// Whether the column may hold nulls.
    const NULLABLE: bool;

    /// The Arrow type of the column.
    fn data_type() -> DataType;

    fn column<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;

    /// Reads a column back; `None` when it has another type, or a null where none may be.
    fn values(column: &ArrayRef) -> Option<Vec<Self>>;
}

/// The field of a column called `name` with cells of type `C`.
pub(super) fn field<C: Cell>(name: &str) -> Field {
    Field::new(name, C::data_type(), C::NULLABLE)
}

/// Implements [`Cell`] for a type and its `Option`: the two differ in nullability only.
macro_rules! cell {
    ($type:ty, $data_type:expr, build $build:expr, read $read:expr) => {
        impl Cell for $type {
            const NULLABLE: bool = false;

            fn data_type() -> DataType {
                $data_type
            }

            fn column<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let build: fn(Vec<Option<Self>>) -> ArrayRef = $build;
                build(values.map(|value| Some(value.clone())).collect())
            }

            fn values(column: &ArrayRef) -> Option<Vec<Self>> {
                <Option<Self> as Cell>::values(column)?.into_iter().collect()
            }
        }

        impl Cell for Option<$type> {
            const NULLABLE: bool = true;

            fn data_type() -> DataType {
                $data_type
            }

            fn column<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let build: fn(Vec<Self>) -> ArrayRef = $build;
                build(values.cloned().collect())
            }

            fn values(column: &ArrayRef) -> Option<Vec<Self>> {
                let read: fn(&ArrayRef) -> Option<Vec<Self>> = $read;
                read(column)
            }
        }
    };
}

cell!(
    String,
    DataType::Utf8,
    build | values | Arc::new(StringArray::from(values)),
    read | column | Some(column.as_string_opt::<i32>()?.iter().map(|value| value.map(str::to_owned)).collect())
);
cell!(
    i32,
    DataType::Int32,
    build | values | Arc::new(Int32Array::from(values)),
    read | column | Some(column.as_primitive_opt::<Int32Type>()?.iter().collect())
);
cell!(
    i64,
    DataType::Int64,
    build | values | Arc::new(Int64Array::from(values)),
    read | column | Some(column.as_primitive_opt::<Int64Type>()?.iter().collect())
);
cell!(
    f64,
    DataType::Float64,
    build | values | Arc::new(Float64Array::from(values)),
    read | column | Some(column.as_primitive_opt::<Float64Type>()?.iter().collect())
);
cell!(
    bool,
    DataType::Boolean,
    build | values | Arc::new(BooleanArray::from(values)),
    read | column | Some(column.as_boolean_opt()?.iter().collect())
);
cell!(
    Timestamp,
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    build
        | values
        | Arc::new(
            values
                .into_iter()
                .map(|value| value.map(Timestamp::micros))
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC")
        ),
    read | column
        | Some(
            column
                .as_primitive_opt::<TimestampMicrosecondType>()?
                .iter()
                .map(|value| value.map(Timestamp::from_micros))
                .collect()
        )
);
