//! The type of a column, from all of its fields.

use std::borrow::Cow;

use super::CsvOptions;
use super::local::{DateOrder, has_decimal_comma, iso, orders, with_point};
use super::scan::{Field, shorten};

/// The types a column of text can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Bool,
    Int,
    Float,
    Text,
    /// Dates in another order than ours, which become ours.
    Date(DateOrder),
    /// No value at all.
    Nothing,
}

/// A field that stands out.
#[derive(Debug, Clone)]
pub(super) struct SeenField {
    pub line: u64,
    pub text: String,
}

/// What is known of a column so far.
#[derive(Debug, Default)]
pub(super) struct Guess {
    bools: u64,
    ints: u64,
    floats: u64,
    texts: u64,
    /// Whether a whole number is written with zeros in front, which it would lose.
    padded: bool,
    /// Bytes of all fields: text columns have a limit.
    pub bytes: u64,
    /// The first NaN or infinity.
    pub not_finite: Option<SeenField>,
    /// The first field that is no number.
    first_text: Option<SeenField>,
    /// Whether there is an empty text, which is no missing value in a column of text.
    pub empty_text: bool,
    /// Fields that are numbers if a comma stands before decimals, the first of them, and those with three decimals, where it
    /// may stand between thousands.
    commas: u64,
    first_comma: Option<SeenField>,
    thousands: u64,
    /// Fields that are dates with the day or the month first, the first of them, and how many are so in which order.
    dates: u64,
    first_date: Option<SeenField>,
    day_first: u64,
    month_first: u64,
    /// The order that dates are read in.
    order: Option<DateOrder>,
}

impl Guess {
    /// Looks at a field that is not null.
    pub(super) fn look(&mut self, field: &Field<'_>, line: u64, options: &CsvOptions) {
        self.bytes += field.text.len() as u64;
        self.order = options.dates;
        let seen = || Some(SeenField { line, text: shorten(&field.text) });
        let text = number_text(&field.text, options.decimal_comma);
        if text.as_deref().and_then(parse_int).is_some() {
            self.ints += 1;
            let digits = field.text.trim_matches(' ').trim_start_matches(['-', '+']);
            self.padded |= digits.len() > 1 && digits.starts_with('0');
        } else if let Some(value) = text.as_deref().and_then(parse_float) {
            self.floats += 1;
            if !value.is_finite() && self.not_finite.is_none() {
                self.not_finite = seen();
            }
        } else {
            if parse_bool(&field.text).is_some() {
                self.bools += 1;
            } else {
                self.texts += 1;
            }
            if self.first_text.is_none() {
                self.first_text = seen();
            }
            self.look_abroad(field, seen);
        }
    }

    /// Whether a field is a number or a date of another country.
    fn look_abroad(&mut self, field: &Field<'_>, seen: impl Fn() -> Option<SeenField>) {
        if has_decimal_comma(&field.text) {
            self.commas += 1;
            self.thousands += u64::from(field.text.trim_end().split(',').nth(1).is_some_and(|last| last.len() == 3));
            self.first_comma = self.first_comma.take().or_else(seen);
            return;
        }
        let orders = orders(&field.text);
        if !orders.is_empty() {
            self.dates += 1;
            self.day_first += u64::from(orders.contains(&DateOrder::DayFirst));
            self.month_first += u64::from(orders.contains(&DateOrder::MonthFirst));
            self.first_date = self.first_date.take().or_else(seen);
        }
    }

    /// The narrowest type that holds every field.
    pub(super) fn kind(&self) -> ColumnType {
        let dated = match self.order {
            Some(DateOrder::DayFirst) => self.day_first,
            Some(DateOrder::MonthFirst) => self.month_first,
            None => 0,
        };
        match (self.bools, self.ints, self.floats, self.texts) {
            (0, 0, 0, 0) if !self.empty_text => ColumnType::Nothing,
            (0, 0, 0, texts) if texts > 0 && texts == dated && !self.empty_text => {
                self.order.map_or(ColumnType::Text, ColumnType::Date)
            }
            (_, _, _, 1..) | (1.., 1.., _, _) | (1.., _, 1.., _) | (0, 0, 0, 0) => ColumnType::Text,
            (1.., ..) => ColumnType::Bool,
            (_, _, 1.., _) => ColumnType::Float,
            _ => ColumnType::Int,
        }
    }

    /// The column identifies rows: `007` and `7` are different.
    pub(super) fn keep_zeros(&mut self) {
        self.texts += u64::from(self.padded);
    }

    /// What is odd about a column that is text, and what to do about it.
    pub(super) fn note(&self) -> Option<String> {
        let values = self.ints + self.floats + self.bools + self.texts;
        let said = |seen: &SeenField| format!("`{}` at line {}", seen.text, seen.line);
        if let Some(seen) = self.first_comma.as_ref().filter(|_| 2 * (self.commas + self.ints + self.floats) > values) {
            let between =
                if self.thousands == self.commas { "; if its commas stand between thousands, remove them" } else { "" };
            return Some(format!(
                "is text because of commas before decimals, such as {}: read it with `--decimal-comma`{between}",
                said(seen)
            ));
        }
        if let Some(seen) = self.first_date.as_ref().filter(|_| 2 * self.dates > values) {
            let advice = match (self.order, self.day_first == self.dates, self.month_first == self.dates) {
                (Some(_), ..) => {
                    "not all of them are dates in the order of `--dates`: correct them, or choose the other".to_owned()
                }
                (None, true, false) => "read them with `--dates day-first`".to_owned(),
                (None, false, true) => "read them with `--dates month-first`".to_owned(),
                _ => "say what comes first: `--dates day-first` or `--dates month-first`".to_owned(),
            };
            return Some(format!("has dates such as {}, which stay text: {advice}", said(seen)));
        }
        let seen = self.almost_numbers()?;
        let word = &seen.text;
        Some(format!(
            "is text only because of {} and the like; if that stands for a missing value: `--null '{word}'`",
            said(seen)
        ))
    }

    /// In a column that is text although most of it is numbers: the first field that is none.
    fn almost_numbers(&self) -> Option<&SeenField> {
        let numbers = self.ints + self.floats;
        let others = self.bools + self.texts;
        self.first_text.as_ref().filter(|_| numbers > others)
    }
}

/// A field as numbers are read: with a point before decimals; none where a comma would have to be there.
pub(super) fn number_text(text: &str, decimal_comma: bool) -> Option<Cow<'_, str>> {
    match with_point(text).filter(|_| decimal_comma) {
        Some(plain) => Some(Cow::Owned(plain)),
        None if decimal_comma && text.contains('.') => None,
        None => Some(Cow::Borrowed(text)),
    }
}

/// A field of a column of this type, as it is read.
pub(super) fn read_as<'a>(text: &'a str, kind: ColumnType, options: &CsvOptions) -> Option<Cow<'a, str>> {
    match kind {
        ColumnType::Int | ColumnType::Float => number_text(text, options.decimal_comma),
        ColumnType::Date(order) => iso(text, order).map(Cow::Owned),
        ColumnType::Bool | ColumnType::Text | ColumnType::Nothing => Some(Cow::Borrowed(text)),
    }
}

/// A whole number of at most 64 bits.
pub(super) fn parse_int(text: &str) -> Option<i64> {
    text.trim_matches(' ').parse().ok()
}

/// A number; one written as integer that needs more than 64 bits is not, as it would lose digits that may matter.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(' ');
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+') && parse_int(text).is_none() {
        return None;
    }
    text.parse().ok()
}

/// `true` or `false`, in any case.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim_matches(' ');
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}
