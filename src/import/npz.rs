//! Several `NumPy` arrays in a ZIP archive, as `numpy.savez` and `savez_compressed` write them: stored or deflated.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ErrorKind, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive, ZipVerification};

use super::source::unpack_limit;
use super::{COPY_AGAIN, ImportOptions, Piece, Refusal, npy};
use crate::store::StoreError;

const CUT_OFF: &str = "its list of members is cut off or garbled";

/// A member of an archive.
struct ArchiveMember {
    /// Name without `.npy`.
    name: String,
    encrypted: bool,
    method: CompressionMethod,
    place: ZipArchiveEntryWayfinder,
}

/// Reads the arrays of an archive: all of them, or those asked for.
pub(super) fn read(path: &Path, bytes: &[u8], options: &ImportOptions) -> Result<Vec<Piece>, StoreError> {
    let archive = ZipArchive::from_slice(bytes).map_err(|error| no_archive(bytes, error.kind()).at(path))?;
    let members = directory(&archive).map_err(|refusal| refusal.at(path))?;
    let mut pieces = Vec::new();
    for member in choose(&members, &options.only).map_err(|refusal| refusal.at(path))? {
        let name = &member.name;
        let inside = |refusal: Refusal| Refusal { detail: format!("array `{name}`: {}", refusal.detail), ..refusal };
        let refuse = |refusal: Refusal| inside(refusal).at(path);
        let contents = unpack(&archive, member).map_err(refuse)?;
        let array = npy::parse(&contents).map_err(refuse)?;
        let given = options.names.iter().find(|(old, _)| old == name);
        let columns = array.columns(given.map_or(name, |(_, new)| new)).map_err(refuse)?;
        let origin = format!("array `{name}` of {}", path.display());
        pieces.push(Piece::of_array(path, origin, array.rows(), columns).named(given));
    }
    Ok(pieces)
}

/// The wanted members in the wanted order.
fn choose<'a>(members: &'a [ArchiveMember], only: &[String]) -> Result<Vec<&'a ArchiveMember>, Refusal> {
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

fn no_archive(bytes: &[u8], error: &ErrorKind) -> Refusal {
    match error {
        ErrorKind::MissingEndOfCentralDirectory if bytes.starts_with(b"PK\x03\x04") => damaged("its end is missing"),
        ErrorKind::MissingEndOfCentralDirectory => {
            Refusal::new("not an NPZ file: it is no ZIP archive", "write it with numpy.savez, or check it")
        }
        _ => damaged(CUT_OFF),
    }
}

fn damaged(detail: &str) -> Refusal {
    Refusal::new(format!("not readable as NPZ: {detail}"), COPY_AGAIN)
}

/// The members that the central directory lists: positions and sizes stand there, as numpy leaves some of them out before
/// the members themselves.
fn directory(archive: &ZipSliceArchive<&[u8]>) -> Result<Vec<ArchiveMember>, Refusal> {
    let mut members = Vec::new();
    let mut entries = archive.entries();
    // The count may be a lie: it ends the loop, but reserves nothing.
    for _ in 0..archive.entries_hint() {
        let entry = entries.next_entry().ok().flatten();
        let entry = entry.ok_or_else(|| damaged(CUT_OFF))?;
        if entry.is_dir() {
            continue;
        }
        let file = entry.file_path();
        let name = String::from_utf8_lossy(file.as_ref());
        members.push(ArchiveMember {
            name: name.strip_suffix(".npy").unwrap_or(&name).to_owned(),
            encrypted: entry.flags().is_encrypted(),
            method: entry.compression_method(),
            place: entry.wayfinder(),
        });
    }
    Ok(members)
}

/// The contents of a member, checked against its size and checksum.
fn unpack(archive: &ZipSliceArchive<&[u8]>, member: &ArchiveMember) -> Result<Vec<u8>, Refusal> {
    if member.encrypted {
        return Err(Refusal::new("it is encrypted", "unpack the archive and write it again with numpy.savez"));
    }
    let entry = archive.get_entry(member.place).map_err(|_| damaged("its contents are cut off"))?;
    let promised = member.place.uncompressed_size_hint();
    if promised > unpack_limit() {
        let detail = format!("it claims {promised} bytes, more than half of this machine's memory");
        return Err(Refusal::new(detail, "if that is right, use a larger machine; otherwise write the file again"));
    }
    let mut contents = Vec::new();
    match member.method {
        CompressionMethod::STORE => contents.extend_from_slice(entry.data()),
        CompressionMethod::DEFLATE => {
            // One byte more than promised is enough to see that the promise is wrong.
            let mut reader = DeflateDecoder::new(entry.data()).take(promised + 1);
            reader.read_to_end(&mut contents).map_err(|error| damaged(&error.to_string()))?;
        }
        other => {
            let hint = "write it with numpy.savez or numpy.savez_compressed";
            let detail = format!("its compression, method {} of ZIP, is not known", other.as_u16());
            return Err(Refusal::new(detail, hint));
        }
    }
    let mut crc = Crc::new();
    crc.update(&contents);
    let found = ZipVerification { crc: crc.sum(), uncompressed_size: contents.len() as u64 };
    if entry.claim_verifier().valid(found).is_err() {
        return Err(damaged("its contents do not have the size and checksum that are stated"));
    }
    Ok(contents)
}
