//! What a scoring run says about its rows: how many were invalid, outside the training range, unusually uncertain.

use crate::features::SeenValues;
use crate::stages::predict::OnInvalid;
use crate::store::input::LARGEST;
use crate::store::model::Range;
use crate::tables::MetricRow;

/// Ratios are added up as whole multiples of this: sums of integers do not depend on their order.
const RATIO_UNIT: f64 = 1.0 / (1_u64 << 40) as f64;

/// Larger ratios count as this one.
const LARGEST_RATIO: f64 = 1e12;

/// Counts over all chunks, the same in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub rows: u64,
    /// Rows that the model cannot use.
    pub invalid: u64,
    usable: u64,
    /// For each feature, usable rows below or above every training row.
    outside: Vec<u64>,
    /// For each column of the input, usable rows without a value, and rows of a level that training has not seen; empty
    /// where columns are taken as they are.
    seen: SeenValues,
    /// Sum of variance ratios in units.
    ratios: i128,
    ratio_rows: u64,
    /// The same of distances to the nearest training row.
    distances: i128,
    distance_rows: u64,
}

impl Tally {
    /// Nothing counted, for so many features.
    pub fn new(features: usize) -> Self {
        Self { outside: vec![0; features], ..Self::default() }
    }

    /// Counts usable rows: `[n, d]`, row by row.
    pub fn count_ranges(&mut self, features: &[f64], ranges: &[Range]) {
        for row in features.chunks_exact(ranges.len().max(1)) {
            self.usable += 1;
            for ((value, range), count) in row.iter().zip(ranges).zip(&mut self.outside) {
                *count += u64::from(*value < range.min || *value > range.max);
            }
        }
    }

    /// Counts what was found in the columns of usable rows.
    pub fn count_seen(&mut self, seen: &SeenValues) {
        let add = |own: &mut Vec<u64>, more: &[u64]| {
            own.resize(more.len().max(own.len()), 0);
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        };
        add(&mut self.seen.missing, &seen.missing);
        add(&mut self.seen.unseen, &seen.unseen);
    }

    /// The share of usable rows without a value, and of a level that training has not seen, by column.
    pub fn seen_shares(&self) -> Vec<(Option<f64>, Option<f64>)> {
        let share = |count: &u64| (self.usable > 0).then(|| *count as f64 / self.usable as f64);
        self.seen.missing.iter().map(share).zip(self.seen.unseen.iter().map(share)).collect()
    }

    /// Counts the predictive variance of a row against that of training.
    pub fn count_variance(&mut self, variance: f64, training: Option<f64>) {
        if let Some(training) = training {
            let ratio = (variance / training).min(LARGEST_RATIO);
            self.ratios += (ratio / RATIO_UNIT).round() as i128;
            self.ratio_rows += 1;
        }
    }

    /// Counts the distance of a row to the nearest training row, relative to that among training rows.
    pub fn count_nearest(&mut self, ratio: f64) {
        self.distances += (ratio.min(LARGEST_RATIO) / RATIO_UNIT).round() as i128;
        self.distance_rows += 1;
    }

    pub fn count_rows(&mut self, valid: &[bool]) {
        self.rows += valid.len() as u64;
        self.invalid += valid.iter().filter(|valid| !**valid).count() as u64;
    }

    /// What is said of rows that the model cannot use, if there are any.
    pub fn warning(&self, policy: OnInvalid) -> Option<String> {
        let fate = if policy == OnInvalid::Skip { "they are left out" } else { "their scores are null" };
        let said = format!(
            "{} of {} rows cannot be scored (features that are null, NaN, infinite or beyond {LARGEST:e}): {fate}",
            self.invalid, self.rows
        );
        (self.invalid > 0).then_some(said)
    }

    /// Mean predictive variance over that of training; none without variances, rows or a training value.
    pub fn variance_ratio(&self) -> Option<f64> {
        (self.ratio_rows > 0).then(|| self.ratios as f64 * RATIO_UNIT / self.ratio_rows as f64)
    }

    /// Mean distance to the nearest training row over that among training rows; none without a local layer or rows.
    pub fn nearest_distance_ratio(&self) -> Option<f64> {
        (self.distance_rows > 0).then(|| self.distances as f64 * RATIO_UNIT / self.distance_rows as f64)
    }

    /// The share of usable rows outside the training range, feature by feature; none without rows.
    pub fn shares(&self) -> Vec<Option<f64>> {
        let share = |count: &u64| (self.usable > 0).then(|| *count as f64 / self.usable as f64);
        self.outside.iter().map(share).collect()
    }

    /// The rows of `metrics`; run, stage and case are filled in when they are recorded. `columns` are those of the input,
    /// `features` what they become.
    pub fn metrics(
        &self,
        features: &[String],
        columns: &[String],
        method: &str,
        split: &str,
        fold: i32,
    ) -> Vec<MetricRow> {
        let row = |metric: &str, feature: Option<&String>, value: Option<f64>, rows: u64| MetricRow {
            run_id: String::new(),
            stage: String::new(),
            case: String::new(),
            method: method.to_owned(),
            fold: Some(fold),
            split: split.to_owned(),
            metric: metric.to_owned(),
            stat: "value".to_owned(),
            feature: feature.cloned(),
            value,
            rows: rows as i64,
        };
        let mut all = vec![
            row("rows_invalid", None, Some(self.invalid as f64), self.rows),
            row("variance_ratio", None, self.variance_ratio(), self.ratio_rows),
        ];
        if let Some(ratio) = self.nearest_distance_ratio() {
            all.push(row("nearest_distance_ratio", None, Some(ratio), self.distance_rows));
        }
        let shares = self.shares();
        all.extend(
            features.iter().zip(shares).map(|(name, share)| row("share_outside_range", Some(name), share, self.usable)),
        );
        for (name, (missing, unseen)) in columns.iter().zip(self.seen_shares()) {
            all.extend([
                row("share_missing", Some(name), missing, self.usable),
                row("share_unseen_levels", Some(name), unseen, self.usable),
            ]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let values: Vec<f64> = (0..1000).map(|i| f64::from(i).sin().exp() * 10_f64.powi(i % 7 - 3)).collect();
        let tally = |values: &mut dyn Iterator<Item = &f64>| {
            let mut tally = Tally::new(1);
            values.for_each(|value| tally.count_variance(*value, Some(0.37)));
            tally
        };
        assert_eq!(tally(&mut values.iter()), tally(&mut values.iter().rev()));
        let plain = values.iter().sum::<f64>() / 370.0;
        let ratio = tally(&mut values.iter()).variance_ratio().unwrap_or_default();
        assert!((ratio - plain).abs() < 1e-9 * plain, "{ratio} {plain}");
    }
}
