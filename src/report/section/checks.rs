//! What was read, what the run warned of, and what is missing.

use super::Context;
use crate::report::html::{Cell, Table, Text, escape};
use crate::report::number::count;
use std::fmt::Write as _;

/// Files that are listed.
const FILES: usize = 200;

/// Files, rows and warnings.
pub fn checks(context: &Context<'_>) -> String {
    let run = context.run;
    let mut out = String::new();
    let missing: u64 = run.predicted.iter().map(|predicted| predicted.missing).sum();
    if missing > 0 {
        let _ = writeln!(out, "<p><span class=bad>{}</span> rows could not be predicted.</p>", count(missing));
    }
    out.push_str(&warnings(&run.warnings));
    if !run.inputs.is_empty() {
        let mut table = Table::new("Files that were read", true, &["file", "rows#", "SHA-256"]);
        for input in run.inputs.iter().take(FILES) {
            table.row([
                Cell::text(&input.path),
                Cell::number(input.rows.map(|rows| rows as f64), |rows| count(rows as u64)),
                Cell::markup(format!("<code>{}</code>", Text(input.sha256.get(..16).unwrap_or(&input.sha256)))),
            ]);
        }
        out.push_str(&table.finish());
        if run.inputs.len() > FILES {
            let _ = writeln!(out, "<p class=quiet>and {} more files</p>", run.inputs.len() - FILES);
        }
    }
    out
}

/// Warnings that differ in their place and numbers only stand together.
fn warnings(texts: &[String]) -> String {
    if texts.is_empty() {
        return "<p><span class=good>No warnings.</span></p>\n".to_owned();
    }
    let mut kinds: Vec<(String, Vec<&String>)> = Vec::new();
    for text in texts {
        let message = text.split_once(": ").map_or(text.as_str(), |(_, message)| message);
        let key: String =
            message.chars().filter(|character| !character.is_ascii_digit() && *character != '.').collect();
        match kinds.iter_mut().find(|(known, _)| *known == key) {
            Some((_, alike)) => alike.push(text),
            None => kinds.push((key, vec![text])),
        }
    }
    let plural = if texts.len() == 1 { "" } else { "s" };
    let mut out = format!("<p><span class=warn>{} warning{plural}</span></p><ul>", count(texts.len() as u64));
    for (_, alike) in kinds {
        let Some((first, rest)) = alike.split_first() else { continue };
        let _ = write!(out, "<li>{}", with_code(first));
        if !rest.is_empty() {
            let _ = write!(out, "<details><summary>and {} like it</summary><ul>", rest.len());
            for text in rest {
                let _ = write!(out, "<li>{}</li>", with_code(text));
            }
            out.push_str("</ul></details>");
        }
        out.push_str("</li>");
    }
    out.push_str("</ul>\n");
    out
}

/// Text with words between backticks set as code.
fn with_code(text: &str) -> String {
    let mut out = String::new();
    for (position, piece) in text.split('`').enumerate() {
        let _ = if position % 2 == 1 {
            write!(out, "<code>{}</code>", Text(piece))
        } else {
            write!(out, "{}", escape(piece))
        };
    }
    out
}
