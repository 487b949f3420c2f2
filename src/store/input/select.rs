//! Which columns are wanted, by name or pattern, checked against every file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::column::{is_key, is_number, is_showable};
use super::keys::KeyColumn;
use super::schema::{ColumnInfo, FileSummary, InputSchema};
use crate::store::StoreError;

/// How many column names a message lists.
const SHOWN: usize = 12;

/// The columns to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub key: Option<String>,
    /// Names or patterns (`f*`). Patterns look at the columns in the files, and leave out key, target and extra columns;
    /// partition columns are features only by name.
    pub features: Vec<String>,
    /// Names or patterns of columns that no pattern makes features; those that are named are features all the same.
    pub exclude: Vec<String>,
    pub target: Option<String>,
    /// Columns to read as text.
    pub extra: Vec<String>,
    /// Columns that divide rows.
    pub keys: Vec<KeyColumn>,
}

impl Selection {
    /// Columns that are asked for by name and for something else than a feature.
    fn named(&self) -> impl Iterator<Item = &String> {
        self.key.iter().chain(&self.target).chain(&self.extra)
    }

    /// Whether a column of this name is among the features, if it is there.
    pub fn wants(&self, name: &str) -> bool {
        let glob = |pattern: &String| {
            let glob = GlobBuilder::new(pattern).literal_separator(false).build();
            glob.is_ok_and(|glob| glob.compile_matcher().is_match(name))
        };
        let matches = |patterns: &[String]| patterns.iter().any(|pattern| pattern == name || glob(pattern));
        self.features.iter().any(|feature| feature == name) || (matches(&self.features) && !matches(&self.exclude))
    }
}

/// A selection with patterns replaced by names, known to be in every file with a usable type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub key: Option<String>,
    /// Features, in the column order of the first file, partition columns last.
    pub features: Vec<String>,
    pub target: Option<String>,
    /// Columns to read as text, each once.
    pub extra: Vec<String>,
    /// Columns that divide rows.
    pub keys: Vec<KeyColumn>,
}

impl Resolved {
    /// All columns, each once.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let single = self.key.iter().chain(&self.target).chain(&self.extra);
        let keys = self.keys.iter().map(|column| &column.name);
        single.chain(&self.features).chain(keys).map(String::as_str).collect()
    }
}

impl InputSchema {
    /// Finds the columns of a selection, and checks them in every file.
    pub fn resolve(&self, selection: &Selection) -> Result<Resolved, StoreError> {
        let Some(first) = self.files.first() else {
            let hint = "give a file, a directory, or a pattern";
            return Err(StoreError::missing(Path::new("input"), "there are no input files", hint));
        };
        let patterns = Patterns::new(first, selection)?;
        check_present(first, selection, &patterns)?;
        let features = patterns.features(first);
        let mut extra = selection.extra.clone();
        let mut seen = BTreeSet::new();
        extra.retain(|name| seen.insert(name.clone()));
        let (key, target, keys) = (selection.key.clone(), selection.target.clone(), selection.keys.clone());
        let resolved = Resolved { key, features, target, extra, keys };
        check_roles(first, &resolved)?;
        for file in self.files.iter().skip(1) {
            check_same(first, file, &patterns, &resolved)?;
        }
        for file in &self.files {
            check_single(file, &resolved)?;
        }
        Ok(resolved)
    }
}

/// The feature patterns, compiled.
struct Patterns {
    /// Names, and what they match where they are patterns.
    wanted: Vec<(String, Option<GlobMatcher>)>,
    /// What patterns leave out.
    excluded: Vec<(String, Option<GlobMatcher>)>,
    taken: BTreeSet<String>,
}

