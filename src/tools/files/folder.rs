//! The persona's folder for tools: opened through a directory capability, regular files only, never
//! blocking, and without the files that are closed to the run's sender.
//!
//! The capability confines a path (`openat2` with `RESOLVE_BENEATH`, or cap-std's walk where that
//! is missing), not a check of the text: nothing here parses `..`. Closed files are judged by the
//! path with all links followed ([`real_path`]), for every tool alike.

use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, is_for_owner_alone};
use crate::domain::TextLabel;
use crate::domain::memory::lines::label_of_lines;
use crate::mutants::is_off;
use crate::tools::{Reader, ToolError};
use cap_std::fs_utf8::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use std::io::{self, ErrorKind};

/// Does file work on a thread that may block. A dropped call lets the work finish; it is bounded by
/// sizes.
pub async fn on_disk<T, F>(folder: &Dir, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Dir) -> Result<T, ToolError> + Send + 'static,
{
    let folder = folder
        .try_clone()
        .map_err(|error| path_error(".", &error))?;
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    done.unwrap_or_else(|_| {
        Err(ToolError::mendable(
            "file_error",
            "the file work was interrupted; try again",
        ))
    })
}

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
/// Errors: as [`path_error`] and [`objection`].
pub fn real_path(folder: &Dir, path: &str, reader: Reader) -> Result<String, ToolError> {
    let real = folder
        .canonicalize(path)
        .map_err(|error| path_error(path, &error))?
        .into_string();
    match objection(&real, reader) {
        Ok(()) => Ok(real),
        Err(closed) => Err(not_allowed("file_not_allowed", path, closed)),
    }
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

pub fn not_allowed(code: &'static str, path: &str, Closed(why): Closed) -> ToolError {
    ToolError::mendable(code, format!("`{}` cannot be used: {why}", shown(path)))
}

/// Opens a file for reading that [`real_path`] has permitted.
pub fn open_for(folder: &Dir, path: &str, reader: Reader) -> Result<(File, u64), ToolError> {
    if is_off("G19") {
        let file = std::fs::File::open(path).map_err(|error| path_error(path, &error))?;
        return Ok((File::from_std(file), 0));
    }
    let real = real_path(folder, path, reader)?;
    let (file, size) = open_regular(folder, &real)?;
    let metadata = file.metadata().map_err(|error| path_error(path, &error))?;
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

/// Opens a regular file for reading and returns its length.
pub fn open_regular(folder: &Dir, path: &str) -> Result<(File, u64), ToolError> {
    // Checked before it is opened, because opening a device can have effects; and afterwards,
    // because only the open file itself cannot be exchanged for another.
    require_regular(
        path,
        &folder
            .metadata(path)
            .map_err(|error| path_error(path, &error))?,
    )?;
    // A FIFO that took the file's place would otherwise block until it has a writer.
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .to_owned();
    let file = folder
        .open_with(path, &options)
        .map_err(|error| path_error(path, &error))?;
    let metadata = file.metadata().map_err(|error| path_error(path, &error))?;
    require_regular(path, &metadata)?;
    Ok((file, metadata.len()))
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
            "file_not_found",
            format!("there is no `{path}` in your folder; list_files shows what there is"),
        ),
        kind => ToolError::mendable("file_error", format!("`{path}` cannot be used: {kind}")),
    }
}

/// Returns a path in the form that an error may quote.
pub fn shown(path: &str) -> String {
    path.chars().filter(|c| !c.is_control()).take(120).collect()
}
