//! Whether intervals hold what they say, at all levels together, and whether tails are heavier than normal.

use super::number::percent;

/// Deviations from the nominal share below this one times √(p(1 − p)) do not matter: 3 % at the middle, 1.3 % at 95 %.
const TOLERATED: f64 = 0.06;
/// So many standard errors are no chance, with some twenty levels to look at.
const NO_CHANCE: f64 = 2.8;
/// With fewer rows, little can be said.
const FEW: u64 = 200;

/// A share of true values inside intervals that should hold another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Miss {
    level: f64,
    observed: f64,
    /// The difference in units of √(p(1 − p)).
    size: f64,
}

/// What intervals of all levels say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Sureness {
    careful: Option<Miss>,
    sure: Option<Miss>,
    rows: u64,
}

/// The ends of what is chance: shares of so many rows that lie inside intervals of this level, in 95 of 100 samples.
pub fn sampling_band(level: f64, rows: u64) -> (f64, f64) {
    let reach = 1.96 * (level * (1.0 - level) / rows.max(1) as f64).sqrt();
    ((level - reach).max(0.0), (level + reach).min(1.0))
}

impl Sureness {
    /// From nominal and observed shares of so many rows; none without any.
    pub fn of(coverage: &[(f64, f64)], rows: u64) -> Option<Self> {
        let limit = TOLERATED.max(NO_CHANCE / (rows.max(1) as f64).sqrt());
        let inner = coverage.iter().filter(|(level, _)| *level > 0.0 && *level < 1.0);
        let misses: Vec<Miss> = inner
            .map(|(level, observed)| {
                let size = (observed - level) / (level * (1.0 - level)).sqrt();
                Miss { level: *level, observed: *observed, size }
            })
            .collect();
        if misses.is_empty() {
            return None;
        }
        let worst = |sign: f64| {
            let worst = misses.iter().max_by(|a, b| (sign * a.size).total_cmp(&(sign * b.size)));
            worst.copied().filter(|miss| sign * miss.size > limit)
        };
        Some(Self { careful: worst(1.0), sure: worst(-1.0), rows })
    }

    /// In words, to be put behind a colon.
    pub fn words(&self) -> String {
        let said = |miss: &Miss| format!("{} intervals hold {}", share(miss.level), percent(miss.observed));
        match (&self.careful, &self.sure) {
            (Some(careful), Some(sure)) if careful.level < sure.level => {
                format!("too careful in the middle ({}), too sure in the tails ({})", said(careful), said(sure))
            }
            (Some(careful), Some(sure)) => {
                format!("too sure in the middle ({}), too careful in the tails ({})", said(sure), said(careful))
            }
            (Some(careful), None) => format!("more careful than needed ({})", said(careful)),
            (None, Some(sure)) => format!("too sure of itself ({})", said(sure)),
            (None, None) if self.rows < FEW => {
                format!("as sure as it should be, as far as {} rows can tell", self.rows)
            }
            (None, None) => "as sure as it should be, at all levels".to_owned(),
        }
    }
}

// Levels are whole per cents.
fn share(level: f64) -> String {
    format!("{:.0} %", 100.0 * level)
}

/// Standardised residuals far out, where their middle half says how wide the rest should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tails {
    /// Rows beyond three standard deviations.
    pub beyond: u64,
    pub rows: u64,
}

impl Tails {
    /// Of a normal distribution so much lies beyond three standard deviations.
    const NORMAL: f64 = 0.002_7;

    /// Whether there are more than chance explains, and more than twice as many as there should be. A few rows do not say how
    /// wide their middle is.
    pub fn are_heavy(&self) -> bool {
        let expected = Self::NORMAL * self.rows as f64;
        let beyond = self.beyond as f64;
        self.rows >= FEW && beyond > 2.0 * expected && beyond > expected + 3.0 * expected.sqrt() + 1.0
    }

    /// In words.
    pub fn words(&self) -> String {
        let share = self.beyond as f64 / self.rows.max(1) as f64;
        format!(
            "heavy tails: {} of the residuals lie beyond three standard deviations (of a normal distribution as wide in \
             its middle, {})",
            percent(share),
            percent(Self::NORMAL)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(coverage: &[(f64, f64)], rows: u64) -> String {
        Sureness::of(coverage, rows).map_or_else(String::new, |sureness| sureness.words())
    }

    #[test]
    fn all_levels_are_heard() {
        let fashion = [(0.0, 0.0), (0.25, 0.41), (0.5, 0.73), (0.75, 0.86), (0.9, 0.91), (0.95, 0.93), (1.0, 1.0)];
        assert_eq!(
            words(&fashion, 7000),
            "too careful in the middle (50 % intervals hold 73.0 %), too sure in the tails (95 % intervals hold 93.0 %)"
        );
        assert_eq!(words(&[(0.5, 0.4), (0.95, 0.95)], 7000), "too sure of itself (50 % intervals hold 40.0 %)");
        assert_eq!(words(&[(0.5, 0.5), (0.95, 0.99)], 7000), "more careful than needed (95 % intervals hold 99.0 %)");
        assert_eq!(
            words(&[(0.5, 0.4), (0.95, 0.99)], 7000),
            "too sure in the middle (50 % intervals hold 40.0 %), too careful in the tails (95 % intervals hold 99.0 %)"
        );
        assert_eq!(words(&[(0.5, 0.52), (0.95, 0.945)], 7000), "as sure as it should be, at all levels");
    }

    #[test]
    fn what_may_be_chance_is_not_held_against_a_model() {
        let coverage = [(0.5, 0.56), (0.95, 0.98)];
        assert_eq!(words(&coverage, 100), "as sure as it should be, as far as 100 rows can tell");
        assert!(words(&coverage, 100_000).starts_with("more careful than needed"));
        assert_eq!(Sureness::of(&[(0.0, 0.0), (1.0, 1.0)], 100), None);
        let (low, high) = sampling_band(0.5, 400);
        assert!((low - 0.451).abs() < 1e-12 && (high - 0.549).abs() < 1e-12);
    }

    #[test]
    fn tails_are_heavy_beyond_chance() {
        assert!(Tails { beyond: 150, rows: 7000 }.are_heavy());
        assert!(!Tails { beyond: 19, rows: 7000 }.are_heavy());
        assert!(!Tails { beyond: 3, rows: 31 }.are_heavy());
        assert!(Tails { beyond: 150, rows: 7000 }.words().starts_with("heavy tails: 2.1 % of the residuals"));
    }
}
