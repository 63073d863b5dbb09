//! The workspace of a persona as a capability: changes in it keep its quota and its versions.

use super::error::ToolError;
use crate::domain::{RunId, Timestamp};
use crate::store::files::versions::WorkspaceVersions;
use crate::store::files::workspace::{self, WorkspaceError, WorkspaceQuota, WorkspaceUsage};
use cap_std::fs_utf8::Dir;
use std::path::Path;
use tokio::task::spawn_blocking;

/// Versions and quota of a workspace.
#[derive(Clone, Copy)]
pub struct KeptWorkspace<'a> {
    /// Folder of the persona.
    pub folder: &'a Path,
    pub quota: WorkspaceQuota,
}

/// The workspace that a call may write in.
#[derive(Clone, Copy)]
pub struct WorkspaceWriter<'a> {
    pub(super) folder: &'a Dir,
    /// `None`: a copy, of which no versions are kept.
    pub(super) kept: Option<KeptWorkspace<'a>>,
}

impl<'a> WorkspaceWriter<'a> {
    /// Returns the persona's folder.
    pub fn folder(self) -> &'a Dir {
        self.folder
    }

    /// Makes a change, with the present usage and the check of the quota, and keeps what it replaced as a version of this
    /// run's. In a full workspace what needs no more room is allowed; what changed since there was room last is not
    /// kept as a version then.
    pub async fn change<T, F>(self, run: &RunId, now: Timestamp, change: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(
                &Dir,
                Option<WorkspaceUsage>,
                &dyn Fn(WorkspaceUsage, WorkspaceUsage) -> Result<(), WorkspaceError>,
            ) -> Result<T, ToolError>
            + Send
            + 'static,
    {
        let folder = self
            .folder
            .try_clone()
            .map_err(|error| failed(&error.into()))?;
        let (run, kept) = (
            run.clone(),
            self.kept.map(|kept| (kept.folder.to_owned(), kept.quota)),
        );
        let work = move || {
            let Some((persona_folder, quota)) = kept else {
                return change(&folder, None, &|_, _| Ok(()));
            };
            let versions = WorkspaceVersions::of(&persona_folder, quota)
                .map_err(|error| failed(&error.into()))?;
            // Keeps the content that is about to be replaced.
            let (usage, full) = match versions.record(None, now) {
                Err(WorkspaceError::OverQuota(message)) => {
                    (WorkspaceUsage::default(), Some(message))
                }
                recorded => (recorded.map_err(|error| failed(&error))?, None),
            };
            let fits = |usage, more| match &full {
                Some(_) if more == WorkspaceUsage::default() => Ok(()),
                Some(message) => Err(WorkspaceError::OverQuota(message.clone())),
                None => workspace::fits(usage, more, &quota),
            };
            let done = change(&folder, Some(usage), &fits)?;
            if let Err(error) = versions.record(Some(&run), now) {
                // The next record does it.
                tracing::warn!(%run, %error, "a version of a file cannot be kept");
            }
            Ok(done)
        };
        let interrupted =
            |_| ToolError::mendable("file_error", "the file work was interrupted; try again");
        spawn_blocking(work).await.map_err(interrupted)?
    }
}

pub(super) fn failed(error: &WorkspaceError) -> ToolError {
    match error {
        WorkspaceError::Io(error) => ToolError::mendable(
            "file_error",
            format!("the workspace cannot be used: {}", error.kind()),
        ),
        error => ToolError::mendable("workspace_full", error.to_string()),
    }
}
