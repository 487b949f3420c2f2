//! Conformal calibration: how far targets lie from predictions, in units of the predicted standard deviation, as rows that a
//! model had not seen have shown it.
//!
//! If a new row and these n rows are exchangeable, its score is as likely to take any of the n + 1 places among theirs as any
//! other. So the k-th smallest score with k = ⌈(n + 1) p⌉ is above that of the new row with a probability of at least p, and an
//! interval between two of them holds what it says. This is so on average over rows, not for every single one.

use super::normal::{normal_cdf, normal_quantile};

/// The most scores that are kept.
const KEPT: usize = 2048;
/// With fewer rows there is nothing to be calibrated by.
const LEAST: usize = 10;

/// Scores of rows that were left out, in increasing order; of many, those of some ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Ranks of the scores, from 1, in increasing order; the first is 1, the last is the number of rows.
    ranks: Vec<u64>,
    scores: Vec<f64>,
}

impl Calibration {
    /// From the scores (target − mean)/std of rows that were left out; none where too few of them are numbers.
    pub fn from_scores(mut scores: Vec<f64>) -> Option<Self> {
        scores.retain(|score| score.is_finite());
        if scores.len() < LEAST {
            return None;
        }
        scores.sort_unstable_by(f64::total_cmp);
        let (n, kept) = (scores.len(), scores.len().min(KEPT));
        // Evenly spaced, both ends among them.
        let places: Vec<usize> = (0..kept).map(|at| at * (n - 1) / (kept - 1)).collect();
        let (ranks, scores) = places.into_iter().map(|place| (place as u64 + 1, scores[place])).unzip();
        Some(Self { ranks, scores })
    }

    /// Restores what [`Calibration::ranks`] and [`Calibration::scores`] say; none where they do not fit together.
    pub fn from_parts(ranks: Vec<u64>, scores: Vec<f64>) -> Option<Self> {
        let ordered =
            ranks.windows(2).all(|pair| pair[0] < pair[1]) && scores.windows(2).all(|pair| pair[0] <= pair[1]);
        let whole =
            ranks.len() == scores.len() && ranks.first() == Some(&1) && scores.iter().all(|score| score.is_finite());
        (ordered && whole).then_some(Self { ranks, scores })
    }

    /// Ranks of the scores that are kept.
    pub fn ranks(&self) -> &[u64] {
        &self.ranks
    }

    /// The scores that are kept.
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// How many rows were left out.
    pub fn rows(&self) -> u64 {
        self.ranks.last().copied().unwrap_or(0)
    }

    /// The quantile p of the scores, with the correction for a finite number of rows: away from the middle, so that intervals
    /// hold at least what they say. The middle itself is the median.
    ///
    /// Where so few rows say nothing (beyond the last one of them) it is the normal quantile, or that row if it lies farther
    /// out.
    pub fn quantile(&self, p: f64) -> f64 {
        let places = (self.rows() + 1) as f64 * p;
        // Products that are whole but for rounding must not fall into the next rank.
        let near = places.round();
        let places = if (places - near).abs() < 1e-9 * near.max(1.0) { near } else { places };
        #[expect(clippy::float_cmp, reason = "the median is exact")]
        if p == 0.5 {
            return f64::midpoint(self.at_most(places.floor()), self.at_least(places.ceil()));
        }
        if p < 0.5 {
            let limit = if places < 1.0 { normal_quantile(p) } else { f64::INFINITY };
            return self.at_most(places.floor()).min(limit);
        }
        let limit = if places.ceil() > self.rows() as f64 { normal_quantile(p) } else { f64::NEG_INFINITY };
        self.at_least(places.ceil()).max(limit)
    }

    /// The share of a new row's probability that lies below this score, between the ranks that are kept in proportion.
    pub fn share_below(&self, score: f64) -> f64 {
        let all = (self.rows() + 1) as f64;
        let (first, after) =
            (self.scores.partition_point(|known| *known < score), self.scores.partition_point(|known| *known <= score));
        let rank = |place: usize| self.ranks[place] as f64;
        if first < after {
            return 0.5 * (rank(first) + rank(after - 1)) / all;
        }
        // Beyond all rows there is one place, shared out as the normal distribution has it.
        if after == 0 {
            return normal_cdf(score).min(1.0 / all);
        }
        if after == self.scores.len() {
            return normal_cdf(score).max(self.rows() as f64 / all);
        }
        let (low, high) = (self.scores[after - 1], self.scores[after]);
        let part = (score - low) / (high - low);
        (rank(after - 1) + part * (rank(after) - rank(after - 1))) / all
    }

    /// The score below which this share of a new row's probability lies: the inverse of [`Calibration::share_below`].
    pub fn score_at(&self, share: f64) -> f64 {
        let rank = share * (self.rows() + 1) as f64;
        let after = self.ranks.partition_point(|known| *known as f64 <= rank);
        if after == 0 {
            return normal_quantile(share).min(self.scores[0]);
        }
        let (low, place) = (self.scores[after - 1], self.ranks[after - 1] as f64);
        if after == self.scores.len() {
            return normal_quantile(share).max(low);
        }
        let part = (rank - place) / (self.ranks[after] as f64 - place);
        (self.scores[after] - low).mul_add(part, low)
    }

    // The last score that is kept of those up to this rank, or the first.
    fn at_most(&self, rank: f64) -> f64 {
        let place = self.ranks.partition_point(|known| *known as f64 <= rank);
        self.scores[place.saturating_sub(1)]
    }

    // The first score that is kept of those from this rank on, or the last.
    fn at_least(&self, rank: f64) -> f64 {
        let place = self.ranks.partition_point(|known| (*known as f64) < rank);
        self.scores[place.min(self.scores.len() - 1)]
    }
}
