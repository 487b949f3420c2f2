//! Counts predictions in two passes over their file: the first finds the ends of the axes, the second fills the bins.

use super::columns::{BatchColumns, value};
use super::distance::ByDistance;
use super::rows::{ErrorSizes, RowErrors};
use crate::eval::normal::normal_quantile;
use crate::eval::transform::{Transform, TransformName};
use crate::report::{HexGrid, PredictionCounts, ResidualBin, RowPair, Spread, Tails};
use crate::store::{StoreError, open_columns};
use crate::tables::predictions::ON_SCALE;
use std::path::Path;

/// Hexagons along the axis.
const HEXAGONS: u32 = 30;
/// Bins of residuals along the prediction.
const RESIDUALS: usize = 18;
/// Bins of standardised residuals from -4 to 4.
const DEVIATIONS: usize = 32;
/// Bins of the sizes of standardised residuals, and where the last one ends.
const SIZES: (usize, f64) = (2000, 20.0);
/// Bins of predictive deviations, from which quantiles are read.
const SPREAD: usize = 4000;
/// Bins of predicted means.
const MEANS: usize = 40;
/// Cases without a metric that are shown.
const OTHERS: usize = 4;

/// Predictions that are looked at closely.
pub struct ShownPredictions {
    pub stage: String,
    pub case: String,
    /// The scale on which their target is modelled.
    pub transform: TransformName,
}

/// Counts these predictions, and compares them two by two; when none are named, counts the first few that are there.
pub fn count(path: &Path, wanted: &[ShownPredictions]) -> Result<(Vec<PredictionCounts>, Vec<RowPair>), StoreError> {
    let of = |shown: &ShownPredictions| Counts { transform: shown.transform, ..Counts::new(&shown.stage, &shown.case) };
    let mut counts: Vec<Counts> = wanted.iter().map(of).collect();
    let open = wanted.is_empty();
    pass(path, &mut counts, open, Counts::measure)?;
    counts.iter_mut().for_each(Counts::prepare);
    pass(path, &mut counts, false, Counts::add)?;
    let mut pairs = Vec::new();
    for (place, first) in counts.iter().enumerate() {
        let others = counts.iter().skip(place + 1).filter(|second| second.stage == first.stage);
        pairs.extend(others.filter_map(|second| {
            RowErrors::compare((&first.errors, &first.case), (&second.errors, &second.case), &first.stage)
        }));
    }
    Ok((counts.into_iter().filter(|counts| counts.rows > 0).map(Counts::finish).collect(), pairs))
}

/// One row.
#[derive(Clone, Copy)]
struct Row {
    /// Fold and number.
    place: Option<(i32, i64)>,
    truth: Option<f64>,
    mean: Option<f64>,
    std: Option<f64>,
    /// The mean without the local layer.
    global: Option<f64>,
    /// Distance to the nearest training row.
    nearest: Option<f64>,
    /// The share of the predicted distribution below the true value.
    pit: Option<f64>,
    /// Mean and standard deviation on the scale on which the target is modelled, where that is not its own.
    scaled: Option<(f64, f64)>,
}

impl Row {
    /// How many standard deviations the true value lies above the mean, and its negative log density where that is known: on
    /// the scale on which the target is modelled, because there a prediction is normal.
    fn deviation(&self, name: TransformName) -> Option<(f64, Option<f64>)> {
        let (truth, mean, std) = (self.truth?, self.mean?, self.std.filter(|std| *std > 0.0)?);
        let density = |z: f64, std: f64| 0.5 * std::f64::consts::TAU.ln() + std.ln() + 0.5 * z * z;
        let Some((scaled_mean, scaled_std)) = self.scaled.filter(|(_, std)| *std > 0.0) else {
            let z = (truth - mean) / std;
            return Some((z, Some(density(z, std))));
        };
        let transform = match name {
            TransformName::Log => Transform::Log,
            TransformName::Log1p => Transform::Log1p,
            // Its power is in the model: what is known of the row is the share of the distribution below.
            TransformName::None | TransformName::YeoJohnson => {
                let pit = self.pit?.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
                return Some((normal_quantile(pit), None));
            }
        };
        let z = (transform.forward(truth) - scaled_mean) / scaled_std;
        z.is_finite().then(|| (z, Some(density(z, scaled_std) - transform.log_slope(truth))))
    }
}

/// What is read of a row, in the order of its fields.
const NUMBERS: [&str; 8] =
    ["y_true", "y_mean", "y_std", "y_mean_global", "nearest_distance", "y_pit", ON_SCALE[0], ON_SCALE[1]];

