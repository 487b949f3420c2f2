//! What columns become before a model sees them.

use super::RunContext;
use crate::report::explained::{ModelColumns, ShownColumn};
use crate::report::number::significant;
use crate::report::table::{TableCell, table};
use maud::{Markup, html};

/// Columns that are listed.
const LISTED: usize = 100;

/// One table per model that does not take all columns as they are.
pub fn columns(context: &RunContext<'_>) -> Markup {
    let all = &context.run.columns;
    html! {
        @if !all.is_empty() {
            p.quiet { "As fitted on the training rows of the first fold; every fold has its own." }
        }
        @for one in all { (of_model(context, one, all.len() > 1)) }
    }
}

fn of_model(context: &RunContext<'_>, one: &ModelColumns, several: bool) -> Markup {
    let row = |column: &ShownColumn| {
        let gaps = match (column.gaps, column.fill) {
            (None, _) => "refused".to_owned(),
            (Some(words), None) => words.to_owned(),
            (Some(words), Some(fill)) => format!("{words} ({})", significant(fill, 4)),
        };
        vec![
            TableCell::new(&column.name),
            TableCell::new(column.kind),
            TableCell::new(&column.becomes),
            TableCell::new(gaps),
        ]
    };
    let caption = if several {
        format!("Columns of {}, stage {}", context.case_title(&one.case), one.stage)
    } else {
        "Columns of the input".to_owned()
    };
    html! {
        (table(&caption, &["column", "kind", "becomes", "gaps"], one.columns.iter().take(LISTED).map(row)))
        @if one.columns.len() > LISTED { p.quiet { "and " (one.columns.len() - LISTED) " more columns" } }
    }
}
