//! Inputs that cases share: found and hashed at once, read when somebody needs the rows.

use super::{Ingest, KIND};
use crate::eval::transform::TransformName;
use crate::features::FeatureColumn;
use crate::gp::team::world;
use crate::stages::job::{Key, Record};
use crate::stages::{Demand, Sources, StageError};
use crate::store::input::{Keep, ReadProgress};
use crate::store::{InputFile, InputTable, StoreError, discover, peek};
use crate::text;
use serde_json::json;
use std::cell::OnceCell;
use std::path::Path;
use std::rc::Rc;

fn changed(path: &Path) -> StoreError {
    let hint = "wait until its writer is done and run again; replace files by renaming rather than in place";
    StoreError::invalid(path, "the file has changed since the run began", hint)
}

/// The rows of an ingest stage.
#[derive(Debug)]
pub struct Source {
    pub stage: Ingest,
    /// What later stages ask of the rows.
    pub demand: Demand,
    /// Identity: columns and contents.
    pub key: Key,
    files: Vec<InputFile>,
    hashes: Vec<String>,
    table: OnceCell<Rc<InputTable>>,
    /// Whether rows are read where they are needed, and not all of them once; known once it was asked for.
    by_parts: OnceCell<bool>,
    outline: OnceCell<Rc<InputTable>>,
}

/// More rows than this are not held by every stage that needs some of them.
const MANY_ROWS: u64 = 1 << 20;

impl Source {
    /// The same rows as before, if another stage reads them in the same way.
    pub fn shared(stage: &Ingest, demand: &Demand, known: &Sources) -> Result<Rc<Self>, StageError> {
        let same = |source: &&Rc<Self>| source.stage == *stage && source.demand == *demand;
        if let Some(source) = known.borrow().iter().find(same) {
            return Ok(Rc::clone(source));
        }
        let source = Rc::new(Self::new(stage, demand)?);
        known.borrow_mut().push(Rc::clone(&source));
        Ok(source)
    }

    /// Finds and hashes the files.
    pub fn new(stage: &Ingest, demand: &Demand) -> Result<Self, StageError> {
        let files = discover(stage.path.path())?;
        let total = files.iter().map(InputFile::size).sum::<Option<u64>>().unwrap_or(0);
        let mut progress = ReadProgress::new("hashing inputs", text::bytes, total);
        let files = files.into_iter().map(|file| file.hashed(&mut progress)).collect::<Result<Vec<_>, _>>()?;
        let hashes = files.iter().map(InputFile::sha256).collect::<Result<Vec<_>, _>>()?;
        let contents: Vec<_> = files.iter().zip(&hashes).map(|(file, hash)| json!([hash, file.hive])).collect();
        let mut options = json!({
            "key": stage.key, "features": stage.features, "target": stage.target,
            "extra": demand.columns, "trains": demand.trains,
        });
        // Left out where it is empty, so that what was done before there was such an option stays.
        if !stage.exclude.is_empty() {
            options["exclude"] = json!(stage.exclude);
        }
        // `weights`, not `weight`: work of before means of levels were weighted is another one.
        for (name, column) in [("weights", &stage.weight), ("noise_std", &stage.noise_std)] {
            if column.is_some() {
                options[name] = json!(column);
            }
        }
        if !demand.keys.is_empty() {
            options["keys"] = json!(demand.keys);
        }
        let key = Key::new(&KIND, [("options", options), ("files", contents.into())]);
        let (stage, demand) = (stage.clone(), demand.clone());
        Ok(Self {
            stage,
            demand,
            key,
            files,
            hashes,
            table: OnceCell::new(),
            by_parts: OnceCell::new(),
            outline: OnceCell::new(),
        })
    }

    /// The files and their hashes.
    pub fn contents(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().zip(&self.hashes).map(|(file, hash)| (file.path.as_path(), hash.as_str()))
    }

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

