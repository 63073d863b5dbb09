//! Whether the database that a connection has open is still the one that bears its name. SQLite does not ask in WAL mode:
//! it goes on writing into a file that was moved, replaced or removed, and nobody would ever find what it stored.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file by its name, and by what it was when it was opened.
#[derive(Debug, Clone)]
pub(super) struct Anchor {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Anchor {
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self { path: path.to_owned(), device: file.dev(), inode: file.ino() })
    }

    /// Errors: another file bears the name, or none.
    pub fn holds(&self) -> io::Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(file) if (file.dev(), file.ino()) == (self.device, self.inode) => Ok(()),
            Ok(_another) => Err(io::Error::other("another file has its name")),
            Err(error) => Err(error),
        }
    }
}
