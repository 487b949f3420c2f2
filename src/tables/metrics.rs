//! The `metrics` table: how good the predictions are.

super::table! {
    /// One metric of one stage, case and fold, or a summary of it over the folds.
    Metrics version 1
    pub struct MetricRow {
        /// The run.
        pub run_id: String,
        /// Stage that computed the metric.
        pub stage: String,
        /// Case, as `method=stride,m=50`, or `default`.
        pub case: String,
        /// Method of the model.
        pub method: String,
        /// Fold; none = over all folds.
        pub fold: Option<i32>,
        /// `test` or `score`; `train` for what the chains of a deep method say about themselves.
        pub split: String,
        /// Name of the metric, such as `smse`.
        pub metric: String,
        /// `value`, or over folds `mean` or `std`.
        pub stat: String,
        /// The feature a metric is about, for those that have one.
        pub feature: Option<String>,
        /// The number; none where it is not defined.
        pub value: Option<f64>,
        /// Rows the metric was computed from.
        pub rows: i64,
    }
}
