//! Which training rows a process of a job holds.

use super::calibration::Calibrate;
use super::options::{Method, Train};
use super::together::comm_of;
use crate::gp::deep::Architecture;
use crate::gp::inducing::Candidates;
use crate::gp::linalg::Span;
use crate::gp::team::Comm;

/// Shortlists of candidates have fewer numbers than this, and sums of so few have as many leaves as there are at most.
const SMALL: usize = 1 << 12;

/// Why every process of a job has to hold all rows of a fit, though the sums over them are shared.
pub fn whole_because(stage: &Train, (features, starts): (usize, bool)) -> Option<&'static str> {
    let layers = &stage.deep;
    let deep = stage.method == Method::Stride;
    if starts {
        return Some("training starts from an earlier model");
    }
    if stage.calibrate == Calibrate::OutOfFold {
        return Some("`calibrate: out_of_fold` trains on parts of them");
    }
    if deep && stage.top.is_some() {
        return Some("`top: neighbours` looks for neighbours among them");
    }
    if deep && layers.architecture == Architecture::Injective {
        return Some("`architecture: injective` orders them");
    }
    let narrower = layers.width.is_some_and(|width| width as usize != features);
    if deep && layers.architecture == Architecture::Composition && narrower {
        return Some("`deep.width` is not the number of features");
    }
    None
}

/// The share of n rows of one process.
pub fn span(stage: &Train, (n, features): (usize, usize), comm: &dyn Comm) -> Span {
    let (m, candidates) = (points(stage), candidates(stage));
    let width = match (stage.method, stage.deep.architecture) {
        (Method::Stride, Architecture::Convolution | Architecture::Injective) => 1,
        _ => features,
    };
    let anchors = stage.deep.hidden.anchor_count(n as u64, m as u64) as usize;
    let layers = stage.deep.layers.max(1) as usize - 1;
    let mut sizes = vec![SMALL, features * (features + 1), (m + anchors) * width];
    sizes.extend([1, 2].map(|both| m * width + both * layers.max(1) * anchors * width));
    // Points are added one by one, and fewer may be enough.
    let of_points = |points: usize| {
        let passes = [candidates, candidates + 1].map(|tried| tried * (points + 2));
        passes.into_iter().chain([points * points, 2 * points * points])
    };
    sizes.extend((0..=m).flat_map(of_points));
    Span::shared(n, (comm.rank(), comm.size()), &sizes)
}

fn points(stage: &Train) -> usize {
    stage.inducing.rows.as_ref().map_or(stage.inducing.count as usize, Vec::len)
}

fn candidates(stage: &Train) -> usize {
    match stage.inducing.candidates {
        Candidates::Count(count) => count as usize,
        Candidates::All => 0,
    }
}

/// The most rows that one of the processes of this job holds of so many, and their features.
pub fn held(stage: &Train, (rows, features): (u64, u64)) -> (u64, u64) {
    let starts = stage.start_from.is_some();
    let share = |comm: &std::sync::Arc<dyn Comm>| {
        let shared = whole_because(stage, (features as usize, starts)).is_none();
        if shared { span(stage, (rows as usize, features as usize), &**comm).widest() as u64 } else { rows }
    };
    (comm_of(stage).map_or(rows, share), features)
}
