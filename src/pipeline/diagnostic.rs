//! Problems of a pipeline file, each with its place, and how they are shown.

use super::redact::Redactor;
use super::tree::Origin;
use crate::text::{acts, nearest, visible};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    pub origin: Origin,
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem without advice.
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self { origin, message: message.into(), help: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same, advising the known name nearest to the one written, or all of them.
    #[must_use]
    pub fn nearest(self, written: &str, known: &[&str]) -> Self {
        match nearest(written, known) {
            Some(name) => self.help(format!("did you mean `{name}`?")),
            None if known.is_empty() => self,
            None => self.help(format!("known here: {}", known.join(", "))),
        }
    }
}

/// All problems found so far, in the order of the file, each once.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    found: BTreeSet<Diagnostic>,
    /// Text that must not be shown.
    secrets: Vec<String>,
}

impl Diagnostics {
    pub fn push(&mut self, problem: Diagnostic) {
        self.found.insert(problem);
    }

    /// The same, to be shown without these texts.
    #[must_use]
    pub fn hiding(self, secrets: Vec<String>) -> Self {
        Self { secrets, ..self }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// In the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.found.iter()
    }

    /// Each of them as one line: `file:line:column: message; advice`.
    pub fn lines(&self, source: &PipelineText) -> Vec<String> {
        let line = |problem: &Diagnostic| {
            let place = match problem.origin {
                Origin::File { line, column, .. } => format!("{}:{line}:{column}", source.name),
                Origin::Set(index) => format!("--set {}", printable(source.sets.get(index).map_or("", String::as_str))),
            };
            let help = problem.help.as_deref().map_or_else(String::new, |help| format!("; {}", printable(help)));
            format!("{place}: {}{help}", printable(&problem.message))
        };
        self.iter().map(line).collect()
    }

    /// All of them as `file:line:column: message`, the line itself and the advice.
    pub fn render(&self, source: &PipelineText) -> String {
        let mut out = String::new();
        let lines: Vec<&str> = source.text.lines().collect();
        let redactor = Redactor::new(&self.secrets, Path::new(&source.name).parent().unwrap_or(Path::new("")));
        for problem in self.iter().take(MAX_SHOWN) {
            let message = redactor.clean(&problem.message);
            let help = problem.help.as_deref().map(|help| redactor.clean(help));
            source.render(&Diagnostic { message, help, ..problem.clone() }, &lines, &mut out);
        }
        let count = self.len();
        if count > MAX_SHOWN {
            let _ = writeln!(out, "… and {} more", count - MAX_SHOWN);
        }
        let _ = write!(out, "{count} problem{} in {}; nothing was run", if count == 1 { "" } else { "s" }, source.name);
        out
    }
}

/// What the positions refer to.
#[derive(Clone, Debug, Default)]
pub struct PipelineText {
    /// The file's name as the user gave it.
    pub name: String,
    pub text: String,
    /// The `--set` arguments.
    pub sets: Vec<String>,
}

impl PipelineText {
    fn render(&self, problem: &Diagnostic, lines: &[&str], out: &mut String) {
        let message = printable(&problem.message);
        match problem.origin {
            Origin::File { line, column, length } => {
                let _ = writeln!(out, "{}:{line}:{column}: {message}", self.name);
                if let Some(text) = lines.get(line - 1).filter(|text| !text.trim().is_empty()) {
                    quote(out, line, column, length, text);
                }
            }
            Origin::Set(index) => {
                let argument = self.sets.get(index).map_or("", String::as_str);
                let _ = writeln!(out, "--set {}: {message}", printable(argument));
            }
        }
        if let Some(help) = &problem.help {
            let _ = writeln!(out, "  help: {}", printable(help));
        }
    }
}

/// Problems shown; a file with more is not the file that was meant.
const MAX_SHOWN: usize = 50;
/// Lines longer than this are cut in messages.
const MAX_QUOTED: usize = 160;
/// Messages longer than this are cut: they quote a name that is not one.
const MAX_MESSAGE: usize = 300;

/// Text of a stranger as it may be shown on a terminal: nothing in it acts, and it ends.
fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_MESSAGE).flat_map(visible).collect();
    if text.chars().nth(MAX_MESSAGE).is_some() {
        shown.push('…');
    }
    shown
}

/// The line itself, with the place underlined. Tabs and control characters become spaces so that columns stay true.
fn quote(out: &mut String, line: usize, column: usize, length: usize, text: &str) {
    let shown: String = text.chars().take(MAX_QUOTED).map(|c| if acts(c) { ' ' } else { c }).collect();
    let shown = shown.trim_end();
    let room = shown.chars().count().saturating_sub(column - 1).max(1);
    let carets = "^".repeat(length.min(room));
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let _ = writeln!(out, "  {number} | {shown}");
    if column <= MAX_QUOTED {
        let _ = writeln!(out, "  {gutter} | {}{carets}", " ".repeat(column - 1));
    }
}
