//! Which objects there are below an address.

use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::TryStreamExt as _;
use object_store::ObjectMeta;
use object_store::path::Path as Key;

use super::address::{Address, Scheme};
use super::client::{connect, normal, note, wait};
use super::fault::{Doing, fault};
use crate::store::StoreError;

/// All objects below an address, with their addresses, in the order of their names.
pub(in crate::store) fn list(below: &Path) -> Result<Vec<(PathBuf, ObjectMeta)>, StoreError> {
    let address = Address::parse(below)?;
    if address.scheme == Scheme::Web {
        let hint = "name one file, ending in its own name, such as https://server/rows.parquet";
        return Err(StoreError::invalid(below, "a web server has no directories or patterns", hint));
    }
    let store = connect(&address)?;
    let prefix = Some(address.object()?).filter(|key| *key != Key::ROOT);
    let started = Instant::now();
    let found: Result<Vec<ObjectMeta>, _> = wait(store.list(prefix.as_ref()).try_collect())?;
    let found = found.map_err(|error| fault(below, &error, Doing::Reading, started))?;
    // Names that end in a slash stand for directories in some tools: they have no contents.
    let named = found.into_iter().map(|known| (address.with_key(known.location.as_ref()), normal(known)));
    let mut named: Vec<_> = named.collect();
    named.sort_by(|left, right| left.0.as_os_str().cmp(right.0.as_os_str()));
    // A listing without tags says too little of an object.
    for (path, known) in named.iter().filter(|(_, known)| known.e_tag.is_some()) {
        note(path, known);
    }
    Ok(named)
}

/// The names right below an address that have objects below them.
pub(in crate::store) fn children(below: &Path) -> Result<Vec<String>, StoreError> {
    let address = Address::parse(below)?;
    if address.scheme == Scheme::Web {
        return Ok(Vec::new());
    }
    let (store, prefix) = (connect(&address)?, address.object()?);
    let started = Instant::now();
    let found = wait(store.list_with_delimiter(Some(&prefix)))?;
    let found = found.map_err(|error| fault(below, &error, Doing::Reading, started))?;
    Ok(found.common_prefixes.iter().filter_map(|prefix| prefix.filename().map(str::to_owned)).collect())
}
