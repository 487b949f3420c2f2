//! Text from data never becomes markup: everything that is shown goes through here.

use std::fmt::{self, Write as _};

/// Text as it may stand in HTML, between tags and inside quoted attributes.
pub fn escape(text: &str) -> String {
    Text(text).to_string()
}

/// The same for `write!`.
pub(super) struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(character)?,
                // Browsers refuse most control characters, and some turn text around.
                other if other.is_control() || matches!(other, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                    f.write_char('\u{fffd}')?;
                }
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A table with a caption for readers who do not see it.
pub(super) struct Table {
    caption: String,
    head: String,
    body: String,
    sortable: bool,
}

/// One cell: what is shown, and what it is sorted by.
pub(super) struct Cell {
    shown: String,
    key: Option<f64>,
    class: &'static str,
}

impl Cell {
    /// Text from data.
    pub fn text(text: &str) -> Self {
        Self { shown: escape(text), key: None, class: "" }
    }

    /// Markup made by us.
    pub fn markup(shown: String) -> Self {
        Self { shown, key: None, class: "" }
    }

    /// A number; none is a dash.
    pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        let shown = value.map_or_else(|| "–".to_owned(), |value| escape(&show(value)));
        Self { shown, key: value, class: "n" }
    }

    /// The same cell sorted by this number.
    pub fn by(mut self, key: Option<f64>) -> Self {
        self.key = key;
        self
    }

    /// The same cell with a class.
    pub fn class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }
}

impl Table {
    /// A table whose columns have these headings; those of numbers end in `#`, which is not shown.
    pub fn new(caption: &str, sortable: bool, columns: &[&str]) -> Self {
        let mut head = String::new();
        for column in columns {
            let (name, class) = column.strip_suffix('#').map_or((*column, ""), |name| (name, " class=n"));
            let _ = if sortable {
                write!(head, "<th scope=col{class}><button type=button>{}</button></th>", Text(name))
            } else {
                write!(head, "<th scope=col{class}>{}</th>", Text(name))
            };
        }
        Self { caption: caption.to_owned(), head, body: String::new(), sortable }
    }

    /// Adds a row; its first cell names it.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.body.push_str("<tr>");
        for (position, cell) in cells.into_iter().enumerate() {
            let class = if cell.class.is_empty() { String::new() } else { format!(" class=\"{}\"", cell.class) };
            let key = cell.key.map_or_else(String::new, |key| format!(" data-v=\"{key}\""));
            let _ = if position == 0 {
                write!(self.body, "<th scope=row{class}{key}>{}</th>", cell.shown)
            } else {
                write!(self.body, "<td{class}{key}>{}</td>", cell.shown)
            };
        }
        self.body.push_str("</tr>\n");
    }

    /// The table in a box that scrolls when it is too wide.
    pub fn finish(self) -> String {
        let class = if self.sortable { " class=sortable" } else { "" };
        format!(
            "<div class=scroll tabindex=0 role=region aria-label=\"{caption}\"><table{class}><caption class=quiet>{caption}</caption>\
             <thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
            self.head,
            self.body,
            caption = Text(&self.caption),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts() {
        assert_eq!(
            escape("<script>alert(\"a&b\")</script>'"),
            "&lt;script&gt;alert(&quot;a&amp;b&quot;)&lt;/script&gt;&#39;"
        );
        assert_eq!(escape("a\u{0}b\u{1b}[31m\u{202e}c"), "a\u{fffd}b\u{fffd}[31m\u{fffd}c");
    }
}
