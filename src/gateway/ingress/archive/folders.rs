//! Maildirs and folders of `.eml` files: one file per letter.

use super::{Archive, ArchiveEntry, Format, time_in_header};
use crate::domain::Timestamp;
use crate::gateway::ingress::folder::with_crlf;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Maximum depth of folders that are read.
const DEPTH_MAX: usize = 16;

/// Opens a folder. Its files are listed first: the list is small compared with the letters, and it
/// is sorted by name.
pub(super) fn open(path: &Path, format: Format, letter_bytes_max: usize) -> io::Result<Archive> {
    let mut files = Vec::new();
    if format == Format::Maildir {
        for kind in ["cur", "new"] {
            list(&path.join(kind), 0, &is_maildir_letter, &mut files)?;
        }
        // By the time of delivery, with which their names begin, in `new` and in `cur` alike.
        files.sort_by_cached_key(|(file, _)| file.file_name().map(OsStr::to_owned));
    } else if path.is_dir() {
        list(path, DEPTH_MAX, &is_eml, &mut files)?;
        files.sort();
    } else {
        files.push((path.to_owned(), fs::metadata(path)?.len()));
    }
    let total_bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let letters = files
        .into_iter()
        .map(move |(file, bytes)| read(&file, bytes, format, letter_bytes_max));
    Ok(Archive {
        letters: Box::new(letters),
        total_bytes,
    })
}

/// Lists files; links are not followed, because they may form a cycle.
fn list(
    folder: &Path,
    depth: usize,
    is_letter: &dyn Fn(&OsStr) -> bool,
    files: &mut Vec<(PathBuf, u64)>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() && depth > 0 {
            list(&entry.path(), depth - 1, is_letter, files)?;
        } else if metadata.is_file() && is_letter(&entry.file_name()) {
            files.push((entry.path(), metadata.len()));
        }
    }
    Ok(())
}

/// Reports whether a file is part of the history: letters in the trash (`T`) and drafts (`D`) are
/// not.
fn is_maildir_letter(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let flags = name
        .windows(3)
        .rposition(|piece| piece == b":2,")
        .map_or(&b""[..], |at| &name[at + 3..]);
    !name.starts_with(b".") && !flags.contains(&b'T') && !flags.contains(&b'D')
}

fn is_eml(name: &OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b".")
        && Path::new(name)
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("eml"))
}

fn read(
    file: &Path,
    archived_bytes: u64,
    format: Format,
    letter_bytes_max: usize,
) -> io::Result<ArchiveEntry> {
    let mut bytes = Vec::new();
    let open = File::open(file)?;
    let modified = open.metadata()?.modified().ok();
    open.take(letter_bytes_max as u64 + 1)
        .read_to_end(&mut bytes)?;
    let bytes = (bytes.len() <= letter_bytes_max).then(|| with_crlf(bytes));
    let named = (format == Format::Maildir)
        .then(|| time_in_name(file))
        .flatten();
    let in_header = || bytes.as_deref().and_then(time_in_header);
    let on_disk = || {
        let since = modified?.duration_since(UNIX_EPOCH).ok()?;
        Some(Timestamp::from_millis(
            i64::try_from(since.as_millis()).ok()?,
        ))
    };
    let received_at = named.or_else(in_header).or_else(on_disk);
    Ok(ArchiveEntry {
        place: file.display().to_string(),
        bytes,
        received_at,
        archived_bytes,
    })
}

/// Time in the name of a Maildir file, which begins with the second of delivery.
fn time_in_name(file: &Path) -> Option<Timestamp> {
    let name = file.file_name()?.to_string_lossy();
    let seconds: i64 = name.split('.').next()?.parse().ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?)).filter(|at| at.as_millis() > 0)
}
