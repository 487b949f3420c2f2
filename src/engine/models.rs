//! Goes back to an earlier version of a published model, out of the way of those who publish.

use super::error::RunError;
use super::locks::acquire_all;
use crate::pipeline::Redactor;
use crate::stages::job::{Cancel, Listener};
use crate::store::lock::Claims;
use crate::store::model::{self, RolledBack};
use std::path::Path;
use std::time::Duration;

/// Publishes an earlier version again: this one, or the one before. Scoring jobs see one model or the other.
pub fn roll_back(
    directory: &Path,
    to: Option<u64>,
    timeout: Duration,
    cancel: &Cancel,
    listener: &dyn Listener,
) -> Result<RolledBack, RunError> {
    let mut claims = Claims::default();
    claims.add_target(directory, false)?;
    let _locks = acquire_all(&claims, timeout, cancel, listener, &Redactor::default())?;
    Ok(model::roll_back(directory, to)?)
}
