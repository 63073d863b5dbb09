//! A change of one file in the workspace: checked, written whole or not at all, verified after a crash.

use super::folder::{
    FILE_NOT_FOUND, cannot_use, digest, is_in_workspace, on_disk, open_for, path_error,
    place_in_workspace, replace, shown,
};
use crate::config::AGENT_FOLDER;
use crate::domain::sha256_hex;
use crate::store::files::workspace::{WorkspaceError, WorkspaceUsage};
use crate::tools::contract::workspace::WorkspaceWriter;
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use std::io::{ErrorKind, Read};

/// Beginning of the names of files that are not whole yet.
const UNFINISHED: &str = ".attache-unfinished-";
/// Longest path in bytes.
const PATH_BYTES_MAX: usize = 400;
/// Longest name of a file or folder: that of Linux (`NAME_MAX`, limits.h).
const NAME_BYTES_MAX: usize = 255;
/// Most names in a path: deeper folders are beyond the workspace's quota.
const FOLDERS_MAX: usize = 32;

/// Content that a file is to have, by the content that it has; `None`: there is no file.
pub type NewContent = Box<dyn FnOnce(Option<&str>) -> Result<String, ToolError> + Send>;

/// A change of a file.
pub struct WorkspaceChange {
    path: String,
    content: NewContent,
    reader: Reader,
    bytes_max: usize,
}

impl WorkspaceChange {
    /// Builds the change that a call asks for. Errors: the path is not in the workspace, or the run is not the owner's.
    pub fn of(call: &ToolCall<'_>, path: &str, content: NewContent) -> Result<Self, ToolError> {
        if call.reader != Reader::Owner {
            // What such a run writes would count as the owner's words in a later run.
            return refuse(
                "workspace_not_allowed",
                "files are changed in runs of your owner that have read nothing of others; say in your answer what \
                        you would write",
            );
        }
        let path = path.trim().trim_start_matches("./");
        let is_plain = path.split('/').all(|name| {
            !name.is_empty() && !name.starts_with('.') && !name.chars().any(char::is_control)
        });
        let is_inside = is_in_workspace(path) && path.contains('/');
        if path.len() > PATH_BYTES_MAX || path.split('/').any(|name| name.len() > NAME_BYTES_MAX) {
            return refuse(
                "path_not_allowed",
                format!(
                    "the path is too long: at most {PATH_BYTES_MAX} bytes, and {NAME_BYTES_MAX} for each name in it"
                ),
            );
        }
        if path.split('/').count() > FOLDERS_MAX {
            return refuse(
                "path_not_allowed",
                format!("the path is too deep: at most {FOLDERS_MAX} names"),
            );
        }
        if !is_plain || !is_inside {
            return refuse(
                "path_not_allowed",
                format!(
                    "`{}` is no path in `{AGENT_FOLDER}/`; write one such as `{AGENT_FOLDER}/notes/rooms.md`",
                    shown(path)
                ),
            );
        }
        Ok(Self {
            path: path.to_owned(),
            content,
            reader: call.reader,
            bytes_max: call.limits.file_bytes_max,
        })
    }

    /// Returns the digests of the file before and after the change.
    pub async fn expected(self, call: &ToolCall<'_>) -> Result<Value, ToolError> {
        on_disk(call.env.workspace()?.folder(), move |folder| {
            let before = self.read(folder)?;
            let digest_before = digest(before.as_deref());
            let path = self.path.clone();
            let after = (self.content)(before.as_deref())?;
            Ok(json!({ "path": path, "before": digest_before, "after": digest(Some(&after)) }))
        })
        .await
    }

    /// Makes the change, and keeps what the file was as a version.
    pub async fn make(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let writer: WorkspaceWriter<'_> = call.env.workspace()?;
        let change = move |folder: &Dir, usage: Option<WorkspaceUsage>, fits: FitsQuota<'_>| {
            self.apply(folder, usage, fits)
        };
        let result = writer.change(call.run, call.clock.now(), change).await?;
        Ok(result.into())
    }

    fn apply(
        self,
        folder: &Dir,
        usage: Option<WorkspaceUsage>,
        fits: FitsQuota<'_>,
    ) -> Result<Value, ToolError> {
        let before = self.read(folder)?;
        let (path, bytes_max) = (self.path.clone(), self.bytes_max);
        let after = (self.content)(before.as_deref())?;
        if after.len() > bytes_max {
            return refuse(
                "file_too_large",
                format!(
                    "the file would have {} bytes, and at most {bytes_max} are allowed",
                    after.len()
                ),
            );
        }
        let more = WorkspaceUsage {
            bytes: after
                .len()
                .saturating_sub(before.as_ref().map_or(0, String::len)) as u64,
            files: usize::from(before.is_none()) * path.split('/').count(),
        };
        if let Some(usage) = usage {
            fits(usage, more).map_err(|error| over_quota(&error))?;
        }
        let changed = before.as_deref() != Some(after.as_str());
        if changed {
            let (parent, name) = place_in_workspace(folder, &path, true)?;
            let unfinished = format!("{UNFINISHED}{}", sha256_hex(&[name.as_bytes()]));
            replace(&parent, &unfinished, name, &after).map_err(cannot_use(&path))?;
        }
        Ok(
            json!({ "path": path, "changed": changed, "bytes": after.len(), "sha256": digest(Some(&after)) }),
        )
    }

    /// Reads the file; `None`: there is none.
    fn read(&self, folder: &Dir) -> Result<Option<String>, ToolError> {
        match place_in_workspace(folder, &self.path, false) {
            Ok((parent, name)) => match parent.symlink_metadata(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                _ => {}
            },
            // A missing folder is made when the file is written.
            Err(ToolError::Mendable {
                code: FILE_NOT_FOUND,
                ..
            }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (file, _) = open_for(folder, &self.path, self.reader)?;
        let mut bytes = Vec::new();
        let read = file.take(self.bytes_max as u64 + 1).read_to_end(&mut bytes);
        read.map_err(cannot_use(&self.path))?;
        match String::from_utf8(bytes) {
            Ok(text) if text.len() <= self.bytes_max => Ok(Some(text)),
            _ => refuse(
                "not_a_text",
                format!(
                    "`{}` is too large or no UTF-8 text, so it is not changed; write another file",
                    self.path
                ),
            ),
        }
    }
}

/// Check of the workspace's quota.
pub type FitsQuota<'a> = &'a dyn Fn(WorkspaceUsage, WorkspaceUsage) -> Result<(), WorkspaceError>;

/// Returns the outcome of an interrupted change by what the file is now.
pub async fn verified(call: &ToolCall<'_>, expected: &Value) -> Result<CallTrace, ToolError> {
    let Some(path) = expected["path"].as_str().map(str::to_owned) else {
        return Ok(CallTrace::Neither);
    };
    let (bytes_max, reader) = (call.limits.file_bytes_max, call.reader);
    let now = on_disk(call.env.workspace()?.folder(), move |folder| {
        let file = WorkspaceChange {
            path,
            content: Box::new(|_| Ok(String::new())),
            reader,
            bytes_max,
        };
        file.read(folder)
    });
    let now = now.await?;
    let digest = digest(now.as_deref());
    Ok(CallTrace::of_digest(&digest, expected, || {
        let bytes = now.as_ref().map_or(0, String::len);
        json!({ "path": expected["path"], "changed": true, "bytes": bytes, "sha256": digest })
    }))
}

pub fn over_quota(error: &WorkspaceError) -> ToolError {
    match error {
        WorkspaceError::Io(error) => path_error(AGENT_FOLDER, error),
        error => ToolError::mendable("workspace_full", error.to_string()),
    }
}
