//! Arrays of numbers as columns: the first index counts rows, all others together count columns.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{ArrowPrimitiveType, Float16Type};

use super::{COPY_AGAIN, MOST_COLUMNS, Refusal};

/// A float of 16 bits.
type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// What an array holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
}

impl Element {
    pub(super) const fn width(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// An array as it stands in a file.
pub(super) struct Dense<'a> {
    pub element: Element,
    pub big_endian: bool,
    /// First index fastest, instead of the last.
    pub fortran: bool,
    pub shape: Vec<usize>,
    pub bytes: &'a [u8],
}

impl Dense<'_> {
    /// Rows: [n, …].
    pub(super) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// The array's columns: `name` for [n], `name00`, `name01`, … for [n, …].
    pub(super) fn columns(&self, name: &str) -> Result<Vec<(String, ArrayRef)>, Refusal> {
        let width = self.check()?;
        if self.shape.len() == 1 {
            return Ok(vec![(name.to_owned(), self.column(0, 1))]);
        }
        let digits = (width - 1).to_string().len().max(2);
        let column = |index: usize| {
            let (start, step) = if self.fortran { (self.fortran_start(index), 1) } else { (index, width) };
            (format!("{name}{index:0digits$}"), self.column(start, step))
        };
        Ok((0..width).map(column).collect())
    }

    /// The number of columns; refuses shapes that are none of a table, or do not fit the bytes.
    fn check(&self) -> Result<usize, Refusal> {
        let shape = format!("shape {:?}", self.shape);
        let Some((rows, others)) = self.shape.split_first() else {
            return Err(Refusal::new(
                "a single value, not an array",
                "leave it out with `--only` and the other arrays",
            ));
        };
        let width = others.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
        let Some(width) = width.filter(|width| *width <= MOST_COLUMNS) else {
            let hint = "the first index must count rows; transpose the array, or keep fewer columns";
            return Err(Refusal::new(format!("{shape} would be more than {MOST_COLUMNS} columns"), hint));
        };
        if *rows == 0 || width == 0 {
            return Err(Refusal::new(format!("{shape}: there are no values in it"), "write it again with rows"));
        }
        let needed = rows.checked_mul(width).and_then(|values| values.checked_mul(self.element.width()));
        if needed != Some(self.bytes.len()) {
            let needed = needed.map_or_else(|| "more than any machine has".to_owned(), |bytes| bytes.to_string());
            let detail = format!("its header promises {shape}, {needed} bytes, but {} follow", self.bytes.len());
            return Err(Refusal::new(detail, COPY_AGAIN));
        }
        Ok(width)
    }

    /// Where a column begins when the first index is fastest; columns are counted with the last index fastest.
    fn fortran_start(&self, column: usize) -> usize {
        let (mut rest, mut block) = (column, self.shape.iter().product::<usize>());
        let mut start = 0;
        for length in self.shape.iter().skip(1).rev() {
            block /= length;
            start += rest % length * block;
            rest /= length;
        }
        start
    }

    /// The values `start`, `start + step`, …: one for each row.
    fn column(&self, start: usize, step: usize) -> ArrayRef {
        macro_rules! numbers {
            ($array:ty, $number:ty) => {
                Arc::new(<$array>::from_iter_values(self.cells(start, step).map(|cell| {
                    if self.big_endian { <$number>::from_be_bytes(cell) } else { <$number>::from_le_bytes(cell) }
                })))
            };
        }
        match self.element {
            Element::Bool => Arc::new(self.cells(start, step).map(|[cell]| Some(cell != 0)).collect::<BooleanArray>()),
            Element::I8 => numbers!(Int8Array, i8),
            Element::I16 => numbers!(Int16Array, i16),
            Element::I32 => numbers!(Int32Array, i32),
            Element::I64 => numbers!(Int64Array, i64),
            Element::U8 => numbers!(UInt8Array, u8),
            Element::U16 => numbers!(UInt16Array, u16),
            Element::U32 => numbers!(UInt32Array, u32),
            Element::U64 => numbers!(UInt64Array, u64),
            // Few tools read half floats from Parquet; nothing is lost in 32 bits.
            Element::F16 => Arc::new(Float32Array::from_iter_values(self.cells(start, step).map(|cell| {
                if self.big_endian { Half::from_be_bytes(cell) } else { Half::from_le_bytes(cell) }.to_f32()
            }))),
            Element::F32 => numbers!(Float32Array, f32),
            Element::F64 => numbers!(Float64Array, f64),
        }
    }

    fn cells<const W: usize>(&self, start: usize, step: usize) -> impl Iterator<Item = [u8; W]> {
        let (cells, _) = self.bytes.as_chunks::<W>();
        cells.iter().skip(start).step_by(step).take(self.rows()).copied()
    }
}
