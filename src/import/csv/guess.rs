//! The type of a column, from all of its fields.

use super::scan::{Field, shorten};

/// The types a column of text can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Bool,
    Int,
    Float,
    Text,
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
}

impl Guess {
    /// Looks at a field that is not null.
    pub(super) fn look(&mut self, field: &Field<'_>, line: u64) {
        self.bytes += field.text.len() as u64;
        let seen = || Some(SeenField { line, text: shorten(&field.text) });
        if parse_int(&field.text).is_some() {
            self.ints += 1;
            let digits = field.text.trim_matches(' ').trim_start_matches(['-', '+']);
            self.padded |= digits.len() > 1 && digits.starts_with('0');
        } else if let Some(value) = parse_float(&field.text) {
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
        }
    }

    /// The narrowest type that holds every field; a column without values is text.
    pub(super) fn kind(&self) -> ColumnType {
        match (self.bools, self.ints, self.floats, self.texts) {
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

    /// In a column that is text although most of it is numbers: the first field that is none.
    pub(super) fn almost_numbers(&self) -> Option<&SeenField> {
        let numbers = self.ints + self.floats;
        let others = self.bools + self.texts;
        self.first_text.as_ref().filter(|_| numbers > others)
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