impl Patterns {
    fn new(first: &FileSummary, selection: &Selection) -> Result<Self, StoreError> {
        let apart = selection.keys.iter().filter(|column| column.apart).map(|column| &column.name);
        let taken = selection.named().chain(apart).cloned().collect();
        let compile = |pattern: &String| {
            // A column may be called `f[0]`: what exists under that very name is a name.
            let is_name = first.column(pattern).is_some() || !pattern.contains(['*', '?', '[', '{']);
            let matcher = if is_name { None } else { Some(glob(first, pattern)?) };
            Ok((pattern.clone(), matcher))
        };
        let wanted = selection.features.iter().map(compile).collect::<Result<_, StoreError>>()?;
        let excluded = selection.exclude.iter().map(compile).collect::<Result<_, StoreError>>()?;
        Ok(Self { wanted, excluded, taken })
    }

    fn matches(&self, matcher: &GlobMatcher, column: &ColumnInfo) -> bool {
        let excluded = |(name, matcher): &(String, Option<GlobMatcher>)| match matcher {
            Some(matcher) => matcher.is_match(&column.name),
            None => *name == column.name,
        };
        (!column.partition && !self.taken.contains(&column.name) && matcher.is_match(&column.name))
            && !self.excluded.iter().any(excluded)
    }

    /// The features of a file, in its column order, each once.
    fn features(&self, file: &FileSummary) -> Vec<String> {
        let is_feature = |column: &&ColumnInfo| {
            self.wanted.iter().any(|(name, matcher)| match matcher {
                Some(matcher) => self.matches(matcher, column),
                None => *name == column.name,
            })
        };
        file.columns.iter().filter(is_feature).map(|column| column.name.clone()).collect()
    }
}

fn glob(first: &FileSummary, pattern: &str) -> Result<GlobMatcher, StoreError> {
    let glob = GlobBuilder::new(pattern).build().map_err(|error| {
        let detail = format!("`{pattern}` is not a valid pattern: {}", error.kind());
        StoreError::invalid(&first.path, detail, "check the brackets; `*`, `?` and `[…]` are understood")
    })?;
    Ok(glob.compile_matcher())
}

/// All columns that are named and not there, in one message.
fn check_present(first: &FileSummary, selection: &Selection, patterns: &Patterns) -> Result<(), StoreError> {
    let mut missing: Vec<&str> = Vec::new();
    let mut empty: Vec<&str> = Vec::new();
    for name in selection.named().chain(selection.keys.iter().map(|column| &column.name)) {
        if first.column(name).is_none() && !missing.contains(&name.as_str()) {
            missing.push(name);
        }
    }
    for (name, matcher) in &patterns.wanted {
        match matcher {
            Some(matcher) if !first.columns.iter().any(|column| patterns.matches(matcher, column)) => empty.push(name),
            None if first.column(name).is_none() && !missing.contains(&name.as_str()) => missing.push(name),
            _ => {}
        }
    }
    if missing.is_empty() && empty.is_empty() {
        return Ok(());
    }
    let mut problems = Vec::new();
    if !missing.is_empty() {
        problems.push(format!("there is no column {}", listed(&missing)));
    }
    if !empty.is_empty() {
        problems.push(format!("no column matches {}", listed(&empty)));
    }
    Err(StoreError::Invalid {
        path: first.path.clone(),
        detail: problems.join(", and "),
        column: missing.first().filter(|_| missing.len() == 1 && empty.is_empty()).map(|&name| name.to_owned()),
        row: None,
        hint: advice(first, &missing),
    })
}

/// "did you mean `label` for `lable`? the columns are `a`, `b`, …".
fn advice(first: &FileSummary, missing: &[&str]) -> String {
    let mut hint = String::new();
    for name in missing {
        if let Some(near) = nearest(first, name) {
            let _ = write!(hint, "did you mean `{near}` for `{name}`? ");
        }
    }
    let names: Vec<&str> = first.columns.iter().map(|column| column.name.as_str()).collect();
    if names.is_empty() {
        hint.push_str("the file has no columns");
    } else {
        let _ = write!(hint, "the columns are {}", listed(&names));
    }
    hint
}

