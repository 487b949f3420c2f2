//! CSV: two passes over the text, one to find the types, one to convert.
//!
//! Types come from all rows rather than the first few, so the second pass cannot meet a surprise; short lines are
//! refused with their number rather than filled with nulls.

mod guess;
mod local;
mod scan;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, NullBuilder, StringBuilder};

use super::{ImportOptions, MOST_COLUMNS, Piece, Refusal, is_called_key};
use crate::store::StoreError;
use guess::{ColumnType, Guess, parse_bool, parse_float, parse_int, read_as};
pub use local::DateOrder;
use scan::{Field, Scanner};

/// Text of a column beyond this would not fit the offsets of its Arrow array.
const MOST_TEXT: u64 = i32::MAX as u64;

/// How a CSV file is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvOptions {
    /// The separator; default: a comma, in `.tsv` files a tab.
    pub delimiter: Option<u8>,
    /// Whether the first line is a row, not names.
    pub no_header: bool,
    /// Fields that stand for a missing value, beside the empty one.
    pub nulls: Vec<String>,
    /// Whether decimals stand behind a comma: `3,14`, `1.234,5`.
    pub decimal_comma: bool,
    /// Which dates are read that do not begin with the year.
    pub dates: Option<DateOrder>,
}

impl CsvOptions {
    fn is_null(&self, field: &Field<'_>, kind: Option<ColumnType>) -> bool {
        let text = field.text.trim_matches(' ');
        // Empty quotes are an empty text, where the column is text.
        let empty = text.is_empty() && !(field.quoted && kind == Some(ColumnType::Text));
        empty || self.nulls.iter().any(|null| null == text)
    }
}

/// Reads a CSV file.
pub(super) fn read(path: &Path, bytes: &[u8], options: &ImportOptions) -> Result<Piece, StoreError> {
    let text = utf8(bytes).map_err(|refusal| refusal.at(path))?;
    let plain =
        if path.extension().is_some_and(|ending| ending == "gz") { path.with_extension("") } else { path.into() };
    let tabs = plain.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tsv"));
    let delimiter = options.csv.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
    parse(path, text, delimiter, options)
}

fn utf8(bytes: &[u8]) -> Result<&str, Refusal> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let line = |end: usize| bytes[..end].split(|byte| *byte == b'\n').count();
    if let Some(zero) = bytes.iter().position(|byte| *byte == 0) {
        let detail = format!("line {} has a zero byte: this is no text", line(zero));
        return Err(Refusal::new(detail, "save the file as UTF-8, or check `--format`"));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let detail = format!("line {} is not UTF-8 text", line(error.valid_up_to()));
        Refusal::new(detail, "save the file as UTF-8, or check `--format`")
    })
}

fn parse(path: &Path, text: &str, delimiter: u8, options: &ImportOptions) -> Result<Piece, StoreError> {
    let refuse = |refusal: Refusal| refusal.at(path);
    let mut scanner = Scanner::new(text, delimiter);
    let rows_from = scanner.clone();
    let mut fields = Vec::new();
    if scanner.next_record(&mut fields).map_err(refuse)?.is_none() {
        return Err(refuse(Refusal::new("there is nothing in this file", "write or copy it again")));
    }
    let names = names(&fields, &options.csv).map_err(refuse)?;
    if options.csv.delimiter.is_none() {
        check_separator(&names, text, delimiter).map_err(refuse)?;
    }
    check_names(&names).map_err(refuse)?;
    let body = if options.csv.no_header { rows_from } else { scanner };
    let chosen = choose(path, &names, &options.only)?;
    let (rows, mut guesses) = look(body.clone(), names.len(), &options.csv).map_err(refuse)?;
    let key = options.names.iter().find(|(_, new)| *new == options.key).map_or(&options.key, |(old, _)| old);
    let identifies = |name: &String| name == key || is_called_key(name);
    names.iter().zip(&mut guesses).filter(|(name, _)| identifies(name)).for_each(|(_, guess)| guess.keep_zeros());
    let (file, mut notes) = (path.display(), Vec::new());
    if rows == 0 {
        // A day on which nothing happened.
        notes.push(format!("{file}: there are no rows, only names; if the first line is a row: `--no-header`"));
    }
    for &index in &chosen {
        check_column(path, &names[index], &guesses[index])?;
        if guesses[index].kind() == ColumnType::Text
            && let Some(note) = guesses[index].note()
        {
            notes.push(format!("{file}: column `{}` {note}", names[index]));
        }
    }
    let columns = convert(body, &names, &guesses, &chosen, &options.csv).map_err(refuse)?;
    let origin = path.display().to_string();
    let (columns, named_by) = rename(columns, &options.names);
    Ok(Piece { origin, path: path.to_owned(), rows, columns, notes, named_by })
}

/// Gives columns their new names; also returns the old ones of those.
fn rename(columns: Vec<(String, ArrayRef)>, names: &[(String, String)]) -> (Vec<(String, ArrayRef)>, Vec<String>) {
    let mut used = Vec::new();
    let mut new_name = |name: String| match names.iter().find(|(old, _)| *old == name) {
        Some((old, new)) => {
            used.push(old.clone());
            new.clone()
        }
        None => name,
    };
    (columns.into_iter().map(|(name, column)| (new_name(name), column)).collect(), used)
}

