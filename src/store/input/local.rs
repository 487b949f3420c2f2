//! Files of this machine: a file, a directory with all below it, or a pattern.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::source::{Contents, InputSource};
use crate::store::StoreError;
use crate::store::error::CHECK_PATH;

/// The file system.
pub(super) struct LocalFiles;

impl InputSource for LocalFiles {
    fn has(&self, _: &Path) -> bool {
        true
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => collect_directory(path, &mut found)?,
            Ok(_) => found.push(path.to_owned()),
            Err(_) if has_pattern(path.as_os_str()) => collect_pattern(path, &mut found)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(not_there(path)),
            Err(error) => return Err(StoreError::read(path, error)),
        }
        let files = once_each(found)?;
        if files.is_empty() { Err(nothing_found(path)) } else { Ok(files) }
    }

    fn open(&self, path: &Path) -> Result<Contents, StoreError> {
        check_regular(path)?;
        File::open(path).map(Contents::new).map_err(|source| StoreError::read(path, source))
    }

    fn identity(&self, path: &Path) -> Result<String, StoreError> {
        let found = fs::metadata(path).map_err(|source| StoreError::read(path, source))?;
        let (device, inode, size) = (found.dev(), found.ino(), found.size());
        Ok(format!("{device} {inode} {size} {} {}", found.mtime(), found.mtime_nsec()))
    }
}

fn not_there(path: &Path) -> StoreError {
    let nearest = path.ancestors().skip(1).find(|ancestor| !ancestor.as_os_str().is_empty() && ancestor.exists());
    let hint = match nearest {
        Some(nearest) => format!("check the path (the nearest directory that exists is {})", nearest.display()),
        None => CHECK_PATH.to_owned(),
    };
    StoreError::missing(path, "does not exist", hint)
}

fn nothing_found(path: &Path) -> StoreError {
    if path.is_dir() {
        let hint = "put *.parquet files there (a time without rows is a file without rows), or check the path (names \
                    that begin with `.` or `_` are left out)";
        return StoreError::missing(path, "no Parquet file in this directory", hint);
    }
    let hint = "check the pattern: `*` stays within one directory, `**` crosses directories";
    StoreError::missing(path, "no file matches this pattern", hint)
}

/// Sorted, and each real file once: under its own name rather than a link's.
fn once_each(found: Vec<PathBuf>) -> Result<Vec<PathBuf>, StoreError> {
    let mut by_file: BTreeMap<PathBuf, (bool, PathBuf)> = BTreeMap::new();
    for path in found {
        let real = fs::canonicalize(&path).map_err(|source| StoreError::read(&path, source))?;
        check_regular(&path)?;
        let candidate = (path.is_symlink(), path);
        match by_file.get_mut(&real) {
            Some(known) if *known <= candidate => {}
            Some(known) => *known = candidate,
            None => {
                by_file.insert(real, candidate);
            }
        }
    }
    let sorted: BTreeSet<PathBuf> = by_file.into_values().map(|(_, path)| path).collect();
    Ok(sorted.into_iter().collect())
}

/// Refuses pipes, sockets and devices: opening one may wait for a writer, reading one may never end.
fn check_regular(path: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(path).map_err(|source| StoreError::read(path, source))?;
    if metadata.is_file() {
        return Ok(());
    }
    Err(StoreError::invalid(path, "not a regular file", "give a Parquet file, a directory, or a pattern"))
}

/// Every Parquet file below a directory.
fn collect_directory(root: &Path, found: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    for directory in directories(root)? {
        for entry in entries(&directory)? {
            if is_parquet_name(&entry) && !is_left_out(&entry) && !entry.is_dir() {
                found.push(entry);
            }
        }
    }
    Ok(())
}

