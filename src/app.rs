//! The composition root: opens the store, builds the parts of the engine, starts them, waits, shuts
//! them down.
//!
//! The only file that knows every part. The parts meet in committed rows; only hints ([`Notify`])
//! and the order to stop ([`CancellationToken`]) pass through here.
//!
//! - `parts`: what is built for a configuration. `recovery`: what a start finds. `reloader`: another configuration while it serves.
//! - `service_manager`: systemd. `roles`, `node_marks`, `nodes`, `hints`: an engine that is one of several.
//! - `restartable_tasks`, `watches`: tasks that depend on the configuration.

mod parts;
mod recovery;
mod reloader;
pub mod service_manager;
mod roles;
pub mod node_marks;
mod nodes;
mod hints;
mod restartable_tasks;
mod watches;

pub use parts::{ReloadError, Reloaded};
pub use reloader::Reloader;
pub use roles::{NodeRole, NodeRoles};

use crate::clock::Clock;
use crate::config::in_force::{InForce, StartedListeners};
use crate::config::{Config, ConfigErrors, ImapMailbox, Problem};
use crate::gateway::ingress::imap::MailboxWatch;
use crate::gateway::ingress::smtp::{self, BoundSocket, ListenerFactory};
use crate::gateway::intake::Intake;
use crate::gateway::intake_contract::LetterIntake;
use crate::http::{self, BoundPages, InstallationExaminer, InstallationWatch, WebParts};
use crate::runs::deps::WorkerDeps;
use crate::runs::preflight::{self, price_problems};
use crate::runs::worker::Worker;
use crate::scheduler::Scheduler;
use crate::store::Store;
use anyhow::Context;
use futures_util::FutureExt;
use parts::EngineParts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Time for open SMTP sessions to receive a temporary refusal after the store has failed.
const LAST_REPLIES: Duration = Duration::from_millis(400);
/// Share of `drain_max` within which running work must end, requeueing included.
const WORK_SHARE: f32 = 0.9;
/// Time for the database to close after the work has ended.
const CLOSE: Duration = Duration::from_millis(600);

/// An engine on a workspace: holds the lock, has recovered from the previous engine's crash, and
/// runs nothing yet.
pub struct Engine {
    pub store: Store,
    /// Configuration of the start; [`Engine::reload`] puts others in force.
    pub config: Arc<Config>,
    parts: Arc<EngineParts>,
    worker: Worker,
    pages: Vec<BoundPages>,
    roles: NodeRoles,
    /// Woken when somebody asks for a reload.
    reload_wanted: Arc<Notify>,
}

/// Counts of the work that [`Engine::drain`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Runs that ended, with any outcome.
    pub runs: usize,
    /// Delivery attempts made.
    pub mails: usize,
}

impl Engine {
    /// Opens the workspace for work. Errors: another engine holds it, the database is unusable, a
    /// provider or transport cannot be built.
    pub async fn open(config: Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let store = Store::open(&config.workspace, clock.clone()).await?;
        Self::with_store(config, store, clock).await
    }

    /// Opens the workspace in place of an engine that holds it and does not answer. From here on
    /// the old engine stores and sends nothing, and it ends at its next attempt to do so.
    pub async fn take_over(config: Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let store = Store::take_over(&config.workspace, clock.clone()).await?;
        Self::with_store(config, store, clock).await
    }

    async fn with_store(
        config: Config,
        store: Store,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let config = Arc::new(config);
        recovery::recover(&store, &config).await?;
        let (runs_queued, mail_queued) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let deps = WorkerDeps::set_up(store.clone(), config.clone(), mail_queued.clone())?;
        if let Some(errors) =
            ConfigErrors::from_problems(price_problems(&config, &deps.providers, clock.now()))
        {
            return Err(errors.into());
        }
        let intake = Intake::new(store.clone(), config.clone(), runs_queued.clone())?;
        let parts = Arc::new(EngineParts::new(
            &config,
            &store,
            deps,
            intake,
            runs_queued,
            mail_queued,
        )?);
        if let Err(error) = InForce::from_snapshot(
            &config.snapshot,
            StartedListeners::from_gateway(&config.gateway),
        )
        .note(&config.workspace)
        {
            tracing::warn!(%error, "commands beside this engine cannot tell what is in force");
        }
        parts
            .engine_mail
            .get()
            .note_out_of_service()
            .await
            .context("noting which personas are out of service")?;
        parts
            .webhooks
            .get()
            .open()
            .await
            .context("opening the webhooks")?;
        Ok(Self {
            store,
            config,
            worker: Worker::of(parts.deps.clone()),
            parts,
            pages: Vec::new(),
            roles: NodeRoles::all(),
            reload_wanted: Arc::default(),
        })
    }

    /// Does only a part of the work, because other nodes do the rest.
    ///
    /// Errors: the roles cannot be noted for the list of nodes.
    pub async fn with_roles(mut self, roles: NodeRoles) -> anyhow::Result<Self> {
        let noted = self.store.note_roles(roles.to_string()).await;
        noted.context("noting what this node does")?;
        self.roles = roles;
        Ok(self)
    }

