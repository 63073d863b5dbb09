//! Reads the configuration again while the engine serves: when its files have changed, and when SIGHUP asks.
//!
//! A file counts when it has not changed between two looks, so that one that is being written is not read. What is faulty is
//! told to the owner once, and what was in force stays so.

use super::parts::{EngineParts, ReloadError, Reloaded};
use crate::config::in_force::{FileStamps, InForce, StartedListeners, by_file, is_text};
use crate::config::{Config, Problem, SECRETS_FILE};
use crate::domain::{FeedKind, NoticeId, NoticeKind, NoticeSubject, sha256_hex};
use crate::store::{ConfigurationEvent, NewNotice, Result, quoted};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Interval between two looks at the files.
const LOOK: Duration = Duration::from_secs(2);
/// A look at the files of many personas takes its time; at most a hundredth of all time goes into them.
const PAUSE_PER_LOOK: u32 = 100;

/// Keeps the parts of an engine in line with its files.
pub struct Reloader {
    parts: Arc<EngineParts>,
    /// Configuration of the engine's start.
    start: Arc<Config>,
    stamps: FileStamps,
    /// `true`: files have changed since they were read.
    is_due: bool,
    /// `true`: somebody has asked, or a text was edited, since they were read; runs that wait look again.
    has_asked: bool,
    /// `true`: somebody waits for the answer of the next reading.
    is_signalled: bool,
    /// Configuration that the newest `configuration.reloaded` of the feed is about.
    recorded: Arc<Config>,
    in_force: InForce,
}

impl Reloader {
    /// Starts with the current state of the files.
    pub(super) fn new(parts: Arc<EngineParts>, start: Arc<Config>) -> Self {
        let config = parts.config.get();
        let in_force = InForce::from_snapshot(
            &config.snapshot,
            StartedListeners::from_gateway(&start.gateway),
        );
        Self {
            stamps: FileStamps::from_config(&config),
            // Edited between the start's reading and this look.
            is_due: !in_force.edited(&config.workspace).is_empty(),
            has_asked: false,
            is_signalled: false,
            recorded: config,
            in_force,
            parts,
            start,
        }
    }

    /// Works until `shutdown`; `wanted`: somebody asks for it now.
    pub(super) async fn run(mut self, wanted: Arc<Notify>, shutdown: CancellationToken) {
        let (clock, mut pause) = (self.parts.store.clock().clone(), LOOK);
        loop {
            let done = tokio::select! {
                () = shutdown.cancelled() => return,
                () = wanted.notified() => {
                    (self.has_asked, self.is_signalled) = (true, true);
                    self.reload().await
                }
                () = tokio::time::sleep(pause) => {
                    let began = clock.monotonic();
                    let looked = self.look().await;
                    let took = clock.monotonic().saturating_sub(began);
                    pause = LOOK.max(took * PAUSE_PER_LOOK);
                    looked
                }
            };
            if let Err(error) = done {
                self.is_due = true;
                tracing::warn!(%error, "the configuration is not read again yet; trying again");
            }
        }
    }

    /// Looks at the files, and reads them if they changed before the last look and not since.
    pub async fn look(&mut self) -> Result<()> {
        let config = self.parts.config.get();
        let looking = tokio::task::spawn_blocking(move || FileStamps::from_config(&config));
        let Ok(stamps) = looking.await else {
            return Ok(());
        };
        if self.see(stamps) {
            self.is_due = true;
            return Ok(());
        }
        if !self.is_due {
            return Ok(());
        }
        self.reload().await
    }

    /// Remembers how the files look; reports whether that is another way than before.
    fn see(&mut self, stamps: FileStamps) -> bool {
        let changed = stamps.changed_since(&self.stamps);
        self.stamps = stamps;
        // One that went and came back between two readings was missed by runs all the same.
        self.has_asked |= changed.iter().any(|file| is_text(file));
        !changed.is_empty()
    }

