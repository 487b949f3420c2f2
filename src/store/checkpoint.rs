//! Checkpoints: the state of a long fit, with everything its tables need, in one file that is replaced in one step.
//!
//! The file is like a model file, under hashes: one that is cut off or changed is noticed. It is named by the hash of the
//! work that it belongs to, and says so inside as well.

mod traces;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::ResultsDir;
use super::atomic::{Written, sweep, write_atomic};
use super::container::{ContainerError, FileKind, Tensors, decode, encode, read_regular};
use super::error::StoreError;
use crate::tables::{Timestamp, TraceRow};

const KIND: FileKind = FileKind {
    noun: "checkpoint",
    description: "stride.checkpoint",
    version_key: "stride.checkpoint_version",
    version: 1,
};

/// The fit's own tensors have this before their names.
const STATE: &str = "state.";

/// A fit between two iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointFile {
    /// Hash of what the work depends on.
    pub key: String,
    /// Which run wrote it, for which piece of work.
    pub origin: Json,
    pub iteration: u64,
    /// What the phases cost so far.
    pub timings: Vec<PhaseTiming>,
    /// The steps so far; their run, stage, case and fold are left empty.
    pub traces: Vec<TraceRow>,
    /// The state of the fit.
    pub state: Tensors,
}

/// What a phase cost so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseTiming {
    /// The phase, as in the `timings` table.
    pub phase: String,
    pub started_at: Timestamp,
    /// Seconds by the monotonic clock.
    pub wall_s: f64,
    pub cpu_s: f64,
    /// Largest memory of the process.
    pub peak_rss_bytes: i64,
}

#[derive(Serialize, Deserialize)]
struct Description {
    key: String,
    origin: Json,
    iteration: u64,
    timings: Vec<PhaseTiming>,
    trace_phases: Vec<String>,
}

impl CheckpointFile {
    /// Where the checkpoint of a piece of work is.
    pub fn path(results: &ResultsDir, key: &str) -> PathBuf {
        results.checkpoints_dir().join(format!("{key}.safetensors"))
    }

    /// Writes it in one step, over an older one.
    pub fn save(&self, path: &Path) -> Result<Written, StoreError> {
        let bytes = self.to_bytes().map_err(|detail| StoreError::write(path, std::io::Error::other(detail)))?;
        write_atomic(path, &bytes)
    }

    /// The checkpoint of this work; none if there is no such file.
    pub fn load(path: &Path, key: &str) -> Result<Option<Self>, StoreError> {
        let refuse = |detail: String| StoreError::invalid(path, detail, "training starts from the beginning");
        let bytes = match read_regular(path) {
            Err(StoreError::Missing { .. }) => return Ok(None),
            Err(StoreError::Read { source, .. }) => return Err(refuse(format!("cannot be read: {source}"))),
            other => other?.ok_or_else(|| refuse("not a regular file".to_owned()))?,
        };
        let found = Self::from_bytes(&bytes).map_err(|error| refuse(error.detail(&KIND)))?;
        if found.key == key { Ok(Some(found)) } else { Err(refuse("a checkpoint of other work".to_owned())) }
    }

    /// Removes a checkpoint that nobody needs any more. One that stays does no harm: its work is found in the cache first.
    pub fn remove(path: &Path) {
        sweep(path);
        let _ = fs::remove_file(path);
    }

