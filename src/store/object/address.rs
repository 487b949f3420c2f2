//! Addresses in object storage: scheme, bucket and key.

use std::path::{Path, PathBuf};

use object_store::path::Path as Key;

use crate::store::StoreError;

/// The ways of storage that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    S3,
    Google,
    Azure,
    /// Files of a web server, which can only be read.
    Web,
}

/// How addresses begin, and whose they are.
const SCHEMES: [(&str, Scheme); 10] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Google),
    ("az", Scheme::Azure),
    ("azure", Scheme::Azure),
    ("adl", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("https", Scheme::Web),
    ("http", Scheme::Web),
];

/// An object, or the beginning of the names of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub scheme: Scheme,
    /// `s3://bucket`: what a connection belongs to.
    pub root: String,
    /// The name within the bucket; not encoded.
    pub key: String,
}

/// Whether a path is one in object storage.
pub fn is_address(path: &Path) -> bool {
    path.to_str().and_then(split).is_some()
}

/// The scheme, its name, and what stands behind `://`.
fn split(text: &str) -> Option<(Scheme, &str, &str)> {
    let (name, rest) = text.split_once("://")?;
    SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, scheme)| (*scheme, name, rest))
}

impl Address {
    pub fn parse(path: &Path) -> Result<Self, StoreError> {
        let text = path.to_str().unwrap_or_default();
        let Some((scheme, name, rest)) = split(text) else {
            return Err(StoreError::invalid(path, "not an address in object storage", FORMS));
        };
        refuse_secrets(text).map_err(|(shown, detail, hint)| StoreError::invalid(Path::new(&shown), detail, hint))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            let what = if scheme == Scheme::Web { "no server is named" } else { "no bucket is named" };
            return Err(StoreError::invalid(path, what, FORMS));
        }
        if name.eq_ignore_ascii_case("http") && !super::settings::allows_http() {
            let hint = "use https://; for a server on your own network set STRIDE_PIPE_ALLOW_HTTP=true";
            return Err(StoreError::invalid(path, "http:// sends everything readably over the network", hint));
        }
        let root = format!("{}://{bucket}", name.to_ascii_lowercase());
        Ok(Self { scheme, root, key: key.to_owned() })
    }

    /// The name as the store wants it.
    pub fn object(&self) -> Result<Key, StoreError> {
        // A web address is written as it is sent, names of objects as they are.
        let key = match self.scheme {
            Scheme::Web => Key::from_url_path(&self.key),
            _ => Key::parse(self.key.trim_start_matches('/')),
        };
        key.map_err(|error| {
            let hint = "check the path: no empty parts (`//`), `.` or `..` between its slashes";
            StoreError::invalid(&self.path(), format!("not a name that can be used: {error}"), hint)
        })
    }

    /// The address of an object of the same bucket.
    pub fn with_key(&self, key: &str) -> PathBuf {
        PathBuf::from(format!("{}/{key}", self.root))
    }

    pub fn path(&self) -> PathBuf {
        self.with_key(&self.key)
    }
}

const FORMS: &str = "write s3://bucket/name, gs://bucket/name, az://container/name or https://server/name";

/// Refuses addresses that carry a password or a signature: they would be written down with the path, in manifests, tables
/// and reports. The error is what may be shown of it, what is wrong, and what to do.
pub(crate) fn refuse_secrets(text: &str) -> Result<(), (String, &'static str, &'static str)> {
    let Some((scheme, name, rest)) = split(text) else { return Ok(()) };
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    // abfs://container@account.… names no user.
    let is_user = match (bucket.split_once('@'), scheme) {
        (Some((user, _)), Scheme::Azure) => user.contains(':'),
        (user, _) => user.is_some(),
    };
    let host = bucket.rsplit('@').next().unwrap_or_default();
    if is_user {
        let shown = format!("{name}://{host}/{}", key.split('?').next().unwrap_or_default());
        let hint = "leave them out, and give them in environment variables (see the manual, Object storage)";
        return Err((shown, "an address must not have credentials in it", hint));
    }
    if scheme == Scheme::Web && key.contains(['?', '#']) {
        let shown = format!("{name}://{host}/{}", key.split(['?', '#']).next().unwrap_or_default());
        let hint = "signed addresses are passwords that would be written down with the path: use s3://, gs:// or az:// with \
                    credentials in the environment, or an address without `?` and `#`";
        return Err((shown, "an address must not have a query", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() -> Result<(), StoreError> {
        for (text, root, key) in [
            ("s3://bucket/a/b=1/c.parquet", "s3://bucket", "a/b=1/c.parquet"),
            ("S3://bucket", "s3://bucket", ""),
            ("gs://bucket/x%2Fy", "gs://bucket", "x%2Fy"),
            ("abfs://c@account.dfs.core.windows.net/x", "abfs://c@account.dfs.core.windows.net", "x"),
            ("https://server:8443/a/b.parquet", "https://server:8443", "a/b.parquet"),
        ] {
            assert!(is_address(Path::new(text)), "{text}");
            let address = Address::parse(Path::new(text))?;
            assert_eq!((address.root.as_str(), address.key.as_str()), (root, key));
        }
        for text in ["data/x.parquet", "/s3/x", "s3:/bucket/x", "ftp://server/x", "s3"] {
            assert!(!is_address(Path::new(text)), "{text}");
        }
        Ok(())
    }

    #[test]
    fn secrets_in_addresses_are_refused_and_not_shown() {
        for text in [
            "s3://AKIA:hidden@bucket/x",
            "https://user:hidden@server/x.parquet",
            "https://server/x.parquet?X-Amz-Signature=hidden",
            "abfs://c:hidden@account.dfs.core.windows.net/x",
        ] {
            let said = Address::parse(Path::new(text)).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("must not have") && !said.contains("hidden"), "{said}");
        }
    }
}
