//! Tables of text: aligned for people, Markdown, CSV.

use crate::text::cell;
use std::fmt::Write as _;

/// The narrowest terminal that people have.
const COLUMNS: usize = 80;

/// Whether no line of a text is wider than that.
pub fn fits(text: &str) -> bool {
    text.lines().all(|line| line.chars().count() <= COLUMNS)
}

/// A table; the first `left` columns are flush left, the others, numbers mostly, flush right.
#[derive(Debug, Default)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Grid {
    /// A table without rows yet.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>, left: usize) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new(), left }
    }

    /// Adds a row, which has as many cells as the header.
    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.header]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.header.len()).map(width).collect()
    }

    /// For people, each line after `indent` spaces.
    pub fn to_text(&self, indent: usize) -> String {
        let shown = |row: &Vec<String>| row.iter().map(|text| cell(text)).collect();
        let shown = Self { header: shown(&self.header), rows: self.rows.iter().map(shown).collect(), left: self.left };
        let (widths, mut out) = (shown.widths(), String::new());
        for row in [&shown.header].into_iter().chain(&shown.rows) {
            let mut line = " ".repeat(indent);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let _ = if column < self.left {
                    write!(line, "{gap}{cell:<width$}")
                } else {
                    write!(line, "{gap}{cell:>width$}")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub fn to_markdown(&self) -> String {
        let line = |row: &[String]| {
            let cells = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let rule = (0..self.header.len()).map(|column| if column < self.left { "---" } else { "---:" });
        let rule = format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
        line(&self.header) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }

    pub fn to_csv(&self) -> String {
        let field = |cell: &String| {
            let plain = !cell.contains([',', '"', '\n', '\r']);
            if plain { cell.clone() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
        };
        let line = |row: &[String]| row.iter().map(field).collect::<Vec<_>>().join(",") + "\n";
        line(&self.header) + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_every_way() {
        let mut grid = Grid::new(["a|b", "n"], 1);
        grid.push(["é, \"x\"", "1"]);
        assert_eq!(grid.to_text(2), "  a|b     n\n  é, \"x\"  1\n");
        assert_eq!(grid.to_markdown(), "| a\\|b | n |\n|---|---:|\n| é, \"x\" | 1 |\n");
        assert_eq!(grid.to_csv(), "a|b,n\n\"é, \"\"x\"\"\",1\n");
    }
}
