//! Paired comparison over folds: the t test of resampled differences, corrected for training sets that overlap; and over the
//! rows of one fold, which are independent.
//!
//! Folds share most of their training rows, so their differences are not independent and the plain t test is far too sure.
//! Nadeau and Bengio (2003) put the variance of the mean at (1/k + `n_test`/`n_train`) times that of the differences.

/// How much two methods differ over folds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDifference {
    pub mean: f64,
    /// Corrected standard error of the mean.
    pub standard_error: f64,
    /// Probability of a difference as large as this between methods that are equally good, on both sides.
    pub p: f64,
    /// Folds or rows that were compared.
    pub count: usize,
}

/// From the differences of k folds, and rows for testing over rows for training; none of fewer than two folds.
pub fn paired_difference(differences: &[f64], test_over_train: f64) -> Option<PairedDifference> {
    let folds = differences.len();
    if folds < 2 {
        return None;
    }
    let count = folds as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let standard_error = (variance * (1.0 / count + test_over_train)).sqrt();
    // Methods that are the same everywhere do not differ; those that differ by the same everywhere surely do.
    let p = if mean == 0.0 { 1.0 } else { student_tails(mean / standard_error, folds - 1) };
    Some(PairedDifference { mean, standard_error, p, count: folds })
}

/// From the mean difference over so many independent rows and its standard error; none where these are not known.
pub fn row_difference(mean: f64, standard_error: f64, rows: usize) -> Option<PairedDifference> {
    if rows < 2 || !mean.is_finite() || !standard_error.is_finite() {
        return None;
    }
    let p = if mean == 0.0 { 1.0 } else { student_tails(mean / standard_error, rows - 1) };
    Some(PairedDifference { mean, standard_error, p, count: rows })
}

/// The probability that |T| exceeds |t|, for Student's distribution with so many degrees of freedom (Abramowitz & Stegun
/// 26.7.3 and 26.7.4).
pub fn student_tails(t: f64, degrees: usize) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    let angle = (t.abs() / (degrees as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    // Terms cos² · 1/2, cos⁴ · (1·3)/(2·4) …, or cos, cos³ · 2/3, cos⁵ · (2·4)/(3·5) …
    let odd = degrees % 2 == 1;
    let (mut term, mut sum, mut at) = if odd { (cos, 0.0, 1_usize) } else { (1.0, 0.0, 0) };
    while at + 2 <= degrees {
        sum += term;
        let next = (at + 1) as f64 / (at + 2) as f64;
        term *= cos * cos * next;
        at += 2;
    }
    let inside = if odd { std::f64::consts::FRAC_2_PI * (angle + sin * sum) } else { sin * sum };
    (1.0 - inside).clamp(0.0, 1.0)
}
