//! The persona's folder for tools: opened through a directory capability, regular files only, never
//! blocking, and without the files that are closed to the run's sender.
//!
//! The capability confines a path (`openat2` with `RESOLVE_BENEATH`, or cap-std's walk where that
//! is missing), not a check of the text. Closed files are judged by the path with all links followed
//! ([`real_path`]), for every tool alike. In `workspace/`, where commands and agents may make links,
//! none is followed: every folder on the way is opened by itself ([`place_in_workspace`]).

use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, is_for_owner_alone};
use crate::domain::memory::lines::label_of_lines;
use crate::domain::{TextLabel, sha256_hex};
use crate::mutants::is_off;
use crate::tools::contract::*;
use cap_std::fs_utf8::camino::{Utf8Component, Utf8Path};
use cap_std::fs_utf8::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{Mode, OFlags};
use std::io::{self, ErrorKind, Write};

/// Does file work on a thread that may block. A dropped call lets the work finish; it is bounded by
/// sizes.
pub async fn on_disk<T, F>(folder: &Dir, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Dir) -> Result<T, ToolError> + Send + 'static,
{
    let folder = folder.try_clone().map_err(cannot_use("."))?;
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    done.unwrap_or_else(|_| refuse("file_error", "the file work was interrupted; try again"))
}

/// Error code of a path without a file.
pub const FILE_NOT_FOUND: &str = "file_not_found";
/// Earlier versions of the memory.
const VERSIONS: &str = ".memory";
/// The persona's memory, whose lines have labels of their own.
const MEMORY: &str = "active.md";

/// Reason why a file in the folder is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed(pub &'static str);

/// Reports whether a file or folder may be read, by its path with links followed.
pub fn objection(real: &str, reader: Reader) -> Result<(), Closed> {
    let first = real.split('/').find(|name| !matches!(*name, "" | "."));
    let is_owners = first.is_some_and(is_for_owner_alone);
    let names = real.split('/').filter(|name| !matches!(*name, "" | "."));
    let shows_versions = reader == Reader::Owner && first == Some(VERSIONS);
    if names
        .skip(usize::from(shows_versions))
        .any(|name| name.starts_with('.'))
    {
        return Err(Closed("hidden files stay in your folder"));
    }
    if is_owners && reader != Reader::Owner && !is_off("G12.files") {
        return Err(Closed("it is for your owner alone"));
    }
    if is_of_correspondents(real) {
        return Err(Closed("it was written in answers to others"));
    }
    Ok(())
}

/// Reports whether a path, with links followed, is in the workspace.
pub fn is_in_workspace(real: &str) -> bool {
    let first = real.split('/').find(|name| !matches!(*name, "" | "."));
    first == Some(AGENT_FOLDER)
}

/// Reports whether a path is in the workspace of a run that was not the owner's: such words would
/// count as the owner's in any other run.
fn is_of_correspondents(real: &str) -> bool {
    let mut names = real.split('/').filter(|name| !matches!(*name, "" | "."));
    let is =
        |name: Option<&str>, folder| name.is_some_and(|name| name.eq_ignore_ascii_case(folder));
    is(names.next(), AGENT_FOLDER) && is(names.next(), CORRESPONDENTS_FOLDER)
}

/// Returns a path with its links followed, so that the checked name is the name of the opened file.
/// Errors: as [`followed`] and [`objection`].
pub fn real_path(folder: &Dir, path: &str, reader: Reader) -> Result<String, ToolError> {
    let real = followed(folder, path)?;
    match objection(&real, reader) {
        Ok(()) => Ok(real),
        Err(closed) => Err(not_allowed("file_not_allowed", path, closed)),
    }
}

/// Returns a path with its links followed. Errors: as [`path_error`], and a path in the workspace that has a link in it.
pub fn followed(folder: &Dir, path: &str) -> Result<String, ToolError> {
    let real = folder
        .canonicalize(path)
        .map_err(cannot_use(path))?
        .into_string();
    match without_dots(path).filter(|plain| is_in_workspace(plain)) {
        Some(plain) if plain != real && !is_off("G19.links") => Err(through_a_link(path)),
        _ => Ok(real),
    }
}

/// Returns a relative path without `.` and `..`; `None`: it leads out.
fn without_dots(path: &str) -> Option<String> {
    let mut names = Vec::new();
    for component in Utf8Path::new(path).components() {
        match component {
            Utf8Component::Normal(name) => names.push(name),
            Utf8Component::CurDir => {}
            Utf8Component::ParentDir => drop(names.pop()?),
            Utf8Component::RootDir | Utf8Component::Prefix(_) => return None,
        }
    }
    Some(names.join("/"))
}

