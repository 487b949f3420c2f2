//! The hash of a file, without holding it in memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::source::source_of;
use crate::store::StoreError;
use crate::store::atomic::hex;
use crate::store::object::is_address;

/// SHA-256 of a file of the store, in hexadecimal.
pub fn sha256_file(path: &Path) -> Result<String, StoreError> {
    if is_address(path) {
        return source_of(path).sha256(path);
    }
    File::open(path).and_then(sha256).map_err(|source| StoreError::read(path, source))
}

/// SHA-256 of everything that can be read, in hexadecimal.
pub(super) fn sha256(mut reader: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 18];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
