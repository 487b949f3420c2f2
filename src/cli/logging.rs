//! Where log lines go: stderr, as text or as JSON, above the progress bars where there are any.

use crate::text::{one_line, printable_json};
use clap::ValueEnum;
use indicatif::MultiProgress;
use std::fmt;
use std::io::{IsTerminal as _, Write};
use std::time::Instant;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging.
pub fn start(format: LogFormat, quiet: bool, bars: &MultiProgress) {
    let level = if quiet { LevelFilter::WARN } else { LevelFilter::INFO };
    // In text, what a stranger wrote has been made harmless by then, and colours are our own.
    let printable = if format == LogFormat::Json { printable_json } else { str::to_owned };
    let lines = AboveBars { bars: bars.clone(), printable };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_writer(lines);
    // A second start in one process (tests of the library) keeps the first.
    let _ = match format {
        // Every line has the task that it is about: the span that it was written in.
        LogFormat::Json => {
            let json = builder.json().flatten_event(true).with_span_list(false);
            tracing::subscriber::set_global_default(json.finish())
        }
        LogFormat::Text => {
            // The message says it all; the fields are for programs.
            let message_only = debug_fn(|writer, field, value| match field.name() {
                "message" => writer.write_str(&one_line(&format!("{value:?}"))),
                _ => Ok(()),
            });
            let text = builder.fmt_fields(message_only).event_format(TextLine::new());
            tracing::subscriber::set_global_default(text.finish())
        }
    };
}

/// Seconds since the start, level and message: what a person wants to know.
struct TextLine {
    start: Instant,
    /// On a terminal that has them, unless the user does not want them: <https://no-color.org>.
    colours: bool,
    /// On a terminal; files and other programs get every message on one line.
    wrapped: bool,
}

impl TextLine {
    fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        Self { start: Instant::now(), colours: terminal && !unwanted && !dumb, wrapped: terminal }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: for<'a> FormatFields<'a> + 'static> FormatEvent<S, F> for TextLine {
    fn format_event(&self, context: &FmtContext<'_, S, F>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (seconds, level) = (self.start.elapsed().as_secs_f64(), *event.metadata().level());
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        let (on, off) = if self.colours { (colour(level), "\u{1b}[0m") } else { ("", "") };
        let message = if self.wrapped { wrap(&message) } else { message };
        writeln!(writer, "{seconds:8.2}s {on}{:>5}{off} {message}", level.as_str())
    }
}

const fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        _ => "\u{1b}[2m",
    }
}

/// What stands before a message, and the room that is left for it on a narrow terminal.
const MARGIN: usize = 16;
const ROOM: usize = 80 - MARGIN;

/// The words of a message on lines that a narrow terminal shows whole, as far as the words allow.
fn wrap(message: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in message.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > ROOM {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', MARGIN));
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

/// Prints whole lines while the bars step aside.
#[derive(Clone)]
struct AboveBars {
    bars: MultiProgress,
    printable: fn(&str) -> String,
}

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for AboveBars {
    /// That nobody reads the log any more, or that its disk is full, is no reason to end a night's work.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = (self.printable)(&String::from_utf8_lossy(bytes));
        let _ = self.bars.suspend(|| std::io::stderr().write_all(line.as_bytes()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_fit_a_narrow_terminal() {
        let message = "model / fold 3 (of 5): the fit explains almost nothing of the target (all noise): check `features`, or \
                       try another kernel";
        let wrapped = wrap(message);
        for (number, line) in wrapped.lines().enumerate() {
            assert!(line.chars().count() + if number == 0 { MARGIN } else { 0 } <= 80, "{line}");
        }
        assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), message.split_whitespace().collect::<Vec<_>>());
    }
}
