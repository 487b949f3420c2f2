//! Which methods are tried, with which sizes, by the number of rows and features and the time there is.
//!
//! The constants were measured on the data sets of this repository: docs/fit.md has the figures.

use std::time::Duration;

/// A method with its options, and what training it is expected to cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub method: &'static str,
    /// What it is called in tables and sentences.
    pub label: String,
    /// Lines of the train stage, each with a comment.
    pub options: Vec<(String, &'static str)>,
    /// Processor seconds of one training.
    pub seconds: f64,
}

/// How rows are held out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SplitChoice {
    Kfold(u32),
    Holdout(f64),
}

/// Sizes that the choice depends on.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub rows: usize,
    pub features: usize,
    /// Whether the features are the numbered parts of one vector.
    pub one_vector: bool,
}

/// With fewer rows every one of them is tested.
const FEW_ROWS: usize = 2_000;
const FOLDS: u32 = 5;
/// From so many rows on a tenth is enough to test with.
const MANY_ROWS: usize = 20_000;
/// Most training rows of an exact process.
const MOST_EXACT: f64 = 3_000.0;

impl SplitChoice {
    /// Every row is tested where there are few; of many, a part is enough.
    pub fn of(rows: usize) -> Self {
        match rows {
            // At least two test rows in each fold.
            0..=9 => Self::Kfold((rows / 2).max(2) as u32),
            10..FEW_ROWS => Self::Kfold(FOLDS),
            FEW_ROWS..MANY_ROWS => Self::Holdout(0.2),
            _ => Self::Holdout(0.1),
        }
    }

    pub fn option(self) -> String {
        match self {
            Self::Kfold(folds) => format!("kfold: {{ folds: {folds} }}"),
            Self::Holdout(share) => format!("holdout: {{ test_fraction: {share} }}"),
        }
    }

    pub fn comment(self) -> &'static str {
        match self {
            Self::Kfold(_) => "every row is tested once",
            Self::Holdout(_) => "this share of the rows is tested, drawn at random",
        }
    }

    /// How many models are trained.
    pub fn folds(self) -> u32 {
        match self {
            Self::Kfold(folds) => folds,
            Self::Holdout(_) => 1,
        }
    }

    /// How it is said.
    pub fn words(self) -> String {
        match self {
            Self::Kfold(folds) => format!("{folds} folds, every row tested once"),
            Self::Holdout(share) => format!("{:.0} % of the rows held out", 100.0 * share),
        }
    }

    /// The training rows of a fold.
    pub fn training(self, rows: usize) -> f64 {
        let share = match self {
            Self::Kfold(folds) => 1.0 - 1.0 / f64::from(folds),
            Self::Holdout(share) => 1.0 - share,
        };
        share * rows as f64
    }
}

/// What is compared with always.
pub const ALWAYS: [&str; 2] = ["mean", "ridge"];

/// A baseline; `seconds` is 0 for those that are always done.
pub fn baseline(method: &'static str, sizes: Sizes) -> Candidate {
    let (label, seconds) = match method {
        "knn" => ("nearest neighbours", knn_seconds(sizes)),
        "ridge" => ("ridge regression", 0.0),
        _ => ("mean of the target", 0.0),
    };
    Candidate { method, label: format!("{label} (baseline)"), options: scale(sizes), seconds }
}

/// The candidates in the order in which they are tried: the cheap ones first.
pub fn candidates(sizes: Sizes) -> Vec<Candidate> {
    let (several, n) = (sizes.features > 1, training(sizes));
    let mut all = if n <= MOST_EXACT {
        vec![exact(sizes, "rbf", false), exact(sizes, "matern52", several)]
    } else {
        vec![sparse(sizes, 50, false), stride(sizes, 50, 200, (2, 2)), neighbours(sizes, 400, (3, 4))]
    };
    if n >= FEWEST_FOR_POINTS {
        all.push(sparse(sizes, 200, several));
    }
    if (FEWEST_FOR_POINTS..=MOST_EXACT).contains(&n) {
        all.push(stride(sizes, 100, 50, (5, 4)));
        all.push(stride(sizes, 100, 50, (10, 10)));
    }
    all.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    all
}

/// Among fewer rows there are none that could stand for the others.
const FEWEST_FOR_POINTS: f64 = 100.0;

