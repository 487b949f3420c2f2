//! `split`: divides rows into training and test rows. Folds depend on the seed and the repeat only.

use super::ingest::Source;
use super::job::Key;
use super::{Context, Demand, Job, Output, Preparation, RowCheck, Said, Stage, StageError, StageKind, Work};
use crate::eval::folds::{Fold, holdout, kfold};
use crate::gp::random::{StreamKey, below};
use crate::pipeline::tree::{Entry, Node, Value};
use crate::pipeline::{Diagnostic, Diagnostics, Kind, Link, Scalar};
use crate::store::InputTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::cell::OnceCell;
use std::rc::Rc;

/// Ways of splitting, of which a stage has one.
const WAYS: &[&str] = &["holdout", "kfold", "column", "all"];

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["ingest"])],
        exclusive: &[WAYS],
        null_words: &["test"],
        check,
        ..Kind::new::<Split>("split", "Divides rows into training and test rows, once per fold.")
    },
    version: 1,
    read: super::read::<Split>,
};

/// Divides rows into training and test rows: one of `holdout`, `kfold`, `column` or `all`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The ingest stage.
    pub input: String,
    /// A random part of the rows for testing.
    holdout: Option<Holdout>,
    /// Every row is tested once per repeat.
    kfold: Option<Kfold>,
    /// A column says which rows are for testing.
    column: Option<SplitColumn>,
    /// Every row trains, none is tested: for a model to publish.
    all: Option<AllRows>,
}

/// A random part of the rows for testing.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holdout {
    /// Share of the rows used for testing.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    test_fraction: f64,
    /// How often, with a new draw each time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "once")]
    repeats: u32,
}

/// Every row is tested once per repeat.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kfold {
    /// Number of folds.
    #[schemars(range(min = 2, max = 10_000))]
    folds: u32,
    /// How often, with a new shuffle each time.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(default = "once")]
    repeats: u32,
}

/// A column says which rows are for testing.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitColumn {
    /// Name of the column.
    name: String,
    /// Its value on test rows; all other rows train.
    test: Scalar,
}

const fn once() -> u32 {
    1
}

/// Nothing to set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllRows {}

/// How rows are divided, as it counts in the key.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Way {
    Holdout { test_fraction: f64, repeats: u32 },
    Kfold { folds: u32, repeats: u32 },
    Column { name: String, test: String },
    All,
}

impl Split {
    fn way(&self) -> Way {
        if let Some(Holdout { test_fraction, repeats }) = self.holdout {
            Way::Holdout { test_fraction, repeats }
        } else if let Some(Kfold { folds, repeats }) = self.kfold {
            Way::Kfold { folds, repeats }
        } else if let Some(SplitColumn { name, test }) = &self.column {
            let test = test.0.as_str().map_or_else(|| test.0.to_string(), str::to_owned);
            Way::Column { name: name.clone(), test }
        } else {
            Way::All
        }
    }

    /// The share of the rows that train, where it is known before they are read, or a guess.
    pub fn training_share(&self) -> f64 {
        match self.way() {
            Way::Holdout { test_fraction, .. } => 1.0 - test_fraction,
            Way::Kfold { folds, .. } => 1.0 - 1.0 / f64::from(folds.max(1)),
            Way::Column { .. } => 0.8,
            Way::All => 1.0,
        }
    }

    /// Whether every row trains and none is tested.
    pub fn takes_all(&self) -> bool {
        self.way() == Way::All
    }

    /// The folds of the rows of a table, numbered repeat · K + k.
    pub fn divide(&self, table: &InputTable, seed: u64) -> Result<Vec<Fold>, StageError> {
        let n = table.row_count;
        let stream = |repeat: u32| StreamKey::new(seed).with("folds").with_index(u64::from(repeat)).generator();
        match self.way() {
            Way::Holdout { test_fraction, repeats } => (0..repeats)
                .map(|repeat| {
                    let mut rng = stream(repeat);
                    Ok(holdout(n, test_fraction, &mut |bound| below(&mut rng, bound))?)
                })
                .collect(),
            Way::Kfold { folds, repeats } => {
                let mut all = Vec::new();
                for repeat in 0..repeats {
                    let mut rng = stream(repeat);
                    all.extend(kfold(n, folds as usize, &mut |bound| below(&mut rng, bound))?);
                }
                Ok(all)
            }
            Way::Column { name, test } => by_column(table, &name, &test).map(|fold| vec![fold]),
            Way::All => Ok(vec![Fold { train: (0..n).collect(), test: Vec::new() }]),
        }
    }
}

impl Stage for Split {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn inputs(&self) -> Vec<&str> {
        vec![&self.input]
    }

    fn key_options(&self) -> Json {
        json!(self.way())
    }

    fn folds(&self, _: &dyn Fn(&str) -> u32) -> u32 {
        match self.way() {
            Way::Holdout { repeats, .. } => repeats,
            Way::Kfold { folds, repeats } => folds.saturating_mul(repeats),
            Way::Column { .. } | Way::All => 1,
        }
    }

