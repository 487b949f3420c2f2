//! Tables: sorted by a click on a heading, with a caption for readers who do not see them.

use maud::{Markup, Render, html};

/// One cell: what is shown, and what it is sorted by.
pub(super) struct TableCell {
    shown: Markup,
    key: Option<f64>,
    class: Option<&'static str>,
}

impl TableCell {
    pub fn new(shown: impl Render) -> Self {
        Self { shown: shown.render(), key: None, class: None }
    }

    /// A number; none is a dash.
    pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        let shown = value.map_or_else(|| "–".to_owned(), show);
        Self { shown: shown.render(), key: value, class: Some("n") }
    }

    /// A whole number with separators; none is a dash.
    pub fn count(value: Option<u64>) -> Self {
        Self::number(value.map(|value| value as f64), |value| super::number::count(value as u64))
    }

    /// The same cell sorted by this number.
    pub fn by(mut self, key: Option<f64>) -> Self {
        self.key = key;
        self
    }

    /// The same cell with a class.
    pub fn class(mut self, class: &'static str) -> Self {
        self.class = Some(class);
        self
    }
}

/// A table in a box that scrolls when it is too wide. Headings of numbers end in `#`, which is not shown; the first
/// cell of a row names it.
pub(super) fn table(caption: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<TableCell>>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sortable {
                caption.quiet { (caption) }
                thead { tr {
                    @for column in columns {
                        @let number = column.strip_suffix('#');
                        th scope="col" class=[number.map(|_| "n")] {
                            button type="button" { (number.unwrap_or(column)) }
                        }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (position, cell) in row.into_iter().enumerate() {
                                @if position == 0 {
                                    th scope="row" class=[cell.class] data-v=[cell.key] { (cell.shown) }
                                } @else {
                                    td class=[cell.class] data-v=[cell.key] { (cell.shown) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
