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
        return source_of(path).sha256(path, &mut |_| {});
    }
    File::open(path).and_then(|file| sha256(file, &mut |_| {})).map_err(|source| StoreError::read(path, source))
}

/// SHA-256 of everything that can be read, in hexadecimal; every number of bytes that was read is said.
pub(super) fn sha256(mut reader: impl Read, seen: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 18];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => {
                hash.update(&buffer[..count]);
                seen(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
