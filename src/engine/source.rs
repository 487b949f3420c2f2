//! Inputs and folds that cases share: found and hashed at once, read when somebody needs the rows.

use super::key::{self, Key};
use crate::eval::folds::Fold;
use crate::plan::{IngestStep, SplitStep};
use crate::stages::{StageError, ingest, split};
use crate::store::{InputFile, InputTable, StoreError};
use serde_json::json;
use std::cell::OnceCell;
use std::path::Path;
use std::rc::Rc;

fn changed(path: &Path) -> StoreError {
    let hint = "wait until its writer is done and run again; replace files by renaming rather than in place";
    StoreError::invalid(path, "the file has changed since the run began", hint)
}

/// The rows of an ingest stage.
pub struct Source {
    /// What is read.
    pub step: IngestStep,
    /// Identity: columns and contents.
    pub key: Key,
    files: Vec<InputFile>,
    hashes: Vec<String>,
    table: OnceCell<Rc<InputTable>>,
}

impl Source {
    /// Finds and hashes the files.
    pub fn new(step: &IngestStep) -> Result<Self, StageError> {
        let files = ingest::files(step)?.into_iter().map(InputFile::hashed).collect::<Result<Vec<_>, _>>()?;
        let hashes = files.iter().map(InputFile::sha256).collect::<Result<Vec<_>, _>>()?;
        let contents: Vec<_> = files.iter().zip(&hashes).map(|(file, hash)| json!([hash, file.hive])).collect();
        let options = json!({
            "key": step.key, "features": step.features, "target": step.target,
            "extra": step.extra, "trains": step.trains,
        });
        let key = Key::new("ingest", [("options", options), ("files", contents.into())]);
        Ok(Self { step: step.clone(), key, files, hashes, table: OnceCell::new() })
    }

    /// The files and their hashes.
    pub fn contents(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().zip(&self.hashes).map(|(file, hash)| (file.path.as_path(), hash.as_str()))
    }

    /// The files.
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// Refuses files that are not those that were hashed: what was read meanwhile belongs to another key.
    pub fn check_unchanged(&self) -> Result<(), StageError> {
        for file in &self.files {
            if !file.is_unchanged()? {
                return Err(changed(&file.path).into());
            }
        }
        Ok(())
    }

    /// Whether the rows are in memory.
    pub fn is_loaded(&self) -> bool {
        self.table.get().is_some()
    }

    /// The rows; read now if they were not before.
    pub fn table(&self) -> Result<Rc<InputTable>, StageError> {
        if let Some(table) = self.table.get() {
            return Ok(Rc::clone(table));
        }
        let table = Rc::new(ingest::run(&self.step, &self.files)?);
        // Hours may lie between the hashes and this.
        if let Some((file, _)) = table.files.iter().zip(&self.hashes).find(|(file, hash)| file.sha256 != **hash) {
            return Err(changed(&file.path).into());
        }
        Ok(Rc::clone(self.table.get_or_init(|| table)))
    }
}

/// The folds of a split stage.
pub struct Folds {
    /// What is split.
    pub source: Rc<Source>,
    /// Identity: the way of splitting, the rows and the seed.
    pub key: Key,
    step: SplitStep,
    seed: u64,
    drawn: OnceCell<Rc<Vec<Fold>>>,
}

impl Folds {
    /// Folds yet to be drawn.
    pub fn new(step: &SplitStep, source: &Rc<Source>, seed: u64) -> Self {
        let key = key::split(step, &source.key.hash, seed);
        Self { source: Rc::clone(source), key, step: step.clone(), seed, drawn: OnceCell::new() }
    }

    /// The folds; drawn now if they were not before.
    pub fn folds(&self) -> Result<Rc<Vec<Fold>>, StageError> {
        if let Some(folds) = self.drawn.get() {
            return Ok(Rc::clone(folds));
        }
        let folds = Rc::new(split::run(&self.step, &*self.source.table()?, self.seed)?);
        Ok(Rc::clone(self.drawn.get_or_init(|| folds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlanRequest, Step, build};
    use crate::store::write_columns;
    use arrow::array::{ArrayRef, Float64Array};
    use std::sync::Arc;

    /// Rows are read when they are needed, which may be long after the key was made.
    #[test]
    fn rows_of_another_file_are_not_taken_for_those_that_were_hashed() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("rows.parquet");
        let write = |first: f64| {
            let column = || Arc::new(Float64Array::from(vec![first, 2.0, 3.0])) as ArrayRef;
            write_columns(&path, vec![("a", column()), ("y", column())]).map(|_| ())
        };
        let text =
            "version: 1\nname: small\nstages:\n  rows: { ingest: { path: rows.parquet, features: [a], target: y } }\n";
        let file = dir.path().join("p.yaml");
        let request = PlanRequest { file: &file, text, sets: &[], results: None, env: &|_: &str| None };
        let plan = build(&request).map_err(|problems| format!("{problems:?}"))?;
        let Step::Ingest(step) = &plan.cases[0].stages[0].step else { return Err("an ingest stage".into()) };
        write(1.0)?;
        let source = Source::new(step)?;
        // The same contents in another file are the same rows.
        write(1.0)?;
        assert!(Source::new(step)?.table().is_ok());
        write(7.0)?;
        let error = source.table().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("rows.parquet") && error.contains("has changed since the run began"), "{error}");
        write(1.0)?;
        assert!(source.table().is_ok());
        Ok(())
    }
}