/// A directory and all below it, each real directory once, so that links in a circle end.
fn directories(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let real = |path: &Path| fs::canonicalize(path).map_err(|source| StoreError::read(path, source));
    let mut seen = BTreeSet::from([real(root)?]);
    let mut all = vec![root.to_owned()];
    let mut next = 0;
    let mut links: Vec<PathBuf> = Vec::new();
    loop {
        while let Some(directory) = all.get(next).cloned() {
            next += 1;
            for entry in entries(&directory)? {
                if is_left_out(&entry) || !entry.is_dir() {
                    continue;
                }
                // Links come last: a directory should be known by its own name where it has one here.
                if entry.is_symlink() {
                    links.push(entry);
                } else if seen.insert(real(&entry)?) {
                    all.push(entry);
                }
            }
        }
        links.sort_unstable_by(|left, right| right.cmp(left));
        match links.pop() {
            Some(link) if seen.insert(real(&link)?) => all.push(link),
            Some(_) => {}
            None => return Ok(all),
        }
    }
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = |source| StoreError::read(directory, source);
    let listing = fs::read_dir(directory).map_err(fail)?;
    let mut paths =
        listing.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(fail)?;
    paths.sort_unstable();
    Ok(paths)
}

fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Few names have both: the file system is asked about those only.
    is_left_out_name(&name, name.contains('=') && path.is_dir())
}

/// Hidden and underscore names are other tools' markers and files being written; `_key=value` is a partition.
pub(super) fn is_left_out_name(name: &str, is_directory: bool) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !(name.contains('=') && is_directory))
}

pub(super) fn is_parquet_name(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["parquet", "parq", "pq"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

pub(super) fn has_pattern(text: &OsStr) -> bool {
    text.as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// One step of a pattern.
pub(super) enum PatternStep {
    Literal(PathBuf),
    /// Matches names within one directory; the flag says that it asks for hidden names.
    Name(Box<GlobMatcher>, bool),
    /// `**`: this directory and all below.
    Below,
}

/// Every file that matches a pattern, and every Parquet file below a directory that does.
fn collect_pattern(pattern: &Path, found: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    let mut reached = vec![PathBuf::new()];
    for step in steps(pattern)? {
        let mut further = Vec::new();
        for base in &reached {
            advance(base, &step, &mut further)?;
        }
        further.sort_unstable();
        further.dedup();
        reached = further;
    }
    for path in reached {
        if path.is_dir() {
            collect_directory(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn advance(base: &Path, step: &PatternStep, further: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    // An empty base is the current directory; joining keeps it out of the resulting names.
    let shown = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    match step {
        PatternStep::Literal(name) => {
            let path = base.join(name);
            if path.exists() {
                further.push(path);
            }
        }
        PatternStep::Below if shown.is_dir() => further.extend(directories(shown)?),
        PatternStep::Name(matcher, hidden) if shown.is_dir() => {
            for entry in entries(shown)? {
                let Some(name) = entry.file_name() else { continue };
                if matcher.is_match(name) && (*hidden || !is_left_out(&entry)) {
                    further.push(base.join(name));
                }
            }
        }
        PatternStep::Below | PatternStep::Name(..) => {}
    }
    Ok(())
}

pub(super) fn steps(pattern: &Path) -> Result<Vec<PatternStep>, StoreError> {
    let mut steps = Vec::new();
    for component in pattern.components() {
        let text = component.as_os_str();
        let step = match (component, text.to_str()) {
            (Component::Normal(_), Some("**")) => PatternStep::Below,
            (Component::Normal(_), Some(name)) if has_pattern(text) => {
                let glob = GlobBuilder::new(name).literal_separator(true).build().map_err(|error| {
                    let detail = format!("not a valid pattern: {}", error.kind());
                    StoreError::invalid(pattern, detail, "check the brackets; `*`, `?`, `[…]` and `**` are understood")
                })?;
                PatternStep::Name(Box::new(glob.compile_matcher()), name.starts_with(['.', '_']))
            }
            _ => PatternStep::Literal(PathBuf::from(text)),
        };
        steps.push(step);
    }
    Ok(steps)
}
