//! The hash of a file, without holding it in memory.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::store::StoreError;
use crate::store::atomic::hex;

/// SHA-256 of a file, in hexadecimal.
pub fn sha256_file(path: &Path) -> Result<String, StoreError> {
    let mut file = File::open(path).map_err(|source| StoreError::read(path, source))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(count) => hash.update(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(StoreError::read(path, source)),
        }
    }
}
