//! The folder of the other program: only read, in bounds, and never left by a link.

use crate::cli::{Exit, Failure};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Most entries of a folder that are looked at.
const ENTRIES_MAX: usize = 5000;
/// Most bytes of a text.
pub const TEXT_BYTES_MAX: u64 = 1024 * 1024;

/// A folder that is only read.
pub struct SourceFolder {
    dir: Dir,
    pub path: PathBuf,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceEntry {
    pub name: String,
    pub is_folder: bool,
}

impl SourceFolder {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let cannot = |source| {
            let message = format!("`{}` cannot be read", path.display());
            Failure::new(Exit::NoInput, message).because(source)
        };
        Ok(Self {
            dir: Dir::open_ambient_dir(path, ambient_authority()).map_err(cannot)?,
            path: path.canonicalize().map_err(cannot)?,
        })
    }

    /// The entries of a folder by name, without hidden ones; none where there is no such folder.
    pub fn entries(&self, folder: &str) -> Vec<SourceEntry> {
        let opened = match folder {
            "" => self.dir.entries(),
            folder => self.dir.read_dir(folder),
        };
        let Ok(opened) = opened else {
            return Vec::new();
        };
        let entries = opened.take(ENTRIES_MAX).flatten();
        let entries = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let named = entries.filter(|name| !name.starts_with('.'));
        let mut entries: Vec<SourceEntry> = named
            .map(|name| SourceEntry {
                is_folder: self.is_folder(&below(folder, &name)),
                name,
            })
            .collect();
        entries.sort();
        entries
    }

    pub fn is_folder(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|found| found.is_dir())
    }

    pub fn is_file(&self, path: &str) -> bool {
        self.dir.metadata(path).is_ok_and(|found| found.is_file())
    }

    /// Reports whether an entry is a link that leads out of the folder, or nowhere.
    pub fn is_astray(&self, path: &str) -> bool {
        let is_link = |found: cap_std::fs::Metadata| found.is_symlink();
        self.dir.symlink_metadata(path).is_ok_and(is_link) && self.dir.metadata(path).is_err()
    }

    /// A file as text without a byte order mark; `None`: there is none. Errors: what is wrong with it.
    pub fn text(&self, path: &str) -> Result<Option<String>, String> {
        let Some(bytes) = self.bytes(path, TEXT_BYTES_MAX)? else {
            return Ok(None);
        };
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(
                text.strip_prefix('\u{feff}')
                    .map(str::to_owned)
                    .unwrap_or(text),
            )),
            Err(error) => {
                let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
                Err(format!("line {line} is not UTF-8"))
            }
        }
    }

    /// The bytes of a regular file; `None`: there is none. Errors: what is wrong with it.
    pub fn bytes(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
        let Some((file, bytes)) = self.open_file(path)? else {
            return Ok(None);
        };
        if bytes > bytes_max {
            return Err(format!("has {bytes} bytes; at most {bytes_max} are read"));
        }
        let mut content = Vec::new();
        let read = file.take(bytes_max).read_to_end(&mut content);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        Ok(Some(content))
    }

    /// A regular file and its length. A link that leads out of the folder is an error.
    pub fn open_file(&self, path: &str) -> Result<Option<(File, u64)>, String> {
        // Looked at first: opening a pipe would wait for a writer.
        let found = match self.dir.metadata(path) {
            Ok(found) => found,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return match self.is_astray(path) {
                    true => Err("is a link that leads nowhere".to_owned()),
                    false => Ok(None),
                };
            }
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        if !found.is_file() {
            return Err("is not a regular file".to_owned());
        }
        let file = self.dir.open(path);
        let file = file.map_err(|error| format!("cannot be read: {error}"))?;
        Ok(Some((file, found.len())))
    }
}

/// The path of an entry of a folder.
pub fn below(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}
