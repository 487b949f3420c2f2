//! Scores rows with a published model: chunks in, chunks out, memory that does not grow with the input.
//!
//! One thread reads, all of them compute, one writes. A row's result is its own: the same bits whatever chunk it is in,
//! whatever the number of threads.

mod columns;
mod draws;
mod drift;
mod origin;
mod sink;

use columns::Numbers;
pub use columns::{Layout, Scored};
pub use draws::Draws;
pub use drift::Tally;
pub use origin::ScoreOrigin;
pub use sink::{BatchSink, FileSink, IpcSink, MirrorSink, PredictionsSink, Sink};

use super::quantiles;
use crate::eval::conformal::Calibration;
use crate::eval::metrics::score_quantile;
use crate::features::RawRows;
use crate::stages::StageError;
use crate::stages::predict::OnInvalid;
use crate::stages::train::{OnScale, TrainedModel};
use crate::store::input::{Chunk, Wanted};
use crate::store::{ModelFile, ModelMeta, StoreError};
use crate::tables::predictions::quantile_column;
use arrow::array::Array as _;
use ndarray::Array2;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Chunks that wait between reading and computing, and between computing and writing.
const WAITING: usize = 2;
/// How long to wait for rows before it is asked again whether to go on.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub intervals: Vec<f64>,
    pub variance: bool,
    /// What happens to rows that the model cannot use.
    pub on_invalid: OnInvalid,
    /// With the model's local layer, if it has one.
    pub local: bool,
    /// With columns that say where scores come from.
    pub origin: bool,
}

/// A model ready to score, with what it knows of its training.
#[derive(Debug)]
pub struct Scorer {
    model: TrainedModel,
    meta: ModelMeta,
    options: Options,
    /// Names of the quantile columns, and how many standard deviations they lie above the mean.
    quantiles: Vec<(String, f64)>,
    /// Random values of each row, where they are asked for.
    draws: Option<Draws>,
}

impl Scorer {
    /// What the model says of itself.
    pub fn meta(&self) -> &ModelMeta {
        &self.meta
    }

    /// The model of a file; `path` is for messages.
    pub fn new(file: &ModelFile, path: &Path, options: Options) -> Result<Self, StageError> {
        let model = TrainedModel::from_file(file, path)?;
        let model = if options.local { model } else { model.without_local() };
        let quantiles = quantiles(&options.intervals, model.calibration())?;
        Ok(Self { model, meta: file.meta.clone(), options, quantiles, draws: None })
    }

    /// With these quantiles too, as far as the intervals do not have them.
    pub fn with_quantiles(mut self, quantiles: &[f64]) -> Result<Self, StageError> {
        for quantile in quantiles {
            let name = quantile_column(*quantile).map_err(StoreError::from)?;
            if !self.quantile_names().any(|known| known == name) {
                self.quantiles.push((name, score_quantile(self.calibration(), *quantile)));
            }
        }
        Ok(self)
    }

    /// With random values of each row.
    #[must_use]
    pub fn with_draws(mut self, draws: Draws) -> Self {
        self.draws = Some(draws);
        self
    }

    /// What the columns of the input become, by name.
    pub fn features(&self) -> &[String] {
        &self.meta.feature_names
    }

    /// The columns of the input, by name.
    pub fn input_names(&self) -> Vec<String> {
        self.model.input_names()
    }

    /// The scale on which the target is modelled, without rows; none where it is its own.
    pub fn scale(&self) -> Option<OnScale> {
        self.model.scale()
    }

    pub fn method(&self) -> &str {
        &self.meta.method
    }

