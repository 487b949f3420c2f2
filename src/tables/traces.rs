//! The `traces` table: the Markov chains, step by step.

super::table! {
    /// One recorded step of one chain.
    Traces version 1
    pub struct TraceRow {
        /// The run.
        pub run_id: String,
        /// Stage.
        pub stage: String,
        /// Case.
        pub case: String,
        /// Fold.
        pub fold: i32,
        /// Chain.
        pub particle: i32,
        /// Iteration of expectation maximisation.
        pub iteration: i32,
        /// Part of the iteration.
        pub phase: String,
        /// Step within the phase.
        pub step: i32,
        /// Log likelihood of the data given the hidden layers.
        pub log_likelihood: f64,
        /// Variational bound.
        pub bound: Option<f64>,
        /// Share of accepted proposals.
        pub acceptance: Option<f64>,
        /// Step size of the sampler.
        pub step_size: Option<f64>,
        /// Kernel variance.
        pub variance: f64,
        /// Correlation length; none with one length per feature.
        pub length: Option<f64>,
        /// Noise variance.
        pub noise: f64,
        /// Jitter on the diagonal.
        pub jitter: f64,
        /// Inducing points.
        pub inducing: i32,
    }
}
