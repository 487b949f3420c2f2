//! The arrays of models and checkpoints: 64-bit floats or integers of any shape.

use ndarray::{ArrayD, IxDyn};

/// An array of a model file or a checkpoint.
#[derive(Debug, Clone)]
pub enum Tensor {
    F64(ArrayD<f64>),
    /// Integers, for indices.
    I64(ArrayD<i64>),
}

impl Tensor {
    /// Its floats; none if it holds integers.
    pub const fn floats(&self) -> Option<&ArrayD<f64>> {
        match self {
            Self::F64(values) => Some(values),
            Self::I64(_) => None,
        }
    }

    /// Its integers; none if it holds floats.
    pub const fn integers(&self) -> Option<&ArrayD<i64>> {
        match self {
            Self::I64(values) => Some(values),
            Self::F64(_) => None,
        }
    }

    pub fn shape(&self) -> &[usize] {
        match self {
            Self::F64(values) => values.shape(),
            Self::I64(values) => values.shape(),
        }
    }

    /// Its type as safetensors calls it.
    pub(super) fn dtype(&self) -> &'static str {
        match self {
            Self::F64(_) => "F64",
            Self::I64(_) => "I64",
        }
    }

    /// Little-endian bytes, last index fastest whatever the layout in memory.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::F64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::I64(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        }
    }

    /// The inverse of [`Tensor::bytes`]; `None` for another type or a shape that does not fit the bytes.
    pub(super) fn from_bytes(dtype: safetensors::Dtype, shape: &[usize], bytes: &[u8]) -> Option<Self> {
        let (chunks, []) = bytes.as_chunks::<8>() else { return None };
        let shape = IxDyn(shape);
        match dtype {
            safetensors::Dtype::F64 => {
                let values = chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect();
                Some(Self::F64(ArrayD::from_shape_vec(shape, values).ok()?))
            }
            safetensors::Dtype::I64 => {
                let values = chunks.iter().map(|chunk| i64::from_le_bytes(*chunk)).collect();
                Some(Self::I64(ArrayD::from_shape_vec(shape, values).ok()?))
            }
            _ => None,
        }
    }
}

/// Equal to the bit, so that NaN equals itself.
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.dtype() == other.dtype() && self.shape() == other.shape() && self.bytes() == other.bytes()
    }
}

impl<D: ndarray::Dimension> From<ndarray::Array<f64, D>> for Tensor {
    fn from(values: ndarray::Array<f64, D>) -> Self {
        Self::F64(values.into_dyn())
    }
}

impl<D: ndarray::Dimension> From<ndarray::Array<i64, D>> for Tensor {
    fn from(values: ndarray::Array<i64, D>) -> Self {
        Self::I64(values.into_dyn())
    }
}