    /// What intervals are calibrated by; none for those of the normal distribution.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.model.calibration()
    }

    /// Names of the quantile columns.
    pub fn quantile_names(&self) -> impl Iterator<Item = &str> {
        self.quantiles.iter().map(|(name, _)| name.as_str())
    }

    /// The columns to read, once it is known that the features are among those that `has` knows of `input`.
    pub fn wanted(
        &self,
        input: &str,
        has: impl Fn(&str) -> bool,
        hint: &str,
        others: Wanted,
    ) -> Result<Wanted, StageError> {
        let features = self.meta.inputs();
        let missing: Vec<&str> = features.iter().map(|column| column.name.as_str()).filter(|name| !has(name)).collect();
        if !missing.is_empty() {
            let names = missing.join(", ");
            let what = format!("{input}: the model needs the feature(s) {names}, which the input does not have");
            return Err(StageError::Data { what, hint: hint.to_owned() });
        }
        Ok(Wanted { features, ..others })
    }

    /// Scores a chunk; the file it comes from is for messages.
    fn chunk(&self, chunk: Chunk, first_of_file: u64, path: &Path, tally: &mut Tally) -> Result<Scored, StageError> {
        let Chunk { file, offset, rows, features, levels, mut valid, problem, key, target, keep } = chunk;
        if let (OnInvalid::Error, Some(problem)) = (self.options.on_invalid, problem) {
            let column = self.input_names().get(problem.feature).cloned();
            return Err(Self::refuse(path, column, offset + problem.row as u64, &problem.what));
        }
        let width = levels.len();
        let usable = valid.iter().filter(|valid| **valid).count();
        let features = if usable == rows { features } else { compact(&features, &valid, width) };
        let x = Array2::from_shape_vec((usable, width), features).map_err(|error| StageError::Data {
            what: format!("{}: {error}", path.display()),
            hint: "this is a mistake of the program; please report it".to_owned(),
        })?;
        let x = if self.meta.columns.is_some() {
            let (x, seen) = self.model.encode_raw(RawRows { values: x.view(), levels: &levels });
            tally.count_seen(&seen);
            x
        } else {
            x
        };
        tally.count_ranges(x.as_slice().unwrap_or_default(), &self.meta.ranges_of_new_rows());
        // Intervals need the variance even when its columns are not asked for.
        let wants_variance = self.options.variance || !self.quantiles.is_empty() || self.draws.is_some();
        let prediction = self.model.predict(&x, wants_variance)?;
        let mut numbers = Numbers::none(rows, self.quantiles.len());
        // The prediction of a row, where there is one.
        let mut located = vec![None; rows];
        let mut next = 0;
        for (row, valid) in valid.iter_mut().enumerate() {
            if !*valid {
                continue;
            }
            let at = next;
            next += 1;
            let (mean, std) = (prediction.mean[at], prediction.y_std.as_ref().map(|std| std[at]));
            if !mean.is_finite() || std.is_some_and(|std| !std.is_finite()) {
                if self.options.on_invalid == OnInvalid::Error {
                    return Err(Self::refuse(path, None, offset + row as u64, "a row without a finite prediction"));
                }
                *valid = false;
                continue;
            }
            numbers.y_mean[row] = mean;
            numbers.noise_std[row] = prediction.noise_std[at];
            if let Some(on) = prediction.on_scale.as_ref().filter(|_| self.options.variance) {
                (numbers.t_mean[row], numbers.t_std[row]) = (on.mean[at], on.std[at]);
            }
            if let Some(nearest) = &prediction.nearest {
                tally.count_nearest(nearest[at]);
            }
            if let Some(std) = std {
                let spread = prediction.spread().map_or(std, |spread| spread[at]);
                tally.count_variance(spread * spread, self.meta.predictive_variance);
                located[row] = Some(at);
                for (column, (_, z)) in numbers.quantiles.iter_mut().zip(&self.quantiles) {
                    column[row] = prediction.quantile(at, *z);
                }
                if self.options.variance {
                    numbers.y_std[row] = std;
                    if let Some(target) = target.as_ref().filter(|target| target.is_valid(row)) {
                        numbers.y_pit[row] = prediction.share_below(at, target.value(row), self.calibration());
                    }
                    numbers.f_std[row] = prediction.f_std.as_ref().map_or(f64::NAN, |std| std[at]);
                }
            }
        }
        tally.count_rows(&valid);
        if let Some(draws) = &self.draws {
            let value_at = |at: usize, z: f64| prediction.quantile(at, z);
            numbers.draws = Some(draws.of_rows(first_of_file + offset, &located, self.calibration(), value_at));
        }
        let mut scored = Scored::new((file, first_of_file, first_of_file + offset), numbers, (key, target, keep));
        if self.options.on_invalid == OnInvalid::Skip && valid.contains(&false) {
            scored.retain(&valid)?;
        }
        Ok(scored)
    }

    fn refuse(path: &Path, column: Option<String>, row: u64, what: &str) -> StageError {
        StageError::Store(StoreError::Invalid {
            path: path.to_owned(),
            detail: format!("{what}, which cannot be scored"),
            column,
            row: Some(row),
            hint:
                "remove or fill such rows, or let `on_invalid` be null (scores of these rows are null) or skip (they \
                   are left out)"
                    .to_owned(),
        })
    }

    /// Scores all chunks into the sinks. `files` are the names and rows of the files that chunks come from.
    pub fn run(
        &self,
        chunks: impl Iterator<Item = Result<Chunk, StoreError>> + Send + 'static,
        files: &[(PathBuf, u64)],
        mut sinks: Vec<Box<dyn Sink + '_>>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Tally, StageError> {
        let mut tally = Tally::new(self.features().len());
        let (to_compute, read) = sync_channel(WAITING);
        // Not waited for when something fails: it may be at a pipe that stands still.
        let reader = std::thread::spawn(move || {
            for chunk in chunks {
                let failed = chunk.is_err();
                // Nobody listens any more once something went wrong.
                if to_compute.send(chunk).is_err() || failed {
                    break;
                }
            }
        });
        let outcome = std::thread::scope(|scope| {
            let (to_writer, computed) = sync_channel::<Scored>(WAITING);
            let writer = scope.spawn(move || {
                for scored in computed {
                    for sink in &mut sinks {
                        sink.write(&scored)?;
                    }
                }
                Ok(sinks)
            });
            let computed = self.compute(&read, files, &to_writer, &mut tally, progress);
            drop(to_writer);
            let written: Result<Vec<Box<dyn Sink + '_>>, StageError> = joined(writer.join());
            computed.and(written)
        });
        let sinks = outcome?;
        joined(reader.join());
        // Only now, when everything went well, do files get their names.
        for sink in sinks {
            sink.finish()?;
        }
        Ok(tally)
    }

    /// Scores what is read until there is no more.
    fn compute(
        &self,
        read: &Receiver<Result<Chunk, StoreError>>,
        files: &[(PathBuf, u64)],
        to_writer: &SyncSender<Scored>,
        tally: &mut Tally,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), StageError> {
        let mut firsts = vec![0_u64];
        firsts.extend(files.iter().scan(0, |total, (_, rows)| {
            *total += rows;
            Some(*total)
        }));
        loop {
            if !progress(tally.rows) {
                return Err(StageError::Interrupted { kept: None });
            }
            let chunk = match read.recv_timeout(BETWEEN_LOOKS) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let path = files.get(chunk.file).map_or(Path::new("input"), |(path, _)| path);
            let first_of_file = firsts.get(chunk.file).copied().unwrap_or(0);
            let scored = self.chunk(chunk, first_of_file, path, tally)?;
            if to_writer.send(scored).is_err() {
                // The writer knows why.
                return Ok(());
            }
        }
    }
}

/// What a thread returned; its panic goes on in this one.
fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The rows that can be used, one after the other.
fn compact(features: &[f64], valid: &[bool], width: usize) -> Vec<f64> {
    let rows = features.chunks_exact(width.max(1)).zip(valid);
    rows.filter(|(_, valid)| **valid).flat_map(|(row, _)| row).copied().collect()
}
