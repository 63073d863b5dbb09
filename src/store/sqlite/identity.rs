//! Check that the file of an open connection still has its name. SQLite does not check in WAL mode:
//! it continues to write into a file that was moved, replaced or removed, and rows stored there
//! would be lost.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identity of a file independent of its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode(u64, u64);

/// Path of a file, and its identity when it was opened.
#[derive(Debug, Clone)]
pub struct FileIdentity {
    path: PathBuf,
    identity: Inode,
}

impl Inode {
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self(file.dev(), file.ino()))
    }
}

impl FileIdentity {
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: Inode::of(path)?,
        })
    }

    /// Checks that the path still names the file. Errors: another file has the name, or none.
    pub fn holds(&self) -> io::Result<()> {
        match Inode::of(&self.path)? == self.identity {
            true => Ok(()),
            false => Err(io::Error::other("another file has its name")),
        }
    }
}
