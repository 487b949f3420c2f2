//! Categories by their target: the mean target of each level, drawn towards that of all rows where a level has few.
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

impl LevelMeans {
    /// From the level of each row, its number below `levels` (none where it has no value), and the target of each row.
    pub fn fit(codes: &[Option<usize>], target: &[f64], levels: usize) -> Self {
        let rows = || codes.iter().zip(target).filter_map(|(code, y)| code.map(|code| (code, *y)));
        let (mut counts, mut sums) = (vec![0.0; levels], vec![0.0; levels]);
        let (mut all, mut total) = (0.0, 0.0);
        for (code, y) in rows() {
            counts[code] += 1.0;
            sums[code] += y;
            all += 1.0;
            total += y;
        }
        let overall = if all > 0.0 { total / all } else { 0.0 };
        let (mut within, mut between, mut squares, mut known) = (0.0, 0.0, 0.0, 0.0);
        for (code, y) in rows() {
            within += (y - sums[code] / counts[code]).powi(2);
        }
        for (count, sum) in counts.iter().zip(&sums).filter(|(count, _)| **count > 0.0) {
            between += count * (sum / count - overall).powi(2);
            squares += count * count;
            known += 1.0;
        }
        let smoothing = smoothing((within, between), (all, squares, known));
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
    pub fn out_of_fold(codes: &[Option<usize>], target: &[f64], levels: usize, folds: &[usize]) -> Vec<f64> {
        let mut encoded = vec![f64::NAN; codes.len()];
        for fold in 0..folds.iter().max().map_or(0, |last| last + 1) {
            let others: Vec<usize> = (0..codes.len()).filter(|row| folds[*row] != fold).collect();
            let of_others: Vec<Option<usize>> = others.iter().map(|row| codes[*row]).collect();
            let targets: Vec<f64> = others.iter().map(|row| target[*row]).collect();
            let fitted = Self::fit(&of_others, &targets, levels);
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
/// Both variances are estimated as in an analysis of variance with levels of different sizes.
fn smoothing((within, between): (f64, f64), (rows, squares, levels): (f64, f64, f64)) -> f64 {
    if rows <= levels || levels < 2.0 {
        // Nothing is known of the variance within levels, or between them.
        return 1.0;
    }
    let (within, between) = (within / (rows - levels), between / (levels - 1.0));
    let typical = (rows - squares / rows) / (levels - 1.0);
    let among = (between - within) / typical;
    let smoothing = within / among;
    if among > 0.0 && smoothing.is_finite() { smoothing.min(STRONGEST) } else { STRONGEST }
}
