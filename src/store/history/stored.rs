//! What runs have in object storage, where results are kept there, and how a pruning removes it.
//!
//! The order is that of a disk: manifests become tombstones, the row of `runs` goes first, the tombstone last. Whoever looks
//! meanwhile, or after a pruning that was killed, sees a run whose removal has begun. Two prunings at once remove the same.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::TOMBSTONE;
use super::prune::{is_model, is_record};
use crate::store::object::{StoredFile, put_small, remove, remove_all};
use crate::store::{ResultsDir, RunId, StoreError};
use crate::tables::{TableKind, Timestamp};

/// The objects of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredRun {
    pub files: Vec<StoredFile>,
    /// What lies in its directories and is not ours.
    pub foreign: Vec<PathBuf>,
    /// When the youngest of them was written.
    latest: Option<Timestamp>,
}

/// The objects of all runs; none where results are on a disk.
#[derive(Debug, Default)]
pub(super) struct Stored {
    runs: BTreeMap<RunId, StoredRun>,
}

impl Stored {
    pub fn of(results: &ResultsDir) -> Result<Self, StoreError> {
        let mut runs: BTreeMap<RunId, StoredRun> = BTreeMap::new();
        for file in results.stored_files()? {
            let Some((id, ours)) = whose(&file.name) else { continue };
            let run = runs.entry(id).or_default();
            run.latest = run.latest.max(Some(file.written));
            if ours {
                run.files.push(file);
            } else {
                run.foreign.push(file.address);
            }
        }
        Ok(Self { runs })
    }

    /// When the last object of the run was written.
    pub fn latest(&self, id: &RunId) -> Option<Timestamp> {
        self.runs.get(id)?.latest
    }

    pub fn take(&self, id: &RunId) -> StoredRun {
        self.runs.get(id).cloned().unwrap_or_default()
    }
}

/// The run that an object belongs to by its name, and whether a run has written it.
fn whose(name: &Path) -> Option<(RunId, bool)> {
    let parts: Vec<&str> = name
        .components()
        .map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    match parts.as_slice() {
        ["run", id, inside @ ..] => Some((id.parse().ok()?, matches!(inside, [name] if is_record(name)))),
        ["models", _, id, inside @ ..] => Some((id.parse().ok()?, is_model(inside))),
        [table, pipeline, date, file]
            if TableKind::ALL.iter().any(|kind| kind.name() == *table)
                && pipeline.starts_with("pipeline=")
                && date.starts_with("run_date=") =>
        {
            Some((file.strip_suffix(".parquet")?.parse().ok()?, true))
        }
        _ => None,
    }
}

impl StoredRun {
    /// From now on the run does not count as complete.
    pub fn set_tombstone(&self) -> Result<(), StoreError> {
        let record = |name: &str| self.files.iter().find(|file| file.is_record(name));
        let Some(beside) = self.files.iter().find(|file| file.name.starts_with("run")) else { return Ok(()) };
        if record(TOMBSTONE).is_none() {
            match put_small(&beside.address.with_file_name(TOMBSTONE), b"{}\n".to_vec(), None) {
                // Another pruning was first.
                Ok(()) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        record("manifest.json").map_or(Ok(()), |manifest| remove(&manifest.address))
    }

    /// Removes its objects.
    pub fn remove(&self) -> Result<(), StoreError> {
        let is_row = |file: &&StoredFile| file.name.starts_with(TableKind::Runs.name());
        let is_tombstone = |file: &&StoredFile| file.is_record(TOMBSTONE);
        let addresses = |files: &[&StoredFile]| files.iter().map(|file| file.address.clone()).collect::<Vec<_>>();
        let (last, others): (Vec<_>, Vec<_>) = self.files.iter().partition(is_tombstone);
        let (rows, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_row);
        remove_all(&addresses(&rows))?;
        remove_all(&addresses(&others))?;
        // Set by us, or found.
        let set = self.files.iter().find(|file| file.name.starts_with("run"));
        let set = set.map(|file| file.address.with_file_name(TOMBSTONE));
        remove_all(&addresses(&last).into_iter().chain(set).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_belong_to_runs_by_the_layout() {
        let id = "20261116T022530123456Z-3f9a1c";
        let found = |name: &str| whose(Path::new(&name.replace("ID", id))).map(|(run, ours)| (run.to_string(), ours));
        for (name, ours) in [
            ("run/ID/manifest.json", true),
            ("run/ID/manifest-2.json", true),
            ("run/ID/notes.txt", false),
            ("run/ID/more/manifest.json", false),
            ("metrics/pipeline=p/run_date=2026-11-16/ID.parquet", true),
            ("models/p/ID/default/fold=0/model.safetensors", true),
            ("models/p/ID/default/stage/fold=0/model.safetensors", true),
            ("models/p/ID/model.safetensors", false),
            ("models/p/ID/readme.md", false),
        ] {
            assert_eq!(found(name), Some((id.to_owned(), ours)), "{name}");
        }
        for name in [
            "views.sql",
            "report.html",
            "mine/pipeline=p/run_date=2026-11-16/ID.parquet",
            "metrics/ID.parquet",
            "models/p/versions/1/model.safetensors",
            "metrics/pipeline=p/run_date=2026-11-16/other.parquet",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