    /// Returns what is to be woken when the configuration should be read again.
    pub fn reload_wanted(&self) -> Arc<Notify> {
        self.reload_wanted.clone()
    }

    /// Reads the configuration again and puts it in force for all work that begins from now on.
    ///
    /// Errors: it is faulty, and what was in force stays so; or the database cannot be used.
    pub async fn reload(&self) -> Result<Reloaded, ReloadError> {
        self.parts.reload(&self.config, true).await
    }

    /// Builds what reads the configuration again when its files have changed.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(self.parts.clone(), self.config.clone())
    }

    /// Returns the configuration that is in force now.
    pub fn config_in_force(&self) -> Arc<Config> {
        self.parts.config.get()
    }

    /// Warnings, which do not prevent a start: letters are accepted all the same.
    pub fn warnings(&self) -> Vec<Problem> {
        let now = self.store.clock().now();
        let texts = self.parts.text_problems();
        let out = self
            .config
            .personas
            .out_of_service()
            .iter()
            .flat_map(|out| out.problems.iter().cloned());
        let out = out.map(|problem| Problem {
            message: format!("{}: the persona is out of service", problem.message),
            ..problem
        });
        let warnings = preflight::warnings(&self.config, &self.parts.deps.get().providers, now);
        out.chain(warnings).chain(texts).collect()
    }

    /// The intake for letters that do not arrive through a listener.
    pub fn intake(&self) -> Arc<dyn LetterIntake> {
        self.parts.intake.clone()
    }

    /// The scheduler, whose heartbeat is not started.
    pub fn scheduler(&self) -> Arc<Scheduler> {
        self.parts.scheduler.get()
    }

    /// Processes everything that is queued and due now, then returns.
    pub async fn drain(&self) -> anyhow::Result<Drained> {
        let mut drained = Drained::default();
        let parts = &self.parts;
        let mut worker = Worker::of(parts.deps.clone());
        loop {
            let letters = parts
                .intake
                .verify_held()
                .await
                .context("verifying held letters")?;
            // Before runs, because a command may halt them.
            let commands = parts
                .engine_mail
                .get()
                .carry_out_commands()
                .await
                .context("carrying out commands")?;
            let runs = worker.drain().await.context("working off runs")?;
            let mut mails = 0;
            if let Some(outbound) = &parts.outbound.get().outbound {
                loop {
                    match outbound
                        .work_once()
                        .await
                        .context("working off the outbox")?
                    {
                        0 => break,
                        tried => mails += tried,
                    }
                }
            }
            // After mails: one that goes out at once is not late.
            let written = parts
                .engine_mail
                .get()
                .work_once()
                .await
                .context("telling owners and senders")?;
            let events = parts
                .webhooks
                .get()
                .work_once()
                .await
                .context("telling webhooks")?;
            drained.runs += runs;
            drained.mails += mails;
            if letters + commands + runs + mails + written + events == 0 {
                parts.deps.get().make_vectors().await;
                return Ok(drained);
            }
        }
    }

    /// Binds every configured listener and returns the addresses that the system bound.
    pub async fn bind(&self) -> anyhow::Result<Vec<BoundSocket>> {
        let Config {
            gateway,
            limits,
            security,
            ..
        } = &*self.parts.config.get();
        let relays = &security.authentication.trusted_relays;
        let listener_factory =
            ListenerFactory::open(gateway, limits, relays, self.store.clock()).context("no TLS")?;
        let mut bound = Vec::new();
        let listeners = match self.roles.has(NodeRole::Gateway) {
            true => gateway.listeners.as_slice(),
            false => &[],
        };
        for listener in listeners {
            let opened =
                BoundSocket::open(&listener.address, listener_factory.settings(listener)).await;
            bound.push(opened.with_context(|| format!("cannot listen on {}", listener.address))?);
        }
        let addresses = listeners.iter().map(|listener| listener.address.clone());
        self.parts
            .listens(listener_factory, addresses.zip(&bound).collect());
        Ok(bound)
    }

    /// Has the pages show what this finds of the installation. The first one counts.
    pub fn examined_by(&self, examiner: Arc<dyn InstallationExaminer>) {
        let watch = InstallationWatch::new(examiner, self.store.clock().clone());
        let _first = self.parts.installation.set(Arc::new(watch));
    }

    /// Returns the parts that pages use.
    pub fn web_parts(&self) -> WebParts {
        self.parts.web_parts()
    }

    /// Binds every configured listener of the pages, to be served with the others, and returns the addresses that the system
    /// bound.
    pub async fn bind_pages(&mut self) -> anyhow::Result<Vec<String>> {
        self.pages.clear();
        if !self.roles.has(NodeRole::Http) {
            return Ok(Vec::new());
        }
        let parts = self.web_parts();
        for listener in &self.config.gateway.http_listeners {
            let opened = BoundPages::open(listener, &parts).await;
            let opened = opened.with_context(|| format!("cannot listen on {}", listener.address));
            self.pages.push(opened?);
        }
        self.parts.listens_for_pages(&self.pages);
        Ok(self.pages.iter().map(BoundPages::address).collect())
    }

    /// Serves until `shutdown`, then stops accepting, lets running work end, and closes the
    /// database, all within `limits.drain_max`. Work that does not end in time is cancelled, and
    /// the next engine resumes it.
    ///
    /// Errors: nothing can be stored any more, because another engine holds the workspace or the
    /// disk failed.
    pub async fn serve(
        self,
        listeners: Vec<BoundSocket>,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        let (store, parts) = (self.store.clone(), self.parts.clone());
        let mut work = self.start(listeners, &shutdown);
        let halted = tokio::select! {
            () = shutdown.cancelled() => None,
            halted = store.halted() => Some(halted.into()),
            panicked = work.panicked() => Some(panicked),
        };
        shutdown.cancel();
        service_manager::tell_stopping();
        parts.intake.stop();
        let drain_max = parts.config.get().limits.drain_max;
        if let Some(error) = halted {
            tracing::error!(%error, "stopping at once");
            let _cut = timeout(LAST_REPLIES, async {
                while work.intake.join_next().await.is_some() {}
            })
            .await;
            return Err(error);
        }
        tracing::info!("stopping");
        // At least one second, so that a `drain_max` of zero still requeues cancelled work.
        let most = drain_max.max(Duration::from_secs(1)).mul_f32(WORK_SHARE);
        let ended = async {
            if let Err(error) = store.note_end().await {
                tracing::debug!(%error, "not noted that this end was asked for");
            }
            work.ended().await;
        };
        if timeout(most, ended).await.is_err() {
            tracing::warn!(
                "some work did not end in time and is cut; the next start goes on with it"
            );
        }
        drop((work, parts));
        let halted = store.halted().now_or_never();
        if timeout(CLOSE, store.close()).await.is_err() {
            tracing::warn!(
                "the database did not close in time; nothing is lost, the next start reads its log"
            );
        }
        halted.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Starts every task that works until `shutdown`.
    fn start(mut self, listeners: Vec<BoundSocket>, shutdown: &CancellationToken) -> Work {
        let mut work = Work::default();
        for listener in listeners {
            work.intake
                .spawn(smtp::serve(listener, self.intake(), shutdown.clone()));
        }
        let (roles, parts) = (self.roles, self.parts);
        for pages in std::mem::take(&mut self.pages) {
            work.road.spawn(http::serve(pages, shutdown.clone()));
        }
        let (intake, stop) = (parts.intake.clone(), shutdown.clone());
        work.intake
            .spawn(async move { intake.watch_queue(stop).await });
        let (intake, stop) = (parts.intake.clone(), shutdown.clone());
        work.intake
            .spawn(async move { intake.watch_shortages(stop).await });
        for hint in hints::tasks(&parts, &roles, self.worker.signals()) {
            work.road.spawn(hint(shutdown.clone()));
        }
        work.road
            .spawn(hints::wake_for_others(parts.clone(), shutdown.clone()));
        if roles.has(NodeRole::Runs) {
            let runs_queued = parts.runs_queued.clone();
            work.road
                .spawn(self.worker.run(runs_queued, shutdown.clone()));
        }
        for task in nodes::shared_tasks(&parts, &roles) {
            work.road.spawn(task(shutdown.clone()));
        }
        work.road
            .spawn(nodes::watch(parts.clone(), shutdown.clone()));
        if let Some(timeout) = service_manager::watchdog_timeout() {
            let (store, stop) = (self.store.clone(), shutdown.clone());
            work.road
                .spawn(service_manager::keep_alive(store, timeout, stop));
        }
        let reloader = Reloader::new(parts.clone(), self.config);
        work.intake
            .spawn(reloader.run(self.reload_wanted, shutdown.clone()));
        work.road
            .spawn(restartable_tasks::keep(parts, roles, shutdown.clone()));
        work
    }

    /// Builds the watch of one mailbox without starting it.
    pub fn mailbox_watch(&self, mailbox: ImapMailbox) -> MailboxWatch {
        watches::mailbox_watch(&self.parts, &self.parts.config.get(), mailbox)
    }
}

/// The tasks of a serving engine; dropping the value aborts all of them.
#[derive(Default)]
struct Work {
    /// Tasks that receive letters.
    intake: JoinSet<()>,
    /// Tasks of runs, schedules and outbound mail.
    road: JoinSet<()>,
}

impl Work {
    async fn ended(&mut self) {
        for tasks in [&mut self.intake, &mut self.road] {
            while tasks.join_next().await.is_some() {}
        }
    }

    /// Resolves when a task panicked: without it the other tasks would go on unnoticed.
    async fn panicked(&mut self) -> anyhow::Error {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.intake.join_next() => ended,
                Some(ended) = self.road.join_next() => ended,
                else => std::future::pending().await,
            };
            if let Err(error) = ended
                && error.is_panic()
            {
                return anyhow::Error::new(error)
                    .context("a part of the engine met a bug and ended");
            }
        }
    }
}

/// Addresses of the bound listeners, for the log line of the start.
pub fn addresses(listeners: &[BoundSocket]) -> Vec<String> {
    listeners.iter().map(BoundSocket::address).collect()
}
