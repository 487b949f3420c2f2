//! Several `NumPy` arrays in a ZIP archive, as `numpy.savez` and `savez_compressed` write them.
//!
//! Only what those need of ZIP is here: stored and deflated members, the 64-bit extension, one disk, no encryption.
//! Positions and sizes come from the central directory, as numpy leaves some of them out before the members.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::{COPY_AGAIN, ImportOptions, Piece, Refusal, npy};
use crate::store::StoreError;
use crate::store::import::source::unpack_limit;

/// A member of an archive.
struct Member {
    /// Name without `.npy`.
    name: String,
    encrypted: bool,
    method: u16,
    crc: u32,
    packed: u64,
    unpacked: u64,
    /// Where its local header begins.
    offset: u64,
}

/// Reads the arrays of an archive: all of them, or those asked for.
pub(super) fn read(path: &Path, bytes: &[u8], options: &ImportOptions) -> Result<Vec<Piece>, StoreError> {
    let members = directory(bytes).map_err(|refusal| refusal.at(path))?;
    let mut pieces = Vec::new();
    for member in choose(&members, &options.only).map_err(|refusal| refusal.at(path))? {
        let name = &member.name;
        let inside = |refusal: Refusal| Refusal { detail: format!("array `{name}`: {}", refusal.detail), ..refusal };
        let refuse = |refusal: Refusal| inside(refusal).at(path);
        let contents = unpack(bytes, member).map_err(refuse)?;
        let array = npy::parse(&contents).map_err(refuse)?;
        let given = options.names.iter().find(|(old, _)| old == name);
        let columns = array.columns(given.map_or(name, |(_, new)| new)).map_err(refuse)?;
        let origin = format!("array `{name}` of {}", path.display());
        pieces.push(Piece::of_array(path, origin, array.rows(), columns).named(given));
    }
    Ok(pieces)
}

/// The wanted members in the wanted order.
fn choose<'a>(members: &'a [Member], only: &[String]) -> Result<Vec<&'a Member>, Refusal> {
    let names = || members.iter().map(|member| format!("`{}`", member.name)).collect::<Vec<_>>().join(", ");
    let mut seen = BTreeSet::new();
    if let Some(twice) = members.iter().find(|member| !seen.insert(&member.name)) {
        let hint = "write it again with different names";
        return Err(Refusal::new(format!("the array `{}` is there twice", twice.name), hint));
    }
    if members.is_empty() {
        return Err(Refusal::new("there is no array in this archive", "write it with numpy.savez"));
    }
    if only.is_empty() {
        return Ok(members.iter().collect());
    }
    let find = |name: &String| {
        let found = members.iter().find(|member| member.name == *name);
        found.ok_or_else(|| Refusal::new(format!("there is no array `{name}`"), format!("the arrays are {}", names())))
    };
    only.iter().map(find).collect()
}

