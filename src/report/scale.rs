//! From values to places in a drawing, and the round numbers to write beside an axis.

use super::number::significant;

/// A linear or logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisScale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl AxisScale {
    /// From `[low, high]` to `[from, to]`; values that are all the same get room around them.
    pub fn new((low, high): (f64, f64), log: bool, (from, to): (f64, f64)) -> Self {
        let (low, high) = if low.is_finite() && high.is_finite() { (low, high) } else { (0.0, 1.0) };
        let log = log && low > 0.0;
        let (low, high) = match () {
            () if high > low => (low, high),
            () if log => (low / 2.0, low * 2.0),
            () => {
                let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
                (low - room, low + room)
            }
        };
        Self { low, high, from, to, log }
    }

    /// The place of a value; values beyond the ends lie beyond the axis, but not endlessly far.
    pub fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let part = if part.is_finite() { part.clamp(-1.0, 2.0) } else { 0.0 };
        part.mul_add(self.to - self.from, self.from)
    }

    /// Whether a value lies on the axis.
    pub fn holds(&self, value: f64) -> bool {
        let room = 1e-9 * (self.high - self.low);
        value >= self.low - room && value <= self.high + room
    }

    pub const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// About so many round numbers on the axis, with their names.
    pub fn ticks(&self, about: usize) -> Vec<(f64, String)> {
        if self.log && self.high / self.low >= 3.0 {
            let ticks = self.log_ticks(about);
            if ticks.len() >= 2 {
                return ticks;
            }
        }
        let step = round_step((self.high - self.low) / about.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        let values = (first..=last.min(first.saturating_add(50))).map(|index| index as f64 * step);
        values.map(|value| (value, tick_name(value, step))).collect()
    }

    fn log_ticks(&self, about: usize) -> Vec<(f64, String)> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = |multiples: &[f64], every: i32| -> Vec<f64> {
            let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
            let values = powers.flat_map(|power| multiples.iter().map(move |multiple| multiple * 10_f64.powi(power)));
            values.filter(|value| self.holds(*value)).collect()
        };
        let every = (last - first).div_euclid(about.max(1) as i32).max(1);
        let choices =
            [decades(&[1.0, 2.0, 5.0], 1), decades(&[1.0, 3.0], 1), decades(&[1.0], 1), decades(&[1.0], every)];
        let fits = choices.iter().find(|ticks| ticks.len() <= about + 2 && ticks.len() >= 2);
        let chosen = fits.or_else(|| choices.last()).cloned().unwrap_or_default();
        chosen.into_iter().map(|value| (value, significant(value, 2))).collect()
    }
}

/// The ends of some values with a little room; `zero` takes zero in when it is near.
pub fn range(values: impl Iterator<Item = f64>, zero: bool) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, value| (ends.0.min(value), ends.1.max(value)));
    if low > high {
        return (0.0, 1.0);
    }
    let room = 0.06 * (high - low);
    let (mut low, mut high) = (low - room, high + room);
    if zero && low > 0.0 && low < 0.6 * high {
        low = 0.0;
    }
    if zero && low < 0.0 && low >= -1.01 * room && high > 0.0 {
        low = 0.0;
    }
    if high <= low {
        (low, high) = match low {
            0.0 if zero => (0.0, 1.0),
            0.0 => (-1.0, 1.0),
            _ => (low - 0.1 * low.abs(), high + 0.1 * high.abs()),
        };
    }
    (low, high)
}

/// The ends of positive values with a little room by a factor.
pub fn log_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |ends, value| (ends.0.min(value), ends.1.max(value)));
    if ends.0 > ends.1 {
        return (1.0, 10.0);
    }
    let room = (ends.1 / ends.0).powf(0.06).max(1.15);
    (ends.0 / room, ends.1 * room)
}

/// 1, 2 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    if !(step.is_finite() && step > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powi(step.log10().floor() as i32);
    let part = step / power;
    let multiple = match part {
        _ if part <= 1.0 + 1e-9 => 1.0,
        _ if part <= 2.0 + 1e-9 => 2.0,
        _ if part <= 5.0 + 1e-9 => 5.0,
        _ => 10.0,
    };
    // Steps between the smallest numbers there are would round to nothing.
    (multiple * power).max(f64::MIN_POSITIVE)
}

fn tick_name(value: f64, step: f64) -> String {
    let power = step.log10().floor() as i32;
    if value != 0.0 && (value.abs() >= 1e7 || step < 1e-5) {
        let digits = (value.abs().log10().floor() as i32 - power + 1).clamp(1, 6);
        return significant(value, digits);
    }
    super::number::fixed(value, usize::try_from(-power).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scale: &AxisScale, about: usize) -> Vec<String> {
        scale.ticks(about).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            names(&AxisScale::new((0.0, 1.0), false, (0.0, 100.0)), 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(names(&AxisScale::new((24.0, 126.0), false, (0.0, 100.0)), 5), ["50", "100"]);
        assert_eq!(names(&AxisScale::new((0.5, 200.0), true, (0.0, 100.0)), 4), ["1", "3", "10", "30", "100"]);
        assert_eq!(names(&AxisScale::new((3.0, 3.0), false, (0.0, 100.0)), 4), ["2.8", "3.0", "3.2"]);
        for ends in [
            (f64::NAN, 1.0),
            (f64::NEG_INFINITY, 1.0),
            (1e300, 1e308),
            (-1e-300, 1e-300),
            (0.0, 1e-320),
            (1e16, 1e16 + 2.0),
        ] {
            assert!(names(&AxisScale::new(ends, false, (0.0, 100.0)), 5).len() < 60);
            assert!(AxisScale::new(ends, true, (0.0, 100.0)).at(f64::NAN).is_finite());
        }
    }

    #[test]
    fn places_follow_values() {
        let scale = AxisScale::new((1.0, 100.0), true, (0.0, 200.0));
        assert!((scale.at(10.0) - 100.0).abs() < 1e-9);
        assert!(scale.at(-5.0).is_finite() && scale.at(f64::INFINITY).is_finite());
        assert_eq!(range([1.0, 2.0].into_iter(), true), (0.0, 2.06));
        assert_eq!(range(std::iter::empty(), false), (0.0, 1.0));
        assert_eq!(range([0.0, 0.0].into_iter(), true), (0.0, 1.0));
    }
}
