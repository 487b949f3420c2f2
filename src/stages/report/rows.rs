//! Errors row by row: two models tested on the same rows of one fold differ by so much on each, which says how sure their
//! difference is.

use crate::report::{Moments, RowPair};
use std::collections::BTreeMap;

/// Rows that are kept of a stage and case, from the first one on.
const MOST: usize = 1_000_000;

/// The errors of the test rows of one fold.
#[derive(Debug, Default)]
pub struct RowErrors {
    fold: Option<i32>,
    /// Folds are compared fold by fold.
    has_several: bool,
    rows: Vec<RowError>,
}

#[derive(Debug, Clone, Copy)]
struct RowError {
    row: i64,
    squared: f64,
    /// Negative log density of the true value; NaN where it is not known.
    nlpd: f64,
}

impl RowErrors {
    pub fn add(&mut self, (fold, row): (i32, i64), squared: f64, nlpd: Option<f64>) {
        if *self.fold.get_or_insert(fold) != fold {
            (self.has_several, self.rows) = (true, Vec::new());
        }
        if !self.has_several && self.rows.len() < MOST {
            self.rows.push(RowError { row, squared, nlpd: nlpd.unwrap_or(f64::NAN) });
        }
    }

    /// What the second has more than the first, on the rows that both have.
    pub fn compare((first, case): (&Self, &str), (second, other): (&Self, &str), stage: &str) -> Option<RowPair> {
        let by_row: BTreeMap<i64, &RowError> = second.rows.iter().map(|error| (error.row, error)).collect();
        let mut pair =
            RowPair { stage: stage.to_owned(), first: case.to_owned(), second: other.to_owned(), ..RowPair::default() };
        for own in &first.rows {
            let Some(error) = by_row.get(&own.row) else { continue };
            pair.errors.add(&Moments::of(own.squared));
            pair.squared.add(&Moments::of(error.squared - own.squared));
            pair.nlpd.add(&Moments::of(error.nlpd - own.nlpd));
        }
        (pair.squared.count > 1).then_some(pair)
    }
}

/// Sizes of errors in narrow bins, of which the median is read.
#[derive(Debug, Default)]
pub struct ErrorSizes {
    /// Errors by the logarithm of their size.
    counts: BTreeMap<i32, u64>,
    zeros: u64,
}

impl ErrorSizes {
    /// Bins of a factor of two: their width is less than a tenth of a per cent of the size.
    const PER_OCTAVE: f64 = 1024.0;

    pub fn add(&mut self, error: f64) {
        let size = error.abs();
        if size > 0.0 && size.is_finite() {
            *self.counts.entry((size.log2() * Self::PER_OCTAVE).floor() as i32).or_default() += 1;
        } else {
            self.zeros += 1;
        }
    }

    /// Half of the errors are smaller.
    pub fn median(&self) -> Option<f64> {
        let all = self.zeros + self.counts.values().sum::<u64>();
        let mut below = self.zeros;
        if all == 0 || 2 * below >= all {
            return (all > 0).then_some(0.0);
        }
        let bin = self.counts.iter().find(|(_, count)| {
            below += **count;
            2 * below >= all
        });
        bin.map(|(bin, _)| ((f64::from(*bin) + 0.5) / Self::PER_OCTAVE).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_errors() {
        let mut sizes = ErrorSizes::default();
        assert_eq!(sizes.median(), None);
        for error in [-3.0, 0.5, 1e-9, 2.0, 400.0] {
            sizes.add(error);
        }
        assert!((sizes.median().unwrap_or(0.0) - 2.0).abs() < 2e-3, "{sizes:?}");
        (0..9).for_each(|_| sizes.add(0.0));
        assert_eq!(sizes.median(), Some(0.0));
    }

    #[test]
    fn rows_are_compared_where_both_have_them() {
        let (mut first, mut second) = (RowErrors::default(), RowErrors::default());
        for row in 0..10 {
            first.add((0, row), 1.0, Some(2.0));
            second.add((0, 9 - row + 2), 3.0 + (row % 2) as f64, None);
        }
        let found = RowErrors::compare((&first, "a"), (&second, "b"), "p")
            .map(|pair| (pair.squared.count, pair.squared.mean()));
        assert_eq!(found, Some((8, 2.5)));
        second.add((1, 0), 1.0, None);
        assert!(RowErrors::compare((&first, "a"), (&second, "b"), "p").is_none(), "of several folds");
    }
}
