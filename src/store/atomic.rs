//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use super::StoreError;
use super::object::{Upload, home, is_address};

/// A file being written under a temporary name; [`AtomicFile::commit`] renames it over the final one.
///
/// Dropped without a commit, the temporary file is removed and what stood under the final name stays.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    /// `None` once committed.
    writer: Option<BufWriter<File>>,
    hash: Sha256,
    bytes: u64,
    /// For an object, which the file is sent to instead of being renamed.
    upload: Option<Upload>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    pub bytes: u64,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

impl AtomicFile {
    /// Starts a file that will be `target`; missing directories are made.
    pub fn create(target: &Path) -> Result<Self, StoreError> {
        if is_address(target) {
            let upload = Upload::begin(target)?;
            // Sent in the end: while it is made, it is a file of this machine.
            let staged = home().join("staging").join(target.file_name().unwrap_or_default());
            sweep(&staged);
            let mut file = Self::create(&staged)?;
            (file.target, file.upload) = (target.to_owned(), Some(upload));
            return Ok(file);
        }
        let directory = parent(target);
        fs::create_dir_all(directory).map_err(|source| StoreError::write(directory, source))?;
        check_replaceable(target)?;
        let (temporary, file) =
            create_held(|| temporary_name(target)).map_err(|source| StoreError::write(target, source))?;
        let writer = Some(BufWriter::with_capacity(1 << 16, file));
        Ok(Self { target: target.to_owned(), temporary, writer, hash: Sha256::new(), bytes: 0, upload: None })
    }

    /// The name while writing: hidden, in the same directory, and not ending in `.parquet`.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Makes the contents durable, then renames them to the final name.
    pub fn commit(mut self) -> Result<Written, StoreError> {
        let sha256 = hex(&std::mem::take(&mut self.hash).finalize());
        match self.upload.take() {
            None => self.publish().map_err(|source| StoreError::write(&self.target, source))?,
            Some(upload) => {
                self.flush().map_err(|source| StoreError::write(&self.target, source))?;
                let mut file =
                    File::open(&self.temporary).map_err(|source| StoreError::read(&self.temporary, source))?;
                upload.finish(&mut file, &sha256)?;
            }
        }
        Ok(Written { path: self.target.clone(), bytes: self.bytes, sha256 })
    }