fn damaged(detail: &str) -> Refusal {
    Refusal::new(format!("not readable as NPZ: {detail}"), COPY_AGAIN)
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    chunk(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    chunk(bytes, at).map(u64::from_le_bytes)
}

/// The members that the central directory lists.
fn directory(bytes: &[u8]) -> Result<Vec<Member>, Refusal> {
    let Some((count, start)) = directory_start(bytes) else {
        if bytes.starts_with(b"PK\x03\x04") {
            return Err(damaged("its end is missing"));
        }
        return Err(Refusal::new("not an NPZ file: it is no ZIP archive", "write it with numpy.savez, or check it"));
    };
    let mut rest = usize::try_from(start).ok().and_then(|start| bytes.get(start..)).unwrap_or_default();
    let mut members = Vec::new();
    // The count may be a lie: it ends the loop, but reserves nothing.
    for _ in 0..count {
        let (member, length) = entry(rest).ok_or_else(|| damaged("its list of members is cut off or garbled"))?;
        members.extend(member);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(members)
}

/// Number of entries and position of the central directory.
fn directory_start(bytes: &[u8]) -> Option<(u64, u64)> {
    const RECORD: usize = 22;
    const LONGEST_COMMENT: usize = 0xffff;
    let last = bytes.len().checked_sub(RECORD)?;
    let ends_here = |at: &usize| {
        bytes.get(*at..).is_some_and(|rest| rest.starts_with(b"PK\x05\x06"))
            && u16_at(bytes, at + 20).is_some_and(|comment| at + RECORD + usize::from(comment) == bytes.len())
    };
    let at = (last.saturating_sub(LONGEST_COMMENT)..=last).rev().find(ends_here)?;
    let (count, start) = (u16_at(bytes, at + 10)?, u32_at(bytes, at + 16)?);
    if count != u16::MAX && start != u32::MAX {
        return Some((count.into(), start.into()));
    }
    let locator = at.checked_sub(20)?;
    if !bytes.get(locator..)?.starts_with(b"PK\x06\x07") {
        return Some((count.into(), start.into()));
    }
    let large = usize::try_from(u64_at(bytes, locator + 8)?).ok()?;
    bytes.get(large..)?.strip_prefix(b"PK\x06\x06")?;
    let record = bytes.get(large..)?;
    Some((u64_at(record, 32)?, u64_at(record, 48)?))
}

/// An entry of the central directory (none for a directory), and its length.
fn entry(bytes: &[u8]) -> Option<(Option<Member>, usize)> {
    bytes.strip_prefix(b"PK\x01\x02")?;
    let length = |at| u16_at(bytes, at).map(usize::from);
    let (name_length, extra_length, comment_length) = (length(28)?, length(30)?, length(32)?);
    let end = 46 + name_length + extra_length;
    let name = String::from_utf8_lossy(bytes.get(46..46 + name_length)?).into_owned();
    let [unpacked, packed, offset] =
        large_values(bytes.get(46 + name_length..end)?, [u32_at(bytes, 24)?, u32_at(bytes, 20)?, u32_at(bytes, 42)?])?;
    let member = Member {
        name: name.strip_suffix(".npy").unwrap_or(&name).to_owned(),
        encrypted: u16_at(bytes, 8)? & 1 == 1,
        method: u16_at(bytes, 10)?,
        crc: u32_at(bytes, 16)?,
        packed,
        unpacked,
        offset,
    };
    Some(((!name.ends_with('/')).then_some(member), end + comment_length))
}

/// Values that do not fit 32 bits stand in the extra field 1, in order.
fn large_values(mut extra: &[u8], values: [u32; 3]) -> Option<[u64; 3]> {
    let mut large: &[u8] = &[];
    while let (Some(id), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let end = 4 + usize::from(length);
        let contents = extra.get(4..end)?;
        if id == 1 {
            large = contents;
        }
        extra = extra.get(end..)?;
    }
    let mut next = 0;
    let mut found = [0; 3];
    for (target, value) in found.iter_mut().zip(values) {
        *target = u64::from(value);
        if value == u32::MAX {
            *target = u64_at(large, next)?;
            next += 8;
        }
    }
    Some(found)
}

/// The contents of a member, checked against its size and checksum.
fn unpack(bytes: &[u8], member: &Member) -> Result<Vec<u8>, Refusal> {
    if member.encrypted {
        return Err(Refusal::new("it is encrypted", "unpack the archive and write it again with numpy.savez"));
    }
    let packed = packed_bytes(bytes, member).ok_or_else(|| damaged("its contents are cut off"))?;
    if member.unpacked > unpack_limit() {
        let detail = format!("it claims {} bytes, more than half of this machine's memory", member.unpacked);
        return Err(Refusal::new(detail, "if that is right, use a larger machine; otherwise write the file again"));
    }
    let mut contents = Vec::new();
    match member.method {
        0 => contents.extend_from_slice(packed),
        8 => {
            // One byte more than promised is enough to see that the promise is wrong.
            let mut reader = DeflateDecoder::new(packed).take(member.unpacked + 1);
            reader.read_to_end(&mut contents).map_err(|error| damaged(&error.to_string()))?;
        }
        other => {
            let hint = "write it with numpy.savez or numpy.savez_compressed";
            return Err(Refusal::new(format!("its compression, method {other} of ZIP, is not known"), hint));
        }
    }
    let mut crc = Crc::new();
    crc.update(&contents);
    if contents.len() as u64 != member.unpacked || crc.sum() != member.crc {
        return Err(damaged("its contents do not have the size and checksum that are stated"));
    }
    Ok(contents)
}

/// A member's bytes in the archive, which follow a second, local header.
fn packed_bytes<'a>(bytes: &'a [u8], member: &Member) -> Option<&'a [u8]> {
    let local = bytes.get(usize::try_from(member.offset).ok()?..)?;
    local.strip_prefix(b"PK\x03\x04")?;
    let start = 30 + usize::from(u16_at(local, 26)?) + usize::from(u16_at(local, 28)?);
    local.get(start..)?.get(..usize::try_from(member.packed).ok()?)
}
