//! Connections to stores, and the simple requests.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::HttpConnector;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{ClientConfigKey, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use tokio::runtime::{Builder, Runtime};

use super::address::{Address, Scheme};
use super::fault::{Doing, fault, unusable};
use super::settings;
use crate::store::StoreError;

/// What is known of an object for a moment: what follows a listing does not ask for each of its files again. Whatever is
/// read meanwhile is asked for by its `ETag`, so that another object cannot be taken for this one.
const MOMENT: Duration = Duration::from_secs(2);

/// An object, and the store that has it.
pub(super) struct Object {
    pub store: Arc<dyn ObjectStore>,
    pub key: Key,
    pub path: PathBuf,
}

/// Performs a request of any thread.
pub(super) fn wait<T: Send>(request: impl Future<Output = T> + Send) -> Result<T, StoreError> {
    static RUNTIME: LazyLock<std::io::Result<Runtime>> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).thread_name("storage").enable_all().build());
    match &*RUNTIME {
        Ok(runtime) => Ok(runtime.block_on(request)),
        Err(error) => {
            let error = std::io::Error::new(error.kind(), error.to_string());
            Err(StoreError::read(Path::new("object storage"), error))
        }
    }
}

impl Object {
    pub(super) fn at(path: &Path) -> Result<Self, StoreError> {
        let address = Address::parse(path)?;
        Ok(Self { store: connect(&address)?, key: address.object()?, path: path.to_owned() })
    }

    /// What the store says of it now.
    pub(super) fn ask(&self) -> Result<ObjectMeta, StoreError> {
        let started = Instant::now();
        let found = wait(self.store.head(&self.key))?;
        let found = normal(found.map_err(|error| fault(&self.path, &error, Doing::Reading, started))?);
        note(&self.path, &found);
        Ok(found)
    }

    /// Some of its bytes, if it is still the same object.
    pub(super) fn range(&self, known: &ObjectMeta, range: Range<u64>) -> Result<Bytes, StoreError> {
        let started = Instant::now();
        let got = wait(fetch(&self.store, &self.key, known, range.clone()))?;
        let (bytes, same) = got.map_err(|error| {
            forget(&self.path);
            fault(&self.path, &error, Doing::Reading, started)
        })?;
        // Some servers pay no attention to the condition, or to the range.
        if !same || bytes.len() as u64 != range.end - range.start {
            forget(&self.path);
            return Err(super::fault::changed(&self.path));
        }
        Ok(bytes)
    }
}

/// The same with its tag in quotes: some listings have it without.
pub(super) fn normal(mut found: ObjectMeta) -> ObjectMeta {
    found.e_tag = found.e_tag.map(|tag| if tag.contains('"') { tag } else { format!("\"{tag}\"") });
    found
}

/// What tells an object from others that have had its name: the time where there is nothing better.
pub(in crate::store) fn tag_of(found: &ObjectMeta) -> String {
    found.e_tag.clone().or(found.version.clone()).unwrap_or_else(|| found.last_modified.timestamp_millis().to_string())
}

/// Bytes of an object, and whether they are of the one that is known.
pub(super) async fn fetch(
    store: &Arc<dyn ObjectStore>,
    key: &Key,
    known: &ObjectMeta,
    range: Range<u64>,
) -> object_store::Result<(Bytes, bool)> {
    let options = GetOptions {
        if_match: known.e_tag.clone().filter(|tag| !tag.starts_with("W/")),
        range: Some(GetRange::Bounded(range.clone())),
        ..GetOptions::default()
    };
    let got = store.get_opts(key, options).await?;
    let (now, range_now) = (normal(got.meta.clone()), got.range.clone());
    let same = tag_of(&now) == tag_of(known) && now.size == known.size && range_now == range;
    Ok((got.bytes().await?, same))
}

static MOMENTS: LazyLock<Mutex<HashMap<PathBuf, (Instant, ObjectMeta)>>> = LazyLock::new(Mutex::default);

pub(super) fn note(path: &Path, found: &ObjectMeta) {
    let mut known = MOMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(path.to_owned(), (Instant::now(), found.clone()));
}

pub(super) fn forget(path: &Path) {
    MOMENTS.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
}

/// What is known of an object, as of a moment ago at most.
pub(in crate::store) fn head(path: &Path) -> Result<ObjectMeta, StoreError> {
    let known = MOMENTS.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
    match known {
        Some((when, found)) if when.elapsed() < MOMENT => Ok(found),
        _ => Object::at(path)?.ask(),
    }
}

