//! Commands in the sandbox as a capability: the quota of the workspace holds before and after, and what a command changes is
//! kept as versions of its run.
//!
//! A command can write in the workspace alone. So what could lead it, or a later call, elsewhere is looked for here: a file with
//! a second name outside, through which it would write, keeps it from starting, and links that it leaves behind and that
//! lead out are removed.

use super::error::ToolError;
use super::workspace::{KeptWorkspace, failed};
use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, PinnedSkill, SKILLS_FOLDER};
use crate::domain::{RunId, Timestamp};
use crate::mutants::is_off;
use crate::shell::{CommandOrder, CommandResult, CommandSandbox, ReadOnlyFolder, SandboxError};
use crate::store::files::versions::WorkspaceVersions;
use crate::store::files::workspace::{self, WorkspaceError};
use crate::text::visible;
use crate::tools::SkillReader;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// A command as a tool asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCommand {
    /// Program and its arguments.
    pub argv: Vec<String>,
    /// Folder below the workspace; empty: the workspace.
    pub folder: String,
}

/// A command that ended.
#[derive(Debug)]
pub struct EndedCommand {
    pub result: CommandResult,
    /// What to do about a workspace over its quota.
    pub over_quota: Option<String>,
    /// Links in the workspace that led out of it, and were removed.
    pub removed_links: Vec<String>,
}

/// State of a workspace before a command.
struct ReadyWorkspace {
    place: PathBuf,
    /// See [`CommandOrder`].
    hidden: Vec<String>,
    is_full: bool,
    /// See [`workspace::LeadingOut`].
    second_names: Vec<PathBuf>,
}

/// The way to run commands in a workspace.
#[derive(Clone, Copy)]
pub struct CommandRunner<'a> {
    pub(super) sandbox: &'a CommandSandbox,
    pub(super) workspace: KeptWorkspace<'a>,
    /// Skills whose files it may read.
    pub(super) skills: SkillReader<'a>,
}

impl CommandRunner<'_> {
    /// Runs a command to its end, at most for this time; in a full workspace it can remove files and write none. Errors: there is
    /// no sandbox; a file of the workspace is another file elsewhere.
    pub async fn run(
        self,
        run: &RunId,
        now: Timestamp,
        wanted: WantedCommand,
        within: Duration,
    ) -> Result<EndedCommand, ToolError> {
        let (folder, quota) = (self.workspace.folder.to_owned(), self.workspace.quota);
        let before = move || -> Result<ReadyWorkspace, WorkspaceError> {
            workspace::make(&folder, AGENT_FOLDER)?;
            let is_full = match WorkspaceVersions::of(&folder, quota)?.record(None, now) {
                Err(WorkspaceError::OverQuota(_)) => true,
                recorded => recorded.map(|_usage| false)?,
            };
            let place = folder.join(AGENT_FOLDER);
            let hidden = of_correspondents(&place)?;
            let opened = workspace::open(&folder)?;
            let leading_out = opened.as_ref().map(workspace::leading_out).transpose()?;
            Ok(ReadyWorkspace {
                place,
                hidden,
                is_full,
                second_names: leading_out.unwrap_or_default().second_names,
            })
        };
        let before = spawn_blocking(before).await.map_err(|_| interrupted())?;
        let ready = before.map_err(|error| failed(&error))?;
        if let Some(linked) = ready.second_names.first().filter(|_| !is_off("G20")) {
            return Err(second_name(linked));
        }
        let persona_folder = self.workspace.folder.to_owned();
        let mounted = move |skills: SkillReader<'_>| {
            let skills = skills.unchanged().into_iter();
            Ok(skills
                .filter_map(|skill| mount(&skill, &persona_folder))
                .collect())
        };
        let order = CommandOrder {
            argv: wanted.argv,
            folder: wanted.folder,
            workspace: ready.place,
            hidden: ready.hidden,
            read_only: self.skills.on_disk(mounted).await?,
            workspace_is_full: ready.is_full,
            workspace_bytes_max: quota.bytes_max,
            workspace_files_max: quota.files_max,
        };
        let sandbox = self.sandbox.within(within);
        let result = sandbox.run(&order).await.map_err(not_run);
        let (folder, run) = (self.workspace.folder.to_owned(), run.clone());
        let after = move || {
            let removed = workspace::remove_links_out(&folder)?;
            let recorded = || WorkspaceVersions::of(&folder, quota)?.record(Some(&run), now);
            Ok::<_, io::Error>((removed, recorded()))
        };
        let after = spawn_blocking(after).await.map_err(|_| interrupted())?;
        let (removed_links, recorded) = after.map_err(|error| failed(&error.into()))?;
        let over_quota = match recorded {
            Ok(_usage) => None,
            Err(WorkspaceError::OverQuota(message)) => Some(format!(
                "{message}; until then a command can remove files in it and write none"
            )),
            Err(error) => {
                // The next record does it.
                tracing::warn!(%error, "versions of files in a workspace are not kept");
                None
            }
        };
        Ok(EndedCommand {
            result: result?,
            over_quota,
            removed_links,
        })
    }
}

/// Returns the error of a command that would write elsewhere by a file of the workspace.
fn second_name(linked: &Path) -> ToolError {
    ToolError::mendable(
        "second_name",
        format!(
            "`{AGENT_FOLDER}/{}` has a second name (a hard link) outside of the workspace, so a command would change that file, too; no \
         command is run until your owner has made it a copy",
            visible(&linked.to_string_lossy())
        ),
    )
}

/// Returns the place of a skill's folder, and where a command sees it.
fn mount(skill: &PinnedSkill, persona_folder: &Path) -> Option<ReadOnlyFolder> {
    let base = match skill.persona() {
        Some(_) => persona_folder,
        None => persona_folder.parent()?.parent()?,
    };
    Some(ReadOnlyFolder {
        from: base.join(SKILLS_FOLDER).join(skill.name()),
        to: format!("/{SKILLS_FOLDER}/{}", skill.name()),
    })
}

/// Names in a workspace under which runs of others keep their files, in any case of letters.
fn of_correspondents(workspace: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(workspace)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && name.eq_ignore_ascii_case(CORRESPONDENTS_FOLDER)
            && entry.file_type()?.is_dir()
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn interrupted() -> ToolError {
    ToolError::mendable("file_error", "the file work was interrupted; try again")
}

fn not_run(error: SandboxError) -> ToolError {
    tracing::warn!(%error, "a command was not run");
    ToolError::mendable(
        "sandbox_failed",
        match error {
            SandboxError::NoSandbox(_) => {
                "no command can be run here, and your owner can see why; finish without it"
            }
            SandboxError::Failed(_) => {
                "the sandbox failed, and your owner can see why; the command may or may not have done its work"
            }
        },
    )
}
