//! `split`: divides rows into training and test rows. Folds depend on the rows, the seed and the repeat only.

mod divide;
mod gap;
mod leaks;
mod options;

pub use divide::Division;
pub use options::Split;

use super::ingest::Source;
use super::job::Key;
use super::{
    Collecting, Context, Demand, Job, Output, Preparation, RowCheck, Said, Stage, StageError, StageKind, Work, lost,
};
use crate::eval::folds::Fold;
use crate::pipeline::{Kind, Link};
use serde_json::{Value as Json, json};
use std::cell::OnceCell;
use std::rc::Rc;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["ingest", "split"])],
        exclusive: &[options::WAYS, options::PARTS],
        null_words: &["test"],
        check: options::check,
        ..Kind::new::<Split>("split", "Divides rows into training and test rows, once per fold.")
    },
    version: 1,
    read: super::read::<Split>,
};

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

    fn folds(&self, of: &dyn Fn(&str) -> u32) -> u32 {
        self.way().folds().saturating_mul(of(&self.input))
    }

    fn demand(&self, later: &Demand) -> Demand {
        let mut demand = Demand { in_memory: true, only_valid: true, ..later.clone() };
        demand.columns.extend(self.named_column());
        demand.keys.extend(self.way().key());
        demand
    }

    fn hands_on_rows(&self) -> bool {
        true
    }

    fn row_checks(&self, stages: &[(&str, &dyn Stage)]) -> Vec<RowCheck> {
        let division = Division::of(self, stages);
        vec![RowCheck {
            identity: format!("{division:?}"),
            look: Box::new(move |table, seed| {
                let folds = division.divide(table, seed)?;
                Ok(Said { split: Some(describe(&folds)), warnings: division.warnings(table, &folds) })
            }),
        }]
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let folds = Folds::new(self, context)?;
        let keys = vec![folds.key.clone()];
        Ok(Preparation::new(Output::Folds(Rc::new(folds)), keys))
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let folds = context.folds_of(context.id)?;
        let table = folds.source.load_outline(job.record)?;
        job.spans.phase("split");
        let all = folds.all()?;
        let warnings = folds.division.warnings(&table, &all);
        let work = Work::done(table.row_count, format!("{} fold(s)", all.len()));
        Ok(Work { notes: json!({ "warnings": warnings }), ..work })
    }

    fn collect(&self, _: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        done.warn()
    }
}

/// The folds of a split stage.
#[derive(Debug)]
pub struct Folds {
    pub source: Rc<Source>,
    /// Identity: the way of splitting, the rows and the seed.
    pub key: Key,
    division: Division,
    seed: u64,
    drawn: OnceCell<Rc<Vec<Fold>>>,
}

impl Folds {
    /// Folds yet to be drawn.
    fn new(split: &Split, context: &Context<'_>) -> Result<Self, StageError> {
        let (source, input) = match context.output(&split.input)? {
            Output::Rows(source) => (Rc::clone(source), source.key.hash.clone()),
            Output::Folds(outer) => (Rc::clone(&outer.source), outer.key.hash.clone()),
            _ => return Err(lost(&split.input)),
        };
        let seed = context.seed;
        let key = Key::new(&KIND, [("options", split.key_options()), ("input", json!(input)), ("seed", json!(seed))]);
        Ok(Self { source, key, division: Division::of(split, context.stages), seed, drawn: OnceCell::new() })
    }

    /// All folds; drawn now if they were not before.
    pub fn all(&self) -> Result<Rc<Vec<Fold>>, StageError> {
        if let Some(folds) = self.drawn.get() {
            return Ok(Rc::clone(folds));
        }
        let folds = Rc::new(self.division.divide(&*self.source.outline()?, self.seed)?);
        Ok(Rc::clone(self.drawn.get_or_init(|| folds)))
    }
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