    /// The rows; read now if they were not before.
    pub fn table(&self) -> Result<Rc<InputTable>, StageError> {
        if let Some(table) = self.table.get() {
            return Ok(Rc::clone(table));
        }
        let table = Rc::new(self.read(Keep::All)?);
        Ok(Rc::clone(self.table.get_or_init(|| table)))
    }

    fn read(&self, keep: Keep<'_>) -> Result<InputTable, StageError> {
        let table = self.stage.read(&self.demand, &self.files, keep)?;
        // Hours may lie between the hashes and this.
        if let Some((file, _)) = table.files.iter().zip(&self.hashes).find(|(file, hash)| file.sha256 != **hash) {
            return Err(changed(&file.path).into());
        }
        Ok(table)
    }

    /// Whether rows are read where they are needed: where there are many of them, or several processes that need not all have
    /// all. Only where columns go to a model as they are.
    pub fn is_by_parts(&self) -> Result<bool, StageError> {
        if let Some(known) = self.by_parts.get() {
            return Ok(*known);
        }
        let Ingest { weight, noise_std, target, .. } = &self.stage;
        let plain_target = target.as_ref().is_none_or(|target| target.transform() == TransformName::default());
        let mut found = plain_target && weight.is_none() && noise_std.is_none() && self.demand.trains;
        if found {
            let schema = peek(&self.files)?;
            let columns = schema.resolve(&self.stage.selection(&self.demand))?.columns;
            let many = world().is_some() || schema.rows() > MANY_ROWS;
            found = many && columns.iter().all(FeatureColumn::is_plain);
        }
        Ok(*self.by_parts.get_or_init(|| found))
    }

    /// What it takes to divide rows: all of them where they are read at once.
    pub fn outline(&self) -> Result<Rc<InputTable>, StageError> {
        if self.table.get().is_some() || !self.is_by_parts()? {
            return self.table();
        }
        if let Some(outline) = self.outline.get() {
            return Ok(Rc::clone(outline));
        }
        let outline = Rc::new(self.read(Keep::Outline)?);
        Ok(Rc::clone(self.outline.get_or_init(|| outline)))
    }

    /// A table with these rows at least, which increase; and where they stand in it.
    pub fn some(&self, rows: &[usize]) -> Result<(Rc<InputTable>, Vec<usize>), StageError> {
        if self.table.get().is_some() || !self.is_by_parts()? {
            return Ok((self.table()?, rows.to_vec()));
        }
        Ok((Rc::new(self.read_some(rows)?), (0..rows.len()).collect()))
    }

    /// These rows, which increase, and no others.
    pub fn read_some(&self, rows: &[usize]) -> Result<InputTable, StageError> {
        self.read(Keep::Rows(rows))
    }

    /// The rows, noted as read.
    pub fn load(&self, record: &mut Record<'_>) -> Result<Rc<InputTable>, StageError> {
        let fresh = self.table.get().is_none();
        let table = self.table()?;
        note(&table, fresh, record);
        Ok(table)
    }

    /// Their outline, noted as read.
    pub fn load_outline(&self, record: &mut Record<'_>) -> Result<Rc<InputTable>, StageError> {
        let fresh = self.table.get().is_none() && self.outline.get().is_none();
        let table = self.outline()?;
        note(&table, fresh, record);
        Ok(table)
    }
}

/// Rows that were read now are inputs of the run.
fn note(table: &InputTable, fresh: bool, record: &mut Record<'_>) {
    if fresh {
        record.add_input(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let stage: Ingest = serde_json::from_value(json!({ "path": path, "features": ["a"], "target": "y" }))?;
        let demand = Demand { in_memory: true, ..Demand::default() };
        let source_of = || Source::new(&stage, &demand);
        write(1.0)?;
        let source = source_of()?;
        // The same contents in another file are the same rows.
        write(1.0)?;
        assert!(source_of()?.table().is_ok());
        write(7.0)?;
        let error = source.table().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("rows.parquet") && error.contains("has changed since the run began"), "{error}");
        write(1.0)?;
        assert!(source.table().is_ok());
        Ok(())
    }
}
