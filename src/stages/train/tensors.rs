//! Takes tensors by name out of a file; what is not there, or has another shape, is said.

use crate::gp::row_noise::RowNoise;
use crate::store::{Tensor, Tensors};
use ndarray::{Array1, Array2, Ix1, Ix2};

/// One number as a tensor.
pub fn scalar(value: f64) -> Tensor {
    Tensor::from(Array1::from(vec![value]))
}

/// Whole numbers as a tensor.
pub fn integers(values: impl IntoIterator<Item = usize>) -> Tensor {
    Tensor::from(values.into_iter().map(|value| value as i64).collect::<Array1<i64>>())
}

/// What is said of a tensor that is not there.
pub fn missing(name: &str) -> String {
    format!("the tensor `{name}` is missing")
}

/// What is said of a tensor of another shape or sign.
pub fn shape(name: &str) -> String {
    format!("the tensor `{name}` has the wrong shape")
}

/// Floats, one after the other.
pub fn vector(tensors: &Tensors, name: &str) -> Result<Array1<f64>, String> {
    let values = tensors.get(name).and_then(Tensor::floats).ok_or_else(|| missing(name))?;
    values.clone().into_dimensionality::<Ix1>().map_err(|_| shape(name))
}

/// The weights of training rows, and the known variances of their noise.
pub const ROW_WEIGHTS: &str = "row_weights";
const ROW_NOISE: &str = "row_noise";

/// How the noise of rows differs, by name.
pub fn of_rows(noise: &RowNoise) -> impl Iterator<Item = (&'static str, Tensor)> + use<> {
    let known = [(ROW_WEIGHTS, noise.weights.clone()), (ROW_NOISE, noise.known.clone())];
    known.into_iter().filter_map(|(name, values)| Some((name, Tensor::from(values?))))
}

/// The same in a file, with something before the names.
pub fn row_noise(tensors: &Tensors, before: &str) -> Result<RowNoise, String> {
    let read = |name: &str| optional_vector(tensors, &format!("{before}{name}"));
    Ok(RowNoise { weights: read(ROW_WEIGHTS)?, known: read(ROW_NOISE)? })
}

/// Floats, if there are any.
pub fn optional_vector(tensors: &Tensors, name: &str) -> Result<Option<Array1<f64>>, String> {
    if tensors.contains_key(name) { vector(tensors, name).map(Some) } else { Ok(None) }
}

/// Floats in rows and columns.
pub fn matrix(tensors: &Tensors, name: &str) -> Result<Array2<f64>, String> {
    let values = tensors.get(name).and_then(Tensor::floats).ok_or_else(|| missing(name))?;
    values.clone().into_dimensionality::<Ix2>().map_err(|_| shape(name))
}

/// Floats in so many columns.
pub fn columns(tensors: &Tensors, name: &str, columns: usize) -> Result<Array2<f64>, String> {
    let values = matrix(tensors, name)?;
    if values.ncols() == columns { Ok(values) } else { Err(shape(name)) }
}

/// One number.
pub fn one(tensors: &Tensors, name: &str) -> Result<f64, String> {
    let values = vector(tensors, name)?;
    if values.len() == 1 { Ok(values[0]) } else { Err(shape(name)) }
}

/// One number, if there is one.
pub fn optional(tensors: &Tensors, name: &str) -> Result<Option<f64>, String> {
    if tensors.contains_key(name) { one(tensors, name).map(Some) } else { Ok(None) }
}

/// Row numbers.
pub fn rows(tensors: &Tensors, name: &str) -> Result<Vec<i64>, String> {
    let values = tensors.get(name).and_then(Tensor::integers).ok_or_else(|| missing(name))?;
    Ok(values.clone().into_dimensionality::<Ix1>().map_err(|_| shape(name))?.to_vec())
}

/// Counts and positions, which are not negative.
pub fn counts(tensors: &Tensors, name: &str) -> Result<Vec<usize>, String> {
    let count = |value: i64| usize::try_from(value).map_err(|_| format!("the tensor `{name}` has a negative entry"));
    rows(tensors, name)?.into_iter().map(count).collect()
}

/// One count.
pub fn count(tensors: &Tensors, name: &str) -> Result<usize, String> {
    match counts(tensors, name)?[..] {
        [count] => Ok(count),
        _ => Err(shape(name)),
    }
}
