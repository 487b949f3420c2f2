//! Objects in object storage: one, all below a name, or those that match a pattern.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::local::{PatternStep, has_pattern, is_left_out_name, is_parquet_name, steps};
use super::source::{Contents, InputSource};
use crate::store::StoreError;
use crate::store::object::{Address, Copies, RangeReader, exists, head, is_address, list, tag_of};

/// Object storage.
pub(super) struct ObjectFiles;

impl InputSource for ObjectFiles {
    fn has(&self, path: &Path) -> bool {
        is_address(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let address = Address::parse(path)?;
        let is_pattern = has_pattern(OsStr::new(&address.key));
        let is_named = !is_pattern && !address.key.is_empty() && !address.key.ends_with('/');
        if is_named && exists(path)? {
            return Ok(vec![path.to_owned()]);
        }
        let plain = |part: &&str| !has_pattern(OsStr::new(part));
        let parts: Vec<&str> = address.key.split('/').filter(|part| !part.is_empty()).collect();
        let literal = parts.iter().copied().take_while(plain).collect::<Vec<_>>().join("/");
        let below = address.with_key(&literal);
        let steps = steps(Path::new(&parts.join("/")))?;
        let fits = |found: &Path| {
            let key = Address::parse(found).map(|found| found.key).unwrap_or_default();
            let names: Vec<&str> = key.split('/').collect();
            matches(&steps, &names)
        };
        let found = match list(&below) {
            // There is no listing of a web server to look into: the file is not there.
            Err(StoreError::Invalid { .. }) if is_named => Vec::new(),
            found => found?,
        };
        let files: Vec<PathBuf> = found.into_iter().map(|(path, _)| path).filter(|path| fits(path)).collect();
        if files.is_empty() { Err(nothing_found(path, is_pattern, is_named)) } else { Ok(files) }
    }

    fn open(&self, path: &Path) -> Result<Contents, StoreError> {
        let known = head(path)?;
        match Copies::of_user().find(path, &known) {
            Some(copy) => Ok(Contents::new(copy)),
            None => RangeReader::open(path, known).map(Contents::new),
        }
    }

    fn identity(&self, path: &Path) -> Result<String, StoreError> {
        let found = head(path)?;
        Ok(format!("{} {}", found.size, tag_of(&found)))
    }

    fn sha256(&self, path: &Path, seen: &mut dyn FnMut(u64)) -> Result<String, StoreError> {
        let known = head(path)?;
        let hash = Copies::of_user().sha256(path, &known)?;
        seen(known.size);
        Ok(hash)
    }
}

fn nothing_found(path: &Path, is_pattern: bool, is_named: bool) -> StoreError {
    if is_pattern {
        let hint = "check the pattern: `*` stays between two slashes, `**` crosses them";
        return StoreError::missing(path, "no object matches this pattern", hint);
    }
    let what = if is_named { "there is no such object" } else { "no Parquet file below this name" };
    let hint = "check the address (below a name, *.parquet files are read whose names do not begin with `.` or `_`)";
    StoreError::missing(path, what, hint)
}

/// Whether the names between slashes are those of a file that a pattern stands for: it matches, or what it matches is above
/// the file.
fn matches(steps: &[PatternStep], names: &[&str]) -> bool {
    let Some((step, later)) = steps.split_first() else { return names.is_empty() || is_below(names) };
    let Some((name, below)) = names.split_first() else { return false };
    let is_directory = !below.is_empty();
    match step {
        PatternStep::Literal(literal) => literal.as_os_str() == OsStr::new(name) && matches(later, below),
        PatternStep::Name(glob, hidden) => {
            glob.is_match(name) && (*hidden || !is_left_out_name(name, is_directory)) && matches(later, below)
        }
        PatternStep::Below if later.is_empty() => is_below(names),
        PatternStep::Below => {
            matches(later, names) || (is_directory && !is_left_out_name(name, true) && matches(steps, below))
        }
    }
}

/// Whether a file is one that a directory above it stands for.
fn is_below(names: &[&str]) -> bool {
    let Some((file, directories)) = names.split_last() else { return false };
    directories.iter().all(|name| !is_left_out_name(name, true))
        && !is_left_out_name(file, false)
        && is_parquet_name(Path::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::input::local::LocalFiles;

    /// The same names and patterns mean the same files, on disk and in a bucket.
    #[test]
    fn patterns_mean_what_they_mean_on_disk() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let files = [
            "a/x.parquet",
            "a/y.PQ",
            "a/notes.txt",
            "a/_temporary/z.parquet",
            "a/.hidden.parquet",
            "a/_meta.parquet",
            "a/day=1/x.parquet",
            "a/_day=2/x.parquet",
            "a/b/c/deep.parquet",
            "b/x.parquet",
            "top.parquet",
        ];
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
            std::fs::write(path, "x")?;
        }
        for pattern in [
            "a/*",
            "a/*.parquet",
            "*/x.parquet",
            "**/x.parquet",
            "**",
            "a/**",
            "a/**/deep.parquet",
            "a/day=*/",
            "[ab]/x*",
            "a/_*",
            "a/.*",
            "?op.parquet",
            "a/b/*",
            "*",
            "a/**/c",
        ] {
            let found = LocalFiles.list(&dir.path().join(pattern)).unwrap_or_default();
            let on_disk: Vec<String> = found
                .iter()
                .filter_map(|path| Some(path.strip_prefix(dir.path()).ok()?.display().to_string()))
                .collect();
            let steps = steps(Path::new(pattern))?;
            let fits = |file: &&&str| matches(&steps, &file.split('/').collect::<Vec<_>>());
            let mut in_bucket: Vec<String> = files.iter().filter(fits).map(|file| (*file).to_owned()).collect();
            in_bucket.sort_by(|left, right| Path::new(left).cmp(Path::new(right)));
            assert_eq!(on_disk, in_bucket, "{pattern}");
        }
        Ok(())
    }
}