/// Calls `each` for every row of a stage and case that is counted; `open` takes in new ones.
fn pass(path: &Path, counts: &mut Vec<Counts>, open: bool, each: fn(&mut Counts, Row)) -> Result<(), StoreError> {
    let names: Vec<&str> = ["stage", "case", "fold", "row"].into_iter().chain(NUMBERS).collect();
    for batch in open_columns(path, &names)? {
        let batch = batch?;
        let columns = BatchColumns(&batch);
        let Some((stage, case)) = columns.text("stage").zip(columns.text("case")) else {
            let detail = "not a predictions table: `stage` or `case` is missing";
            return Err(StoreError::invalid(path, detail, "the file is damaged: remove it and run again"));
        };
        let numbers = NUMBERS.map(|name| columns.number(name));
        let places = columns.whole("fold").zip(columns.long("row"));
        let mut place: Option<usize> = None;
        for row in 0..batch.num_rows() {
            let (stage, case) = (stage.value(row), case.value(row));
            let is = |counts: &Counts| counts.case == case && (counts.stage == stage || counts.stage.is_empty());
            if !place.is_some_and(|place| is(&counts[place])) {
                place = counts.iter().position(is);
                if place.is_none() && open && counts.len() < OTHERS {
                    counts.push(Counts::new(stage, case));
                    place = Some(counts.len() - 1);
                }
            }
            let Some(counts) = place.and_then(|place| counts.get_mut(place)) else { continue };
            if counts.stage.is_empty() {
                stage.clone_into(&mut counts.stage);
            }
            let [truth, mean, std, global, nearest, pit, scaled_mean, scaled_std] =
                numbers.map(|column| value(column, row).filter(|value| value.is_finite()));
            let place = places.map(|(folds, rows)| (folds.value(row), rows.value(row)));
            let scaled = scaled_mean.zip(scaled_std);
            each(counts, Row { place, truth, mean, std, global, nearest, pit, scaled });
        }
    }
    Ok(())
}

/// The smallest and largest of some numbers.
#[derive(Clone, Copy)]
struct Ends(f64, f64);

impl Ends {
    const NONE: Self = Self(f64::INFINITY, f64::NEG_INFINITY);

    fn take(&mut self, value: f64) {
        *self = Self(self.0.min(value), self.1.max(value));
    }

    /// The bin of a value between the ends, of so many.
    fn bin(self, value: f64, bins: usize) -> usize {
        let part = if self.1 > self.0 { (value - self.0) / (self.1 - self.0) } else { 0.5 };
        (part * bins as f64).clamp(0.0, bins as f64 - 1.0) as usize
    }
}

struct Counts {
    stage: String,
    case: String,
    transform: TransformName,
    errors: RowErrors,
    error_sizes: ErrorSizes,
    rows: u64,
    missing: u64,
    compared: u64,
    truth: Ends,
    mean: Ends,
    std: Ends,
    squares: f64,
    grid: HexGrid,
    cells: std::collections::BTreeMap<(i32, i32), u64>,
    residuals: Vec<(u64, f64, f64)>,
    deviations: Vec<u64>,
    levels: Vec<(f64, f64)>,
    inside: Vec<u64>,
    judged: u64,
    sizes: Vec<u64>,
    spread: Vec<u64>,
    means: Vec<u64>,
    by_distance: ByDistance,
}

impl Counts {
    fn new(stage: &str, case: &str) -> Self {
        let level = |step: u32| 0.05 * f64::from(step);
        let mut levels: Vec<f64> = (1..20).map(level).collect();
        levels.push(0.99);
        Self {
            stage: stage.to_owned(),
            case: case.to_owned(),
            transform: TransformName::None,
            errors: RowErrors::default(),
            error_sizes: ErrorSizes::default(),
            rows: 0,
            missing: 0,
            compared: 0,
            truth: Ends::NONE,
            mean: Ends::NONE,
            std: Ends::NONE,
            squares: 0.0,
            grid: HexGrid::new((0.0, 1.0), HEXAGONS),
            cells: std::collections::BTreeMap::new(),
            residuals: vec![(0, 0.0, 0.0); RESIDUALS],
            deviations: vec![0; DEVIATIONS],
            inside: vec![0; levels.len() + 1],
            levels: levels.into_iter().map(|level| (level, normal_quantile(f64::midpoint(1.0, level)))).collect(),
            judged: 0,
            sizes: vec![0; SIZES.0],
            spread: vec![0; SPREAD],
            means: vec![0; MEANS],
            by_distance: ByDistance::default(),
        }
    }

    fn measure(&mut self, row: Row) {
        self.rows += 1;
        let Some(mean) = row.mean else {
            self.missing += 1;
            return;
        };
        self.mean.take(mean);
        if let Some(std) = row.std {
            self.std.take(std);
        }
        if let Some(truth) = row.truth {
            self.compared += 1;
            self.truth.take(truth);
            self.squares += (truth - mean).powi(2);
        }
    }

    /// Between the passes: a few wild predictions must not squeeze all others into a corner.
    fn prepare(&mut self) {
        if self.compared > 0 {
            let span = 0.25 * (self.truth.1 - self.truth.0);
            let low = self.truth.0.min(self.mean.0.max(self.truth.0 - span));
            let high = self.truth.1.max(self.mean.1.min(self.truth.1 + span));
            self.grid = HexGrid::new((low, high), HEXAGONS);
            (self.mean.0, self.mean.1) = (self.mean.0.max(low), self.mean.1.min(high));
        }
    }

