//! The pipeline file that says what was chosen: commented, and marked, so that it is known again.

use super::columns::ColumnChoice;
use super::rule::{Candidate, SplitChoice};
use crate::eval::transform::TransformName;
use crate::features::Missing;
use crate::pipeline::tree::quoted;
use crate::store::hex;
use crate::store::input::DeclaredColumn;
use crate::text::one_line;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// What a pipeline file is made of.
#[derive(Debug)]
pub struct FittedPipeline<'a> {
    pub name: &'a str,
    /// Where the data are, as the file says it.
    pub data: &'a str,
    pub columns: &'a ColumnChoice,
    pub split: SplitChoice,
    /// The methods that are compared, the model's first.
    pub methods: Vec<&'a str>,
    pub candidate: &'a Candidate,
    /// Where the model that is trained on all rows goes, as the file says it.
    pub publish: Option<&'a str>,
    pub report: bool,
    /// What is said of it in the file.
    pub remarks: &'a [String],
}

/// Comments begin in this column where they can.
const COMMENTS: usize = 35;
/// Lists are broken before this column.
const WIDTH: usize = 100;
/// How the first line begins.
const MARK: &str = "# Written by stride-pipe ";

impl FittedPipeline<'_> {
    /// The file, with its mark.
    pub fn file(&self) -> String {
        marked(&self.text())
    }

    /// The file without its mark.
    pub fn text(&self) -> String {
        let mut out = Lines::default();
        for remark in self.remarks {
            out.line(0, &format!("# {}", one_line(remark)), "");
        }
        out.line(0, "version: 1", "");
        out.line(0, &format!("name: {}", self.name), "names the results");
        out.line(0, &format!("seed: {SEED}"), "same seed, same results");
        out.line(0, "results: results", "where they go, relative to this file, as every path");
        out.line(0, "", "");
        out.line(0, "matrix:", "");
        out.line(2, &format!("method: [{}]", self.methods.join(", ")), "the model, and what it has to beat");
        out.line(0, "", "");
        out.line(0, "stages:", "");
        self.rows(&mut out);
        out.line(2, "folds:", "");
        out.line(4, "split:", "");
        out.line(6, "input: rows", "");
        out.line(6, &self.split.option(), self.split.comment());
        out.line(2, "model:", "");
        self.train(&mut out, "folds", "\"${matrix.method}\"");
        out.line(2, "predictions:", "");
        out.line(4, "predict: { model: model, input: folds, intervals: [0.9] }", "adds y_q05 and y_q95");
        out.line(2, "metrics:", "");
        out.line(4, "evaluate: { input: predictions }", "");
        if let Some(publish) = self.publish {
            out.line(2, "everything:", "");
            out.line(4, "split: { input: rows, all: {} }", "every row trains the model that is published");
            out.line(2, "final:", "");
            self.train(&mut out, "everything", self.candidate.method);
            out.line(6, &format!("publish: {}", scalar(publish)), "replaced in one step");
        }
        if self.report {
            out.line(2, "report:", "");
            out.line(4, "report: { input: metrics }", "one HTML page");
        }
        out.text
    }

    fn rows(&self, out: &mut Lines) {
        let columns = self.columns;
        out.line(2, "rows:", "");
        out.line(4, "ingest:", "");
        out.line(6, &format!("path: {}", scalar(self.data)), "");
        if let Some(key) = &columns.key {
            out.line(6, &format!("key: {}", scalar(key)), "identifies rows in the predictions");
        }
        features(out, columns);
        let target = match columns.transform {
            TransformName::None => scalar(&columns.target),
            transform => format!("{{ name: {}, transform: {} }}", scalar(&columns.target), transform.name()),
        };
        out.line(6, &format!("target: {target}"), "what the model learns to predict");
        for left in &columns.left_out {
            out.line(6, &format!("# left out: {}: {}", one_line(&left.name), left.reason), "");
        }
    }

    fn train(&self, out: &mut Lines, input: &str, method: &str) {
        out.line(4, "train:", "");
        out.line(6, &format!("input: {input}"), "");
        out.line(6, &format!("method: {method}"), "");
        for (option, comment) in &self.candidate.options {
            out.line(6, option, comment);
        }
    }
}

/// Names in a list, or one by one where something has to be said of some of them.
fn features(out: &mut Lines, columns: &ColumnChoice) {
    let said = |name: &String| columns.declared.iter().any(|declared| declared.name == *name);
    let plain: Vec<String> = columns.written.iter().filter(|name| !said(name)).map(|name| scalar(name)).collect();
    if columns.declared.is_empty() {
        out.list(6, "features: ", &plain);
        return;
    }
    out.line(6, "features:", "");
    for name in plain {
        out.line(8, &format!("- {name}"), "");
    }
    for DeclaredColumn { name, kind, missing, .. } in &columns.declared {
        let kind = kind.map_or_else(String::new, |kind| format!(", kind: {}", kind.name()));
        let (missing, comment) = match missing {
            Missing::Error => ("", ""),
            _ => (", missing: indicator", "gaps: the mean, and a column that says where"),
        };
        out.line(8, &format!("- {{ name: {}{kind}{missing} }}", scalar(name)), comment);
    }
}

