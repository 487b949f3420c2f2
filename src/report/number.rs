//! Numbers as people read them.

use crate::eval::metrics::{Metric, NumberFormat};

/// About `digits` significant digits, without an exponent where that is readable.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "–".to_owned() } else { format!("{value}") };
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let power = value.abs().log10().floor() as i32;
    if !(-4..=6).contains(&power) {
        let text = format!("{value:.*e}", usize::try_from(digits - 1).unwrap_or(0));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = if mantissa.contains('.') { trim(mantissa) } else { mantissa.to_owned() };
        return minus(&format!("{mantissa}e{exponent}"));
    }
    let decimals = usize::try_from(digits - 1 - power).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    grouped(&if decimals > 0 { trim(&text) } else { text })
}

/// As many digits after the point as a number needs.
const ANY: usize = usize::MAX;

/// So many digits after the point.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() || decimals == ANY {
        return significant(value, 3);
    }
    let text = format!("{value:.decimals$}");
    // A number that rounds to zero has no sign.
    let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    grouped(if zero { text.trim_start_matches('-') } else { &text })
}

/// Digits after the point that suit a column of numbers: four significant ones of the largest.
pub fn decimals_for(values: impl Iterator<Item = f64>) -> usize {
    let sizes: Vec<f64> = values.filter(|value| value.is_finite() && *value != 0.0).map(f64::abs).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
    match largest {
        _ if largest > 1000.0 * smallest => ANY,
        _ if largest >= 1000.0 => 0,
        _ if largest >= 100.0 => 1,
        _ if largest >= 10.0 => 2,
        _ if largest >= 1.0 => 3,
        _ if largest >= 0.001 || largest == 0.0 => 4,
        _ => ANY,
    }
}

/// A whole number with separators.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A value of a metric.
pub fn of_metric(metric: &Metric, value: f64) -> String {
    match metric.format {
        NumberFormat::Significant(digits) => significant(value, digits),
        NumberFormat::Decimals(decimals) => fixed(value, decimals),
        NumberFormat::Percent => percent(value),
        NumberFormat::Count => count(value as u64),
    }
}

/// A length of time.
pub fn seconds(value: f64) -> String {
    let whole = value.round().max(0.0) as u64;
    match value {
        _ if !value.is_finite() || value < 0.0 => "–".to_owned(),
        _ if value == 0.0 => "0 s".to_owned(),
        _ if value < 0.000_999_5 => format!("{} µs", significant(value * 1e6, 2)),
        _ if value < 0.999_5 => format!("{} ms", significant(value * 1e3, 3)),
        _ if value < 59.95 => format!("{} s", significant(value, 3)),
        _ if whole < 3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ if whole < 48 * 3600 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A size in memory.
pub fn bytes(value: f64) -> String {
    match value {
        _ if value < 1024.0 * 1024.0 => format!("{} KiB", significant((value / 1024.0).round(), 4)),
        _ if value < 1024.0 * 1024.0 * 1024.0 => format!("{} MiB", significant(value / 1024.0 / 1024.0, 3)),
        _ => format!("{} GiB", significant(value / 1024.0 / 1024.0 / 1024.0, 3)),
    }
}

/// A share as a percentage.
pub fn percent(value: f64) -> String {
    let shown = 100.0 * value;
    let decimals = usize::from(shown.abs() < 99.95 && shown != 0.0);
    format!("{} %", fixed(shown, decimals))
}

/// A place in a drawing.
pub fn pixel(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn trim(text: &str) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A minus is not a hyphen.
fn minus(text: &str) -> String {
    text.replace('-', "−")
}

/// Thin spaces between thousands, from five digits on.
fn grouped(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = rest.find('.').map_or((rest, ""), |point| rest.split_at(point));
    if whole.len() < 5 {
        return format!("{sign}{whole}{fraction}");
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    format!("{sign}{out}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let shown = |value: f64| significant(value, 3);
        assert_eq!(shown(0.001_942), "0.00194");
        assert_eq!(shown(-1234.4), "−1234");
        assert_eq!(shown(63_000.0), "63\u{202f}000");
        assert_eq!(shown(1.5e-7), "1.5e−7");
        assert_eq!(shown(2.0), "2");
        assert_eq!(shown(f64::NAN), "–");
        assert_eq!(fixed(-0.000_01, 3), "0.000");
        assert_eq!(fixed(0.25, 3), "0.250");
        assert_eq!(fixed(5.967e-8, decimals_for([5.967e-8].into_iter())), "5.97e−8");
        assert_eq!(fixed(0.002_4, decimals_for([0.002_4, 0.018].into_iter())), "0.0024");
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(seconds(0.000_34), "340 µs");
        assert_eq!(seconds(0.067_3), "67.3 ms");
        assert_eq!(seconds(0.999_9), "1 s");
        assert_eq!(seconds(59.96), "1 min 00 s");
        assert_eq!(seconds(1119.0), "18 min 39 s");
        assert_eq!(seconds(90_000.0), "25 h 00 min");
        assert_eq!(bytes(346_267_648.0), "330 MiB");
        assert_eq!(percent(0.9523), "95.2 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(pixel(-0.04), "0");
    }
}
