//! What benchmarks share: the data sets of the repository, and how speed is measured.
#![allow(dead_code, clippy::unwrap_used, reason = "a module of several programs for developers")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ndarray::{Array1, Array2};
use rayon::prelude::*;
use stride_pipe::gp::linalg::gemm_nt;
use stride_pipe::gp::observer::{Observer, Phase, Progress, TracePoint};
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
        ..Selection::default()
    };
    let table = open(&discover(&path).unwrap(), &selection, InvalidPolicy::Error).unwrap();
    (table.features.mapv(f64::from), table.target.unwrap().iter().copied().collect())
}

/// The best of some runs, in seconds: other programs only make a run slower.
pub fn best(runs: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        work();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// Floating-point operations per second of a large product on every thread at once.
pub fn peak() -> f64 {
    let threads = rayon::current_num_threads();
    let size = 768;
    let a = Array2::<f64>::from_elem((size, size), 0.5);
    let mut outputs = vec![Array2::<f64>::zeros((size, size)); threads];
    let seconds = best(7, || {
        outputs.par_iter_mut().for_each(|c| {
            for _ in 0..3 {
                gemm_nt(1.0, a.view(), a.view(), 0.0, c.view_mut()).unwrap();
            }
        });
    });
    3.0 * 2.0 * (size as f64).powi(3) * threads as f64 / seconds
}

/// Runs a program to its end: how many seconds it took, and the most memory it had, in bytes.
pub fn watch(command: &mut Command) -> (f64, u64) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        peak = peak.max(line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.success(), "the program failed");
    (start.elapsed().as_secs_f64(), peak)
}

/// Times the phases of a fit, and shows its steps when asked to.
pub struct Clock {
    phases: Vec<(&'static str, Instant)>,
    show: Option<fn(&TracePoint)>,
}

impl Clock {
    pub fn new(show: Option<fn(&TracePoint)>) -> Self {
        Self { phases: Vec::new(), show }
    }

    pub fn seconds(&self, name: &str) -> f64 {
        let ends = self.phases.iter().skip(1).map(|(_, at)| *at).chain([Instant::now()]);
        let spans = self.phases.iter().zip(ends).filter(|((phase, _), _)| *phase == name);
        spans.map(|((_, start), end)| (end - *start).as_secs_f64()).sum()
    }
}

impl Observer for Clock {
    fn trace(&mut self, point: &TracePoint) {
        if let Some(show) = self.show {
            show(point);
        }
    }
    fn progress(&mut self, _progress: Progress) {}
    fn phase(&mut self, phase: Phase) {
        self.phases.push((phase.name(), Instant::now()));
    }
    fn interrupted(&self) -> bool {
        false
    }
}
