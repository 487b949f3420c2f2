//! A trained model that scores tables.

use crate::batches::{Batches, reader_of};
use crate::failure::exception;
use crate::worker::wait_for;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use stride_pipe::cli::Failure;
use stride_pipe::cli::embedded::{default_threads, in_threads, usage};
use stride_pipe::engine::{TableRequest, TableScores, score_table};
use stride_pipe::stages::job::Cancel;
use stride_pipe::stages::predict::scorer::{Draws, Options, Scorer};
use stride_pipe::stages::predict::{ConditionList, IntervalLevel, Watch, alarm};
use stride_pipe::store::model::model_path;
use stride_pipe::store::{ModelFile, StoreError};

/// A model's file, read once.
#[pyclass(frozen, module = "stride_pipe._core")]
pub struct Model {
    path: PathBuf,
    file: ModelFile,
    sha256: String,
    /// The last one: most calls ask for the same.
    ready: Mutex<Option<(Wish, Arc<Scorer>)>>,
}

/// What a scorer is made for.
#[derive(Clone, PartialEq)]
struct Wish {
    options: Options,
    quantiles: Vec<f64>,
    draws: Option<Draws>,
}

/// What is asked of a prediction; [`Model::predict`] says what.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Question {
    quantiles: Vec<f64>,
    intervals: Vec<f64>,
    samples: u16,
    seed: u64,
    variance: bool,
    on_invalid: String,
    key: Option<String>,
    keep: Vec<String>,
    warn_if: Option<Vec<String>>,
    origin: bool,
    threads: Option<u16>,
}

impl Question {
    fn wish(&self) -> Result<Wish, Failure> {
        let mut intervals = self.intervals.clone();
        intervals.sort_by(f64::total_cmp);
        intervals.dedup();
        if intervals.iter().any(|level| !IntervalLevel(*level).has_name()) {
            return Err(usage("intervals: write levels between 0 and 1, with at most six decimals, such as 0.9"));
        }
        let options = Options {
            intervals,
            variance: self.variance,
            on_invalid: self.on_invalid.parse().map_err(|text: String| usage(&format!("on_invalid: {text}")))?,
            local: true,
            origin: self.origin,
        };
        Ok(Wish { options, quantiles: self.quantiles.clone(), draws: Draws::new(self.samples, self.seed) })
    }

    fn request(&self, wish: &Wish, model: &Model) -> Result<TableRequest, Failure> {
        for condition in self.warn_if.iter().flatten() {
            alarm::parse(condition).map_err(|detail| usage(&format!("warn_if: {detail}; {}", alarm::HELP)))?;
        }
        let conditions = self.warn_if.clone().map(ConditionList);
        Ok(TableRequest {
            key: self.key.clone(),
            keep: self.keep.clone(),
            on_invalid: wish.options.on_invalid,
            watch: Watch::of_scores(conditions.as_ref(), None),
            model_sha256: model.sha256.clone(),
        })
    }
}

impl Model {
    fn scorer(&self, wish: &Wish) -> Result<Arc<Scorer>, Failure> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, scorer)) = ready.as_ref().filter(|(known, _)| known == wish) {
            return Ok(Arc::clone(scorer));
        }
        let scorer = Scorer::new(&self.file, &self.path, wish.options.clone())?.with_quantiles(&wish.quantiles);
        let scorer = scorer.map_err(|_| {
            usage("quantiles: write numbers between 0 and 1, with at most seven decimals, such as 0.05")
        })?;
        let scorer = Arc::new(match wish.draws {
            Some(draws) => scorer.with_draws(draws),
            None => scorer,
        });
        *ready = Some((wish.clone(), Arc::clone(&scorer)));
        Ok(scorer)
    }
}

#[pymethods]
impl Model {
    /// A model's directory, or its file.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loaded = py.detach(|| ModelFile::load_hashed(&path));
        let (file, sha256) = loaded.map_err(|error: StoreError| exception(py, &Failure::from(error)))?;
        Ok(Self { path: model_path(&path), file, sha256, ready: Mutex::new(None) })
    }

    /// The same from the bytes of its file.
    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8], sha256: String) -> PyResult<Self> {
        let path = Path::new("model");
        let file = ModelFile::from_bytes(bytes, path).map_err(|error| exception(py, &Failure::from(error)))?;
        Ok(Self { path: path.to_owned(), file, sha256, ready: Mutex::new(None) })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.file.to_bytes(&self.path).map_err(|error| exception(py, &Failure::from(error)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[getter]
    fn path(&self) -> &OsStr {
        // As text: a path of Python would make `s3:/b` of `s3://b`.
        self.path.as_os_str()
    }

    #[getter]
    fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The columns that it takes, by name.
    #[getter]
    fn features(&self) -> Vec<String> {
        self.file.meta.inputs().into_iter().map(|column| column.name).collect()
    }

    /// What the file says of the model, as JSON.
    #[getter]
    fn meta(&self) -> PyResult<String> {
        serde_json::to_string(&self.file.meta)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
    }

    /// Scores the rows of a table: the scores, and what there is to say of the rows.
    fn predict(
        slf: &Bound<'_, Self>,
        table: &Bound<'_, PyAny>,
        question: Question,
    ) -> PyResult<(Batches, Vec<String>)> {
        let (py, rows) = (slf.py(), reader_of(table)?);
        let cancel = Cancel::default();
        let (shared, model) = (cancel.clone(), slf.clone().unbind());
        let work = move || {
            let threads = question.threads.map_or_else(default_threads, usize::from);
            let model = model.get();
            let wish = question.wish()?;
            let request = question.request(&wish, model)?;
            in_threads(threads, || Ok(score_table(model.scorer(&wish)?.as_ref(), rows, &request, &shared)?))
        };
        let TableScores { schema, batches, mut warnings, held } = wait_for(py, &cancel, || Ok(()), work)?;
        warnings.extend(held.into_iter().map(|held| held.text));
        Ok((Batches::new(schema, batches), warnings))
    }
}
