//! The rows of a fit, all of them or those that this process holds.

use ndarray::{ArcArray2, Array1, Array2, ArrayView1, ArrayView2, s};

use super::GpError;
use super::linalg::Span;
use super::row_noise::RowNoise;

/// Training rows, with what is known of them.
#[derive(Debug, Clone)]
pub struct FitRows<'a> {
    /// Features of the rows that are held, `[b, d]`.
    pub x: ArrayView2<'a, f64>,
    /// Their targets, `[b]`.
    pub y: ArrayView1<'a, f64>,
    /// How their noise differs.
    pub noise: &'a RowNoise,
    /// Which of all rows they are.
    pub span: Span,
    /// The features where they can be kept without a copy.
    pub kept: Option<&'a ArcArray2<f64>>,
}

/// Some rows, picked from all of them.
#[derive(Debug, Clone)]
pub struct PickedRows {
    pub x: Array2<f64>,
    pub y: Array1<f64>,
    pub noise: RowNoise,
}

impl<'a> From<(ArrayView2<'a, f64>, ArrayView1<'a, f64>, &'a RowNoise)> for FitRows<'a> {
    fn from((x, y, noise): (ArrayView2<'a, f64>, ArrayView1<'a, f64>, &'a RowNoise)) -> Self {
        Self { x, y, noise, span: Span::whole(x.nrows()), kept: None }
    }
}

impl FitRows<'_> {
    /// Number of all rows.
    pub fn all(&self) -> usize {
        self.span.all()
    }

    /// The features, to keep.
    pub(crate) fn kept(&self) -> ArcArray2<f64> {
        let kept = self.kept.filter(|kept| kept.is_standard_layout() && kept.dim() == self.x.dim()).cloned();
        kept.unwrap_or_else(|| self.x.as_standard_layout().into_owned().into_shared())
    }

    /// Refuses sizes that do not fit, and what is not a number.
    pub(crate) fn check(&self) -> Result<(), GpError> {
        let (x, y) = (self.x, self.y);
        if self.span.held().len() != x.nrows() {
            return Err(GpError::shape(format!("{} rows, and {:?} are held", x.nrows(), self.span.held())));
        }
        // A process may have none of the rows.
        if !(self.span.is_shared() && x.nrows() == 0 && y.is_empty()) {
            super::exact::check_training(x, y)?;
        }
        self.noise.check(x.nrows())
    }

    /// Some of all rows, in the order of the list.
    pub(crate) fn pick(&self, list: &[usize]) -> Result<PickedRows, GpError> {
        let d = self.x.ncols();
        let known = [&self.noise.weights, &self.noise.known].into_iter().flatten().map(|values| values.view());
        let columns: Vec<ArrayView1<'_, f64>> = std::iter::once(self.y).chain(known).collect();
        let all = self.span.gather(list, d + columns.len(), |own| {
            let mut all = Array2::zeros((own.len(), d + columns.len()));
            for (mut row, i) in all.outer_iter_mut().zip(own) {
                row.slice_mut(s![..d]).assign(&self.x.row(*i));
                columns.iter().enumerate().for_each(|(place, column)| row[d + place] = column[*i]);
            }
            Ok(all)
        })?;
        let mut next = d..all.ncols();
        let mut column =
            |is_there: bool| is_there.then(|| next.next()).flatten().map(|place| all.column(place).to_owned());
        let y = column(true).unwrap_or_default();
        let weights = column(self.noise.weights.is_some());
        let known = column(self.noise.known.is_some());
        let x = all.slice(s![.., ..d]).as_standard_layout().into_owned();
        Ok(PickedRows { x, y, noise: RowNoise { weights, known } })
    }
}
