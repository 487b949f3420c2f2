//! Where log lines go: stderr, as text or as JSON, above the progress bars where there are any.

use crate::text::{printable, printable_json};
use clap::ValueEnum;
use indicatif::MultiProgress;
use std::fmt;
use std::io::Write;
use std::time::Instant;
use tracing::{Event, Subscriber};
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
    let printable = if format == LogFormat::Json { printable_json } else { printable };
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
                "message" => write!(writer, "{value:?}"),
                _ => Ok(()),
            });
            let text = builder.fmt_fields(message_only).event_format(TextLine(Instant::now()));
            tracing::subscriber::set_global_default(text.finish())
        }
    };
}

/// Seconds since the start, level and message: what a person wants to know.
struct TextLine(Instant);

impl<S: Subscriber + for<'a> LookupSpan<'a>, F: for<'a> FormatFields<'a> + 'static> FormatEvent<S, F> for TextLine {
    fn format_event(&self, context: &FmtContext<'_, S, F>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "{:8.2}s {:>5} ", self.0.elapsed().as_secs_f64(), event.metadata().level().as_str())?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Prints whole lines, in which nothing acts on a terminal, while the bars step aside.
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
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let line = (self.printable)(&String::from_utf8_lossy(bytes));
        self.bars.suspend(|| std::io::stderr().write_all(line.as_bytes())).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
