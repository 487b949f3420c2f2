//! The data sets of the repository, for benchmarks.
#![allow(dead_code, clippy::unwrap_used, reason = "a module of several programs for developers")]

use std::path::Path;

use ndarray::{Array1, Array2};
use stride_pipe::gp::scaling::FeatureScaling;
use stride_pipe::store::{InvalidPolicy, Selection, discover, open};

/// A data set: where it is, and how it is used.
pub struct Set {
    pub name: &'static str,
    pub file: &'static str,
    pub target: &'static str,
    pub unused: &'static [&'static str],
    pub scaling: FeatureScaling,
}

/// All of them.
pub const SETS: [Set; 4] = [
    Set {
        name: "fashion",
        file: "fashion_vae.parquet",
        target: "label",
        unused: &["row_id"],
        scaling: FeatureScaling::Global,
    },
    Set {
        name: "energy",
        file: "uci/energy.parquet",
        target: "heating_load",
        unused: &["row_id", "cooling_load"],
        scaling: FeatureScaling::Column,
    },
    Set {
        name: "concrete",
        file: "uci/concrete.parquet",
        target: "compressive_strength",
        unused: &["row_id"],
        scaling: FeatureScaling::Column,
    },
    // For comparison with published figures only: the column `b` of this data set is ethically indefensible.
    Set {
        name: "boston",
        file: "uci/boston.parquet",
        target: "medv",
        unused: &["row_id"],
        scaling: FeatureScaling::Column,
    },
];

/// Features and targets.
pub fn read(set: &Set) -> (Array2<f64>, Array1<f64>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(set.file);
    let selection = Selection {
        key: None,
        features: vec!["*".into()],
        target: Some(set.target.into()),
        extra: set.unused.iter().map(|name| (*name).into()).collect(),
    };
    let table = open(&discover(&path).unwrap(), &selection, InvalidPolicy::Error).unwrap();
    (table.features.mapv(f64::from), table.target.unwrap().iter().copied().collect())
}
