//! The bytes of an input, unpacked if it is compressed, and what format they are.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::{COPY_AGAIN, npy};
use crate::store::StoreError;

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    Csv,
    /// `NumPy` arrays: one (`.npy`), or several in an archive (`.npz`).
    Numpy,
    /// The format of the MNIST family.
    Idx,
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Where the machine does not say how much memory it has.
const USUAL_LIMIT: u64 = 8 << 30;

/// How many bytes an input may unpack to: half of the machine's memory. A few kilobytes can unpack to terabytes.
pub(super) fn unpack_limit() -> u64 {
    let system = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the width of totalram differs between platforms")]
    let memory = u64::from(system.totalram).saturating_mul(u64::from(system.mem_unit));
    if memory == 0 { USUAL_LIMIT } else { memory / 2 }
}

/// Reads a file, unpacked if it is gzip whatever its name.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    let fail = |source| match StoreError::read(path, source) {
        StoreError::Missing { path, detail, .. } => StoreError::Missing { path, detail, hint: "check the path".into() },
        other => other,
    };
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if metadata.is_dir() {
        return Err(StoreError::invalid(path, "a directory, not a file", "name the files in it"));
    }
    let limit = unpack_limit();
    if metadata.len() > limit {
        return Err(too_large(path));
    }
    // The limit again, as a device or a pipe has no length.
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(fail)?.take(limit + 1);
    file.read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(path));
    }
    if bytes.is_empty() {
        return Err(StoreError::invalid(path, "the file is empty (0 bytes)", COPY_AGAIN));
    }
    if bytes.starts_with(&GZIP_MAGIC) { gunzip(path, &bytes) } else { Ok(bytes) }
}

fn gunzip(path: &Path, packed: &[u8]) -> Result<Vec<u8>, StoreError> {
    let limit = unpack_limit();
    let mut bytes = Vec::new();
    let mut reader = MultiGzDecoder::new(packed).take(limit + 1);
    reader
        .read_to_end(&mut bytes)
        .map_err(|error| StoreError::invalid(path, format!("not readable as gzip: {error}"), COPY_AGAIN))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(path));
    }
    if bytes.is_empty() {
        return Err(StoreError::invalid(path, "nothing is in this gzip file", COPY_AGAIN));
    }
    Ok(bytes)
}

fn too_large(path: &Path) -> StoreError {
    let limit = unpack_limit() / 1_000_000;
    let detail = format!("larger than {limit} MB, half of this machine's memory");
    StoreError::invalid(path, detail, "import it in parts, or on a larger machine")
}

/// The format by the file's name, or else by how it begins.
pub(super) fn recognise(path: &Path, bytes: &[u8]) -> Result<FileFormat, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends(&[".csv", ".tsv", ".txt"]) {
        return Ok(FileFormat::Csv);
    }
    if ends(&[".npz", ".npy"]) || bytes.starts_with(npy::MAGIC) || bytes.starts_with(b"PK\x03\x04") {
        return Ok(FileFormat::Numpy);
    }
    if ends(&["-ubyte", ".idx"]) || bytes.starts_with(&[0, 0]) {
        return Ok(FileFormat::Idx);
    }
    if bytes.starts_with(b"PAR1") {
        return Err(StoreError::invalid(path, "this is a Parquet file already", "use it as it is"));
    }
    let hint = "say which it is: `--format csv`, `--format npz` or `--format idx`";
    Err(StoreError::invalid(path, "neither its name nor its beginning says what format it is", hint))
}