fn nearest<'a>(file: &'a FileSummary, name: &str) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let score = |column: &ColumnInfo| strsim::jaro_winkler(&column.name.to_lowercase(), &lower);
    let best = file.columns.iter().max_by(|left, right| score(left).total_cmp(&score(right)))?;
    (score(best) > 0.75).then_some(best.name.as_str())
}

fn listed(names: &[&str]) -> String {
    let mut text = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        let _ = write!(text, " and {} more", names.len() - SHOWN);
    }
    text
}

/// Every column has a type that fits its role.
fn check_roles(first: &FileSummary, resolved: &Resolved) -> Result<(), StoreError> {
    let check = |name: &String, fits: fn(&ColumnInfo) -> bool, what: &str, hint: &str| match first.column(name) {
        Some(column) if !fits(column) => {
            let detail = format!("its type {} {what}", column.data_type);
            Err(StoreError::invalid_column(&first.path, name, detail, hint))
        }
        _ => Ok(()),
    };
    // The values of partition columns are looked at when they are read.
    let number = |column: &ColumnInfo| column.partition || is_number(&column.data_type);
    for name in &resolved.features {
        let hint = "convert it to numbers, or leave it out of `features` (list names, or use a narrower pattern)";
        check(name, number, "is not a number", hint)?;
        if resolved.target.as_ref() == Some(name) {
            let hint = "take it out of `features`: a model must not see what it has to predict";
            return Err(StoreError::invalid_column(&first.path, name, "it is both a feature and the target", hint));
        }
    }
    if let Some(name) = &resolved.target {
        check(name, number, "is not a number", "convert it to numbers, or choose another `target`")?;
    }
    if let Some(name) = &resolved.key {
        let is_time = |column: &ColumnInfo| column.data_type.is_temporal();
        let hint = if first.column(name).is_some_and(is_time) {
            "times are not the same text everywhere (units, zones): convert it to text or to an integer, or leave `key` \
             out to use row numbers; scores pass it through with `keep`"
        } else {
            "choose a column of integers, text, booleans or dates, or leave `key` out to use row numbers"
        };
        check(name, |column| is_key(&column.data_type), "cannot identify rows", hint)?;
    }
    for name in &resolved.extra {
        let hint = "convert it to text, a number or a date";
        check(name, |column| is_showable(&column.data_type), "cannot be shown as text", hint)?;
    }
    for KeyColumn { name, form, .. } in &resolved.keys {
        let Some(column) = first.column(name) else { continue };
        form.takes(&column.data_type, column.partition).map_err(|(what, hint)| {
            StoreError::invalid_column(&first.path, name, format!("its type {} {what}", column.data_type), hint)
        })?;
    }
    Ok(())
}

/// A further file has the same columns, as far as they are wanted.
fn check_same(
    first: &FileSummary,
    file: &FileSummary,
    patterns: &Patterns,
    resolved: &Resolved,
) -> Result<(), StoreError> {
    let keys = resolved.keys.iter().map(|column| &column.name);
    for name in resolved.key.iter().chain(&resolved.extra).chain(keys) {
        file.check_like(first, name)?;
    }
    for name in resolved.features.iter().chain(&resolved.target) {
        file.check_numbers(first, name)?;
    }
    for name in patterns.features(file) {
        if !resolved.features.contains(&name) {
            let detail = format!("matches `features` but is not in the first file, {}", first.path.display());
            let hint = "give every file of an input the same columns, or name the features";
            return Err(StoreError::invalid_column(&file.path, &name, detail, hint));
        }
    }
    Ok(())
}

/// No wanted column is there twice, which Parquet allows and names cannot tell apart.
fn check_single(file: &FileSummary, resolved: &Resolved) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<&str> =
        file.columns.iter().map(|column| column.name.as_str()).filter(|name| !seen.insert(*name)).collect();
    match resolved.names().into_iter().find(|name| repeated.contains(name)) {
        Some(name) => {
            let hint = "write the file again with different names";
            Err(StoreError::invalid_column(&file.path, name, "there are several columns of this name", hint))
        }
        None => Ok(()),
    }
}
