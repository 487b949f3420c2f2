//! Where things are in a results directory, and how tables get there.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::atomic::{hex, sweep};
use super::model::MODEL_FILE;
use super::object::{Mirror, StoredFile, Upload, is_address};
use super::parquet_out::ParquetSink;
use super::{Manifest, RunId, StoreError};
use crate::tables::{TableKind, TableRow};

/// Longest directory name made from a case; file systems allow 255 bytes.
const LONGEST_NAME: usize = 120;

/// A results directory: knows the layout, touches nothing until something is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultsDir {
    root: PathBuf,
    /// Where they are kept, when that is object storage and `root` is what runs of this machine work in.
    mirror: Option<Mirror>,
}

/// What every table file says about the run in its footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    pub version: String,
    /// Hash of the resolved pipeline.
    pub spec_hash: String,
    pub seed: u64,
}

/// A table file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenTable {
    pub kind: TableKind,
    pub path: PathBuf,
    pub rows: u64,
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

impl ResultsDir {
    /// The results directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        if is_address(&root) {
            let mirror = Mirror::new(&root);
            return Self { root: mirror.directory.clone(), mirror: Some(mirror) };
        }
        Self { root, mirror: None }
    }

    /// The directory on this machine.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where others find a file of the directory.
    pub fn place(&self, path: &Path) -> PathBuf {
        self.mirror.as_ref().map_or_else(|| path.to_owned(), |mirror| mirror.address_of(path))
    }

    /// Finds out whether results can be written, before hours of work.
    pub fn prepare(&self) -> Result<(), StoreError> {
        let mirror = self.mirror.as_ref();
        mirror.map_or(Ok(()), |mirror| Upload::begin(&mirror.address.join("views.sql")).map(drop))
    }

    /// Brings what others have written to this machine, where results are in object storage.
    pub fn refresh(&self) -> Result<(), StoreError> {
        self.mirror.as_ref().map_or(Ok(()), Mirror::pull)
    }

    /// Puts the files of a run that has ended into object storage, all but its manifest.
    pub(super) fn share(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let Some(mirror) = &self.mirror else { return Ok(()) };
        let last = self.manifest_path(&manifest.run_id);
        let entries = std::fs::read_dir(self.run_dir(&manifest.run_id)).into_iter().flatten().flatten();
        let beside = entries.map(|entry| entry.path()).filter(|path| path.is_file() && *path != last);
        let named = manifest.files.iter().map(|file| self.root.join(&file.path));
        let mut files: Vec<PathBuf> = named.chain(beside).chain([self.views_path()]).collect();
        files.retain(|path| path.is_file() && !is_address(path));
        files.sort();
        files.dedup();
        mirror.push(&files, manifest.run_id.as_str())
    }

    /// Which of these files, named from the directory, are nowhere.
    pub(super) fn gone<'a>(&self, files: impl Iterator<Item = &'a Path>) -> usize {
        let known = self.mirror.as_ref().map(Mirror::known).unwrap_or_default();
        let is_gone = |path: &&Path| !self.root.join(path).exists() && !known.contains(path.to_string_lossy().as_ref());
        files.filter(is_gone).count()
    }

    /// All objects of results in object storage; none on a disk.
    pub(super) fn stored_files(&self) -> Result<Vec<StoredFile>, StoreError> {
        self.mirror.as_ref().map_or_else(|| Ok(Vec::new()), Mirror::stored)
    }

    /// That a file of the directory is in object storage as well.
    pub(super) fn note_stored(&self, path: &Path, sha256: String) -> Result<(), StoreError> {
        self.mirror.as_ref().map_or(Ok(()), |mirror| mirror.note(path, sha256))
    }

    /// Objects that have been removed there.
    pub(super) fn forget_stored(&self, files: &[StoredFile]) -> Result<(), StoreError> {
        self.mirror.as_ref().map_or(Ok(()), |mirror| mirror.forget(files.iter().map(|file| file.name.as_path())))
    }

    /// All files of a table: `<root>/<table>`.
    pub fn table_dir(&self, kind: TableKind) -> PathBuf {
        self.root.join(kind.name())
    }

    /// A run's file of a table: `<table>/pipeline=<p>/run_date=<d>/<run_id>.parquet`.
    pub fn table_path(&self, kind: TableKind, pipeline: &str, run_id: &RunId) -> PathBuf {
        self.table_dir(kind)
            .join(format!("pipeline={}", escape(pipeline)))
            .join(format!("run_date={}", run_id.run_date()))
            .join(format!("{run_id}.parquet"))
    }

    /// All runs: `<root>/run`.
    pub fn runs_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The runs that have a directory, oldest first; anything else in there is passed over.
    pub fn run_ids(&self) -> Result<Vec<RunId>, StoreError> {
        let directory = self.runs_dir();
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::read(&directory, error)),
        };
        let mut runs: Vec<RunId> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        runs.sort();
        Ok(runs)
    }

    /// A run's directory: manifest, resolved pipeline, events, report.
    pub fn run_dir(&self, run_id: &RunId) -> PathBuf {
        self.runs_dir().join(run_id.as_str())
    }

    pub fn manifest_path(&self, run_id: &RunId) -> PathBuf {
        self.run_dir(run_id).join("manifest.json")
    }

    pub fn resolved_path(&self, run_id: &RunId) -> PathBuf {
        self.run_dir(run_id).join("resolved.yaml")
    }

    pub fn events_path(&self, run_id: &RunId) -> PathBuf {
        self.run_dir(run_id).join("events.jsonl")
    }

    pub fn report_path(&self, run_id: &RunId) -> PathBuf {
        self.run_dir(run_id).join("report.html")
    }

    /// A trained model: `models/<pipeline>/<run_id>/<case>/fold=<k>/model.safetensors`. Where a case trains several
    /// models, the `stage` is a directory between case and fold.
    pub fn model_path(&self, pipeline: &str, run_id: &RunId, case: &str, stage: Option<&str>, fold: i32) -> PathBuf {
        let mut path = self.root.join("models").join(escape(pipeline)).join(run_id.as_str()).join(escape(case));
        path.extend(stage.map(escape));
        path.join(format!("fold={fold}")).join(MODEL_FILE)
    }

    /// Stage outputs by content hash.
    pub fn cache_dir(&self) -> PathBuf {
        self.root.join("cache")
    }

    pub fn checkpoints_dir(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The `DuckDB` views.
    pub fn views_path(&self) -> PathBuf {
        self.root.join("views.sql")
    }

    /// Writes a run's file of a table. No batches give a file without rows and with all columns.
    ///
    /// `schema` must start with the table's columns; only predictions may have more.
    pub fn write_table(
        &self,
        kind: TableKind,
        pipeline: &str,
        run_id: &RunId,
        footer: &Footer,
        schema: &SchemaRef,
        batches: &[RecordBatch],
    ) -> Result<WrittenTable, StoreError> {
        let batches = batches.iter().map(|batch| Ok(batch.clone()));
        self.stream_table((kind, pipeline, run_id), footer, schema, batches)
    }

    /// The same with batches that need not be in memory together.
    pub fn stream_table(
        &self,
        (kind, pipeline, run_id): (TableKind, &str, &RunId),
        footer: &Footer,
        schema: &SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, StoreError>>,
    ) -> Result<WrittenTable, StoreError> {
        kind.check(schema)?;
        let path = self.table_path(kind, pipeline, run_id);
        sweep(&path);
        let mut sink = ParquetSink::create(&path, schema, &footer.entries(kind, run_id))?;
        for batch in batches {
            sink.write(&batch?)?;
        }
        let rows = sink.rows();
        let written = sink.finish()?;
        Ok(WrittenTable { kind, path, rows, bytes: written.bytes, sha256: written.sha256 })
    }

    /// Writes a run's file of one of the small tables.
    pub fn write_rows<R: TableRow>(
        &self,
        pipeline: &str,
        run_id: &RunId,
        footer: &Footer,
        rows: &[R],
    ) -> Result<WrittenTable, StoreError> {
        let batch = R::batch(rows)?;
        self.write_table(R::KIND, pipeline, run_id, footer, &R::schema(), &[batch])
    }
}

