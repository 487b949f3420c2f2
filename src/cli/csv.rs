//! How CSV is written: what the commands that read it have in common.

use crate::import::{CsvOptions, DateOrder};
use clap::{Args as ClapArgs, ValueEnum};

/// How CSV is written.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(super) struct CsvArgs {
    /// CSV: the separator, one character or `tab`; default: a comma, in .tsv files a tab
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// CSV: decimals stand behind a comma: `3,14`, `1.234,5`
    #[arg(long)]
    decimal_comma: bool,
    /// CSV: dates are `31.12.2026` or `12/31/2026`, not only `2026-12-31`
    #[arg(long, value_name = "ORDER", value_enum)]
    dates: Option<WrittenDates>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WrittenDates {
    DayFirst,
    MonthFirst,
}

impl CsvArgs {
    pub fn options(&self) -> CsvOptions {
        let order = |dates: WrittenDates| match dates {
            WrittenDates::DayFirst => DateOrder::DayFirst,
            WrittenDates::MonthFirst => DateOrder::MonthFirst,
        };
        CsvOptions {
            delimiter: self.delimiter,
            decimal_comma: self.decimal_comma,
            dates: self.dates.map(order),
            ..CsvOptions::default()
        }
    }

    /// Whether anything is said.
    pub const fn is_default(&self) -> bool {
        self.delimiter.is_none() && !self.decimal_comma && self.dates.is_none()
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" || text == "\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("one ASCII character other than a quote, or `tab`".to_owned()),
    }
}
