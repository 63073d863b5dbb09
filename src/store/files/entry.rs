//! One entry of a folder, by everything that an agent could change about it, and names as text.

use crate::domain::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Stands before two hexadecimal digits in place of a byte that is no UTF-8, and of its own bytes.
const ESCAPE: char = '\u{fffd}';

/// Path below the persona's folder, as [`key_of`] writes it -> entry; a folder comes before its
/// content.
pub type Entries = BTreeMap<String, FileEntry>;

/// An entry of a folder. Links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEntry {
    Folder {
        mode: u32,
    },
    File {
        sha256: String,
        bytes: u64,
        mode: u32,
        /// Number of its names: hard links.
        links: u64,
    },
    /// Target, as [`key_of`] writes it.
    Link(String),
    /// A pipe, a socket, a device; listed, and not copied.
    Other,
}

impl FileEntry {
    /// Returns the digest of a file with one name; a second name could change it at any time.
    pub fn digest(&self) -> Option<&str> {
        match self {
            FileEntry::File {
                sha256, links: 1, ..
            } => Some(sha256),
            _ => None,
        }
    }

    /// Reports whether it is what it was. A file that lost a name elsewhere is.
    pub fn is_as_before(&self, was: &FileEntry) -> bool {
        match (self, was) {
            (FileEntry::File { links: now, .. }, FileEntry::File { links: before, .. })
                if now < before =>
            {
                let mut same = self.clone();
                if let FileEntry::File { links, .. } = &mut same {
                    *links = *before;
                }
                same == *was
            }
            _ => self == was,
        }
    }
}

/// Reads an entry; `None`: there is none. The bytes of a file go to `each`; a file with more than
/// `bytes_max`, and one that may not be read, has an empty digest.
pub fn read_entry(
    path: &Path,
    bytes_max: u64,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Option<FileEntry>> {
    let metadata = match path.symlink_metadata() {
        Err(error) if is_missing(&error) => return Ok(None),
        metadata => metadata?,
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_dir() {
        return Ok(Some(FileEntry::Folder { mode }));
    }
    if metadata.is_symlink() {
        let target = fs::read_link(path)?;
        return Ok(Some(FileEntry::Link(key_of(target.as_os_str()))));
    }
    if !metadata.is_file() {
        return Ok(Some(FileEntry::Other));
    }
    let sha256 = match metadata.len() <= bytes_max {
        true => digest(path, bytes_max, each)?,
        false => String::new(),
    };
    Ok(Some(FileEntry::File {
        sha256,
        bytes: metadata.len(),
        mode,
        links: metadata.nlink(),
    }))
}

fn digest(
    path: &Path,
    bytes_max: u64,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<String> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(String::new()),
        file => file?,
    };
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Ok(String::new());
    }
    each(&bytes)?;
    Ok(sha256_hex(&[&bytes]))
}

/// Reports whether a path does not exist; one below a file does not.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Writes a path as text, without loss: a name that is not UTF-8 must be restored and removed like
/// any other.
pub fn key_of(name: &OsStr) -> String {
    let mut key = String::new();
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                ESCAPE => escape(&mut key, ESCAPE.encode_utf8(&mut [0; 4]).as_bytes()),
                c => key.push(c),
            }
        }
        escape(&mut key, chunk.invalid());
    }
    key
}

fn escape(key: &mut String, bytes: &[u8]) {
    for byte in bytes {
        key.push(ESCAPE);
        key.push_str(&format!("{byte:02x}"));
    }
}

/// Returns the path that [`key_of`] wrote.
pub fn path_of(key: &str) -> PathBuf {
    let mut pieces = key.split(ESCAPE);
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.extend(digits);
        bytes.extend(piece.get(2..).unwrap_or_default().as_bytes());
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_from_its_text() {
        for name in [
            &b"PERSONA.md"[..],
            "für/10 €".as_bytes(),
            b"a\xff\xfeb",
            b"\xc3",
            "\u{fffd}41".as_bytes(),
            b"\xef\xbf",
            b"",
        ] {
            let key = key_of(OsStr::from_bytes(name));
            assert_eq!(path_of(&key).as_os_str().as_bytes(), name, "{key}");
        }
        assert_eq!(key_of(OsStr::new("plain.md")), "plain.md");
    }
}
