//! The `hidden` table: what a deep model has made of the rows, layer by layer.

super::table! {
    /// One output of one hidden layer at one row.
    Hidden version 1
    pub struct HiddenRow {
        /// The run.
        pub run_id: String,
        /// Stage that predicted.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold.
        pub fold: i32,
        /// Key of the row, as text.
        pub key: String,
        /// Number of the row in the input, from 0.
        pub row: i64,
        /// Hidden layer; 1 is next to the features.
        pub layer: i32,
        /// Output of the layer, from 1.
        pub output: i32,
        /// The row's first feature, in its own units.
        pub x1: f64,
        /// Its second feature, where there is one.
        pub x2: Option<f64>,
        /// Mean over the states of all chains that the model keeps.
        pub mean: f64,
        /// Standard deviation between them.
        pub std: f64,
    }
}