/// What is known of an object now, if it is there.
pub(super) fn look(path: &Path, doing: Doing) -> Result<Option<ObjectMeta>, StoreError> {
    let object = Object::at(path)?;
    let started = Instant::now();
    match wait(object.store.head(&object.key))? {
        Ok(found) => Ok(Some(normal(found))),
        // A bucket that is not there is no place for a new object.
        Err(error) if super::fault::is_absent(&error) => Ok(None),
        Err(error) => Err(fault(path, &error, doing, started)),
    }
}

/// Whether there is such an object.
pub fn exists(path: &Path) -> Result<bool, StoreError> {
    look(path, Doing::Reading).map(|found| found.is_some())
}

/// All bytes of a small object, with what is known of it.
pub(in crate::store) fn get(path: &Path) -> Result<(Vec<u8>, ObjectMeta), StoreError> {
    let object = Object::at(path)?;
    let started = Instant::now();
    let all = async {
        let got = object.store.get(&object.key).await?;
        let known = normal(got.meta.clone());
        Ok::<_, object_store::Error>((got.bytes().await?, known))
    };
    let (bytes, known) = wait(all)?.map_err(|error| fault(path, &error, Doing::Reading, started))?;
    Ok((bytes.to_vec(), known))
}

/// Removes an object; one that is not there is removed.
pub(in crate::store) fn remove(path: &Path) -> Result<(), StoreError> {
    let object = Object::at(path)?;
    forget(path);
    let started = Instant::now();
    match wait(object.store.delete(&object.key))? {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(fault(path, &error, Doing::Writing, started)),
    }
}

/// How many objects are removed together.
const REMOVED_TOGETHER: usize = 16;

/// Removes objects of one bucket.
pub(in crate::store) fn remove_all(paths: &[PathBuf]) -> Result<(), StoreError> {
    let objects = paths.iter().map(|path| Object::at(path)).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let removed = futures_util::stream::iter(&objects).map(|object| async {
        forget(&object.path);
        match object.store.delete(&object.key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(fault(&object.path, &error, Doing::Writing, started)),
        }
    });
    wait(removed.buffer_unordered(REMOVED_TOGETHER).try_collect::<()>())?
}

/// The store of an address; connections are kept.
pub(super) fn connect(address: &Address) -> Result<Arc<dyn ObjectStore>, StoreError> {
    static STORES: LazyLock<Mutex<HashMap<String, Arc<dyn ObjectStore>>>> = LazyLock::new(Mutex::default);
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&address.root) {
        return Ok(Arc::clone(store));
    }
    let store = build(address).map_err(|error| unusable(&address.path(), &error))?;
    stores.insert(address.root.clone(), Arc::clone(&store));
    Ok(store)
}

/// A single answer may take long on a slow line; a connection that is not answered is tried again soon.
const LIMITS: [(ClientConfigKey, &str); 2] =
    [(ClientConfigKey::Timeout, "300 s"), (ClientConfigKey::ConnectTimeout, "5 s")];

fn build(address: &Address) -> object_store::Result<Arc<dyn ObjectStore>> {
    let (root, retries) = (format!("{}/", address.root), settings::retries());
    Ok(match address.scheme {
        Scheme::S3 => Arc::new(s3(address, None::<object_store::client::ReqwestConnector>)?),
        Scheme::Google => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(root).with_retry(retries);
            let limited = LIMITS
                .iter()
                .fold(builder, |builder, (key, value)| builder.with_config(GoogleConfigKey::Client(*key), *value));
            Arc::new(limited.build()?)
        }
        Scheme::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retries);
            let limited = LIMITS
                .iter()
                .fold(builder, |builder, (key, value)| builder.with_config(AzureConfigKey::Client(*key), *value));
            Arc::new(limited.build()?)
        }
        Scheme::Web => {
            let builder = HttpBuilder::new().with_url(root).with_retry(retries);
            let allowed = builder.with_config(ClientConfigKey::AllowHttp, settings::allows_http().to_string());
            let limited = LIMITS.iter().fold(allowed, |builder, (key, value)| builder.with_config(*key, *value));
            Arc::new(limited.build()?)
        }
    })
}

/// A connection to S3, on a way of its own if one is given.
pub(super) fn s3(address: &Address, connector: Option<impl HttpConnector>) -> object_store::Result<AmazonS3> {
    let mut builder = AmazonS3Builder::from_env();
    for (key, value) in super::profile::settings() {
        builder = builder.with_config(key, value);
    }
    builder = builder.with_url(format!("{}/", address.root)).with_retry(settings::retries());
    for (key, value) in LIMITS {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    builder.build()
}