/// Names of the columns: the first record, or `c00`, `c01`, ….
fn names(first: &[Field<'_>], options: &CsvOptions) -> Result<Vec<String>, Refusal> {
    if first.len() > MOST_COLUMNS {
        let detail = format!("{} columns, more than {MOST_COLUMNS}", first.len());
        return Err(Refusal::new(detail, "check `--delimiter`, or keep fewer columns"));
    }
    if options.no_header {
        let digits = (first.len() - 1).to_string().len().max(2);
        return Ok((0..first.len()).map(|index| format!("c{index:0digits$}")).collect());
    }
    Ok(first.iter().map(|field| field.text.trim().to_owned()).collect())
}

/// One column, in a line with another usual separator, is hardly what was meant; saying the separator ends the doubt.
fn check_separator(names: &[String], text: &str, delimiter: u8) -> Result<(), Refusal> {
    let first_line = text.lines().next().unwrap_or_default();
    let other = [',', ';', '\t', '|'].into_iter().find(|mark| first_line.contains(*mark));
    match (names, other) {
        ([_], Some(other)) if other != char::from(delimiter) => {
            let shown = if other == '\t' { "tab".to_owned() } else { format!("'{other}'") };
            let detail = format!("there is only one column, `{}`", scan::shorten(first_line));
            Err(Refusal::new(detail, format!("say what separates columns, for example `--delimiter {shown}`")))
        }
        _ => Ok(()),
    }
}

fn check_names(names: &[String]) -> Result<(), Refusal> {
    if let Some(index) = names.iter().position(String::is_empty) {
        let hint = "name it in the first line; if that is a row: `--no-header`";
        return Err(Refusal::new(format!("column {} has no name", index + 1), hint));
    }
    let mut seen = HashMap::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        if let Some(earlier) = seen.insert(name, index) {
            let detail = format!("columns {} and {} are both called `{name}`", earlier + 1, index + 1);
            return Err(Refusal::new(detail, "rename one of them; if the first line is a row: `--no-header`"));
        }
    }
    Ok(())
}

/// Positions of the wanted columns, in the wanted order.
fn choose(path: &Path, names: &[String], only: &[String]) -> Result<Vec<usize>, StoreError> {
    if only.is_empty() {
        return Ok((0..names.len()).collect());
    }
    let find = |wanted: &String| {
        names.iter().position(|name| name == wanted).ok_or_else(|| {
            let hint = format!("the columns are {}", names.join(", "));
            StoreError::invalid_column(path, wanted, "there is no such column", hint)
        })
    };
    only.iter().map(find).collect()
}

/// The first pass: number of rows, and what every column holds.
fn look(mut body: Scanner<'_>, width: usize, options: &CsvOptions) -> Result<(usize, Vec<Guess>), Refusal> {
    let mut guesses: Vec<Guess> = std::iter::repeat_with(Guess::default).take(width).collect();
    let mut fields = Vec::with_capacity(width);
    let mut rows = 0;
    while let Some(line) = body.next_record(&mut fields)? {
        for (field, guess) in fields.iter().zip(&mut guesses) {
            if options.is_null(field, None) {
                guess.empty_text |= field.quoted && field.text.trim_matches(' ').is_empty();
            } else {
                guess.look(field, line, options);
            }
        }
        rows += 1;
    }
    Ok((rows, guesses))
}

fn check_column(path: &Path, name: &str, guess: &Guess) -> Result<(), StoreError> {
    if let (ColumnType::Float, Some(seen)) = (guess.kind(), &guess.not_finite) {
        let detail = format!("line {}: `{}` is not a finite number", seen.line, seen.text);
        let hint = format!("correct it; if it stands for a missing value: `--null '{}'`", seen.text.trim());
        return Err(StoreError::invalid_column(path, name, detail, hint));
    }
    if guess.kind() == ColumnType::Text && guess.bytes > MOST_TEXT {
        let detail = format!("{} bytes of text, more than {MOST_TEXT}", guess.bytes);
        return Err(StoreError::invalid_column(path, name, detail, "split the file, or leave this column out"));
    }
    Ok(())
}

/// A column while it grows.
enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Nothing(NullBuilder),
}

impl ColumnBuilder {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnType::Int => Self::Int(Int64Builder::new()),
            ColumnType::Float => Self::Float(Float64Builder::new()),
            ColumnType::Text | ColumnType::Date(_) => Self::Text(StringBuilder::new()),
            ColumnType::Nothing => Self::Nothing(NullBuilder::new()),
        }
    }

    fn push(&mut self, text: Option<&str>) {
        match self {
            Self::Bool(builder) => builder.append_option(text.and_then(parse_bool)),
            Self::Int(builder) => builder.append_option(text.and_then(parse_int)),
            Self::Float(builder) => builder.append_option(text.and_then(parse_float)),
            Self::Text(builder) => builder.append_option(text),
            Self::Nothing(builder) => builder.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Int(mut builder) => Arc::new(builder.finish()),
            Self::Float(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Nothing(mut builder) => Arc::new(builder.finish()),
        }
    }
}

/// The second pass: the chosen columns.
fn convert(
    mut body: Scanner<'_>,
    names: &[String],
    guesses: &[Guess],
    chosen: &[usize],
    options: &CsvOptions,
) -> Result<Vec<(String, ArrayRef)>, Refusal> {
    let kinds: Vec<ColumnType> = chosen.iter().map(|index| guesses[*index].kind()).collect();
    let mut builders: Vec<ColumnBuilder> = kinds.iter().map(|kind| ColumnBuilder::new(*kind)).collect();
    let mut fields = Vec::with_capacity(names.len());
    while body.next_record(&mut fields)?.is_some() {
        for ((index, kind), builder) in chosen.iter().zip(&kinds).zip(&mut builders) {
            let field = &fields[*index];
            let text = if options.is_null(field, Some(*kind)) { None } else { read_as(&field.text, *kind, options) };
            builder.push(text.as_deref());
        }
    }
    Ok(chosen.iter().zip(builders).map(|(index, builder)| (names[*index].clone(), builder.finish())).collect())
}
