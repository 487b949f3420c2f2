//! Categories by their target: the mean target of each level, drawn towards that of all rows where a level has few. Means
//! are weighted where rows have weights.
//!
//! A training row must not see its own target in its features: it gets the mean of its level among other rows, those of the
//! other folds. Rows to predict get the mean of all training rows of their level, and those of a level that training has not
//! seen that of all rows.

use serde::{Deserialize, Serialize};

/// Parts that the means of training rows are made in.
pub const FOLDS: usize = 5;
/// The strongest pull towards the mean of all rows, in rows.
const STRONGEST: f64 = 1e6;

/// The mean target of each level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelMeans {
    /// By the number of the level.
    pub means: Vec<f64>,
    /// That of all rows, for levels that are not known.
    pub overall: f64,
    /// How many rows the mean of all rows counts for beside those of a level.
    pub smoothing: f64,
}

/// Targets of rows, and how much each of them counts: 1 where there are no weights, and on average.
#[derive(Debug, Clone, Copy)]
pub struct RowTargets<'a> {
    pub values: &'a [f64],
    pub weights: Option<&'a [f64]>,
}

impl RowTargets<'_> {
    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }
}

impl<'a, T: AsRef<[f64]> + ?Sized> From<&'a T> for RowTargets<'a> {
    fn from(values: &'a T) -> Self {
        Self { values: values.as_ref(), weights: None }
    }
}

impl LevelMeans {
    /// From the level of each row, its number below `levels` (none where it has no value), and the target of each row.
    pub fn fit<'a>(codes: &[Option<usize>], target: impl Into<RowTargets<'a>>, levels: usize) -> Self {
        let target = target.into();
        let row = |(row, code): (usize, &Option<usize>)| Some(((*code)?, target.values[row], target.weight(row)));
        let rows = || codes.iter().enumerate().filter_map(row);
        let (mut counts, mut sums) = (vec![0.0; levels], vec![0.0; levels]);
        let (mut all, mut total, mut number) = (0.0, 0.0, 0.0);
        for (code, y, weight) in rows() {
            counts[code] += weight;
            sums[code] += weight * y;
            all += weight;
            total += weight * y;
            number += 1.0;
        }
        let overall = if all > 0.0 { total / all } else { 0.0 };
        let (mut within, mut between, mut squares, mut known) = (0.0, 0.0, 0.0, 0.0);
        for (code, y, weight) in rows() {
            within += weight * (y - sums[code] / counts[code]).powi(2);
        }
        for (count, sum) in counts.iter().zip(&sums).filter(|(count, _)| **count > 0.0) {
            between += count * (sum / count - overall).powi(2);
            squares += count * count;
            known += 1.0;
        }
        let smoothing = smoothing((within, between), (number, all, squares, known));
        let mean = |(count, sum): (&f64, &f64)| {
            if count + smoothing > 0.0 { (sum + smoothing * overall) / (count + smoothing) } else { overall }
        };
        Self { means: counts.iter().zip(&sums).map(mean).collect(), overall, smoothing }
    }

    /// The mean of a level; that of all rows for one that is not known.
    pub fn mean(&self, code: Option<usize>) -> f64 {
        code.and_then(|code| self.means.get(code)).copied().unwrap_or(self.overall)
    }

    /// For every training row the mean of its level by the rows of other folds; `folds` says which one a row is in.
    pub fn out_of_fold<'a>(
        codes: &[Option<usize>],
        target: impl Into<RowTargets<'a>>,
        levels: usize,
        folds: &[usize],
    ) -> Vec<f64> {
        let target = target.into();
        let mut encoded = vec![f64::NAN; codes.len()];
        for fold in 0..folds.iter().max().map_or(0, |last| last + 1) {
            let others: Vec<usize> = (0..codes.len()).filter(|row| folds[*row] != fold).collect();
            let of_others: Vec<Option<usize>> = others.iter().map(|row| codes[*row]).collect();
            let values: Vec<f64> = others.iter().map(|row| target.values[*row]).collect();
            let weights: Option<Vec<f64>> =
                target.weights.map(|weights| others.iter().map(|row| weights[*row]).collect());
            let fitted = Self::fit(&of_others, RowTargets { values: &values, weights: weights.as_deref() }, levels);
            // A level that the other folds do not have is one that training has not seen.
            let mut seen = vec![false; levels];
            of_others.iter().flatten().for_each(|code| seen[*code] = true);
            for row in (0..codes.len()).filter(|row| folds[*row] == fold) {
                encoded[row] = fitted.mean(codes[row].filter(|code| seen[*code]));
            }
        }
        encoded
    }
}

/// The variance within levels over that between them: so many rows know as much of a level as all levels together.
///
/// Both variances are estimated as in an analysis of variance with levels of different sizes. The variance of a row is that
/// within levels over its weight: `all` is the sum of the weights, and `squares` that of the squared sums of all levels.
fn smoothing((within, between): (f64, f64), (rows, all, squares, levels): (f64, f64, f64, f64)) -> f64 {
    if rows <= levels || levels < 2.0 {
        // Nothing is known of the variance within levels, or between them.
        return 1.0;
    }
    let (within, between) = (within / (rows - levels), between / (levels - 1.0));
    let typical = (all - squares / all) / (levels - 1.0);
    let among = (between - within) / typical;
    let smoothing = within / among;
    if among > 0.0 && smoothing.is_finite() { smoothing.min(STRONGEST) } else { STRONGEST }
}