    fn add(&mut self, row: Row) {
        let Some(mean) = row.mean else { return };
        self.means[self.mean.bin(mean, MEANS)] += 1;
        if let Some(std) = row.std {
            self.spread[self.std.bin(std, SPREAD)] += 1;
        }
        let Some(truth) = row.truth else { return };
        let (low, high) = self.grid.ends();
        *self.cells.entry(self.grid.cell(mean.clamp(low, high), truth.clamp(low, high))).or_default() += 1;
        let residual = truth - mean;
        if let (Some(global), Some(distance)) = (row.global, row.nearest) {
            self.by_distance.add(distance, residual, truth - global);
        }
        let bin = &mut self.residuals[self.mean.bin(mean, RESIDUALS)];
        *bin = (bin.0 + 1, bin.1 + residual, bin.2 + residual * residual);
        self.error_sizes.add(residual);
        let deviation = row.deviation(self.transform);
        if let Some(place) = row.place {
            self.errors.add(place, residual * residual, deviation.and_then(|(_, nlpd)| nlpd));
        }
        if let Some((z, _)) = deviation {
            self.deviations[Ends(-4.0, 4.0).bin(z, DEVIATIONS)] += 1;
            self.sizes[Ends(0.0, SIZES.1).bin(z.abs(), SIZES.0)] += 1;
            // The narrowest interval that holds the value; older tables know it by the normal distribution only.
            let narrowest = match row.pit {
                Some(pit) => self.levels.partition_point(|(level, _)| *level < (2.0 * pit - 1.0).abs()),
                None => self.levels.partition_point(|(_, limit)| *limit < z.abs()),
            };
            self.inside[narrowest] += 1;
            self.judged += 1;
        }
    }

    fn finish(self) -> PredictionCounts {
        let coverage = if self.judged > 0 {
            let mut sum = 0;
            let observed = self.levels.iter().zip(&self.inside).map(|((level, _), inside)| {
                sum += inside;
                (*level, sum as f64 / self.judged as f64)
            });
            std::iter::once((0.0, 0.0)).chain(observed).chain([(1.0, 1.0)]).collect()
        } else {
            Vec::new()
        };
        let tails = self.tails();
        let width = (self.mean.1 - self.mean.0) / RESIDUALS as f64;
        let residual = |(position, (rows, sum, squares)): (usize, &(u64, f64, f64))| {
            let (count, centre) = (*rows as f64, width.mul_add(position as f64 + 0.5, self.mean.0));
            let mean = sum / count.max(1.0);
            ResidualBin { centre, rows: *rows, mean, std: (squares / count.max(1.0) - mean * mean).max(0.0).sqrt() }
        };
        let rmse = (self.compared > 0).then(|| (self.squares / self.compared as f64).sqrt());
        let bar = (self.mean.1 - self.mean.0).max(f64::MIN_POSITIVE);
        PredictionCounts {
            residuals: self.residuals.iter().enumerate().filter(|(_, bin)| bin.0 > 0).map(residual).collect(),
            spread: self.quantiles().map(|quantiles| Spread { quantiles, rmse }),
            means: (self.rows > self.missing).then(|| (self.mean.0, self.mean.0 + bar, self.means.clone())),
            density: (self.compared > 0).then_some((self.grid, self.cells)),
            stage: self.stage,
            case: self.case,
            target: None,
            rows: self.rows,
            compared: self.compared,
            missing: self.missing,
            deviations: self.deviations,
            by_distance: self.by_distance.bins(),
            judged: self.judged,
            tails,
            median_error: self.error_sizes.median(),
            coverage,
        }
    }

    /// Rows beyond three standard deviations, where half of all rows lie within 0.6745 of one.
    fn tails(&self) -> Option<Tails> {
        let width = SIZES.1 / SIZES.0 as f64;
        let mut below = 0;
        let half = self.sizes.iter().position(|count| {
            below += count;
            2 * below >= self.judged
        })?;
        let limit = 3.0 * (half as f64 + 0.5) * width / 0.674_489_750_196_081_7;
        let first = Ends(0.0, SIZES.1).bin(limit, SIZES.0) + 1;
        let beyond = self.sizes.get(first..).map_or(0, |counts| counts.iter().sum());
        (self.judged > 0).then_some(Tails { beyond, rows: self.judged })
    }

    /// Quantiles of the predictive deviations, to a part of a bin.
    fn quantiles(&self) -> Option<[f64; 5]> {
        let all: u64 = self.spread.iter().sum();
        if all == 0 {
            return None;
        }
        let width = (self.std.1 - self.std.0) / SPREAD as f64;
        Some([0.05, 0.25, 0.5, 0.75, 0.95].map(|part| {
            let mut left = part * all as f64;
            let bin = self.spread.iter().position(|count| {
                left -= *count as f64;
                left <= 0.0
            });
            width.mul_add(bin.unwrap_or(SPREAD - 1) as f64 + 0.5, self.std.0)
        }))
    }
}
