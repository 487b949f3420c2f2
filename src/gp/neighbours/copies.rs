//! Rows that lie where others do: what is known of the noise of a repetition.
//!
//! Fits leave copies of a row out of its neighbours ([`NeighbourLists::without_copies`]), so that their noise is that of rows
//! which lie apart, and may be next to none. It says nothing of how far two measurements at one place differ. That is what the
//! copies themselves tell, as in the analysis of repeated experiments: the mean square within them (the pure error).
//!
//! [`NeighbourLists::without_copies`]: super::lists::NeighbourLists::without_copies

use std::cmp::Ordering;

use ndarray::ArrayView2;

/// The training rows at places where there are several.
pub(super) struct Copies(Vec<Vec<usize>>);

impl Copies {
    /// Among rows x: `[n, d]`, in an order that depends on the rows alone.
    pub fn among(x: ArrayView2<'_, f64>) -> Self {
        // Zero has two signs and is one number.
        let compare = |a: &usize, b: &usize| {
            let pairs = x.row(*a).into_iter().zip(x.row(*b));
            pairs.map(|(a, b)| (a + 0.0).total_cmp(&(b + 0.0))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        };
        let mut rows: Vec<usize> = (0..x.nrows()).collect();
        rows.sort_by(compare);
        let places = rows.chunk_by(|a, b| compare(a, b).is_eq());
        let mut several: Vec<Vec<usize>> = places.filter(|rows| rows.len() > 1).map(<[usize]>::to_vec).collect();
        several.sort_unstable();
        Self(several)
    }

    /// The variance of residuals within places; none where no place has several rows.
    pub fn variance(&self, residuals: &[f64]) -> f64 {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for rows in &self.0 {
            let mean = rows.iter().map(|row| residuals[*row]).sum::<f64>() / rows.len() as f64;
            squares += rows.iter().map(|row| (residuals[*row] - mean).powi(2)).sum::<f64>();
            freedom += rows.len() as f64 - 1.0;
        }
        if freedom > 0.0 { squares / freedom } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::arr2;

    #[test]
    fn the_mean_square_within_places_counts() {
        let x = arr2(&[[0.0, 1.0], [2.0, 3.0], [-0.0, 1.0], [2.0, 4.0], [0.0, 1.0], [5.0, 5.0], [2.0, 3.0]]);
        let copies = Copies::among(x.view());
        assert_eq!(copies.0, [vec![0, 2, 4], vec![1, 6]]);
        let residuals = [1.0, 7.0, 2.0, 100.0, 3.0, -100.0, 10.0];
        // (1 + 0 + 1) and (1.5² + 1.5²), with 2 + 1 degrees of freedom.
        assert!((copies.variance(&residuals) - (2.0 + 4.5) / 3.0).abs() < 1e-15);
        assert!(Copies::among(x.slice(ndarray::s![3..6, ..])).variance(&residuals).abs() < f64::MIN_POSITIVE);
    }
}
