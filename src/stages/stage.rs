//! What a kind of stage is: one declaration from which the language, the plan, the cache and the run take what they need.

use super::ingest::{Source, inspect::Inspection};
use super::job::{Cancel, Key, Record, Spans, Task};
use super::placement::Placement;
use super::predict::Predicted;
use super::split::Folds;
use super::{FinishedRun, Footprint, StageError, cost};
use crate::pipeline::{Diagnostics, Kind};
use crate::store::input::KeyColumn;
use crate::store::{Cache, CacheEntry, Draft, InputTable, ModelFile, Written};
use serde_json::Value as Json;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A kind of stage: what may be written, and how it becomes a [`Stage`].
pub struct StageKind {
    pub language: Kind,
    /// Raised when results change for the same options and inputs: what is in caches is then done again.
    pub version: u32,
    /// The stage with these options; the language has found them to be in order.
    pub read: fn(Json) -> Result<Box<dyn Stage>, serde_json::Error>,
}

/// A stage with its options decided. What is not said of a kind here is said by its [`StageKind`].
pub trait Stage: Any + Debug + Send + Sync {
    fn kind(&self) -> &'static StageKind;

    /// Takes its paths relative to the directory of the pipeline file.
    fn locate(&mut self, _base: &Path) {}

    /// The stages whose output it takes, the one whose rows it works on last.
    fn inputs(&self) -> Vec<&str>;

    /// What it is called in a plan, where its kind does not say enough.
    fn title(&self) -> String {
        self.kind().language.name.to_owned()
    }

    /// The options that matter to its results, as they stand in the key: those that do not count are not in it.
    fn key_options(&self) -> Json {
        Json::Null
    }

    fn frequency(&self) -> Frequency {
        Frequency::PerCase
    }

    /// How many folds its output has, given those of its inputs.
    fn folds(&self, _of: &dyn Fn(&str) -> u32) -> u32 {
        1
    }

    /// What it asks of the rows of its input, given what later stages ask of its own.
    fn demand(&self, _later: &Demand) -> Demand {
        Demand::default()
    }

    /// Whether the rows of its input are also those of its output, so that `validate --data` looks at later stages too.
    fn hands_on_rows(&self) -> bool {
        false
    }

    /// Files and directories that it replaces in place, and whether it puts files below a directory.
    fn targets(&self) -> Vec<(&Path, bool)> {
        Vec::new()
    }

    /// A published model that it takes, by the directory or file that has it.
    fn takes_published(&self) -> Option<&Path> {
        None
    }

    /// Why several processes cannot do it together, and what they can.
    fn alone(&self) -> Option<String> {
        None
    }

    /// Estimated peak memory for so many rows and features, where it may take so many bytes.
    fn memory(&self, _demand: &Demand, _size: (u64, u64), _memory: u64) -> Option<Footprint> {
        None
    }

    /// Estimated seconds of one core for one piece of work, when its input has so many rows and features; `stages` are those
    /// of its case.
    fn effort(&self, size: cost::WorkSize, _stages: &[(&str, &dyn Stage)]) -> f64 {
        cost::passing(size)
    }

    /// Rows and features of the input that it opens, if it opens one, by the footers alone.
    fn size(&self, _demand: &Demand) -> Option<(u64, u64)> {
        None
    }

    /// What `validate --data` shows of the input that it opens, if it opens one.
    fn inspect(&self, _demand: &Demand, _checks: &[RowCheck], _seed: u64) -> Option<Inspection> {
        None
    }

    /// A file that it puts in its place whenever it runs, and that is not there.
    fn missing(&self, _context: &Context<'_>) -> Option<PathBuf> {
        None
    }