    /// Reads the files now, and notes what became of it for commands beside the engine.
    ///
    /// Errors: the store's; a later look tries again.
    pub async fn reload(&mut self) -> Result<()> {
        self.see(FileStamps::from_config(&self.parts.config.get()));
        let reloaded = match self.parts.reload(&self.start, self.has_asked).await {
            Ok(reloaded) => reloaded,
            Err(ReloadError::Faulty(errors)) => Reloaded {
                kept: errors.problems,
                after_restart: self.in_force.after_restart.clone(),
                ..Reloaded::default()
            },
            Err(ReloadError::Store(error)) => return Err(error),
        };
        self.has_asked = false;
        self.tell_in_force().await?;
        let (problems, after_restart) = (reloaded.kept, reloaded.after_restart);
        self.tell_refused(&problems).await?;
        for (file, problems) in by_file(&problems) {
            for problem in &problems {
                tracing::error!(%problem, "what was in force stays so");
            }
            let notice = self.notice(file, &problems);
            self.parts.store.emit_notice(notice).await?;
        }
        for setting in &after_restart {
            if !self.in_force.after_restart.contains(setting) {
                tracing::warn!(%setting, "in force after a restart");
            }
        }
        let config = self.parts.config.get();
        self.in_force = InForce {
            reads: self.in_force.reads + 1,
            asked: self.in_force.asked + u64::from(std::mem::take(&mut self.is_signalled)),
            refused: std::mem::take(&mut self.in_force.refused),
            after_restart,
            warnings: config.warnings.iter().map(ToString::to_string).collect(),
            ..InForce::from_snapshot(
                &config.snapshot,
                StartedListeners::from_gateway(&self.start.gateway),
            )
        };
        // What an agent keeps from being read is read when that has ended.
        self.is_due = reloaded.is_held && !self.in_force.edited(&config.workspace).is_empty();
        if let Err(error) = self.in_force.note(&config.workspace) {
            tracing::warn!(%error, "commands beside this engine cannot tell what is in force");
        }
        Ok(())
    }

    /// Tells whoever watches which edited files are in force, once, however long the store refuses it.
    async fn tell_in_force(&mut self) -> Result<()> {
        let config = self.parts.config.get();
        if Arc::ptr_eq(&config, &self.recorded) {
            return Ok(());
        }
        let files = changed(&self.recorded, &config);
        let event = ConfigurationEvent::of(files, 0, config.warnings.len());
        let kind = FeedKind::ConfigurationReloaded;
        self.parts.store.tell_of_configuration(kind, &event).await?;
        let personas = config.personas.iter().count();
        tracing::info!(personas, "the edited configuration is in force");
        let mut warnings = config.warnings.iter();
        while let Some(warning) = warnings.find(|one| !self.recorded.warnings.contains(one)) {
            tracing::warn!(%warning, "the edited configuration is in force all the same");
        }
        self.recorded = config;
        Ok(())
    }

    /// Tells whoever watches what is wrong with edited files; the same faults are told once.
    async fn tell_refused(&mut self, problems: &[Problem]) -> Result<()> {
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if !found.is_empty() && found != self.in_force.refused {
            let files = by_file(problems).into_keys();
            let files = files.map(str::to_owned).collect();
            let event = ConfigurationEvent::of(files, found.len(), 0);
            let kind = FeedKind::ConfigurationRefused;
            self.parts.store.tell_of_configuration(kind, &event).await?;
        }
        self.in_force.refused = found;
        Ok(())
    }

    fn notice(&self, file: &str, problems: &[String]) -> NewNotice {
        let clock = self.parts.store.clock();
        let today = clock.now().to_string();
        let first = problems.first().map(String::as_str).unwrap_or_default();
        let more = match problems.len() {
            0 | 1 => String::new(),
            many => format!(" and {} more", many - 1),
        };
        let digest = sha256_hex(&[problems.join("\n").as_bytes()]);
        NewNotice {
            id: NoticeId::new(clock.new_id()),
            persona: None,
            kind: NoticeKind::ConfigFaulty,
            detail: file.to_owned(),
            subject: NoticeSubject::ConfigFile,
            subject_id: file.to_owned(),
            occurrence: format!("{}-{}", &today[..10], &digest[..16]),
            summary: format!(
                "{file} was edited and is faulty: {}{more}; what was in force stays so, and runs wait for a text that is gone",
                quoted(first)
            ),
            hint: "put right what `attache config check` names: it is in force seconds later. Until then the engine would not \
                   start again"
                .to_owned(),
        }
    }
}

/// Returns the files in which two configurations differ. Secrets are no part of a snapshot: when they alone have changed, their
/// file is named.
fn changed(before: &Config, now: &Config) -> Vec<String> {
    let (before, now) = (before.snapshot.files(), now.snapshot.files());
    let all = before
        .keys()
        .chain(now.keys().filter(|path| !before.contains_key(*path)));
    let mut differs: Vec<String> = all
        .filter(|path| before.get(*path) != now.get(*path))
        .cloned()
        .collect();
    if differs.is_empty() {
        differs.push(SECRETS_FILE.to_owned());
    }
    differs.sort();
    differs
}
