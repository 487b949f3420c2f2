//! Published figures beside those of a run: a small CSV file of ours.

use crate::cli::exit::{self, Failure};
use std::path::Path;

/// What others have published of one metric.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PublishedFigures {
    /// Value of the row variable, method and figure, in the order of the file.
    entries: Vec<[String; 3]>,
}

impl PublishedFigures {
    /// The figures of this metric, for rows by this variable.
    pub fn read(path: &Path, rows: &str, metric: &str) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let code = if path.exists() { exit::INVALID_DATA } else { exit::MISSING_INPUT };
            Failure::new(code, format!("stride-pipe: --published {}: {error}", path.display()))
        })?;
        Self::parse(&text, rows, metric).map_err(|(line, what)| {
            let place = format!("{}:{line}", path.display());
            Failure::new(exit::INVALID_DATA, format!("stride-pipe: --published: {place}: {what}"))
        })
    }

    /// The same from the text, or the line that is wrong and what is wrong with it.
    fn parse(text: &str, rows: &str, metric: &str) -> Result<Self, (usize, String)> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (line, header) = lines.next().ok_or((1, "there is no line with the names of columns".to_owned()))?;
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let column = |name: &str| {
            let found = names.iter().position(|known| *known == name);
            let what =
                || format!("there is no column `{name}`; rows are by `--rows {rows}`, and the file has {header}");
            found.ok_or_else(|| (line, what()))
        };
        if ["metric", "method", "value"].contains(&rows) {
            return Err((
                line,
                format!("rows are by `--rows {rows}`, a column of its own here: choose another variable"),
            ));
        }
        let (of_row, of_metric, method, value) =
            (column(rows)?, column("metric")?, column("method")?, column("value")?);
        let mut entries = Vec::new();
        for (line, text) in lines {
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cells.len() != names.len() {
                return Err((line, format!("{} cells under {} names of columns", cells.len(), names.len())));
            }
            if cells[value].parse::<f64>().is_err() {
                return Err((line, format!("`{}` is not a number", cells[value])));
            }
            if cells[of_metric] == metric {
                entries.push([cells[of_row], cells[method], cells[value]].map(str::to_owned));
            }
        }
        Ok(Self { entries })
    }

    /// Names of the columns.
    pub fn methods(&self) -> Vec<String> {
        let mut methods: Vec<String> = Vec::new();
        for [_, method, _] in &self.entries {
            if !methods.contains(method) {
                methods.push(method.clone());
            }
        }
        methods
    }

    /// The figures of a row, in the order of the columns.
    pub fn figures(&self, row: &str) -> Vec<String> {
        let of = |method: &String| {
            let found = self.entries.iter().find(|[known, own, _]| known == row && own == method);
            found.map_or_else(|| "-".to_owned(), |[.., value]| value.clone())
        };
        self.methods().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# notes\n\nset,metric,method,value,source\na,nlpd,DSVI,2.43,x\nb,nlpd,SGP,-7.5,x\na,rmse,SGP,3,y\n";

    #[test]
    fn figures_stand_in_the_columns_of_their_methods() -> Result<(), (usize, String)> {
        let found = PublishedFigures::parse(TEXT, "set", "nlpd")?;
        assert_eq!(found.methods(), ["DSVI", "SGP"]);
        assert_eq!(found.figures("a"), ["2.43", "-"]);
        assert_eq!(found.figures("b"), ["-", "-7.5"]);
        assert_eq!(found.figures("c"), ["-", "-"]);
        assert_eq!(PublishedFigures::parse(TEXT, "set", "smse")?, PublishedFigures::default());
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |text: &str, rows: &str| PublishedFigures::parse(text, rows, "nlpd").err().map(|(line, _)| line);
        assert_eq!(wrong("", "set"), Some(1));
        assert_eq!(wrong(TEXT, "m"), Some(3));
        assert_eq!(wrong("set,metric,method,value\na,nlpd,x\n", "set"), Some(2));
        assert_eq!(wrong("set,metric,method,value\na,nlpd,x,many\n", "set"), Some(2));
    }
}
