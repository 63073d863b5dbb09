//! All files of a skill with their digests: what an approval pins.

use crate::config::{EXECUTABLE, SKILL_FILE, SKILL_FILE_BYTES_MAX};
use crate::domain::sha256_hex;
use cap_std::fs_utf8::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// Most files of a skill, and their bytes together.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 8 * 1024 * 1024;
const DEPTH_MAX: usize = 8;

/// Returns the digest of every file below an open folder, by path. Blocking. Errors: a sentence; links and other things than
/// files and folders are none of a skill.
pub fn digests(folder: &Dir) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    let mut bytes_left = BYTES_MAX;
    let mut folders = vec![(String::new(), 0)];
    while let Some((parent, depth)) = folders.pop() {
        let place = if parent.is_empty() {
            "."
        } else {
            parent.as_str()
        };
        let listed = folder
            .read_dir(place)
            .map_err(|error| unread(place, &error))?;
        for entry in listed {
            let entry = entry.map_err(|error| unread(place, &error))?;
            let name = entry.file_name().map_err(|error| unread(place, &error))?;
            let path = match parent.is_empty() {
                true => name,
                false => format!("{parent}/{name}"),
            };
            let kind = entry.file_type().map_err(|error| unread(&path, &error))?;
            if kind.is_dir() && depth < DEPTH_MAX {
                folders.push((path, depth + 1));
            } else if kind.is_file() && found.len() < FILES_MAX {
                let digest = digest(folder, &path, &mut bytes_left)?;
                found.insert(path, digest);
            } else {
                return Err(format!(
                    "`{path}` is a link or no file, or it is more than {FILES_MAX} files or {DEPTH_MAX} folders deep"
                ));
            }
        }
    }
    Ok(found)
}

fn digest(folder: &Dir, path: &str, bytes_left: &mut u64) -> Result<String, String> {
    let (bytes, is_executable) = read(folder, path, *bytes_left)?;
    *bytes_left -= bytes.len() as u64;
    let digest = sha256_hex(&[bytes.as_slice()]);
    Ok(match is_executable {
        true => format!("{EXECUTABLE}{digest}"),
        false => digest,
    })
}

/// Returns the bytes of a regular file, and whether it may be executed.
pub fn read(folder: &Dir, path: &str, bytes_max: u64) -> Result<(Vec<u8>, bool), String> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .to_owned();
    let file = folder
        .open_with(path, &options)
        .map_err(|error| unread(path, &error))?;
    let metadata = file.metadata().map_err(|error| unread(path, &error))?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err(format!(
            "`{path}` is no file, or it has a second name (a hard link)"
        ));
    }
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| unread(path, &error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!(
            "`{path}` is too large: {BYTES_MAX} bytes for all files, {SKILL_FILE_BYTES_MAX} for `{SKILL_FILE}`"
        ));
    }
    Ok((bytes, metadata.mode() & 0o111 != 0))
}

/// Reads `SKILL.md`. Blocking. Errors: a sentence.
pub fn text(folder: &Dir) -> Result<String, String> {
    let (bytes, _) = read(folder, SKILL_FILE, SKILL_FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| format!("`{SKILL_FILE}` is not UTF-8"))
}

fn unread(path: &str, error: &io::Error) -> String {
    format!("`{path}` cannot be read: {}", error.kind())
}