    /// Rules that need to know of all cases.
    fn check_placement(&self, _placement: &mut Placement<'_>, _problems: &mut Diagnostics) {}

    /// What `validate --data` finds out about rows that it is going to work on; `stages` are those of its case.
    fn row_checks(&self, _stages: &[(&str, &dyn Stage)]) -> Vec<RowCheck> {
        Vec::new()
    }

    /// What it will do, by what that depends on. Nothing is done yet.
    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError>;

    /// Does a piece of work and leaves its result in the draft.
    fn perform(&self, _context: &Context<'_>, _job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        Ok(Work::default())
    }

    /// Hands the result of a piece of work, done now or found in the cache, to the run.
    fn collect(&self, _context: &Context<'_>, _job: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        Ok(())
    }

    /// What is left to do when all pieces of this stage are there, one or one for each fold.
    fn complete(&self, _: &Context<'_>, _parts: &[CacheEntry], _record: &mut Record<'_>) -> Result<(), StageError> {
        Ok(())
    }

    /// What is left to do when all stages of the case have run.
    fn conclude(&self, _context: &Context<'_>, _record: &mut Record<'_>) -> Result<(), StageError> {
        Ok(())
    }

    /// Writes what a stage that runs once per run is for, once the tables of the run are there.
    fn write(&self, _run: &FinishedRun<'_>) -> Result<Option<Written>, StageError> {
        Ok(None)
    }
}

/// How often a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    PerCase,
    PerFold,
    /// Once for all cases together, after them.
    PerRun,
}

/// What later stages ask of the rows of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Columns beside key, features and target.
    pub columns: BTreeSet<String>,
    /// Columns that divide rows.
    pub keys: BTreeSet<KeyColumn>,
    /// All rows are needed in memory at once.
    pub in_memory: bool,
    /// A model is trained on them: then keys must be unique and rows must exist.
    pub trains: bool,
    /// Rows that a model cannot use are a reason to refuse the input.
    pub only_valid: bool,
}

impl Demand {
    /// Takes what another stage asks for as well.
    pub fn add(&mut self, other: Self) {
        self.columns.extend(other.columns);
        self.keys.extend(other.keys);
        self.in_memory |= other.in_memory;
        self.trains |= other.trains;
        self.only_valid |= other.only_valid;
    }
}

/// What a look at rows says, or why it refuses them; the number is the seed.
pub type Look = dyn Fn(&InputTable, u64) -> Result<Said, StageError>;

/// What there is to say of rows that are not refused.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// How they are divided.
    pub split: Option<String>,
    pub warnings: Vec<String>,
}

/// A look at rows before anything runs.
pub struct RowCheck {
    /// Tells it from others: inputs of several cases that are looked at in the same way are looked at once.
    pub identity: String,
    /// What there is to say of the rows, or why they would be refused; the number is the seed.
    pub look: Box<Look>,
}

/// What a stage is about to do.
#[derive(Debug)]
pub struct Preparation {
    /// Its output, complete but for work that has yet to be done.
    pub output: Output,
    /// What each piece of that work depends on: one, or one for each fold.
    pub keys: Vec<Key>,
    /// Files that were found and hashed for this.
    pub reads: Vec<(PathBuf, String)>,
}

impl Preparation {
    /// An output that takes this work, and reads nothing but what earlier stages left.
    pub const fn new(output: Output, keys: Vec<Key>) -> Self {
        Self { output, keys, reads: Vec::new() }
    }
}

/// What a stage hands to later ones.
#[derive(Clone, Debug)]
pub enum Output {
    /// Rows of an input, read when they are needed.
    Rows(Rc<Source>),
    /// The same divided into training and test rows.
    Folds(Rc<Folds>),
    /// A model for each fold.
    Models(Rc<Models>),
    Predictions(Rc<PredictionFiles>),
    /// A file with rows of the table `metrics`.
    Metrics(PathBuf),
    /// Nothing that other stages could take.
    Nothing,
}

/// Trained models.
#[derive(Debug)]
pub struct Models {
    pub method: String,
    pub models: Vec<Model>,
    /// What their training starts from.
    pub start: Option<super::train::StartModel>,
}

/// A trained model on disk.
#[derive(Clone, Debug)]
pub struct Model {
    pub hash: String,
    /// Where it is, once it is trained.
    pub path: PathBuf,
    /// What was read when its hash was taken, of a published model, which may be replaced at any time.
    pub file: Option<Rc<ModelFile>>,
}

