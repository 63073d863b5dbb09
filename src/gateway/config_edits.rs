//! Edits of the configuration while the engine serves: they are in force after a restart. One that leaves the rules or the
//! hooks faulty is told to the owner, because the next start would end with it.

use crate::config::in_force::{Edits, is_of_rules};
use crate::config::{Config, ConfigErrors, Problem, load};
use crate::domain::{NoticeId, NoticeKind, NoticeSubject, sha256_hex};
use crate::store::{NewNotice, Result, Store, quoted};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two checks of the files.
const LOOK: Duration = Duration::from_secs(2);

/// Watches the files of the configuration.
pub struct ConfigEdits {
    store: Store,
    config: Arc<Config>,
    edits: Edits,
}

impl ConfigEdits {
    /// Starts with the current state of the files.
    pub fn new(store: &Store, config: &Arc<Config>) -> Self {
        Self {
            store: store.clone(),
            config: config.clone(),
            edits: Edits::since(&config.snapshot, &config.workspace),
        }
    }

    /// Watches until `shutdown`.
    pub async fn watch(mut self, shutdown: CancellationToken) {
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = look.tick() => {}
            }
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "faulty rules are not told to the owner yet; the next edit is");
            }
        }
    }

    /// Logs once for each edit that it is not in force, and emits a notice about faulty rules and hooks.
    pub async fn look(&mut self) -> Result<()> {
        let edited = self.edits.new_edits();
        if edited.is_empty() {
            return Ok(());
        }
        let files = edited.join(", ");
        tracing::warn!(
            files,
            "edited, and not in force before this engine is started again"
        );
        if !edited.iter().any(|file| is_of_rules(file)) {
            return Ok(());
        }
        let Err(ConfigErrors { problems }) = load(&self.config.workspace, &self.config.names)
        else {
            return Ok(());
        };
        for problem in problems
            .iter()
            .filter(|problem| edited.contains(&problem.file))
        {
            tracing::error!(%problem, "what was read at the start stays in force");
            self.store.emit_notice(self.notice(problem)).await?;
        }
        Ok(())
    }

    fn notice(&self, problem: &Problem) -> NewNotice {
        let clock = self.store.clock();
        let (today, problem_text) = (clock.now().to_string(), problem.to_string());
        NewNotice {
            id: NoticeId::new(clock.new_id()),
            persona: None,
            kind: NoticeKind::ConfigFaulty,
            detail: problem.file.clone(),
            subject: NoticeSubject::ConfigFile,
            subject_id: problem.file.clone(),
            occurrence: format!("{}-{}", &today[..10], &sha256_hex(&[problem_text.as_bytes()])[..16]),
            summary: format!(
                "{} was edited and is faulty: {}; the engine goes on with what it read at its start",
                problem.file,
                quoted(&problem_text)
            ),
            hint: "put right what `attache config check` names: until then the engine would not start again".to_owned(),
        }
    }
}
