//! Files of a persona that its owner edits on a page: read and replaced whole, and only as they were when they were read.
//!
//! Two pages of one engine cannot both win: the caller keeps one change at a time. An editor on the machine is seen by its
//! digest, looked at a last time just before the file is replaced.

use crate::domain::sha256_hex;
use crate::store::StoreError;
use cap_std::ambient_authority;
use cap_std::fs::{MetadataExt, OpenOptionsExt};
use cap_std::fs_utf8::{Dir, OpenOptions};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

/// Most bytes of a file.
pub const PERSONA_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Most files that are listed, and most folders that are looked into.
const LISTED_MAX: usize = 500;
/// Most folders one below the other.
const DEPTH_MAX: usize = 4;
/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Ending of a text that is not whole yet.
static UNFINISHED: &str = ".saving";

/// A file as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonaFileText {
    pub name: String,
    pub text: String,
    /// Digest of its bytes; empty: there is none yet.
    pub sha256: String,
}

pub type FileResult<T> = std::result::Result<T, PersonaFileError>;

/// Reason why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum PersonaFileError {
    #[error(
        "`{0}` is no file that is edited here; there are PERSONA.md, active.md, knowledge/….md, knowledge/….txt and responsibilities/….md"
    )]
    Name(String),
    #[error("it is no plain file")]
    NotPlain,
    #[error("it is larger than {PERSONA_FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("it is not UTF-8")]
    NotText,
    /// It is not what it was when its caller read it.
    #[error("somebody has changed it meanwhile")]
    Changed(Box<PersonaFileText>),
    #[error("cannot be read or written")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the names of the files that may be edited and are there, sorted.
pub fn list(folder: &Path) -> FileResult<Vec<String>> {
    let dir = open(folder)?;
    let mut names: Vec<String> = Vec::new();
    for name in ["PERSONA.md", "active.md"] {
        if dir.symlink_metadata(name).is_ok() {
            names.push(name.to_owned());
        }
    }
    let mut folders: Vec<String> = vec!["responsibilities".to_owned(), "knowledge".to_owned()];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        looked += 1;
        let Ok(entries) = dir.read_dir(&folder) else {
            continue;
        };
        let mut found: Vec<String> = Vec::new();
        for entry in entries.take(LISTED_MAX).flatten() {
            let (Ok(name), Ok(kind)) = (entry.file_name(), entry.file_type()) else {
                continue;
            };
            let path = format!("{folder}/{name}");
            if kind.is_dir() && !name.starts_with('.') && looked < LISTED_MAX {
                folders.push(path);
            } else if kind.is_file() && checked(&path).is_ok() {
                found.push(path);
            }
        }
        found.sort();
        names.extend(found);
        if names.len() >= LISTED_MAX {
            break;
        }
    }
    names.truncate(LISTED_MAX);
    Ok(names)
}

/// Reads a file; one that is not there has no text and no digest.
pub fn read(folder: &Path, name: &str) -> FileResult<PersonaFileText> {
    checked(name)?;
    text(&open(folder)?, name)
}

/// Replaces a file whose digest is still `base_sha256` (empty: that is not there yet), on the disk before it counts as
/// written.
pub(super) fn save(
    folder: &Path,
    name: &str,
    new: &str,
    base_sha256: &str,
) -> FileResult<PersonaFileText> {
    checked(name)?;
    check_size(new)?;
    let dir = open(folder)?;
    let now = text(&dir, name)?;
    let same = |now: PersonaFileText| match now.sha256 == base_sha256 {
        true => Ok(now),
        false => Err(PersonaFileError::Changed(Box::new(now))),
    };
    same(now)?;
    let unfinished = format!("{name}{UNFINISHED}");
    if let Some((parent, _)) = name.rsplit_once('/') {
        dir.create_dir_all(parent)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = dir.open_with(&unfinished, &options)?;
    file.write_all(new.as_bytes())?;
    file.sync_all()?;
    if let Err(error) = text(&dir, name).and_then(same) {
        dir.remove_file(&unfinished)?;
        return Err(error);
    }
    dir.rename(&unfinished, &dir, name)?;
    let parent = name.rsplit_once('/').map_or(".", |(parent, _)| parent);
    dir.open(parent)?.sync_all()?;
    Ok(PersonaFileText {
        name: name.to_owned(),
        sha256: sha256_hex(&[new.as_bytes()]),
        text: new.to_owned(),
    })
}

/// Gives a text the ends of lines of another: a browser sends CR LF, whatever it was given.
pub(super) fn with_ends_of(before: &str, new: &str) -> String {
    let lines = new.replace("\r\n", "\n");
    match before.contains("\r\n") {
        true => lines.replace('\n', "\r\n"),
        false => lines,
    }
}

pub(super) fn check_size(text: &str) -> FileResult<()> {
    match text.len() as u64 > PERSONA_FILE_BYTES_MAX {
        true => Err(PersonaFileError::TooLarge),
        false => Ok(()),
    }
}

/// Checks that a name is one of those that are edited on a page: settings are not, since they say what a persona may do.
fn checked(name: &str) -> FileResult<()> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && !part.starts_with('.') && !part.chars().any(char::is_control)
    };
    let is_short = name.chars().count() <= NAME_CHARS_MAX && parts.len() <= DEPTH_MAX;
    let is_known = match parts.as_slice() {
        ["PERSONA.md" | "active.md"] => true,
        ["responsibilities", file] => file.ends_with(".md"),
        ["knowledge", .., file] => file.ends_with(".md") || file.ends_with(".txt"),
        _ => false,
    };
    match is_known && is_short && parts.iter().all(is_plain) {
        true => Ok(()),
        false => Err(PersonaFileError::Name(crate::text::visible(
            &crate::text::shortened(name, NAME_CHARS_MAX),
        ))),
    }
}

fn open(folder: &Path) -> FileResult<Dir> {
    let folder = folder
        .to_str()
        .ok_or_else(|| io::Error::other("the path of the folder is not UTF-8"))?;
    Ok(Dir::open_ambient_dir(folder, ambient_authority())?)
}

fn text(dir: &Dir, name: &str) -> FileResult<PersonaFileText> {
    // A link on the way would lead to a file of another name, which may not be edited.
    let mut parents = name.match_indices('/').map(|(at, _)| &name[..at]);
    let is_link = |parent: &str| {
        let found = dir.symlink_metadata(parent);
        found.is_ok_and(|found| found.is_symlink())
    };
    if parents.any(is_link) {
        return Err(PersonaFileError::NotPlain);
    }
    let about = match dir.symlink_metadata(name) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(PersonaFileText {
                name: name.to_owned(),
                text: String::new(),
                sha256: String::new(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    // A second name would be changed with it, wherever it is.
    if !about.is_file() || about.nlink() > 1 {
        return Err(PersonaFileError::NotPlain);
    }
    let mut bytes = Vec::new();
    let file = dir.open(name)?;
    file.take(PERSONA_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PERSONA_FILE_BYTES_MAX {
        return Err(PersonaFileError::TooLarge);
    }
    let sha256 = sha256_hex(&[&bytes]);
    let text = String::from_utf8(bytes).map_err(|_| PersonaFileError::NotText)?;
    Ok(PersonaFileText {
        name: name.to_owned(),
        text,
        sha256,
    })
}