fn through_a_link(path: &str) -> ToolError {
    ToolError::mendable(
        "path_not_allowed",
        format!(
            "`{}` leads through a link, and links in `{AGENT_FOLDER}/` are not followed; use the path of the file itself",
            shown(path)
        ),
    )
}

/// Opens the folder of a file in the workspace, each folder on the way by itself and no link: what is done in it is done in
/// the workspace, whatever a command or an agent has put there meanwhile. `is_made`: missing folders are made. Returns it
/// with the name of the file; the path has no `.` and `..`.
pub fn place_in_workspace<'p>(
    folder: &Dir,
    path: &'p str,
    is_made: bool,
) -> Result<(Dir, &'p str), ToolError> {
    let failed = cannot_use(path);
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut dir = folder.try_clone().map_err(failed)?;
    for parent in parents.split('/').filter(|parent| !parent.is_empty()) {
        if is_made
            && let Err(error) = dir.create_dir(parent)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
        let opened = open_itself(&dir, parent, OFlags::DIRECTORY);
        dir = match opened {
            Ok(opened) => Dir::from_std_file(opened),
            Err(_) if is_link(&dir, parent) => return Err(through_a_link(path)),
            Err(error) => return Err(failed(error)),
        };
    }
    Ok((dir, name))
}

/// Opens an entry of a folder for reading, and never what a link leads to.
fn open_itself(dir: &Dir, name: &str, flags: OFlags) -> io::Result<std::fs::File> {
    // A FIFO that took the file's place would otherwise block until it has a writer.
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = match is_off("G19.links") {
        true => flags,
        false => flags | OFlags::NOFOLLOW,
    };
    let opened = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    Ok(std::fs::File::from(opened))
}

fn is_link(dir: &Dir, name: &str) -> bool {
    dir.symlink_metadata(name)
        .is_ok_and(|found| found.is_symlink())
}

/// Returns the label of a file's text: files that a correspondent may not read are for the owner alone, and the lines of a
/// memory are as trustworthy as who had them written down.
pub fn label_of(folder: &Dir, path: &str, text: &str) -> TextLabel {
    let real = folder.canonicalize(path).ok();
    let real = real.as_ref().map_or(path, |real| real.as_str());
    let is_open = objection(real, Reader::Correspondent).is_ok();
    match real {
        MEMORY => TextLabel::PRIVATE.and(label_of_lines(text)),
        _ if is_open => TextLabel::default(),
        _ => TextLabel::PRIVATE,
    }
}

/// Reports whether a path, as a run is shown it, is for the owner alone, as the text of its file is. Names directly in the
/// persona's folder say nothing: they are the engine's own, the same for every persona.
pub fn is_private_name(real: &str) -> bool {
    real.contains('/') && objection(real, Reader::Correspondent).is_err() && !is_off("G13.names")
}

/// Returns the label of a list of paths.
pub fn label_of_names(has_private: bool) -> TextLabel {
    match has_private {
        true => TextLabel::PRIVATE,
        false => TextLabel::default(),
    }
}

pub fn not_allowed(code: &'static str, path: &str, Closed(why): Closed) -> ToolError {
    ToolError::mendable(code, format!("`{}` cannot be used: {why}", shown(path)))
}

/// Opens a file for reading that [`real_path`] has permitted.
pub fn open_for(folder: &Dir, path: &str, reader: Reader) -> Result<(File, u64), ToolError> {
    if is_off("G19") {
        let file = std::fs::File::open(path).map_err(cannot_use(path))?;
        return Ok((File::from_std(file), 0));
    }
    let real = real_path(folder, path, reader)?;
    let (file, size) = open_real(folder, &real)?;
    let metadata = file.metadata().map_err(cannot_use(path))?;
    if let Some(closed) = second_name(folder, &metadata, reader) {
        return Err(not_allowed("file_not_allowed", path, closed));
    }
    Ok((file, size))
}

/// Returns the reason why an open file is closed to the reader: a hard link has no other path to be
/// judged by.
pub fn second_name(folder: &Dir, metadata: &Metadata, reader: Reader) -> Option<Closed> {
    let persona = folder.metadata("persona.json").ok();
    let is_persona = persona
        .is_some_and(|persona| (persona.dev(), persona.ino()) == (metadata.dev(), metadata.ino()));
    if is_persona && reader != Reader::Owner {
        return Some(Closed("it is your configuration"));
    }
    (metadata.nlink() > 1 && !is_off("G20")).then_some(Closed(
        "it has a second name (a hard link), which may lie anywhere; copy it instead",
    ))
}