impl Footer {
    fn entries(&self, kind: TableKind, run_id: &RunId) -> Vec<(String, String)> {
        [
            ("stride.run_id", run_id.to_string()),
            ("stride.schema_version", kind.schema_version().to_string()),
            ("stride.version", self.version.clone()),
            ("stride.spec_hash", self.spec_hash.clone()),
            ("stride.seed", self.seed.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }
}

/// A directory name for any text: everything but `A-Za-z0-9=,._-` becomes `%XX`, long names end in a hash.
///
/// Different texts have different names, and no name is hidden, empty, or leads elsewhere.
pub fn escape(text: &str) -> String {
    const OTHERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'=').remove(b',').remove(b'.').remove(b'_').remove(b'-');
    let mut name = utf8_percent_encode(text, OTHERS).to_string();
    if name.starts_with('.') {
        name.replace_range(..1, "%2E");
    }
    if name.is_empty() {
        // `%` is always followed by two digits otherwise, so this name is free.
        return "%".to_owned();
    }
    if name.len() > LONGEST_NAME {
        let digest = hex(&Sha256::digest(text.as_bytes()));
        // `~` is escaped otherwise, so no short name collides with a shortened one.
        name.truncate(LONGEST_NAME - 17);
        name.push('~');
        name.push_str(&digest[..16]);
    }
    name
}