/// The best candidate, as far as the sizes tell, that the time is expected to suffice for, all before it included; the first
/// one in any case.
pub fn affordable(sizes: Sizes, limit: Duration, threads: usize, publish: bool) -> Candidate {
    let trainings = f64::from(SplitChoice::of(sizes.rows).folds()) + if publish { PUBLISHING } else { 0.0 };
    let mut left = limit.as_secs_f64();
    let mut all = candidates(sizes).into_iter();
    let mut best = all.next().unwrap_or_else(|| baseline("ridge", sizes));
    left -= elapsed(best.seconds * trainings, threads);
    for candidate in all {
        let needed = elapsed(candidate.seconds * trainings, threads);
        if needed <= left {
            left -= needed;
            // Hidden layers are what the time is for.
            if candidate.method == "stride" || best.method != "stride" {
                best = candidate;
            }
        }
    }
    best
}

/// Training on all rows in units of a fold.
pub const PUBLISHING: f64 = 1.3;

/// Seconds of the clock for seconds of processors.
pub fn elapsed(seconds: f64, threads: usize) -> f64 {
    seconds / (threads.max(1) as f64).powf(0.9)
}

fn scale(sizes: Sizes) -> Vec<(String, &'static str)> {
    if sizes.one_vector {
        vec![("scale: { features: global }".to_owned(), "the parts of one vector keep their proportions")]
    } else {
        Vec::new()
    }
}

fn kernel(name: &str) -> (String, &'static str) {
    (format!("kernel: {name}"), if name == "rbf" { "smooth" } else { "rougher than rbf" })
}

const ARD: (&str, &str) = ("ard: true", "a correlation length for each feature");

fn exact(sizes: Sizes, name: &'static str, ard: bool) -> Candidate {
    let n = training(sizes);
    let mut options = scale(sizes);
    options.push(kernel(name));
    let mut label = format!("gp, {name}");
    if ard {
        options.push((ARD.0.to_owned(), ARD.1));
        label.push_str(", ard");
    }
    Candidate { method: "gp", label, options, seconds: exact_seconds(n, ard, sizes.features) }
}

fn sparse(sizes: Sizes, count: usize, ard: bool) -> Candidate {
    let n = training(sizes);
    let count = count.min(n as usize / 2).max(1);
    let mut options = scale(sizes);
    options.push(kernel("rbf"));
    let mut label = format!("sparse_gp, m = {count}");
    if ard {
        options.push((ARD.0.to_owned(), ARD.1));
        label.push_str(", ard");
    }
    options.push((format!("inducing: {{ count: {count} }}"), "rows that stand for all; neighbours correct it nearby"));
    Candidate { method: "sparse_gp", label, options, seconds: sparse_seconds(sizes, count, ard) }
}

fn stride(sizes: Sizes, count: usize, rank: usize, (iterations, particles): (u32, u32)) -> Candidate {
    let n = training(sizes);
    let (count, rank) = (count.min(n as usize / 2).max(1), rank.min(n as usize / 2).max(1));
    let mut options = scale(sizes);
    options.push(kernel("rbf"));
    options.push((format!("inducing: {{ count: {count} }}"), "rows that stand for all; neighbours correct it nearby"));
    options.push((format!("deep: {{ hidden: {{ method: aca, rank: {rank} }} }}"), "one hidden layer"));
    options.push((
        format!("em: {{ iterations: {iterations}, particles: {particles}, final_transitions: 10 }}"),
        "more of both: better, and longer",
    ));
    let evaluations = f64::from(particles) * (f64::from(iterations) * 12.0 + 10.0) * 8.0;
    Candidate {
        method: "stride",
        label: format!("stride, m = {count}, {particles} chains"),
        options,
        seconds: evaluations * gradient_seconds(n, count, rank, sizes.features) + sparse_seconds(sizes, count, false),
    }
}

fn neighbours(sizes: Sizes, rank: usize, (iterations, particles): (u32, u32)) -> Candidate {
    let n = training(sizes);
    let mut options = scale(sizes);
    options.push(kernel("rbf"));
    options.push(("top: { neighbours: 16 }".to_owned(), "hidden layers trained on the likelihood of neighbours"));
    options.push((format!("deep: {{ hidden: {{ method: aca, rank: {rank} }} }}"), "one hidden layer"));
    options.push((
        format!(
            "em: {{ climb: 20, iterations: {iterations}, particles: {particles}, sampler: {{ hmc: {{ transitions: 6 }} }}, \
             final_transitions: 8, draws: 4 }}"
        ),
        "more: better, and longer",
    ));
    let evaluations = f64::from(particles) * (20.0 + (f64::from(iterations) * 6.0 + 8.0) * 8.0);
    Candidate {
        method: "stride",
        label: format!("stride by neighbours, {particles} chains"),
        options,
        seconds: evaluations * neighbour_seconds(n, rank, sizes.features),
    }
}

