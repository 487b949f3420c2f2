//! Writes objects so that they appear whole or not at all, and never take the place of what somebody else wrote.
//!
//! When an upload begins, it looks at what is there. In the end it puts the object under the condition that this is still
//! so: nothing (`If-None-Match: *`), or the object with this `ETag` (`If-Match`). The store decides, so that jobs on
//! different machines need no lock.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Instant;

use futures_util::future::try_join_all;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};
use object_store::multipart::MultipartStore;
use object_store::{Error, ObjectMeta, ObjectStore as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use serde::{Deserialize, Serialize};

use super::address::{Address, Scheme};
use super::client::{Object, forget, look, s3, wait};
use super::copies::{Copies, remember};
use super::fault::{Doing, conflict, fault, unusable};
use super::settings::{home, part_size};
use crate::store::StoreError;
use crate::store::atomic::{abandoned, create_held, process_mark};
use crate::store::seal::{Sealing, sealed_line, sealing};

/// How many parts are on their way together.
const TOGETHER: usize = 4;
/// As many parts as a store takes.
const MOST_PARTS: u64 = 9_000;

/// An object that is going to be written.
#[derive(Debug)]
pub(in crate::store) struct Upload {
    path: PathBuf,
    /// What was there when it began.
    before: Option<ObjectMeta>,
}

impl Upload {
    /// Looks at what is there.
    pub(in crate::store) fn begin(path: &Path) -> Result<Self, StoreError> {
        let address = Address::parse(path)?;
        let not = |detail: &str, hint: &str| {
            Err(StoreError::Remote { path: path.to_owned(), detail: detail.into(), hint: hint.into(), writing: true })
        };
        if address.scheme == Scheme::Web {
            return not("a web server can only be read", "write to s3://, gs:// or az://, or to a local directory");
        }
        if address.key.is_empty() || address.key.ends_with('/') {
            return not("no object is named", "end the address in the name of a file");
        }
        if address.scheme == Scheme::S3 {
            abort_abandoned();
        }
        Ok(Self { path: path.to_owned(), before: look(path, Doing::Writing)? })
    }

    fn mode(&self) -> PutMode {
        self.before.as_ref().map_or(PutMode::Create, |before| {
            PutMode::Update(UpdateVersion { e_tag: before.e_tag.clone(), version: before.version.clone() })
        })
    }

    /// Puts the contents of a file, whose hash is known, in the place of what was there.
    pub(in crate::store) fn finish(&self, file: &mut File, sha256: &str) -> Result<(), StoreError> {
        let fail = |source| StoreError::read(&self.path, source);
        file.rewind().map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let address = Address::parse(&self.path)?;
        let started = Instant::now();
        // Parts under a condition are for S3: the others take what is large in one request.
        let put = if address.scheme == Scheme::S3 && size > part_size() {
            self.in_parts(&address, file, size)?
        } else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(fail)?;
            let object = Object::at(&self.path)?;
            wait(object.store.put_opts(&object.key, bytes.into(), PutOptions::from(self.mode())))?.map(drop)
        };
        forget(&self.path);
        match put {
            Ok(()) => {}
            // An answer may have been lost on the way: then the object is ours.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) if self.is_ours(size, sha256) => {}
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => return Err(conflict(&self.path)),
            Err(error) => return Err(fault(&self.path, &error, Doing::Writing, started)),
        }
        if let Ok(Some(now)) = look(&self.path, Doing::Reading) {
            remember(&self.path, &now, sha256);
        }
        Ok(())
    }

    fn is_ours(&self, size: u64, sha256: &str) -> bool {
        let found = look(&self.path, Doing::Reading).ok().flatten().filter(|found| found.size == size);
        found.is_some_and(|found| Copies::of_user().sha256(&self.path, &found).is_ok_and(|hash| hash == sha256))
    }

    /// Sends parts, which nobody sees until the last request puts them together.
    fn in_parts(&self, address: &Address, file: &mut File, size: u64) -> Result<object_store::Result<()>, StoreError> {
        let connector =
            UnderCondition { before: self.before.as_ref().map(|before| before.e_tag.clone().unwrap_or_default()) };
        let store = s3(address, Some(connector)).map_err(|error| unusable(&self.path, &error))?;
        let key = address.object()?;
        let id = match wait(store.create_multipart(&key))? {
            Ok(id) => id,
            Err(error) => return Ok(Err(error)),
        };
        let _journal = Journal::write(&self.path, &id);
        let part = part_size().max(size.div_ceil(MOST_PARTS));
        let mut parts = Vec::new();
        loop {
            let mut group = Vec::new();
            for _ in 0..TOGETHER {
                let mut bytes = Vec::new();
                let count = file.take(part).read_to_end(&mut bytes);
                if count.map_err(|source| StoreError::read(&self.path, source))? > 0 {
                    group.push(PutPayload::from(bytes));
                }
            }
            if group.is_empty() {
                break;
            }
            let send = |(index, payload)| store.put_part(&key, &id, index, payload);
            match wait(try_join_all((parts.len()..).zip(group).map(send)))? {
                Ok(sent) => parts.extend(sent),
                Err(error) => {
                    let _ = wait(store.abort_multipart(&key, &id));
                    return Ok(Err(error));
                }
            }
        }
        let done = wait(store.complete_multipart(&key, &id, parts))?.map(drop);
        if done.is_err() {
            let _ = wait(store.abort_multipart(&key, &id));
        }
        Ok(done)
    }
}