/// Opens a regular file for reading, by a path with its links followed, and returns its length.
pub fn open_real(folder: &Dir, real: &str) -> Result<(File, u64), ToolError> {
    if !is_in_workspace(real) {
        return open_regular(folder, real);
    }
    let (dir, name) = place_in_workspace(folder, real, false)?;
    let failed = cannot_use(real);
    let metadata = match is_off("G19.links") {
        true => dir.metadata(name),
        false => dir.symlink_metadata(name),
    };
    require_regular(real, &metadata.map_err(failed)?)?;
    let file = File::from_std(open_itself(&dir, name, OFlags::empty()).map_err(failed)?);
    let metadata = file.metadata().map_err(failed)?;
    require_regular(real, &metadata)?;
    Ok((file, metadata.len()))
}

/// Opens a folder to list it, by a path with its links followed.
pub fn open_folder(folder: &Dir, real: &str) -> Result<Dir, ToolError> {
    if !is_in_workspace(real) {
        return folder.open_dir(real).map_err(cannot_use(real));
    }
    let below = format!("{real}/.");
    place_in_workspace(folder, &below, false).map(|(dir, _)| dir)
}

/// Opens a regular file for reading and returns its length.
pub fn open_regular(folder: &Dir, path: &str) -> Result<(File, u64), ToolError> {
    // Checked before it is opened, because opening a device can have effects; and afterwards,
    // because only the open file itself cannot be exchanged for another.
    require_regular(path, &folder.metadata(path).map_err(cannot_use(path))?)?;
    // A FIFO that took the file's place would otherwise block until it has a writer.
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .to_owned();
    let file = folder.open_with(path, &options).map_err(cannot_use(path))?;
    let metadata = file.metadata().map_err(cannot_use(path))?;
    require_regular(path, &metadata)?;
    Ok((file, metadata.len()))
}

/// Waits for the lock of this path. Closing the file releases it.
pub fn lock(folder: &Dir, path: &str) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let lock = folder.open_with(path, &options)?.into_std();
    lock.lock()?;
    Ok(lock)
}

/// Writes and syncs a text under a name that no other file has.
pub fn write_new(folder: &Dir, path: &str, text: &str) -> io::Result<()> {
    let mut file = folder.open_with(path, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Removes a file that may not be there.
pub fn remove_unfinished(folder: &Dir, path: &str) -> io::Result<()> {
    match folder.remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes and syncs a text under another name, then renames it: a reader sees the old or the new one, and a link that has
/// the name is replaced, not followed.
pub fn replace(folder: &Dir, unfinished: &str, path: &str, text: &str) -> io::Result<()> {
    remove_unfinished(folder, unfinished)?;
    write_new(folder, unfinished, text)?;
    folder.rename(unfinished, folder, path)?;
    // The rename itself is durable only once the folder is.
    folder.open(".")?.sync_all()
}

/// Returns the digest of a text; `null` when there is none.
pub fn digest(text: Option<&str>) -> Value {
    text.map(|text| sha256_hex(&[text.as_bytes()])).into()
}

fn require_regular(path: &str, metadata: &Metadata) -> Result<(), ToolError> {
    if metadata.is_file() {
        return Ok(());
    }
    let path = shown(path);
    Err(if metadata.is_dir() {
        ToolError::mendable(
            "not_a_file",
            format!("`{path}` is a folder; list_files shows what is in it"),
        )
    } else {
        ToolError::mendable("not_a_file", format!("`{path}` is not a regular file"))
    })
}

/// Returns an error that tells the model how to correct a path.
pub fn path_error(path: &str, error: &io::Error) -> ToolError {
    let path = shown(path);
    // cap-std's refusal to leave the folder is its own error; a refusal by the system carries the
    // system's code.
    let escaped = error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    match error.kind() {
        _ if escaped => ToolError::mendable(
            "path_not_allowed",
            format!(
                "`{path}` leads out of your folder; use a path below it such as `knowledge/notes.md`"
            ),
        ),
        ErrorKind::InvalidInput | ErrorKind::InvalidFilename => {
            ToolError::mendable("path_not_allowed", format!("`{path}` is not a legal path"))
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => ToolError::mendable(
            FILE_NOT_FOUND,
            format!("there is no `{path}` in your folder; list_files shows what there is"),
        ),
        kind => ToolError::mendable("file_error", format!("`{path}` cannot be used: {kind}")),
    }
}

/// [`path_error`] of this path.
pub fn cannot_use(path: &str) -> impl Fn(io::Error) -> ToolError + Copy {
    move |error| path_error(path, &error)
}

/// Returns a path in the form that an error may quote.
pub fn shown(path: &str) -> String {
    path.chars().filter(|c| !c.is_control()).take(120).collect()
}
