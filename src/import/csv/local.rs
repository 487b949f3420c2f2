//! Numbers and dates as many countries write them: `3,14`, `1.234,5`, `31.12.2026`, `12/31/2026`.

use std::borrow::Cow;

/// What comes first in a date that does not begin with the year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    DayFirst,
    MonthFirst,
}

/// A number whose decimals stand behind a comma, with points between thousands or without, as it is written here; none for
/// any other text. Numbers without decimals count.
pub(super) fn with_point(text: &str) -> Option<String> {
    let text = text.trim_matches(' ');
    let (number, exponent) = text.find(['e', 'E']).map_or((text, ""), |at| text.split_at(at));
    let (whole, decimals) = number.split_once(',').map_or((number, None), |(whole, decimals)| (whole, Some(decimals)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (sign, digits) = whole.find(|c| c != '-' && c != '+').map_or((whole, ""), |at| whole.split_at(at));
    let mut groups = digits.split('.');
    let first = groups.next().filter(|first| is_digits(first) || (first.is_empty() && digits.is_empty()))?;
    let rest: Vec<&str> = groups.collect();
    let grouped =
        rest.is_empty() || (first.len() <= 3 && rest.iter().all(|group| group.len() == 3 && is_digits(group)));
    if !grouped || sign.len() > 1 || !decimals.is_none_or(is_digits) {
        return None;
    }
    let decimals = decimals.map_or_else(String::new, |decimals| format!(".{decimals}"));
    let plain = format!("{sign}{first}{}{decimals}{exponent}", rest.concat());
    plain.parse::<f64>().is_ok().then_some(plain)
}

/// Whether a text is a number only if its comma stands before decimals.
pub(super) fn has_decimal_comma(text: &str) -> bool {
    text.contains(',') && with_point(text).is_some()
}

/// The parts of a date that does not begin with the year: two numbers, the year, and what follows.
fn parts(text: &str) -> Option<(u32, u32, u32, &str)> {
    let text = text.trim_matches(' ');
    let mark = text.chars().find(|c| !c.is_ascii_digit()).filter(|mark| ['.', '/', '-'].contains(mark))?;
    let (first, rest) = text.split_once(mark)?;
    let (second, rest) = rest.split_once(mark)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (year, time) = rest.split_at(end);
    let short = |text: &str| (1..=2).contains(&text.len());
    let number = |text: &str| text.parse::<u32>().ok();
    let is_time = time.is_empty() || ((time.starts_with([' ', 'T'])) && time[1..].trim_start().contains(':'));
    if !(short(first) && short(second) && year.len() == 4 && is_time) {
        return None;
    }
    Some((number(first)?, number(second)?, number(year)?, time))
}

/// The orders in which a text is a date that does not begin with the year.
pub(super) fn orders(text: &str) -> Vec<DateOrder> {
    [DateOrder::DayFirst, DateOrder::MonthFirst].into_iter().filter(|order| iso(text, *order).is_some()).collect()
}

/// A date in this order, as `2026-12-31`, and the time behind it; none for any other text.
pub(super) fn iso(text: &str, order: DateOrder) -> Option<String> {
    let (first, second, year, time) = parts(text)?;
    let (day, month) = if order == DateOrder::DayFirst { (first, second) } else { (second, first) };
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) {
        return None;
    }
    let time: Cow<'_, str> = match time.get(1..).map(str::trim) {
        None | Some("") => Cow::Borrowed(""),
        Some(time) => {
            let (hour, rest) = time.split_once(':')?;
            let seconds = if rest.contains(':') { "" } else { ":00" };
            Cow::Owned(format!("T{hour:0>2}:{rest}{seconds}"))
        }
    };
    Some(format!("{year:04}-{month:02}-{day:02}{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_before_decimals() {
        for (text, number) in [
            ("3,14", "3.14"),
            (" -1.234.567,5 ", "-1234567.5"),
            ("7", "7"),
            ("1.234", "1234"),
            ("1,5e3", "1.5e3"),
            ("+0,5", "+0.5"),
            (",5", ".5"),
        ] {
            assert_eq!(with_point(text).as_deref(), Some(number), "{text}");
        }
        for text in ["3.14", "1,234,567", "1.23,4", ",", "", "-", "a,b", "3,", "1,2 3", "12345.678,9"] {
            assert_eq!(with_point(text), None, "{text}");
        }
        assert!(has_decimal_comma("1,5") && !has_decimal_comma("15"));
    }

    #[test]
    fn dates_become_those_that_begin_with_the_year() {
        use DateOrder::{DayFirst, MonthFirst};
        assert_eq!(iso("31.12.2026", DayFirst).as_deref(), Some("2026-12-31"));
        assert_eq!(iso("12/31/2026 7:05", MonthFirst).as_deref(), Some("2026-12-31T07:05:00"));
        assert_eq!(iso("1.2.2026 07:05:09", DayFirst).as_deref(), Some("2026-02-01T07:05:09"));
        for text in ["31.12.26", "2026-12-31", "30.2.2026", "1.2.2026x", "31.12", "1.2/2026", "10.20.30.40"] {
            assert_eq!(iso(text, DayFirst), None, "{text}");
        }
        assert_eq!(orders("31.12.2026"), [DayFirst]);
        assert_eq!(orders("1/2/2026"), [DayFirst, MonthFirst]);
        assert_eq!(iso("29.02.2024", DayFirst).as_deref(), Some("2024-02-29"));
    }
}