    fn demand(&self, later: &Demand) -> Demand {
        let columns = self.column.iter().map(|column| column.name.clone()).collect();
        Demand { columns, in_memory: true, trains: later.trains, only_valid: true }
    }

    fn hands_on_rows(&self) -> bool {
        true
    }

    fn row_checks(&self, _: &[(&str, &dyn Stage)]) -> Vec<RowCheck> {
        let split = self.clone();
        vec![RowCheck {
            identity: format!("{split:?}"),
            look: Box::new(move |table, seed| {
                let split = Some(describe(&split.divide(table, seed)?));
                Ok(Said { split, warnings: Vec::new() })
            }),
        }]
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let folds = Folds::new(self, &context.rows_of(&self.input)?, context.seed);
        let keys = vec![folds.key.clone()];
        Ok(Preparation::new(Output::Folds(Rc::new(folds)), keys))
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let folds = context.folds_of(context.id)?;
        let table = folds.source.load(job.record)?;
        job.spans.phase("split");
        let count = folds.all()?.len();
        Ok(Work::done(table.row_count, format!("{count} fold(s)")))
    }
}

/// The folds of a split stage.
#[derive(Debug)]
pub struct Folds {
    pub source: Rc<Source>,
    /// Identity: the way of splitting, the rows and the seed.
    pub key: Key,
    split: Split,
    seed: u64,
    drawn: OnceCell<Rc<Vec<Fold>>>,
}

impl Folds {
    /// Folds yet to be drawn.
    fn new(split: &Split, source: &Rc<Source>, seed: u64) -> Self {
        let parts = [("options", split.key_options()), ("input", json!(source.key.hash)), ("seed", json!(seed))];
        let (key, source) = (Key::new(&KIND, parts), Rc::clone(source));
        Self { source, key, split: split.clone(), seed, drawn: OnceCell::new() }
    }

    /// All folds; drawn now if they were not before.
    pub fn all(&self) -> Result<Rc<Vec<Fold>>, StageError> {
        if let Some(folds) = self.drawn.get() {
            return Ok(Rc::clone(folds));
        }
        let folds = Rc::new(self.split.divide(&*self.source.table()?, self.seed)?);
        Ok(Rc::clone(self.drawn.get_or_init(|| folds)))
    }
}

fn by_column(table: &InputTable, name: &str, test: &str) -> Result<Fold, StageError> {
    let values = table.extra.get(name).map_or(&[][..], Vec::as_slice);
    let is_test = |row: &usize| values.get(*row).and_then(Option::as_deref) == Some(test);
    let (test_rows, train): (Vec<usize>, Vec<usize>) = (0..table.row_count).partition(is_test);
    let shown = |what: &str, hint: String| StageError::Data { what: format!("column `{name}`: {what}"), hint };
    if test_rows.is_empty() {
        let mut seen: Vec<&str> = values.iter().take(10_000).filter_map(Option::as_deref).collect();
        seen.sort_unstable();
        seen.dedup();
        seen.truncate(10);
        return Err(shown(&format!("no row has the value `{test}`"), format!("values seen: {}", seen.join(", "))));
    }
    if train.is_empty() {
        return Err(shown(&format!("every row has the value `{test}`"), "no row is left to train on".to_owned()));
    }
    Ok(Fold { train, test: test_rows })
}

/// "5 fold(s): 48 training rows, 12 test rows".
fn describe(folds: &[Fold]) -> String {
    let range = |lengths: Vec<usize>| match (lengths.iter().min(), lengths.iter().max()) {
        (Some(low), Some(high)) if low != high => format!("{low} to {high}"),
        (Some(low), _) => low.to_string(),
        _ => "0".to_owned(),
    };
    let train = range(folds.iter().map(|fold| fold.train.len()).collect());
    let test = range(folds.iter().map(|fold| fold.test.len()).collect());
    format!("{} fold(s): {train} training rows, {test} test rows", folds.len())
}

fn check(stage: &Entry, options: &Node, _: &[Entry], problems: &mut Diagnostics) {
    let given: Vec<&Entry> = options.entries().iter().filter(|entry| WAYS.contains(&entry.key.as_str())).collect();
    let help = "write exactly one of holdout, kfold, column, all";
    match given[..] {
        [] => problems
            .push(Diagnostic::new(stage.origin, format!("`{}` does not say how to split", stage.key)).help(help)),
        [way] => check_folds(way, problems),
        [_, second, ..] => problems.push(Diagnostic::new(second.origin, "more than one way to split").help(help)),
    }
}

/// More models than this are a mistake.
const MAX_FOLDS: i64 = 10_000;

/// Folds and repeats are each within bounds by the schema; their product must be, too.
fn check_folds(way: &Entry, problems: &mut Diagnostics) {
    let number = |key: &str| match way.node.entry(key).map(|entry| &entry.node.value) {
        Some(Value::Int(number)) => *number,
        _ => 1,
    };
    if number("folds").saturating_mul(number("repeats")) > MAX_FOLDS {
        let message = format!("`folds` times `repeats` is more than {MAX_FOLDS}");
        problems.push(Diagnostic::new(way.origin, message).help("use fewer repeats, or several pipelines"));
    }
}