    /// As it is in a file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let (trace_phases, mut tensors) = traces::encode(&self.traces);
        tensors.extend(self.state.iter().map(|(name, tensor)| (format!("{STATE}{name}"), tensor.clone())));
        let description = Description {
            key: self.key.clone(),
            origin: self.origin.clone(),
            iteration: self.iteration,
            timings: self.timings.clone(),
            trace_phases,
        };
        let description = serde_json::to_string(&description).map_err(|error| error.to_string())?;
        encode(&KIND, description, &tensors)
    }

    /// From what another process has read; what is wrong with it otherwise.
    pub fn received(bytes: &[u8]) -> Result<Self, String> {
        Self::from_bytes(bytes).map_err(|error| error.detail(&KIND))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, ContainerError> {
        let (description, tensors) = decode(&KIND, bytes)?;
        let Description { key, origin, iteration, timings, trace_phases } =
            serde_json::from_str(&description).map_err(|error| ContainerError::Damaged(error.to_string()))?;
        let traces = traces::decode(&trace_phases, &tensors)
            .ok_or_else(|| ContainerError::Damaged("its traces are incomplete".to_owned()))?;
        let own = |(name, tensor): (String, _)| name.strip_prefix(STATE).map(|name| (name.to_owned(), tensor));
        let state = tensors.into_iter().filter_map(own).collect();
        Ok(Self { key, origin, iteration, timings, traces, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Tensor;
    use ndarray::{Array2, array};
    use std::error::Error;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    fn row(step: i32, bound: Option<f64>, length: Option<f64>) -> TraceRow {
        TraceRow {
            run_id: String::new(),
            stage: String::new(),
            case: String::new(),
            fold: 0,
            particle: 3 - step,
            iteration: i32::MAX,
            phase: if step % 2 == 0 { "e_step" } else { "hyper.start" }.to_owned(),
            step,
            log_likelihood: -1.0 / 3.0,
            bound,
            acceptance: Some(0.0),
            step_size: None,
            variance: 5e-324,
            length,
            noise: f64::MAX,
            jitter: -0.0,
            inducing: 50,
        }
    }

    fn checkpoint() -> CheckpointFile {
        let timing = |phase: &str, wall_s| PhaseTiming {
            phase: phase.to_owned(),
            started_at: Timestamp::from_micros(1_794_795_930_123_456),
            wall_s,
            cpu_s: 1.0 / 3.0,
            peak_rss_bytes: 1 << 40,
        };
        CheckpointFile {
            key: KEY.to_owned(),
            origin: serde_json::json!(["20261116T022530123456Z-3f9a1c", ["a", "b"]]),
            iteration: 3,
            timings: vec![timing("offline", 0.1 + 0.2), timing("offline.e_step", 1e-300)],
            traces: vec![row(0, None, None), row(1, Some(-2.5), Some(0.0)), row(2, Some(0.0), None)],
            state: Tensors::from([
                ("white".to_owned(), Tensor::from(array![[f64::NAN, -0.0], [f64::INFINITY, 5e-324]])),
                ("rows".to_owned(), Tensor::from(array![i64::MIN, 7])),
                ("empty".to_owned(), Tensor::from(Array2::<f64>::zeros((0, 3)))),
            ]),
        }
    }

    #[test]
    fn comes_back_to_the_bit() -> Result<(), Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let path = CheckpointFile::path(&ResultsDir::new(directory.path()), KEY);
        assert_eq!(CheckpointFile::load(&path, KEY)?, None);
        let mut written = checkpoint();
        written.save(&path)?;
        assert_eq!(CheckpointFile::load(&path, KEY)?.as_ref(), Some(&written));
        written.iteration = 4;
        written.traces.clear();
        written.save(&path)?;
        assert_eq!(CheckpointFile::load(&path, KEY)?, Some(written), "the newest one replaces the others");
        CheckpointFile::remove(&path);
        assert_eq!(CheckpointFile::load(&path, KEY)?, None);
        Ok(())
    }

    #[test]
    fn damage_is_noticed() -> Result<(), Box<dyn Error>> {
        let whole = checkpoint().to_bytes()?;
        for end in 0..whole.len() {
            assert!(CheckpointFile::from_bytes(&whole[..end]).is_err(), "cut at {end}");
        }
        for position in 0..whole.len() {
            let mut changed = whole.clone();
            changed[position] ^= 1;
            assert!(CheckpointFile::from_bytes(&changed).is_err(), "byte {position}");
        }
        Ok(())
    }

    #[test]
    fn says_what_is_wrong() -> Result<(), Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("checkpoint.safetensors");
        let message = |bytes: &[u8], key: &str| {
            let _ = fs::write(&path, bytes);
            CheckpointFile::load(&path, key).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let whole = checkpoint().to_bytes()?;
        let cut = message(&whole[..whole.len() - 1], KEY);
        assert!(cut.contains("a damaged checkpoint file"), "{cut}");
        assert!(cut.contains("training starts from the beginning"), "{cut}");
        assert!(message(&whole, "other").contains("a checkpoint of other work"));
        assert!(message(b"text", KEY).contains("not a checkpoint of stride-pipe"));
        let model =
            encode(&FileKind { version_key: "stride.format_version", ..KIND }, "{}".to_owned(), &Tensors::new())?;
        assert!(message(&model, KEY).contains("not a checkpoint of stride-pipe"));
        let newer = encode(&FileKind { version: 2, ..KIND }, "{}".to_owned(), &Tensors::new())?;
        assert!(message(&newer, KEY).contains("format version 2, but this stride-pipe reads 1"));
        let without_traces = encode(
            &KIND,
            format!(r#"{{"key":"{KEY}","origin":null,"iteration":1,"timings":[],"trace_phases":[]}}"#),
            &Tensors::new(),
        )?;
        assert!(message(&without_traces, KEY).contains("its traces are incomplete"));
        Ok(())
    }
}
