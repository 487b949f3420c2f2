//! Which columns are wanted, by name or pattern, checked against every file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::column::{inferred_kind, is_key, is_number, is_showable, takes_kind};
use super::keys::KeyColumn;
use super::schema::{ColumnInfo, FileSummary, InputSchema};
use crate::features::spec::ONE_HOT;
use crate::features::{ColumnKind, FeatureColumn, Missing};
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
    /// What features are declared to be, by name or pattern.
    pub declared: Vec<DeclaredColumn>,
    pub target: Option<String>,
    /// Column with the weight of each row.
    pub weight: Option<String>,
    /// Column with the known noise of each row's target.
    pub noise_std: Option<String>,
    /// Columns to read as text.
    pub extra: Vec<String>,
    /// Columns that divide rows.
    pub keys: Vec<KeyColumn>,
}

impl Selection {
    /// Columns that are asked for by name and for something else than a feature.
    fn named(&self) -> impl Iterator<Item = &String> {
        self.key.iter().chain(&self.target).chain(&self.weight).chain(&self.noise_std).chain(&self.extra)
    }

    /// What a column is declared to be: by its own name, or else by the last pattern that fits.
    fn declaration(&self, name: &str) -> Option<&DeclaredColumn> {
        let fits = |declared: &&DeclaredColumn| {
            let glob = GlobBuilder::new(&declared.name).literal_separator(false).build();
            glob.is_ok_and(|glob| glob.compile_matcher().is_match(name))
        };
        let by_name = self.declared.iter().rev().find(|declared| declared.name == name);
        by_name.or_else(|| self.declared.iter().rev().find(fits))
    }

    /// A feature of this name as it is read.
    fn column(&self, name: &str, info: Option<&ColumnInfo>) -> FeatureColumn {
        let declared = self.declaration(name);
        let inferred = info.filter(|info| !info.partition).and_then(|info| inferred_kind(&info.data_type));
        FeatureColumn {
            name: name.to_owned(),
            kind: declared.and_then(|declared| declared.kind).or(inferred).unwrap_or(ColumnKind::Number),
            missing: declared.map_or(Missing::Error, |declared| declared.missing),
            one_hot: declared.and_then(|declared| declared.one_hot).unwrap_or(ONE_HOT),
        }
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

/// What a feature is declared to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredColumn {
    /// A name or pattern.
    pub name: String,
    /// None for what the type of the column says.
    pub kind: Option<ColumnKind>,
    pub missing: Missing,
    /// The most levels that get a column each.
    pub one_hot: Option<u32>,
}

/// A selection with patterns replaced by names, known to be in every file with a usable type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub key: Option<String>,
    /// Features, in the column order of the first file, partition columns last.
    pub features: Vec<String>,
    /// What each of them is.
    pub columns: Vec<FeatureColumn>,
    pub target: Option<String>,
    pub weight: Option<String>,
    pub noise_std: Option<String>,
    /// Columns to read as text, each once.
    pub extra: Vec<String>,
    /// Columns that divide rows.
    pub keys: Vec<KeyColumn>,
}

impl Resolved {
    /// All columns, each once.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let single = self.key.iter().chain(&self.target).chain(&self.weight).chain(&self.noise_std).chain(&self.extra);
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
        let columns = features.iter().map(|name| selection.column(name, first.column(name))).collect();
        let Selection { key, target, weight, noise_std, keys, .. } = selection.clone();
        let resolved = Resolved { key, features, columns, target, weight, noise_std, extra, keys };
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
    for FeatureColumn { name, kind, .. } in &resolved.columns {
        check_kind(first, name, *kind)?;
        if resolved.target.as_ref() == Some(name) {
            let hint = "take it out of `features`: a model must not see what it has to predict";
            return Err(StoreError::invalid_column(&first.path, name, "it is both a feature and the target", hint));
        }
    }
    if let Some(name) = &resolved.target {
        check(name, number, "is not a number", "convert it to numbers, or choose another `target`")?;
    }
    for (name, option) in [(&resolved.weight, "weight"), (&resolved.noise_std, "noise_std")] {
        let Some(name) = name else { continue };
        check(name, number, "is not a number", &format!("convert it to numbers, or choose another `{option}`"))?;
        if resolved.features.contains(name) {
            let hint = "take it out of `features`, or out of that option";
            let detail = format!("it is both a feature and the `{option}`");
            return Err(StoreError::invalid_column(&first.path, name, detail, hint));
        }
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

/// A feature can be read as what it is declared or taken to be.
fn check_kind(first: &FileSummary, name: &str, kind: ColumnKind) -> Result<(), StoreError> {
    // The values of partition columns are looked at when they are read.
    let Some(column) = first.column(name).filter(|column| !column.partition) else { return Ok(()) };
    if takes_kind(&column.data_type, kind) {
        return Ok(());
    }
    let (detail, hint) = match kind {
        ColumnKind::Number if takes_kind(&column.data_type, ColumnKind::Category) => (
            format!("its type {} is not a number", column.data_type),
            "declare another `kind`, convert it to numbers, or leave it out of `features`",
        ),
        ColumnKind::Number => (
            format!("its type {} is not a number", column.data_type),
            "convert it to numbers, or leave it out of `features` (list names, or use a narrower pattern)",
        ),
        ColumnKind::Boolean => (
            format!("its type {} does not say true or false", column.data_type),
            "declare another `kind`, or convert it to true and false, or 1 and 0",
        ),
        ColumnKind::Category => (
            format!("its type {} has no levels", column.data_type),
            "declare another `kind`, or convert it to text or whole numbers",
        ),
        ColumnKind::Timestamp => (
            format!("its type {} tells no time", column.data_type),
            "declare another `kind`, or convert it to dates, timestamps or text such as 2024-01-31",
        ),
    };
    Err(StoreError::invalid_column(&first.path, name, detail, hint))
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
    for FeatureColumn { name, kind, .. } in &resolved.columns {
        file.check_kind(first, name, *kind)?;
    }
    for name in resolved.target.iter().chain(&resolved.weight).chain(&resolved.noise_std) {
        file.check_kind(first, name, ColumnKind::Number)?;
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
