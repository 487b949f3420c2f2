//! Where log lines go: stderr, as text or as JSON, above the progress bars where there are any.

use crate::text::printable;
use clap::ValueEnum;
use indicatif::MultiProgress;
use std::io::Write;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;

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
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_target(false).with_writer(AboveBars(bars.clone()));
    // A second start in one process (tests of the library) keeps the first.
    let _ = match format {
        LogFormat::Json => tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish()),
        LogFormat::Text => {
            // The message says it all; the fields are for programs.
            let message_only = debug_fn(|writer, field, value| match field.name() {
                "message" => writer.write_str(&printable(&format!("{value:?}"))),
                _ => Ok(()),
            });
            let text = builder.with_ansi(false).with_timer(Seconds::start()).fmt_fields(message_only);
            tracing::subscriber::set_global_default(text.finish())
        }
    };
}

/// Time since the start, in seconds: what a person wants to know of a log line.
struct Seconds(std::time::Instant);

impl Seconds {
    fn start() -> Self {
        Self(std::time::Instant::now())
    }
}

impl tracing_subscriber::fmt::time::FormatTime for Seconds {
    fn format_time(&self, writer: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        write!(writer, "{:8.2}s", self.0.elapsed().as_secs_f64())
    }
}

/// Prints whole lines while the bars step aside.
#[derive(Clone)]
struct AboveBars(MultiProgress);

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for AboveBars {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.suspend(|| std::io::stderr().write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
