//! Records and fields of separated text, strictly: every record has as many fields as the first.
//!
//! RFC 4180: a field may stand in double quotes, then it may hold separators, line ends, and doubled quotes. Libraries
//! (`csv`, polars) forgive stray quotes and empty lines, and do not tell `""` from an empty field: both matter here.

use std::borrow::Cow;

use super::super::Refusal;

/// A field, unquoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub text: Cow<'a, str>,
    pub quoted: bool,
}

/// Goes through the records of a text.
#[derive(Debug, Clone)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    /// Byte at which the next record begins.
    next: usize,
    /// Line of the next record, from 1.
    line: u64,
    delimiter: char,
    /// Fields of the first record.
    width: Option<usize>,
}

impl<'a> Scanner<'a> {
    /// From the first record on; empty lines at the end do not count.
    pub(super) fn new(text: &'a str, delimiter: u8) -> Self {
        let text = text.trim_end_matches(['\n', '\r']);
        Self { text, next: 0, line: 1, delimiter: char::from(delimiter), width: None }
    }

    /// The next record into `fields`; returns its line, or `None` at the end.
    pub(super) fn next_record(&mut self, fields: &mut Vec<Field<'a>>) -> Result<Option<u64>, Refusal> {
        fields.clear();
        if self.next >= self.text.len() {
            return Ok(None);
        }
        let line = self.line;
        if self.rest().starts_with(['\n', '\r']) {
            let hint = "remove it; a missing value in a file of one column is written \"\"";
            return Err(Refusal::new(format!("line {line} is empty"), hint));
        }
        loop {
            fields.push(if self.rest().starts_with('"') { self.quoted()? } else { self.plain()? });
            match self.rest().chars().next() {
                Some(mark) if mark == self.delimiter => self.next += 1,
                Some('\r') => {
                    self.next += 2;
                    break;
                }
                Some(_) => {
                    self.next += 1;
                    break;
                }
                None => break,
            }
        }
        self.line += 1;
        let width = *self.width.get_or_insert(fields.len());
        if width != fields.len() {
            let detail = format!("line {line} has {} field(s), the first one has {width}", fields.len());
            let hint = "give every line the same fields (quote those that hold the separator), or check `--delimiter`";
            return Err(Refusal::new(detail, hint));
        }
        Ok(Some(line))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.next..).unwrap_or_default()
    }

    fn ends_field(&self, rest: &str) -> bool {
        rest.is_empty() || rest.starts_with(self.delimiter) || rest.starts_with('\n') || rest.starts_with("\r\n")
    }

    fn plain(&mut self) -> Result<Field<'a>, Refusal> {
        let rest = self.rest();
        let delimiter = self.delimiter as u8;
        // All marks are ASCII, so bytes are enough, and faster.
        let end = rest.bytes().position(|byte| byte == delimiter || byte == b'\n').unwrap_or(rest.len());
        let mut text = &rest[..end];
        if rest[end..].starts_with('\n') {
            text = text.strip_suffix('\r').unwrap_or(text);
        }
        if text.contains('"') {
            let detail = format!("line {}: a quote in the middle of the field `{}`", self.line, shorten(text));
            return Err(Refusal::new(detail, "put the whole field in quotes, and double those inside"));
        }
        self.next += text.len();
        Ok(Field { text: Cow::Borrowed(text), quoted: false })
    }

    fn quoted(&mut self) -> Result<Field<'a>, Refusal> {
        let start = self.line;
        let inside = &self.rest()[1..];
        let mut doubled = false;
        let mut from = 0;
        let end = loop {
            let Some(quote) = inside[from..].find('"').map(|at| from + at) else {
                let detail = format!("line {start}: a quote is opened and never closed");
                return Err(Refusal::new(detail, "close it; the file may also be cut off: write or copy it again"));
            };
            if !inside[quote + 1..].starts_with('"') {
                break quote;
            }
            doubled = true;
            from = quote + 2;
        };
        let text = &inside[..end];
        self.line += text.matches('\n').count() as u64;
        self.next += end + 2;
        if !self.ends_field(self.rest()) {
            let detail = format!("line {}: something follows the closing quote of `{}`", self.line, shorten(text));
            return Err(Refusal::new(detail, "put the whole field in quotes, and double those inside"));
        }
        let text = if doubled { Cow::Owned(text.replace("\"\"", "\"")) } else { Cow::Borrowed(text) };
        Ok(Field { text, quoted: true })
    }
}

/// The beginning of a long field, for messages.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
