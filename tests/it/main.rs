//! All integration tests in one binary: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test may fail, and may ask for the very same number"
)]

mod architecture;
mod bad;
mod baselines;
mod boards;
mod cache;
mod calibration;
mod cli;
mod commands;
mod constant;
mod datasets;
mod deep_plan;
mod deep_runs;
mod describe;
mod docs;
mod eval;
mod fingerprints;
mod fit;
mod folds;
mod gp_baseline;
mod gp_deep_chains;
mod gp_deep_checkpoint;
mod gp_deep_exchange;
mod gp_deep_fit;
mod gp_deep_gradient;
mod gp_deep_kernels;
mod gp_deep_layers;
mod gp_deep_model;
mod gp_deep_options;
mod gp_deep_pivots;
mod gp_deep_posterior;
mod gp_deep_precision;
mod gp_deep_sampler;
mod gp_deep_start;
mod gp_deep_tiles;
mod gp_deep_until;
mod gp_exact;
mod gp_fit;
mod gp_hyper;
mod gp_kernel;
mod gp_linalg;
mod gp_local;
mod gp_neighbours;
mod gp_neighbours_deep;
mod gp_options;
mod gp_random;
mod gp_sklearn;
mod gp_sparse;
mod gp_sparse_battery;
mod gp_sparse_fit;
mod gp_sparse_gpytorch;
mod gp_sparse_inducing;
mod import_arrays;
mod import_csv;
mod inspect;
mod locks;
mod model_versions;
mod naive;
mod paper;
mod pipelines;
mod prune;
mod python;
mod readable;
mod readers;
mod report;
mod resume;
mod run;
mod runs;
mod sandbox;
mod schema;
mod scoring;
mod secrets;
mod shards;
mod spec_messages;
mod splits;
mod startup;
mod store_atomic;
mod store_discover;
mod store_fuzz;
mod store_input;
mod store_model;
mod store_record;
mod store_results;
mod tables;
mod terminal;
mod text;
mod timestamps;
mod timings;
mod unused;
mod views;
