//! Copies of the files that no agent may change, kept while an agent works: one copy for all agents
//! of a persona that work at once, or the end of one would restore over the changes of another.

use crate::config::{AGENT_FOLDER, Persona, Tier};
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp};
use crate::runs::error::RunError;
use crate::store::runs::agent_files::{self, ExpectedEffects, FileGuard};
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
    /// in which agents may write.
    pub async fn begin(
        &self,
        run: &ClaimedRun,
        (persona, tier): (&Persona, Tier),
        now: Timestamp,
    ) -> Result<(), RunError> {
        let mut open = self.0.lock().await;
        if let Some((_, agents)) = open.get_mut(&persona.id) {
            *agents += 1;
            return Ok(());
        }
        let (folder, id, run) = (persona.folder.clone(), persona.id.clone(), run.id.clone());
        let guard = blocking(move || {
            if tier >= Tier::Write {
                std::fs::create_dir_all(folder.join(AGENT_FOLDER))?;
            }
            agent_files::guard(&folder, &id, &run, now)
        });
        let guard = guard.await.map_err(|error| RunError::Machine {
            message: format!("the files that no agent may change cannot be copied: {error}"),
        })?;
        open.insert(persona.id.clone(), (Arc::new(guard), 1));
        Ok(())
    }

    /// Restores changed files; the last agent removes the copy.
    pub async fn end(
        &self,
        store: &Store,
        run: &ClaimedRun,
        persona: &Persona,
    ) -> Result<Vec<String>, RunError> {
        let mut open = self.0.lock().await;
        let Some((guard, agents)) = open.get_mut(&persona.id) else {
            return Ok(Vec::new());
        };
        *agents -= 1;
        let (guard, is_last) = (guard.clone(), *agents == 0);
        let changed = put_back(store, &guard, run.id.as_str(), is_last).await;
        // A copy that could not be compared stays, and the next start compares it.
        if is_last {
            open.remove(&persona.id);
        }
        changed
    }
}

/// Restores what agents of a dead engine changed. Errors: the store's; files that cannot be read or
/// written are logged.
pub async fn recover(store: &Store, workspace: &Path) -> Result<(), StoreError> {
    let workspace = workspace.to_path_buf();
    let guards = match blocking(move || agent_files::left_behind(&workspace)).await {
        Ok(guards) => guards,
        Err(error) => {
            tracing::error!(%error, "copies of files that no agent may change cannot be read");
            return Ok(());
        }
    };
    for guard in guards.into_iter().map(Arc::new) {
        match put_back(store, &guard, &guard.run, true).await {
            Err(RunError::Store(error)) => return Err(error),
            Err(error) => {
                tracing::error!(persona = guard.persona, %error, "an agent's changes are not put back");
            }
            Ok(_changed) => {}
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
    let changed = blocking(move || of.put_back(&expected, now))
        .await
        .map_err(|error| RunError::Machine {
            message: format!("files that an agent may have changed cannot be put back: {error}"),
        })?;
    if !changed.is_empty() {
        tracing::error!(
            run,
            persona = guard.persona,
            changed = changed.join(", "),
            "an agent changed files that no agent may change"
        );
        store
            .emit_notice(notice(store, guard, run, &changed, now))
            .await?;
    }
    if is_last {
        let of = guard.clone();
        if let Err(error) = blocking(move || of.end()).await {
            tracing::warn!(persona = guard.persona, %error, "a copy that is not needed any more stays");
        }
    }
    Ok(changed)
}

fn notice(
    store: &Store,
    guard: &FileGuard,
    run: &str,
    changed: &[String],
    now: Timestamp,
) -> NewNotice {
    NewNotice {
        id: NoticeId::new(store.clock().new_id()),
        persona: PersonaId::parse(&guard.persona).ok(),
        kind: NoticeKind::AgentChangedFiles,
        detail: String::new(),
        subject: NoticeSubject::Run,
        subject_id: run.to_owned(),
        occurrence: now.to_string(),
        summary: format!(
            "while an agent worked on run {run} of {}, {} changed, which no agent may change; it was put back as it was \
             before, and what was there instead lies in {}",
            guard.persona,
            named(changed),
            quoted(&guard.quarantine(now))
        ),
        hint: "if it was your own edit, make it again while no agent works; otherwise see what the agent was told with \
            `attache runs show`"
            .to_owned(),
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
