//! One `NumPy` array: a magic, a version, a header in Python's notation, then the values.

use std::path::Path;

use super::array::{Dense, Element};
use super::{COPY_AGAIN, ImportOptions, Piece, Refusal};
use crate::store::StoreError;

/// How every `.npy` file begins.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a file that is one array, named after the file.
pub(super) fn read_file(path: &Path, bytes: &[u8], options: &ImportOptions) -> Result<Piece, StoreError> {
    let stem = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix(".gz").unwrap_or(&stem);
    let stem = stem.strip_suffix(".npy").unwrap_or(stem);
    let given = options.name_by_file(path);
    let refuse = |refusal: Refusal| refusal.at(path);
    let array = parse(bytes).map_err(refuse)?;
    let columns = array.columns(given.map_or(stem, |(_, new)| new)).map_err(refuse)?;
    Ok(Piece::of_array(path, path.display().to_string(), array.rows(), columns).named(given))
}

/// An array from its bytes.
pub(super) fn parse(bytes: &[u8]) -> Result<Dense<'_>, Refusal> {
    let foreign = || Refusal::new("not a NumPy array: it does not begin as one", "write it with numpy.save or savez");
    let short = || Refusal::new("it ends within its header", COPY_AGAIN);
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(foreign)?;
    let ([major, _minor], rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk::<2>().map(|(length, rest)| (u32::from(u16::from_le_bytes(*length)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(length, rest)| (u32::from_le_bytes(*length), rest)),
        other => {
            return Err(Refusal::new(format!("version {other} of the NumPy format is not known"), "use 1, 2 or 3"));
        }
    }
    .ok_or_else(short)?;
    let (header, values) = rest.split_at_checked(length as usize).ok_or_else(short)?;
    let header = String::from_utf8_lossy(header);
    let (element, big_endian) = element(text_of(&header, "descr")?)?;
    let fortran = match text_of(&header, "fortran_order")? {
        text if text.starts_with("True") => true,
        text if text.starts_with("False") => false,
        _ => return Err(garbled("fortran_order")),
    };
    let shape = shape(text_of(&header, "shape")?)?;
    Ok(Dense { element, big_endian, fortran, shape, bytes: values })
}

fn garbled(key: &str) -> Refusal {
    Refusal::new(format!("its header does not say `{key}` in a way that can be understood"), COPY_AGAIN)
}

/// What follows a key of the header: `{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }`.
fn text_of<'a>(header: &'a str, key: &str) -> Result<&'a str, Refusal> {
    let after = |quote: char| header.split_once(&format!("{quote}{key}{quote}")).map(|(_, rest)| rest);
    let rest = after('\'').or_else(|| after('"')).and_then(|rest| rest.trim_start().strip_prefix(':'));
    rest.map(str::trim_start).ok_or_else(|| garbled(key))
}

/// `'<f8'`: byte order, kind, width.
fn element(text: &str) -> Result<(Element, bool), Refusal> {
    let mut parts = text.split(['\'', '"']);
    let ("", Some(descr)) = (parts.next().unwrap_or_default(), parts.next()) else {
        let hint = "save its fields as arrays of their own";
        return Err(Refusal::new("it is an array of records, not of numbers", hint));
    };
    let (order, kind) = descr.split_at_checked(1).unwrap_or(("", descr));
    let element = match kind {
        "b1" => Element::Bool,
        "i1" => Element::I8,
        "i2" => Element::I16,
        "i4" => Element::I32,
        "i8" => Element::I64,
        "u1" => Element::U8,
        "u2" => Element::U16,
        "u4" => Element::U32,
        "u8" => Element::U64,
        "f2" => Element::F16,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => {
            let hint = "convert it with astype to integers, floats of at most 64 bits or booleans, or leave it out \
                        with `--only` and the other arrays";
            return Err(Refusal::new(format!("its type `{descr}` is not a number that Parquet has"), hint));
        }
    };
    match order {
        "<" | "|" => Ok((element, false)),
        ">" => Ok((element, true)),
        // `=` is the order of the machine that wrote it, which the file does not tell.
        _ => Err(garbled("descr")),
    }
}

/// `(3, 4)`, `(3,)` or `()`.
fn shape(text: &str) -> Result<Vec<usize>, Refusal> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(|| garbled("shape"))?.0;
    let mut lengths: Vec<&str> = inside.split(',').map(str::trim).collect();
    // A tuple of one has a comma at its end.
    if lengths.last() == Some(&"") {
        lengths.pop();
    }
    lengths.iter().map(|length| length.parse().map_err(|_| garbled("shape"))).collect()
}
