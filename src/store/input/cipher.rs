//! Whether a Parquet file with a readable footer has encrypted columns, which the reader takes for damage.
//!
//! The reader is built without encryption and skips what a footer says of it. Footers are Thrift in its compact form, of which
//! this reads only as much as it takes to find one field.

use parquet::file::reader::Length as _;
use std::io::Read as _;
use std::path::Path;

use super::source::source_of;

/// The field of `FileMetaData` that only encrypted files have: `encryption_algorithm`.
const ALGORITHM: i64 = 8;
/// Deeper than any footer; what is nested more deeply is damage.
const DEEPEST: u32 = 32;
/// The length of the footer and the magic bytes after it.
const TAIL: u64 = 8;

/// Whether the footer of a file says that columns are encrypted; `false` where that cannot be told.
pub(super) fn has_encrypted_columns(path: &Path) -> bool {
    footer(path).is_some_and(|bytes| Compact { rest: &bytes }.has_field(ALGORITHM).unwrap_or(false))
}

fn footer(path: &Path) -> Option<Vec<u8>> {
    let contents = source_of(path).open(path).ok()?;
    let mut tail = [0_u8; TAIL as usize];
    let end = contents.len().checked_sub(TAIL)?;
    contents.reader_at(end).ok()?.read_exact(&mut tail).ok()?;
    let [a, b, c, d, ..] = tail;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let mut bytes = Vec::new();
    contents.reader_at(end.checked_sub(length)?).ok()?.take(length).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// What is left of a structure. Everything returns nothing at its end.
struct Compact<'a> {
    rest: &'a [u8],
}

/// What comes next in a structure.
enum FieldHeader {
    /// A field's number and type.
    Field(i64, u8),
    End,
}

impl Compact<'_> {
    /// Whether the structure that begins here has this field.
    fn has_field(&mut self, wanted: i64) -> Option<bool> {
        let mut id = 0;
        while let FieldHeader::Field(next, kind) = self.field(id)? {
            if next == wanted {
                return Some(true);
            }
            id = next;
            self.skip(kind, 0)?;
        }
        Some(false)
    }

    /// What comes next in a structure.
    fn field(&mut self, before: i64) -> Option<FieldHeader> {
        let byte = self.byte()?;
        let (step, kind) = (i64::from(byte >> 4), byte & 15);
        if kind == 0 {
            return Some(FieldHeader::End);
        }
        let id = if step > 0 { before + step } else { zigzag(self.number()?) };
        Some(FieldHeader::Field(id, kind))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            // Truth values stand in the type of their field.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.number().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.number()?;
                self.bytes(length)
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
                (0..count).try_for_each(|_| self.skip_element(byte & 15, depth))
            }
            11 => {
                let count = self.number()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                (0..count).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)
                })
            }
            12 => {
                let mut id = 0;
                while let FieldHeader::Field(next, kind) = self.field(id)? {
                    id = next;
                    self.skip(kind, depth + 1)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Elements have no header: a truth value among them is a byte.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        if matches!(kind, 1 | 2) { self.bytes(1) } else { self.skip(kind, depth + 1) }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    /// Seven bits per byte, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }
}

const fn zigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}
