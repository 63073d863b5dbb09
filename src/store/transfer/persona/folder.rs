//! The folder of a persona: copied under a name that no engine reads, compared, renamed, and then removed in the old cell.
//!
//! It is removed and not put aside: its rows go as well, and what an erasure or an export would have to find is in one cell only.

use super::checks::folder_of;
use super::error::PersonaMoveError;
use crate::domain::{PersonaId, hex};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs::{File, FileTimes};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Deepest folders of a persona that are copied.
const DEPTH_MAX: usize = 64;
/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Files below a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FolderSize {
    pub files: u64,
    pub bytes: u64,
}

/// Copies the folder into the new workspace, unless only the new one has it.
///
/// Errors: [`PersonaMoveError::FolderDiffers`].
pub(super) fn bring(
    (from, to): (&Path, &Path),
    (persona, id): (&PersonaId, &str),
) -> Result<FolderSize, PersonaMoveError> {
    let (old, new) = (folder_of(from, persona), folder_of(to, persona));
    if !old.exists() && new.is_dir() {
        return Ok(size_of(&new)?.0);
    }
    let personas = to.join("personas");
    let half = personas.join(format!(".moving-{id}"));
    remove(&half)?;
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| PersonaMoveError::at(&path, source)
    };
    std::fs::create_dir_all(&half).map_err(at(&half))?;
    copy_tree(&old, &half, 0)?;
    let (size, wanted) = size_of(&old)?;
    let (_, found) = size_of(&half)?;
    if wanted != found {
        let path = half.display().to_string();
        return Err(PersonaMoveError::FolderDiffers { path });
    }
    // An earlier attempt may have come as far as this.
    remove(&new)?;
    std::fs::rename(&half, &new).map_err(at(&new))?;
    sync(&personas).map_err(at(&personas))?;
    Ok(size)
}

/// Removes the folder in the old workspace, at once for whoever looks: it gets a name that no engine reads first.
pub(super) fn leave(
    from: &Path,
    (persona, id): (&PersonaId, &str),
) -> Result<(), PersonaMoveError> {
    let (old, personas) = (folder_of(from, persona), from.join("personas"));
    let left = personas.join(format!(".moved-{id}"));
    match std::fs::rename(&old, &left) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(PersonaMoveError::at(&old, source));
        }
        _ => {}
    }
    sync(&personas).map_err(|source| PersonaMoveError::at(&personas, source))?;
    remove(&left)
}

/// Removes what an attempt has left in a new workspace.
pub(super) fn withdraw(
    to: &Path,
    (persona, id): (&PersonaId, &str),
) -> Result<(), PersonaMoveError> {
    remove(&to.join("personas").join(format!(".moving-{id}")))?;
    remove(&folder_of(to, persona))
}

fn remove(folder: &Path) -> Result<(), PersonaMoveError> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(PersonaMoveError::at(folder, source))
        }
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the entries of a folder in the order of their names.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, PersonaMoveError> {
    let failed = |source| PersonaMoveError::at(folder, source);
    let read = std::fs::read_dir(folder).map_err(failed)?;
    let paths: io::Result<Vec<PathBuf>> = read.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// Copies files with their modes and times, folders and links; each is on disk when this returns.
fn copy_tree(from: &Path, to: &Path, depth: usize) -> Result<(), PersonaMoveError> {
    for path in entries(from)? {
        let there = to.join(path.file_name().unwrap_or_default());
        copy_entry(&path, &there, depth)?;
    }
    let at = |source| PersonaMoveError::at(to, source);
    let mode = std::fs::metadata(from).map_err(at)?.permissions();
    sync(to).map_err(at)?;
    std::fs::set_permissions(to, mode).map_err(at)
}

fn copy_entry(path: &Path, there: &Path, depth: usize) -> Result<(), PersonaMoveError> {
    let failed = |source| PersonaMoveError::at(path, source);
    let metadata = path.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        let target = std::fs::read_link(path).map_err(failed)?;
        return std::os::unix::fs::symlink(target, there).map_err(failed);
    }
    if metadata.is_dir() {
        if depth >= DEPTH_MAX {
            return Err(failed(io::Error::other("folders are nested too deeply")));
        }
        std::fs::create_dir(there).map_err(failed)?;
        return copy_tree(path, there, depth + 1);
    }
    if !metadata.is_file() {
        return Err(failed(io::Error::other(
            "it is neither a file nor a folder nor a link",
        )));
    }
    std::fs::copy(path, there).map_err(failed)?;
    let copy = File::open(there).map_err(failed)?;
    if let Ok(modified) = metadata.modified() {
        // Only its owner may set it; the content counts.
        let _as_it_is = copy.set_times(FileTimes::new().set_modified(modified));
    }
    copy.sync_all().map_err(failed)
}

/// Returns the size of a folder, and a digest of names and contents of all below it.
pub(super) fn size_of(folder: &Path) -> Result<(FolderSize, String), PersonaMoveError> {
    let (mut size, mut hash) = (FolderSize::default(), Sha256::new());
    add_tree(folder, folder, (&mut size, &mut hash))?;
    Ok((size, hex(&hash.finalize())))
}

fn add_tree(
    root: &Path,
    folder: &Path,
    (size, hash): (&mut FolderSize, &mut Sha256),
) -> Result<(), PersonaMoveError> {
    for path in entries(folder)? {
        let failed = |source| PersonaMoveError::at(&path, source);
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = name.as_os_str().as_encoded_bytes();
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        let metadata = path.symlink_metadata().map_err(failed)?;
        if metadata.is_symlink() {
            let target = std::fs::read_link(&path).map_err(failed)?;
            hash.update(target.as_os_str().as_encoded_bytes());
        } else if metadata.is_dir() {
            add_tree(root, &path, (&mut *size, &mut *hash))?;
        } else if metadata.is_file() {
            size.files += 1;
            size.bytes += add_file(&path, hash).map_err(failed)?;
        }
    }
    Ok(())
}

fn add_file(path: &Path, hash: &mut Sha256) -> io::Result<u64> {
    let (mut file, mut piece) = (File::open(path)?, vec![0; PIECE_BYTES]);
    let mut bytes = 0;
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => {
                hash.update(&piece[..read]);
                bytes += read as u64;
            }
        }
    }
    hash.update(bytes.to_be_bytes());
    Ok(bytes)
}
