//! Sums of numbers, of which means and standard errors are read.

/// What is needed of some numbers for their mean and its standard error.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moments {
    pub count: u64,
    pub sum: f64,
    pub squares: f64,
}

impl Moments {
    /// Of one number.
    pub fn of(value: f64) -> Self {
        Self { count: 1, sum: value, squares: value * value }
    }

    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Standard error of the mean; none of fewer than two numbers.
    pub fn standard_error(&self) -> Option<f64> {
        let (count, mean) = (self.count as f64, self.mean());
        (self.count > 1).then(|| ((self.squares / count - mean * mean).max(0.0) / (count - 1.0)).sqrt())
    }
}

/// Two cases of a predict stage on the same test rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowPair {
    pub stage: String,
    pub first: String,
    pub second: String,
    /// Squared errors of the first.
    pub errors: Moments,
    /// How much larger those of the second are, row by row.
    pub squared: Moments,
    /// The same of negative log densities; NaN where they are not known.
    pub nlpd: Moments,
}
