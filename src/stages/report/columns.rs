//! Columns of a batch by name, and the fits whose rows are kept.

use arrow::array::{Array as _, AsArray as _, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};

/// Columns of a batch; none where one is missing or of another type.
pub struct BatchColumns<'a>(pub &'a RecordBatch);

impl<'a> BatchColumns<'a> {
    pub fn text(&self, name: &str) -> Option<&'a StringArray> {
        self.0.column_by_name(name)?.as_string_opt::<i32>()
    }

    pub fn whole(&self, name: &str) -> Option<&'a Int32Array> {
        self.0.column_by_name(name)?.as_primitive_opt()
    }

    pub fn long(&self, name: &str) -> Option<&'a Int64Array> {
        self.0.column_by_name(name)?.as_primitive_opt()
    }

    pub fn number(&self, name: &str) -> Option<&'a Float64Array> {
        self.0.column_by_name(name)?.as_primitive_opt()
    }
}

/// A value of a column that may be missing, and may have missing values.
pub fn value(column: Option<&Float64Array>, row: usize) -> Option<f64> {
    column.filter(|column| !column.is_null(row)).map(|column| column.value(row))
}

/// Stage, case and fold.
pub type FitPlace = (String, String, i32);

/// Where rows of a fit are kept: the first fold of each stage and case, and of so many of them at most.
pub fn of_fit<'a, T: Default>(
    found: &'a mut Vec<(FitPlace, T)>,
    most: usize,
    (stage, case, fold): (&str, &str, i32),
) -> Option<&'a mut T> {
    let known = found.iter().position(|(place, _)| place.0 == stage && place.1 == case);
    let position = match known {
        Some(position) => position,
        None if found.len() >= most => return None,
        None => {
            found.push(((stage.to_owned(), case.to_owned(), fold), T::default()));
            found.len() - 1
        }
    };
    let (place, kept) = &mut found[position];
    (place.2 == fold).then_some(kept)
}
