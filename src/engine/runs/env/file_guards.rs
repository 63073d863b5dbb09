//! Copies of the files that no agent may change, kept while an agent works: one copy for all agents
//! of a persona that work at once, or the end of one would restore over the changes of another.

use crate::config::{Config, Persona};
use crate::domain::{ErrorClass, NoticeId, NoticeKind, NoticeSubject, PersonaId, RunId};
use crate::runs::error::RunError;
use crate::store::files::agent_files::ExpectedEffects;
use crate::store::files::guard::{self, FileGuard};
use crate::store::files::put_back::UndoneChanges;
use crate::store::files::versions::WorkspaceVersions;
use crate::store::files::workspace::{self, WorkspaceError, WorkspaceQuota};
use crate::store::{ClaimedRun, NewNotice, Store, StoreError, quoted};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

/// Number of paths that a notice names; the others are counted.
const NAMED_MAX: usize = 8;

/// Guarded copies by persona, each with the number of agents that share it.
#[derive(Clone, Default)]
pub struct Guards(Arc<Mutex<BTreeMap<PersonaId, Shared>>>);

/// A copy, and the number of agents that share it.
type Shared = (Arc<FileGuard>, usize);

impl Guards {
    /// Copies the guarded files, unless another agent of the persona is at work. Makes the folder
    /// in which the agent works. Errors: an agent may write, and its workspace is over its quota.
    pub async fn begin(
        &self,
        store: &Store,
        run: &ClaimedRun,
        persona: &Persona,
        order: &GuardOrder,
    ) -> Result<(), RunError> {
        let mut open = self.0.lock().await;
        let (folder, working) = (persona.folder.clone(), order.working.clone());
        if let Some((_, agents)) = open.get_mut(&persona.id) {
            blocking(move || workspace::make(&folder, &working))
                .await
                .map_err(|error| uncopied(&error))?;
            require_room(store, persona, order).await?;
            *agents += 1;
            return Ok(());
        }
        // The end of an earlier agent could not put everything back.
        let left = blocking(move || guard::left_in(&folder)).await;
        if let Some(left) = left.map_err(|error| uncopied(&error))? {
            let left = Arc::new(left);
            put_back(store, &left, &left.run, true).await?;
        }
        let (folder, id, run) = (persona.folder.clone(), persona.id.clone(), run.id.clone());
        let now = store.clock().now();
        let guard = blocking(move || {
            workspace::make(&folder, &working)?;
            guard::guard(&folder, &id, &run, now)
        });
        let guard = guard.await.map_err(|error| uncopied(&error))?;
        if let Err(full) = require_room(store, persona, order).await {
            let _stays_until_the_next = blocking(move || guard.end()).await;
            return Err(full);
        }
        open.insert(persona.id.clone(), (Arc::new(guard), 1));
        Ok(())
    }

    /// Restores changed files, and keeps what was changed in the workspace; the last agent removes
    /// the copy.
    pub async fn end(
        &self,
        store: &Store,
        run: &ClaimedRun,
        persona: &Persona,
        quota: WorkspaceQuota,
    ) -> Result<AgentChanges, RunError> {
        let mut open = self.0.lock().await;
        let Some((guard, agents)) = open.get_mut(&persona.id) else {
            return Ok(AgentChanges::default());
        };
        *agents -= 1;
        let (guard, is_last) = (guard.clone(), *agents == 0);
        let changed = put_back(store, &guard, run.id.as_str(), is_last).await;
        remove_links(guard.folder()).await;
        // A copy that could not be compared stays, and the next start compares it.
        if is_last {
            open.remove(&persona.id);
        }
        let over_quota = record(store, &persona.folder, quota, Some(&run.id)).await;
        Ok(AgentChanges {
            undone: changed?,
            over_quota,
        })
    }
}

/// Folder of an agent that begins to work.
#[derive(Debug, Clone)]
pub struct GuardOrder {
    /// Working folder, relative to the persona's.
    pub working: String,
    /// `true`: it may write there.
    pub writes: bool,
    pub quota: WorkspaceQuota,
}

/// Changes that an agent has made.
#[derive(Debug, Default)]
pub struct AgentChanges {
    /// Paths that no agent may change, and that were put back.
    pub undone: Vec<String>,
    /// What to do about a workspace over its quota.
    pub over_quota: Option<String>,
}

/// Keeps what changed while no agent worked, and refuses an agent that may write where there is no
/// room.
async fn require_room(
    store: &Store,
    persona: &Persona,
    order: &GuardOrder,
) -> Result<(), RunError> {
    let over_quota = record(store, &persona.folder, order.quota, None).await;
    match over_quota.filter(|_| order.writes) {
        None => Ok(()),
        Some(message) => Err(RunError::Fatal {
            class: ErrorClass::DisallowedTool,
            message: format!("no agent of `{}` may write: {message}", persona.id),
        }),
    }
}

/// Keeps what was changed in the workspace; returns what to do where it is over its quota. A failure
/// to keep is logged: what is there is not lost by it, and the next call tries again.
async fn record(
    store: &Store,
    folder: &Path,
    quota: WorkspaceQuota,
    run: Option<&RunId>,
) -> Option<String> {
    let (folder, run, now) = (folder.to_path_buf(), run.cloned(), store.clock().now());
    let recorded =
        spawn_blocking(move || WorkspaceVersions::of(&folder, quota)?.record(run.as_ref(), now));
    match recorded.await {
        Ok(Ok(_usage)) => None,
        Ok(Err(WorkspaceError::OverQuota(message))) => Some(message),
        Ok(Err(error)) => {
            tracing::error!(%error, "versions of files in a workspace are not kept");
            None
        }
        Err(error) => {
            tracing::error!(%error, "versions of files in a workspace are not kept");
            None
        }
    }
}