    fn publish(&mut self) -> io::Result<()> {
        let Some(writer) = self.writer.as_mut() else { return Ok(()) };
        writer.flush()?;
        writer.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.writer = None;
        // Without this a crash of the machine may forget the new name.
        File::open(parent(&self.target))?.sync_all()
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Some(writer) = self.writer.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let written = writer.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // The buffered rest is of no use any more: close without writing it.
            drop(writer.into_parts());
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Refuses what no file may take the place of.
pub fn check_replaceable(target: &Path) -> Result<(), StoreError> {
    if is_address(target) {
        return Ok(());
    }
    if target.is_dir() || target.file_name().is_none() {
        return Err(StoreError::write(target, io::ErrorKind::IsADirectory.into()));
    }
    // Whoever made it reads from it, or has it for another reason; the new file would only take its name.
    if fs::metadata(target).is_ok_and(|found| !found.is_file()) {
        let what = "it is a pipe, a socket or a device";
        return Err(StoreError::write(target, io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    Ok(())
}

/// Writes `bytes` to `path` in one step; missing directories are made.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<Written, StoreError> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(|source| StoreError::write(path, source))?;
    file.commit()
}

/// Copies a file in one step; missing directories are made.
pub fn copy_atomic(source: &Path, target: &Path) -> Result<Written, StoreError> {
    let mut input = File::open(source).map_err(|error| StoreError::read(source, error))?;
    let mut file = AtomicFile::create(target)?;
    io::copy(&mut input, &mut file).map_err(|error| StoreError::write(target, error))?;
    file.commit()
}

/// Gives a finished file a second name, without a second copy where the file system can; the file must never change.
pub fn link_or_copy(source: &Path, target: &Path) -> Result<(), StoreError> {
    let directory = parent(target);
    fs::create_dir_all(directory).map_err(|error| StoreError::write(directory, error))?;
    if fs::hard_link(source, target).is_ok() {
        return Ok(());
    }
    sweep(target);
    copy_atomic(source, target).map(drop)
}

/// Gives a file the contents of another in one step, without a second copy where the file system can; neither may ever be
/// changed in place.
pub fn link_atomic(source: &Path, target: &Path) -> Result<(), StoreError> {
    let directory = parent(target);
    fs::create_dir_all(directory).map_err(|error| StoreError::write(directory, error))?;
    check_replaceable(target)?;
    let temporary = temporary_name(target);
    if fs::hard_link(source, &temporary).is_err() {
        return copy_atomic(source, target).map(drop);
    }
    let renamed = fs::rename(&temporary, target).and_then(|()| File::open(directory)?.sync_all());
    // Two names of one file stay two names when one is renamed to the other.
    let _ = fs::remove_file(&temporary);
    renamed.map_err(|error| StoreError::write(target, error))
}

/// Removes what writers of `target` that were killed left beside it. Whoever calls this holds the target's lock.
pub fn sweep(target: &Path) {
    let Some(name) = target.file_name().map(|name| name.to_string_lossy().into_owned()) else { return };
    for entry in fs::read_dir(parent(target)).into_iter().flatten().flatten() {
        let found = entry.file_name().to_string_lossy().into_owned();
        let rest = found.strip_prefix(&format!(".{name}.")).and_then(|rest| rest.strip_suffix(".tmp"));
        let Some(mark) = rest else { continue };
        if mark.split('-').next().is_some_and(|process| process.bytes().all(|byte| byte.is_ascii_digit()))
            && let Some(_held) = abandoned(&entry.path(), mark)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A new file under one of these names, locked as long as its writer lives.
pub(super) fn create_held(name: impl Fn() -> PathBuf) -> io::Result<(PathBuf, File)> {
    loop {
        let path = name();
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        // Where files cannot be locked, who sweeps asks for the process.
        let _ = file.lock();
        // Somebody may have swept it before it was locked.
        if file.metadata()?.nlink() > 0 {
            return Ok((path, file));
        }
    }
}

/// The lock of a file from [`create_held`] whose writer is gone, to be held while it is removed.
///
/// The number of a process says little: in containers every job is process 1, and numbers are used again. It is asked for
/// where files cannot be locked, and on the host that its mark names only.
pub(super) fn abandoned(path: &Path, mark: &str) -> Option<File> {
    let file = OpenOptions::new().write(true).open(path).ok()?;
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => {
            let mut parts = mark.split('-');
            let (process, writer) = (parts.next()?, parts.nth(1)?);
            (writer == host_mark() && !Path::new("/proc").join(process).exists()).then_some(file)
        }
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// The directory of a file; `.` for a bare name.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

/// `.<name>.<pid>-<nanoseconds>-<host>-<counter>.tmp`
pub(super) fn temporary_name(target: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().unwrap_or_default();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(".");
    // A final name near the limit of the file system leaves no room for the suffix.
    if name.len() < 180 {
        temporary.push(name);
    }
    temporary.push(format!(".{}-{count}.tmp", process_mark()));
    target.with_file_name(temporary)
}

/// `<pid>-<nanoseconds>-<host>`: tells processes apart, also those on other machines that share the disk.
pub(super) fn process_mark() -> String {
    let nanoseconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.subsec_nanos());
    format!("{}-{nanoseconds:08x}-{}", std::process::id(), host_mark())
}

/// The name of this machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The same as a part of a file name that has others.
fn host_mark() -> String {
    host().chars().filter(char::is_ascii_alphanumeric).take(24).collect()
}
