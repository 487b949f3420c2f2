//! What a report shows of what models make of their features.

/// What one explain stage says of a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    pub stage: String,
    pub case: String,
    /// Models that it looked at: one for each fold.
    pub folds: usize,
    /// Permutation importance, the most important feature first.
    pub importance: Vec<FeatureFigure>,
    /// First-order and total-effect index, in the same order.
    pub sobol: Vec<(FeatureFigure, FeatureFigure)>,
    /// Mean size of the slope, in the same order.
    pub sensitivity: Vec<FeatureFigure>,
    /// Partial dependence, in the same order; of the first fold.
    pub partial: Vec<PartialCurve>,
}

/// What the columns of a table become before a model sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelColumns {
    pub stage: String,
    pub case: String,
    pub columns: Vec<ShownColumn>,
}

/// A column of a table, and what it becomes, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownColumn {
    pub name: String,
    pub kind: &'static str,
    pub becomes: String,
    /// What stands where there is no value; none where that is an error.
    pub gaps: Option<&'static str>,
    /// The number that stands there, if the column becomes one number.
    pub fill: Option<f64>,
}

/// A figure about a feature, over the folds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeatureFigure {
    pub feature: String,
    pub value: f64,
    /// Between the folds, or within the only one.
    pub std: Option<f64>,
}

/// Predictions along a feature.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartialCurve {
    pub feature: String,
    pub at: Vec<f64>,
    pub mean: Vec<f64>,
    /// Posterior standard deviation; empty where it is not known.
    pub std: Vec<f64>,
    /// The curves of some rows.
    pub individual: Vec<Vec<(f64, f64)>>,
}