/// Removes links that lead out of a workspace: nobody follows them, and nothing else should find them there.
async fn remove_links(folder: &Path) {
    let folder = folder.to_path_buf();
    match blocking(move || workspace::remove_links_out(&folder)).await {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => {
            tracing::warn!(
                links = named(&removed),
                "an agent left links that led out of its workspace; they were removed"
            );
        }
        Err(error) => tracing::error!(%error, "links in a workspace cannot be looked at"),
    }
}

/// Returns what to do where a workspace is over its quota.
pub async fn over_quota(persona: &Persona, quota: WorkspaceQuota) -> Option<String> {
    let folder = persona.folder.clone();
    let listed = spawn_blocking(move || WorkspaceVersions::of(&folder, quota)?.files());
    match listed.await {
        Ok(Err(WorkspaceError::OverQuota(message))) => Some(message),
        // A workspace that cannot be read is judged at the agent's end.
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    }
}

/// Restores what agents of a dead engine changed, and keeps what they changed in their workspaces.
/// Errors: the store's; files that cannot be read or written are logged.
pub async fn recover(store: &Store, config: &Config) -> Result<(), StoreError> {
    let (workspace, quota) = (
        config.workspace.clone(),
        WorkspaceQuota::from(&config.limits),
    );
    let guards = match blocking(move || guard::left_behind(&workspace)).await {
        Ok(guards) => guards,
        Err(error) => {
            tracing::error!(%error, "copies of files that no agent may change cannot be read");
            return Ok(());
        }
    };
    for guard in guards {
        let guard = match guard {
            Ok(guard) => Arc::new(guard),
            Err(error) => {
                // Its persona's responsibilities are not read as long as it is there.
                tracing::error!(%error, "a copy of files that no agent may change cannot be read");
                continue;
            }
        };
        match put_back(store, &guard, &guard.run, true).await {
            Err(RunError::Store(error)) => return Err(error),
            Err(error) => {
                tracing::error!(persona = guard.persona, %error, "an agent's changes are not put back");
            }
            Ok(_changed) => {
                remove_links(guard.folder()).await;
                let run = RunId::new(guard.run.clone());
                let _stops_the_next_run = record(store, guard.folder(), quota, Some(&run)).await;
            }
        }
    }
    Ok(())
}

async fn put_back(
    store: &Store,
    guard: &Arc<FileGuard>,
    run: &str,
    is_last: bool,
) -> Result<Vec<String>, RunError> {
    let now = store.clock().now();
    let expected = match PersonaId::parse(&guard.persona) {
        Ok(persona) => {
            store
                .persona(&persona)
                .expected_files(guard.begun_at())
                .await?
        }
        Err(_no_persona) => ExpectedEffects::default(),
    };
    let of = guard.clone();
    let undone = blocking(move || of.put_back(&expected, now))
        .await
        .map_err(|error| RunError::Machine {
            message: format!("files that an agent may have changed cannot be put back: {error}"),
        })?;
    if !undone.paths.is_empty() {
        tracing::error!(
            run,
            persona = guard.persona,
            changed = undone.paths.join(", "),
            "an agent changed files that no agent may change"
        );
        store
            .emit_notice(notice(store, guard, run, &undone))
            .await?;
    }
    let of = guard.clone();
    // The notes of the changes go after the notice, so that a crash leaves no change untold.
    let ended = blocking(move || match is_last {
        true => of.end(),
        false => of.forget_changes(),
    });
    if let Err(error) = ended.await {
        tracing::warn!(persona = guard.persona, %error, "a copy that is not needed any more stays");
    }
    Ok(undone.paths)
}

fn notice(store: &Store, guard: &FileGuard, run: &str, undone: &UndoneChanges) -> NewNotice {
    NewNotice {
        id: NoticeId::new(store.clock().new_id()),
        persona: PersonaId::parse(&guard.persona).ok(),
        kind: NoticeKind::AgentChangedFiles,
        detail: String::new(),
        subject: NoticeSubject::Run,
        subject_id: run.to_owned(),
        occurrence: undone.found_at.to_string(),
        summary: format!(
            "while an agent worked on run {run} of {}, {} changed, which no agent may change; it was put back as it was \
             before, and what was there instead lies in {}",
            guard.persona,
            named(&undone.paths),
            quoted(&undone.quarantine)
        ),
        hint: "if it was your own edit, make it again while no agent works; otherwise see what the agent was told with \
            `attache runs show`"
            .to_owned(),
    }
}

fn uncopied(error: &io::Error) -> RunError {
    RunError::Machine {
        message: format!("the files that no agent may change cannot be copied: {error}"),
    }
}

/// Lists the first few paths, and the number of the others.
pub fn named(changed: &[String]) -> String {
    let first: Vec<String> = changed
        .iter()
        .take(NAMED_MAX)
        .map(|path| quoted(path))
        .collect();
    let more = changed.len() - first.len();
    format!(
        "{}{}",
        first.join(", "),
        if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        }
    )
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
