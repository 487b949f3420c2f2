//! Local layers of trained models: their tensors, words and messages.

use super::tensors::{count, integers, matrix, of_rows, row_noise};
use crate::gp::neighbours::{LocalFit, LocalParts};
use crate::store::{ModelFile, Tensor, Tensors};
use ndarray::{Array2, s};

/// The word that names the kernel; a model without it has no local layer.
const KERNEL: &str = "local.kernel";

/// The numbers that a model file has to hold.
pub fn tensors(parts: &LocalParts) -> Tensors {
    let named =
        [("x", &parts.x), ("residuals", &parts.residuals), ("hyper", &parts.hyper), ("training", &parts.training)];
    let mut tensors: Tensors =
        named.into_iter().map(|(name, values)| (format!("local.{name}"), Tensor::from(values.clone()))).collect();
    tensors.insert("local.neighbours".to_owned(), integers([parts.neighbours]));
    tensors.extend(of_rows(&parts.noise).map(|(name, values)| (format!("local.{name}"), values)));
    tensors
}

/// The words that a model file has to hold.
pub fn words(parts: &LocalParts) -> impl Iterator<Item = (String, String)> + use<> {
    [(KERNEL.to_owned(), parts.kernel.to_string())].into_iter()
}

/// The local layer in a file, if there is one, or what is wrong with it.
pub fn from_file(file: &ModelFile) -> Result<Option<LocalParts>, String> {
    let Some(kernel) = file.meta.words.get(KERNEL) else { return Ok(None) };
    Ok(Some(LocalParts {
        kernel: kernel.parse().map_err(|error: crate::gp::GpError| error.to_string())?,
        neighbours: count(&file.tensors, "local.neighbours")?,
        x: matrix(&file.tensors, "local.x")?,
        residuals: matrix(&file.tensors, "local.residuals")?,
        hyper: matrix(&file.tensors, "local.hyper")?,
        training: training(matrix(&file.tensors, "local.training")?),
        noise: row_noise(&file.tensors, "local.")?,
    }))
}

/// Models of before copies had a noise of their own lack the last column.
fn training(found: Array2<f64>) -> Array2<f64> {
    if found.ncols() != 2 {
        return found;
    }
    let mut all = Array2::zeros((found.nrows(), 3));
    all.slice_mut(s![.., ..2]).assign(&found);
    all
}

/// What the user should know of a layer that was fitted.
pub fn warning(fit: &LocalFit) -> Option<String> {
    (!fit.is_better()).then(|| {
        format!(
            "the local layer stays off: on training rows left out it is no better than the model alone (log density {:.3} \
             against {:.3}); `local: false` leaves it out",
            fit.with, fit.without
        )
    })
}
