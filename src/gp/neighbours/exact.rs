//! The distances that count: coordinate after coordinate in double precision, as they are defined.

use crate::gp::linalg::for_this_processor;

/// Distances that are computed at once.
pub(super) const TOGETHER: usize = 8;

for_this_processor! {
    /// Squared distances of some points to a query.
    // One sum after the other is how distances are defined; eight at once need not wait for each other.
    pub(super) fn distances_to(query: &[f64], points: &[&[f64]; TOGETHER]) -> [f64; TOGETHER] {
        let points = points.map(|point| &point[..query.len()]);
        let mut sums = [0.0; TOGETHER];
        let (whole, rest) = query.as_chunks::<TOGETHER>();
        for (first, own) in whole.iter().enumerate().map(|(number, own)| (number * TOGETHER, own)) {
            // A square at a time.
            let mut square = [[0.0; TOGETHER]; TOGETHER];
            for (square, point) in square.iter_mut().zip(&points) {
                for ((square, value), own) in square.iter_mut().zip(&point[first..first + TOGETHER]).zip(own) {
                    *square = (value - own) * (value - own);
                }
            }
            for j in 0..own.len() {
                for (sum, square) in sums.iter_mut().zip(&square) {
                    *sum += square[j];
                }
            }
        }
        for (j, own) in (whole.len() * TOGETHER..).zip(rest) {
            for (sum, point) in sums.iter_mut().zip(&points) {
                let difference = point[j] - own;
                *sum += difference * difference;
            }
        }
        sums
    }
}
