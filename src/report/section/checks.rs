//! What was read, what the run warned of, and what is missing.

use super::RunContext;
use crate::report::number::count;
use crate::report::table::{TableCell, table};
use maud::{Markup, html};

/// Files that are listed.
const FILES: usize = 200;

/// Files, rows and warnings.
pub fn checks(context: &RunContext<'_>) -> Markup {
    let run = context.run;
    let missing: u64 = run.predicted.iter().map(|predicted| predicted.missing).sum();
    let files = run.inputs.iter().take(FILES).map(|input| {
        let hash = html! { code { (input.sha256.get(..16).unwrap_or(&input.sha256)) } };
        vec![TableCell::new(&input.path), TableCell::count(input.rows), TableCell::new(hash)]
    });
    html! {
        @if missing > 0 { p { span.bad { (count(missing)) } " rows could not be predicted." } }
        (warnings(&run.warnings))
        @if !run.inputs.is_empty() { (table("Files that were read", &["file", "rows#", "SHA-256"], files)) }
        @if run.inputs.len() > FILES { p.quiet { "and " (run.inputs.len() - FILES) " more files" } }
    }
}

/// Warnings that differ in their place and numbers only stand together.
fn warnings(texts: &[String]) -> Markup {
    if texts.is_empty() {
        return html! { p { span.good { "No warnings." } } };
    }
    let mut kinds: Vec<(String, &String, Vec<&String>)> = Vec::new();
    for text in texts {
        let message = text.split_once(": ").map_or(text.as_str(), |(_, message)| message);
        let key: String =
            message.chars().filter(|character| !character.is_ascii_digit() && *character != '.').collect();
        match kinds.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, _, alike)) => alike.push(text),
            None => kinds.push((key, text, Vec::new())),
        }
    }
    html! {
        p { span.warn { (count(texts.len() as u64)) " warning" @if texts.len() > 1 { "s" } } }
        ul {
            @for (_, first, rest) in kinds {
                li {
                    (with_code(first))
                    @if !rest.is_empty() {
                        details {
                            summary { "and " (rest.len()) " like it" }
                            ul { @for text in rest { li { (with_code(text)) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Text with words between backticks set as code.
pub fn with_code(text: &str) -> Markup {
    html! {
        @for (position, piece) in text.split('`').enumerate() {
            @if position % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}