/// Puts a small object where nothing is, or in the place of the one that is known.
pub(in crate::store) fn put_small(path: &Path, bytes: Vec<u8>, before: Option<&ObjectMeta>) -> Result<(), StoreError> {
    let object = Object::at(path)?;
    let mode = Upload { path: path.to_owned(), before: before.cloned() }.mode();
    let started = Instant::now();
    forget(path);
    let put = wait(object.store.put_opts(&object.key, PutPayload::from(bytes), PutOptions::from(mode)))?;
    put.map(drop).map_err(|error| fault(path, &error, Doing::Writing, started))
}

/// Adds the condition to the request that puts parts together, for which the library has no option.
#[derive(Debug)]
struct UnderCondition {
    /// The tag of the object that is replaced, where there is one.
    before: Option<String>,
}

impl HttpConnector for UnderCondition {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(ConditionalService { inner, before: self.before.clone() }))
    }
}

#[derive(Debug)]
struct ConditionalService {
    inner: HttpClient,
    before: Option<String>,
}

impl HttpService for ConditionalService {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        mut request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        let completes = request.method().as_str() == "POST"
            && request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("uploadId=")));
        if completes {
            let (name, value) = match &self.before {
                None => ("if-none-match", "*"),
                Some(tag) => ("if-match", tag.as_str()),
            };
            if let Ok(value) = value.parse() {
                request.headers_mut().insert(name, value);
            }
        }
        Box::pin(self.inner.execute(request))
    }
}

/// An upload in parts that has begun: who is killed cannot abort it, the next job of this user does.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct BegunUpload {
    address: PathBuf,
    id: String,
}

impl BegunUpload {
    fn note(&self) -> serde_json::Result<String> {
        Ok(sealed_line(&serde_json::to_value(self)?))
    }

    /// The upload of a note, if that is as it was written: nobody aborts what he does not know.
    fn load(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        serde_json::from_str(&text).ok().filter(|_| sealing(&text) != Sealing::Broken)
    }
}

/// Its note, which is locked as long as the upload goes on, and removed at its end.
struct Journal {
    path: PathBuf,
    _held: File,
}

impl Journal {
    /// Without a note the upload goes on all the same: the store's own rules clear what is left.
    fn write(address: &Path, id: &str) -> Option<Self> {
        let directory = home().join("uploads");
        fs::create_dir_all(&directory).ok()?;
        let name = || directory.join(format!("{}.json", process_mark()));
        let (path, mut held) = create_held(name).ok()?;
        let begun = BegunUpload { address: address.to_owned(), id: id.to_owned() };
        held.write_all(begun.note().ok()?.as_bytes()).ok()?;
        Some(Self { path, _held: held })
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Aborts the uploads of processes that were killed, so that nobody pays for parts that nobody sees.
fn abort_abandoned() {
    for entry in fs::read_dir(home().join("uploads")).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Some(_held) = name.to_str().and_then(|name| abandoned(&path, name.trim_end_matches(".json"))) else {
            continue;
        };
        let aborted = BegunUpload::load(&path).is_none_or(|begun| {
            let abort = || {
                let address = Address::parse(&begun.address).ok()?;
                let store = s3(&address, None::<ReqwestConnector>).ok()?;
                wait(store.abort_multipart(&address.object().ok()?, &begun.id)).ok()
            };
            // One of another account or another store stays for whoever can.
            matches!(abort(), Some(Ok(()) | Err(Error::NotFound { .. })))
        });
        if aborted {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody's parts are thrown away on the word of a damaged note.
    #[test]
    fn a_note_with_any_bit_flipped_names_no_other_upload() -> Result<(), Box<dyn std::error::Error>> {
        let home = tempfile::tempdir()?;
        let path = home.path().join("note.json");
        let begun = BegunUpload { address: "s3://bucket/out.parquet".into(), id: "a1b2".to_owned() };
        let note = begun.note()?.into_bytes();
        fs::write(&path, &note)?;
        assert_eq!(BegunUpload::load(&path).as_ref(), Some(&begun));
        for bit in 0..8 * note.len() {
            let mut flipped = note.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped)?;
            assert!(BegunUpload::load(&path).is_none_or(|found| found == begun), "bit {bit}");
        }
        Ok(())
    }
}