/// Predictions of a stage.
#[derive(Debug)]
pub struct PredictionFiles {
    pub method: String,
    /// The models that made them.
    pub models: Rc<Models>,
    /// Their identities, one for each fold.
    pub hashes: Vec<String>,
    /// Where they are, once they are made.
    pub parts: Vec<Predicted>,
}

/// Inputs that were found and hashed, shared by all cases.
pub type Sources = RefCell<Vec<Rc<Source>>>;

/// Where a stage stands: in which pipeline, case and place, and what earlier stages left.
pub struct Context<'a> {
    pub pipeline: &'a str,
    pub seed: u64,
    pub case: &'a str,
    pub id: &'a str,
    pub folds: u32,
    /// What later stages ask of its rows.
    pub demand: &'a Demand,
    /// All stages of the case, in order.
    pub stages: &'a [(&'a str, &'a dyn Stage)],
    /// Outputs of the stages that have run.
    pub outputs: &'a HashMap<&'a str, Output>,
    pub cache: &'a Cache,
    pub sources: &'a Sources,
}

impl<'a> Context<'a> {
    /// The stage of that id, if it is of this type.
    pub fn stage<S: Stage>(&self, id: &str) -> Option<&'a S> {
        let (_, stage) = self.stages.iter().find(|(known, _)| *known == id)?;
        (*stage as &dyn Any).downcast_ref()
    }

    /// Work of this stage, of that kind, on a fold where it runs per fold.
    pub fn task(&self, kind: &'static str, fold: Option<(u32, u32)>) -> Task {
        Task { case: self.case.to_owned(), stage: self.id.to_owned(), kind, fold }
    }

    /// The output of an earlier stage.
    pub fn output(&self, id: &str) -> Result<&Output, StageError> {
        self.outputs.get(id).ok_or_else(|| lost(id))
    }

    /// The folds of an earlier stage.
    pub fn folds_of(&self, id: &str) -> Result<Rc<Folds>, StageError> {
        match self.output(id)? {
            Output::Folds(folds) => Ok(Rc::clone(folds)),
            _ => Err(lost(id)),
        }
    }

    /// The rows of an earlier stage.
    pub fn rows_of(&self, id: &str) -> Result<Rc<Source>, StageError> {
        match self.output(id)? {
            Output::Rows(source) => Ok(Rc::clone(source)),
            _ => Err(lost(id)),
        }
    }
}

/// An output that the plan says is there.
pub fn lost(stage: &str) -> StageError {
    StageError::Bug(format!("the output of stage `{stage}` is not there"))
}

/// A piece of work being done.
pub struct Job<'j, 'r> {
    pub task: &'j Task,
    pub key: &'j Key,
    pub draft: &'j Draft,
    /// Its span; the phases that are opened in it are timed.
    pub spans: &'j mut Spans,
    /// What the run leaves behind.
    pub record: &'j mut Record<'r>,
    pub cancel: &'j Cancel,
    /// The run and the task, by which a run knows again what it did before it was interrupted.
    pub origin: &'j Json,
    /// Whether it was asked for although nothing changed.
    pub forced: bool,
    /// Bytes of memory that it may take.
    pub memory: u64,
}

/// A piece of work that is done, now or earlier.
pub struct Collecting<'j, 'r> {
    pub task: &'j Task,
    pub key: &'j Key,
    pub entry: &'j CacheEntry,
    /// What the run leaves behind.
    pub record: &'j mut Record<'r>,
}

impl Collecting<'_, '_> {
    /// Says again what was worth a warning when the work was done.
    pub fn warn(&self) -> Result<(), StageError> {
        for warning in self.entry.notes["more"]["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
            self.record.warn(&format!("{}: {warning}", self.task))?;
        }
        Ok(())
    }
}

/// What was done: to how many rows, its result in a few words, and whatever else its cache entry should say.
#[derive(Default)]
pub struct Work {
    pub rows: usize,
    pub outcome: String,
    /// For [`Stage::collect`].
    pub notes: Json,
}

impl Work {
    /// Work with nothing else to say.
    pub fn done(rows: usize, outcome: String) -> Self {
        Self { rows, outcome, notes: Json::Null }
    }
}
