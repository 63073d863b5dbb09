//! The plain files of a workspace that a backup copies with the database.
//!
//! All of the workspace belongs to it, since the configuration may name any of its files: keys, certificates, programs of hooks,
//! texts. Left out: what the engine makes anew (locks, streams, files of running agents), mails that a folder took (the database
//! has them), what a link leads to; and, by name in the manifest, other backups and databases, caches, and a repository of git.

use crate::domain::hex;
use crate::store::sqlite::files::begins_as_database;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The engine's own folder, and what of it belongs to a backup beside the database.
const DATA: &str = "data";
const PARTS_OF_DATA: [&str; 2] = ["data/tokens", "data/workspaces"];
/// Where personas and agents keep databases of their own.
const WITH_DATABASES: [&str; 3] = ["personas/", "skills/", "data/"];
/// Marks a folder that a program can make anew (bford.info/cachedir).
const CACHE_MARK: &str = "CACHEDIR.TAG";
/// Name of the manifest in a backup.
pub const MANIFEST: &str = "manifest.json";
/// Place of the database, in a workspace and in a backup.
pub const DATABASE: &str = "data/attache.db";
/// Most folders inside each other.
const DEPTH_MAX: usize = 64;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 * 1024;
/// Bits of a mode that are kept: a program stays one, and nobody else may read.
const MODE_KEPT: u32 = 0o700;

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFile {
    /// Below the backup, and below the workspace, with `/`.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
    pub mode: u32,
}

/// Plain files that a backup would copy.
#[derive(Debug, Default)]
pub struct Contents {
    /// Paths below the workspace, in order.
    pub files: Vec<String>,
    /// Links, sockets, names that are no text, and what is made elsewhere: other backups, databases, caches, repositories.
    pub left_out: Vec<String>,
    pub bytes: u64,
}

impl Contents {
    /// Finds the files of a workspace.
    pub fn of(workspace: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for name in found.names_in(workspace, "")? {
            if name == DATA {
                for part in PARTS_OF_DATA {
                    found.gather(workspace, part, DEPTH_MAX)?;
                }
            } else if name == MANIFEST {
                // The backup's own has this name.
                found.left_out.push(name);
            } else {
                found.gather(workspace, &name, DEPTH_MAX)?;
            }
        }
        Ok(found)
    }

    /// The names in a folder, in order; one that is no text is left out.
    fn names_in(&mut self, workspace: &Path, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(workspace.join(folder))? {
            match entry?.file_name().into_string() {
                Ok(name) => names.push(name),
                Err(name) => {
                    let path = Path::new(folder).join(name);
                    self.left_out.push(path.to_string_lossy().into_owned());
                }
            }
        }
        names.sort();
        Ok(names)
    }

    fn gather(&mut self, workspace: &Path, path: &str, depth: usize) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(workspace.join(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            metadata => metadata?,
        };
        if metadata.is_file() {
            let is_kept = WITH_DATABASES.iter().any(|part| path.starts_with(part));
            if !is_kept && is_database(&workspace.join(path)) {
                self.left_out.push(path.to_owned());
                return Ok(());
            }
            self.bytes += metadata.len();
            self.files.push(path.to_owned());
            return Ok(());
        }
        if !metadata.is_dir() || depth == 0 || is_made_elsewhere(&workspace.join(path)) {
            self.left_out.push(path.to_owned());
            return Ok(());
        }
        for name in self.names_in(workspace, path)? {
            self.gather(workspace, &format!("{path}/{name}"), depth - 1)?;
        }
        Ok(())
    }
}

/// Reports whether a folder is no part of the workspace that it lies in: another backup, begun or whole, a cache, a repository.
fn is_made_elsewhere(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == ".git")
        || folder.join(CACHE_MARK).is_file()
        || folder.join(DATABASE).is_file()
}

/// Reports whether a file at the top of a workspace, or below a folder of the owner's, is a database: a backup of another day.
fn is_database(file: &Path) -> bool {
    File::open(file)
        .and_then(begins_as_database)
        .unwrap_or(false)
}

/// Copies a file below one folder to below another, and syncs it; folders are made as needed, for their owner alone.
pub fn copy(from: &Path, to: &Path, path: &str) -> io::Result<BackupFile> {
    let mut source = File::open(from.join(path))?;
    let target = to.join(path);
    make_folders(to, path)?;
    let mode = source.metadata()?.permissions().mode() & MODE_KEPT | 0o600;
    let mut made = OpenOptions::new();
    let made = made.write(true).create_new(true).mode(mode);
    let mut copy = made.open(&target)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = source.read(&mut piece)?;
        if read == 0 {
            break;
        }
        copy.write_all(&piece[..read])?;
        hash.update(&piece[..read]);
        bytes += read as u64;
    }
    copy.sync_all()?;
    Ok(BackupFile {
        path: path.to_owned(),
        bytes,
        sha256: hex(&hash.finalize()),
        mode,
    })
}

/// Makes the folders of a path below a folder.
pub fn make_folders(below: &Path, path: &str) -> io::Result<()> {
    let folder = below.join(path);
    let folder = folder.parent().unwrap_or(below);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Describes a file that is there already.
pub fn describe(below: &Path, path: &str) -> io::Result<BackupFile> {
    let mut file = File::open(below.join(path))?;
    let metadata = file.metadata()?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Ok(BackupFile {
        path: path.to_owned(),
        bytes: metadata.len(),
        sha256: hex(&hash.finalize()),
        mode: metadata.permissions().mode() & 0o777,
    })
}

/// Syncs every folder below a folder, and itself.
pub fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Lists the files below a folder, as paths with `/`; links and the like included.
pub fn files_below(folder: &Path) -> io::Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = open.pop() {
        for entry in fs::read_dir(folder.join(&below))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true => open.push(path),
                false => found.push(path.to_string_lossy().into_owned()),
            }
        }
    }
    found.sort();
    Ok(found)
}
