//! The persona's folder as tools see it: opened below a directory capability, regular files only, never blocking.
//!
//! What confines a path is the capability (`openat2` with `RESOLVE_BENEATH`, or cap-std's walk where that is
//! missing), not a look at the text: nothing here parses `..`.

use super::ToolError;
use cap_std::fs_utf8::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use std::io::{self, ErrorKind};

/// Does file work on a thread that may block. A dropped call lets the work finish; it is bounded by sizes.
pub(super) async fn on_disk<T, F>(folder: &Dir, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Dir) -> Result<T, ToolError> + Send + 'static,
{
    let folder = folder.try_clone().map_err(|error| path_error(".", &error))?;
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    done.unwrap_or_else(|_| {
        Err(ToolError::mendable("file_error", "the file work was interrupted; try again"))
    })
}

/// Opens a regular file for reading and says how long it is.
pub(super) fn open_regular(folder: &Dir, path: &str) -> Result<(File, u64), ToolError> {
    // Looked at before it is opened, because opening a device can have effects; and afterwards, because only the
    // open file itself cannot be exchanged for another.
    require_regular(path, &folder.metadata(path).map_err(|error| path_error(path, &error))?)?;
    // A FIFO that took the file's place would otherwise block until somebody writes to it.
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .to_owned();
    let file = folder.open_with(path, &options).map_err(|error| path_error(path, &error))?;
    let metadata = file.metadata().map_err(|error| path_error(path, &error))?;
    require_regular(path, &metadata)?;
    Ok((file, metadata.len()))
}

fn require_regular(path: &str, metadata: &cap_std::fs_utf8::Metadata) -> Result<(), ToolError> {
    if metadata.is_file() {
        return Ok(());
    }
    let path = shown(path);
    Err(if metadata.is_dir() {
        ToolError::mendable("not_a_file", format!("`{path}` is a folder; list_files shows what is in it"))
    } else {
        ToolError::mendable("not_a_file", format!("`{path}` is not a regular file"))
    })
}

/// Whether a path leads to `persona.json`, by whatever name.
pub(super) fn is_persona_file(folder: &Dir, file: &File) -> io::Result<bool> {
    let Ok(persona) = folder.metadata("persona.json") else { return Ok(false) };
    let file = file.metadata()?;
    Ok(file.dev() == persona.dev() && file.ino() == persona.ino())
}

/// What a model can do about a path that did not work.
pub(super) fn path_error(path: &str, error: &io::Error) -> ToolError {
    let path = shown(path);
    // cap-std's refusal to leave the folder is its own error; a refusal by the system carries the system's code.
    let escaped = error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none();
    match error.kind() {
        _ if escaped => ToolError::mendable(
            "path_not_allowed",
            format!("`{path}` leads out of your folder; use a path below it such as `knowledge/notes.md`"),
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

/// A path as an error may quote it.
pub(super) fn shown(path: &str) -> String {
    path.chars().filter(|c| !c.is_control()).take(120).collect()
}
