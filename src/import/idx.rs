//! IDX, the format of the MNIST family: a type, a shape, then the values.
//!
//! Two zero bytes, a byte for the type, one for the number of dimensions, each dimension as a big-endian `u32`, and
//! the values, big-endian, last index fastest.

use std::path::Path;

use super::array::{Dense, Element};
use super::{COPY_AGAIN, ImportOptions, Piece, Refusal};
use crate::store::StoreError;

/// Columns of images and of labels, unless other names are given.
const PIXELS: &str = "p";
const LABEL: &str = "label";

/// Reads an IDX file.
pub(super) fn read(path: &Path, bytes: &[u8], options: &ImportOptions) -> Result<Piece, StoreError> {
    let array = parse(bytes).map_err(|refusal| refusal.at(path))?;
    let usual = if array.shape.len() == 1 { LABEL } else { PIXELS };
    let given = options.name_by_file(path);
    let columns = array.columns(given.map_or(usual, |(_, new)| new)).map_err(|refusal| refusal.at(path))?;
    let origin = path.display().to_string();
    Ok(Piece::of_array(path, origin, array.rows(), columns).named(given))
}

fn parse(bytes: &[u8]) -> Result<Dense<'_>, Refusal> {
    let hint = "check the file, or say its format with `--format`";
    let Some(([0, 0, kind, dimensions], rest)) = bytes.split_first_chunk::<4>() else {
        return Err(Refusal::new("not an IDX file: it does not begin with two zero bytes, a type and a shape", hint));
    };
    let element = match kind {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        other => return Err(Refusal::new(format!("not an IDX file: it has no type {other:#04x}"), hint)),
    };
    let header = 4 * usize::from(*dimensions);
    let Some((lengths, values)) = rest.split_at_checked(header) else {
        return Err(Refusal::new(format!("it ends within its header, which has {dimensions} dimensions"), COPY_AGAIN));
    };
    let shape = lengths.as_chunks::<4>().0.iter().map(|length| u32::from_be_bytes(*length) as usize).collect();
    Ok(Dense { element, big_endian: true, fortran: false, shape, bytes: values })
}
