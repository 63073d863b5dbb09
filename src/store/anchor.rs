//! Whether the database that a connection has open is still the one that bears its name. SQLite does not ask in WAL mode:
//! it goes on writing into a file that was moved, replaced or removed, and nobody would ever find what it stored.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a file is, whatever it is called: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

/// A file by its name, and by what it was when it was opened.
#[derive(Debug, Clone)]
pub(super) struct Anchor {
    path: PathBuf,
    identity: Identity,
}

impl Identity {
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self(file.dev(), file.ino()))
    }
}

impl Anchor {
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: Identity::of(path)? })
    }

    /// Errors: another file bears the name, or none.
    pub fn holds(&self) -> io::Result<()> {
        match Identity::of(&self.path)? == self.identity {
            true => Ok(()),
            false => Err(io::Error::other("another file has its name")),
        }
    }
}