/// The seed of every pipeline that is written.
const SEED: u32 = 2505;

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn line(&mut self, indent: usize, code: &str, comment: &str) {
        let line = format!("{:indent$}{code}", "");
        let gap = COMMENTS.saturating_sub(line.chars().count()).max(2);
        let _ = match comment {
            "" => writeln!(self.text, "{}", line.trim_end()),
            comment => writeln!(self.text, "{line}{:gap$}# {comment}", ""),
        };
    }

    /// A list in brackets, over as many lines as it takes.
    fn list(&mut self, indent: usize, key: &str, items: &[String]) {
        let inner = indent + key.len() + 1;
        let mut line = format!("{:indent$}{key}[", "");
        for (index, item) in items.iter().enumerate() {
            let end = if index + 1 < items.len() { "," } else { "]" };
            if line.trim_start().len() > key.len() + 1 && line.chars().count() + item.chars().count() + 2 > WIDTH {
                let _ = writeln!(self.text, "{}", line.trim_end());
                line = format!("{:inner$}", "");
            }
            let _ = write!(line, "{item}{end} ");
        }
        let _ = writeln!(self.text, "{}", line.trim_end());
    }
}

/// A text as a value of the language, in which a dollar begins a reference.
fn scalar(text: &str) -> String {
    quoted(&text.replace('$', "$$"))
}

fn digest(body: &str) -> String {
    hex(&Sha256::digest(body.as_bytes())[..6])
}

/// The text of a file with a first line by which it is known again.
pub fn marked(body: &str) -> String {
    format!("{MARK}({}). Change what you like: the file is yours then, and not replaced.\n{body}", digest(body))
}

/// Whether a file was written here and has not been changed since.
pub fn is_as_written(text: &str) -> bool {
    let Some((first, body)) = text.split_once('\n') else { return false };
    let mark = first.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('(')?.split(')').next());
    mark.is_some_and(|mark| mark == digest(body))
}

/// A path as a file in `directory` says it; both are seen from the working directory.
pub fn relative_to(directory: &Path, path: &Path) -> String {
    let here = directory.as_os_str().is_empty() || directory == Path::new(".");
    let written = path.display().to_string();
    if here || written.contains("://") || path.is_absolute() {
        return written;
    }
    let absolute =
        |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.into());
    // What does not exist yet, or is a pattern, lies below something that does.
    let existing = path.ancestors().find(|above| above.exists() && !above.as_os_str().is_empty());
    let path = existing.map_or_else(
        || absolute(path),
        |above| absolute(above).join(path.strip_prefix(above).unwrap_or_else(|_| Path::new(""))),
    );
    let existing = directory.ancestors().find(|above| above.exists() && !above.as_os_str().is_empty());
    let directory = existing.map_or_else(
        || absolute(directory),
        |above| absolute(above).join(directory.strip_prefix(above).unwrap_or_else(|_| Path::new(""))),
    );
    let shared = path.components().zip(directory.components()).take_while(|(left, right)| left == right).count();
    let up = directory.components().skip(shared).map(|_| Component::ParentDir);
    let relative: PathBuf = up.chain(path.components().skip(shared)).collect();
    relative.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_broken_where_they_are_too_long() {
        let mut out = Lines::default();
        let items: Vec<String> = (0..40).map(|i| format!("column_{i}")).collect();
        out.list(6, "features: ", &items);
        assert!(out.text.lines().all(|line| line.chars().count() <= WIDTH), "{}", out.text);
        assert_eq!(out.text.replace(['\n', ' '], ""), format!("features:[{}]", items.join(",")));
        out.text.clear();
        out.list(6, "features: ", &["a".to_owned()]);
        assert_eq!(out.text, "      features: [a]\n");
    }

    #[test]
    fn paths_are_seen_from_the_file() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir_all(dir.path().join("a/b"))?;
        std::fs::write(dir.path().join("rows.parquet"), "")?;
        let root = dir.path().canonicalize()?;
        assert_eq!(relative_to(Path::new(""), Path::new("x/y.parquet")), "x/y.parquet");
        assert_eq!(relative_to(Path::new("a"), Path::new("s3://bucket/x")), "s3://bucket/x");
        let absolute = root.join("rows.parquet");
        assert_eq!(relative_to(&root.join("a/b"), &absolute), absolute.display().to_string());
        Ok(())
    }

    #[test]
    fn a_changed_file_is_known() {
        let body = "version: 1\n";
        let text = format!("{MARK}({}). Yours.\n{body}", digest(body));
        assert!(is_as_written(&text));
        assert!(!is_as_written(&format!("{text}name: x\n")));
        assert!(!is_as_written(body) && !is_as_written("") && !is_as_written("# Written by stride-pipe\nx"));
    }
}