fn training(sizes: Sizes) -> f64 {
    SplitChoice::of(sizes.rows).training(sizes.rows)
}

// Processor seconds of one training, n rows of d features. Measured on energy, concrete, boston, steps2d and Fashion-MNIST
// features (2,000 and 63,000 rows); right within a factor of two, after which the clock decides.

fn exact_seconds(n: f64, ard: bool, d: usize) -> f64 {
    let evaluations = if ard { 60.0 + 25.0 * (d as f64).min(40.0) } else { 60.0 };
    evaluations * 1.6e-11f64.mul_add(n.powi(3), 6e-3)
}

fn sparse_seconds(sizes: Sizes, count: usize, ard: bool) -> f64 {
    let (n, m, d) = (training(sizes), count as f64, sizes.features as f64);
    let evaluations = if ard { 100.0 + 5.0 * d.min(40.0) } else { 100.0 };
    // The bound; choosing the points; the layer of neighbours.
    evaluations * (3e-3 + n * m * (m + 2.0 * d) * 4e-10 + m.powi(3) * 2e-10)
        + m * n.min(1000.0) * 2e-6
        + local_seconds(n, d)
}

fn local_seconds(n: f64, d: f64) -> f64 {
    n * (2e-4 + 2e-6 * d)
}

fn gradient_seconds(n: f64, count: usize, rank: usize, d: usize) -> f64 {
    let (m, r, d) = (count as f64, rank as f64, d as f64);
    2e-4 + n * (m * (m + 2.0 * d) * 1.5e-10 + r * 2.0 * d * 4e-11)
}

fn neighbour_seconds(n: f64, rank: usize, d: usize) -> f64 {
    let (r, d) = (rank as f64, d as f64);
    n * (2.6e-6 + 2.0 * r * d * 1e-10)
}

fn knn_seconds(sizes: Sizes) -> f64 {
    let (n, d) = (training(sizes), sizes.features as f64);
    0.05 + n.min(100_000.0) * n.sqrt() * d * 4e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(rows: usize, features: usize) -> Sizes {
        Sizes { rows, features, one_vector: false }
    }

    #[test]
    fn little_time_chooses_the_cheap_and_much_time_the_good() {
        let chosen =
            |rows, features, seconds| affordable(sizes(rows, features), Duration::from_secs(seconds), 2, false);
        assert_eq!(chosen(768, 8, 1).label, "gp, rbf");
        assert_eq!(chosen(768, 8, 300).method, "stride");
        assert_eq!(chosen(70_000, 30, 1).method, "sparse_gp");
        assert!(chosen(70_000, 30, 1_200).label.starts_with("stride"));
    }

    #[test]
    fn costs_are_those_that_were_measured() {
        // Processor seconds of one training: rows before the split, features, label, measured.
        let measured = [
            (768, 8, "gp, rbf", 1.2),
            (1_030, 8, "gp, rbf", 0.5),
            (2_495, 30, "gp, rbf", 8.9),
            (768, 8, "gp, matern52, ard", 2.6),
            (1_030, 8, "sparse_gp, m = 200, ard", 2.4),
            (2_495, 30, "sparse_gp, m = 200, ard", 13.8),
            (768, 8, "stride, m = 100, 4 chains", 4.3),
            (1_030, 8, "stride, m = 100, 4 chains", 4.8),
            (70_000, 30, "stride by neighbours, 4 chains", 294.0),
        ];
        for (rows, features, label, seconds) in measured {
            let all = candidates(sizes(rows, features));
            let found =
                all.iter().find(|candidate| candidate.label == label).map_or(0.0, |candidate| candidate.seconds);
            assert!(
                found > seconds / 2.5 && found < 2.5 * seconds,
                "{rows} × {features}, {label}: {found} for {seconds}"
            );
        }
    }

    #[test]
    fn every_row_can_be_tested() {
        for rows in 4..10_000 {
            let SplitChoice::Kfold(folds) = SplitChoice::of(rows) else { continue };
            assert!(rows / folds as usize >= 2, "{rows}");
        }
    }
}
