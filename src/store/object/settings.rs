//! What the environment says: where working files go, how long requests are tried, which parts uploads are cut into.

use std::path::PathBuf;
use std::time::Duration;

use object_store::{BackoffConfig, RetryConfig};

/// Requests are tried again for this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Outputs larger than this are sent in parts of this size.
const PART: u64 = 16 << 20;
/// What S3 takes as a part at the least; smaller ones are for the last only.
const SMALLEST_PART: u64 = 5 << 20;
/// What downloaded objects may take on disk.
const COPIES: u64 = 10 << 30;

/// Where everything that can be made again is kept: `$STRIDE_PIPE_CACHE`, or `stride-pipe` in the user's cache directory.
pub fn home() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("STRIDE_PIPE_CACHE").unwrap_or_else(|| {
        let user = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        user.unwrap_or_else(std::env::temp_dir).join("stride-pipe")
    })
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// How long a request is tried again: `STRIDE_PIPE_STORAGE_TIMEOUT`, such as `30s`.
pub(super) fn patience() -> Duration {
    let set = text("STRIDE_PIPE_STORAGE_TIMEOUT").and_then(|text| humantime::parse_duration(&text).ok());
    set.unwrap_or(PATIENCE)
}

/// The size of the parts of an upload: `STRIDE_PIPE_UPLOAD_PART`, in MiB.
pub(super) fn part_size() -> u64 {
    let set = text("STRIDE_PIPE_UPLOAD_PART").and_then(|text| text.parse::<u64>().ok());
    set.map_or(PART, |mebibytes| mebibytes.saturating_mul(1 << 20)).max(SMALLEST_PART)
}

/// How much downloaded objects may take on disk: `STRIDE_PIPE_COPIES`, in MiB.
pub(super) fn room_for_copies() -> u64 {
    let set = text("STRIDE_PIPE_COPIES").and_then(|text| text.parse::<u64>().ok());
    set.map_or(COPIES, |mebibytes| mebibytes.saturating_mul(1 << 20))
}

/// Whether plain `http://` may be used.
pub(super) fn allows_http() -> bool {
    text("STRIDE_PIPE_ALLOW_HTTP")
        .is_some_and(|value| ["1", "true", "yes"].contains(&value.to_ascii_lowercase().as_str()))
}

/// Waits grow from a tenth of a second to some seconds, until patience ends.
pub(super) fn retries() -> RetryConfig {
    let backoff =
        BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(8), base: 2.0 };
    RetryConfig { backoff, max_retries: 100, retry_timeout: patience() }
}
