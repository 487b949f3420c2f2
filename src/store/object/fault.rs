//! What stores and networks say when something goes wrong, in words that a user can act on and without secrets.
//!
//! What a server answers may repeat what was sent, signatures included. So answers are never passed on: only their status
//! and the code that they name are.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use object_store::Error;

use super::address::{Address, Scheme};
use crate::store::StoreError;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Doing {
    Reading,
    Writing,
}

/// The error of a request that began at this time.
pub(super) fn fault(path: &Path, error: &Error, doing: Doing, started: Instant) -> StoreError {
    let said = StoreAnswer::of(error);
    let remote = |detail: String, hint: String| StoreError::Remote {
        path: path.to_owned(),
        detail,
        hint,
        writing: doing == Doing::Writing,
    };
    if said.is("NoSuchBucket") || said.is("ContainerNotFound") {
        let hint = "check the name, the account and the region, or make it first".to_owned();
        return match doing {
            Doing::Reading => StoreError::missing(path, "there is no such bucket", hint),
            Doing::Writing => remote("there is no such bucket".to_owned(), hint),
        };
    }
    match error {
        Error::NotFound { .. } if doing == Doing::Reading => {
            let hint = "check the address; names in object storage have capital and small letters";
            StoreError::missing(path, "there is no such object", hint)
        }
        Error::Precondition { .. } if doing == Doing::Reading => changed(path),
        Error::Precondition { .. } | Error::AlreadyExists { .. } => conflict(path),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            remote(format!("access is refused{}", said.shown()), credentials_hint(path))
        }
        _ if said.is_about_credentials() => {
            let what = if said.status.is_some() { "access is refused" } else { "no valid credentials" };
            remote(format!("{what}{}", said.shown()), credentials_hint(path))
        }
        _ => {
            let (seconds, shown) = (started.elapsed().as_secs_f64(), said.shown());
            let detail = match said.status {
                Some(429 | 503) => format!("the store asks to slow down{shown}, still after {seconds:.1} s"),
                Some(status) if status >= 500 => {
                    format!("the store does not answer well{shown}, tried for {seconds:.1} s")
                }
                Some(_) => format!("the store refuses the request{shown}"),
                None => format!("the store cannot be reached: {}; tried for {seconds:.1} s", said.innermost),
            };
            let hint = if lacks_keys(path) {
                return remote(detail, credentials_hint(path));
            } else if said.status.is_some_and(|status| status < 500 && status != 429) {
                "check the address, the region and the endpoint"
            } else {
                "check the network and the endpoint and run again; STRIDE_PIPE_STORAGE_TIMEOUT=5m tries longer"
            };
            remote(detail, hint.to_owned())
        }
    }
}

/// A store that no connection can be made to: a region, an account or a key file is missing or wrong.
pub(super) fn unusable(path: &Path, error: &Error) -> StoreError {
    let detail = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let detail = format!("cannot be used: {}", one_sentence(&detail));
    StoreError::Remote { path: path.to_owned(), detail, hint: credentials_hint(path), writing: false }
}

/// An object that is not the one that was found before.
pub(super) fn changed(path: &Path) -> StoreError {
    let hint = "wait until its writer is done and run again; give new contents a new name rather than an old one";
    StoreError::invalid(path, "the object changed while it was read", hint)
}

/// An object that somebody else has written meanwhile.
pub(in crate::store) fn conflict(path: &Path) -> StoreError {
    StoreError::Conflict {
        path: path.to_owned(),
        detail: "another job has written it since this one began: nothing is overwritten".to_owned(),
        hint: "run again, one after the other, or write to another name".to_owned(),
    }
}

/// Whether an error says that the object is not there, in a bucket that may well be.
pub(super) fn is_absent(error: &Error) -> bool {
    let said = StoreAnswer::of(error);
    matches!(error, Error::NotFound { .. }) && !said.is("NoSuchBucket") && !said.is("ContainerNotFound")
}

/// Whether nobody has said any keys, so that they were asked for on the network.
fn lacks_keys(path: &Path) -> bool {
    Address::parse(path).is_ok_and(|address| address.scheme == Scheme::S3) && !super::profile::has_keys()
}

fn credentials_hint(path: &Path) -> String {
    let scheme = Address::parse(path).map_or(Scheme::S3, |address| address.scheme);
    let what = match scheme {
        Scheme::S3 => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (or AWS_PROFILE; AWS_ENDPOINT_URL for a store of \
             your own) to credentials that may do this"
        }
        Scheme::Google => "set GOOGLE_APPLICATION_CREDENTIALS to the key file of an account that may do this",
        Scheme::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_KEY) to credentials that \
             may do this"
        }
        Scheme::Web => "the server must give it to everybody: addresses of web servers have no credentials here",
    };
    what.to_owned()
}

/// What is known of an error.
struct StoreAnswer {
    /// Status of the answer, if there was one.
    status: Option<u16>,
    /// The code that the answer names, such as `NoSuchKey`.
    code: Option<String>,
    /// The first cause, as of the operating system.
    innermost: String,
}

impl StoreAnswer {
    fn of(error: &Error) -> Self {
        let text = error.to_string();
        let behind = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
        let status = behind("status code: ").and_then(|rest| rest.get(..3)?.parse().ok());
        let is_word =
            |word: &str| !word.is_empty() && word.len() < 60 && word.bytes().all(|b| b.is_ascii_alphanumeric());
        let code = behind("<Code>").and_then(|rest| rest.split('<').next()).filter(|word| is_word(word));
        let mut innermost: &dyn std::error::Error = error;
        while let Some(next) = innermost.source() {
            innermost = next;
        }
        Self { status, code: code.map(str::to_owned), innermost: one_sentence(&innermost.to_string()) }
    }

    fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    fn is_about_credentials(&self) -> bool {
        const WORDS: [&str; 4] = ["credential", "169.254.169.254", "token", "InvalidAccessKeyId"];
        self.status.is_none() && WORDS.iter().any(|word| self.innermost.contains(word))
            || ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "ExpiredToken", "InvalidToken"]
                .iter()
                .any(|code| self.is(code))
    }

    /// ` (404 NoSuchKey)`, as far as it is known.
    fn shown(&self) -> String {
        let parts: Vec<String> = self.status.iter().map(ToString::to_string).chain(self.code.clone()).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" ")) }
    }
}

/// The beginning of a text, without addresses that may have more in them than may be seen.
fn one_sentence(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !word.contains("://") && !word.contains("<?xml"));
    let short: Vec<&str> = words.take(40).collect();
    short.join(" ")
}

static FAILURES: LazyLock<Mutex<HashMap<PathBuf, StoreError>>> = LazyLock::new(Mutex::default);

/// Keeps an error while a library that only passes texts on reads the object.
pub(super) fn keep_failure(path: &Path, error: StoreError) -> std::io::Error {
    let text = error.to_string();
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), error);
    std::io::Error::other(text)
}

/// The error that a library was given when it read this object.
pub(in crate::store) fn take_failure(path: &Path) -> Option<StoreError> {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner).remove(path)
}
