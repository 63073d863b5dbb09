//! The composition root: opens the store, builds the parts of the engine, starts them, waits, shuts
//! them down.
//!
//! The only file that knows every part. The parts meet in committed rows; only hints ([`Notify`])
//! and the order to stop ([`CancellationToken`]) pass through here.

mod recovery;
pub mod service_manager;

use crate::clock::Clock;
use crate::config::in_force;
use crate::config::{Config, ConfigErrors, ImapMailbox, Problem, WatchedFolder};
use crate::domain::{Address, PersonaId};
use crate::gateway::config_edits::ConfigEdits;
use crate::gateway::engine_mail_worker::EngineMailWorker;
use crate::gateway::ingress::folder::{self, FolderWatch};
use crate::gateway::ingress::imap::{self, MailboxWatch};
use crate::gateway::ingress::in_flight::InFlightMarker;
use crate::gateway::ingress::smtp::{self, BoundSocket, ListenerFactory};
use crate::gateway::intake::Intake;
use crate::gateway::intake_contract::LetterIntake;
use crate::gateway::outbound::{self, Outbound};
use crate::http::{self, BoundPages, WebParts};
use crate::keeping;
use crate::runs::deps::WorkerDeps;
use crate::runs::preflight::{self, price_problems};
use crate::runs::worker::Worker;
use crate::scheduler::Scheduler;
use crate::scheduler::schedule_file::WorkspaceNames;
use crate::store::Store;
use crate::tools;
use crate::webhooks::{WebhookSender, Webhooks};
use anyhow::Context;
use futures_util::FutureExt;
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
    pub config: Arc<Config>,
    deps: Arc<WorkerDeps>,
    intake: Arc<Intake>,
    outbound: Option<Arc<Outbound>>,
    engine_mail: EngineMailWorker,
    webhooks: Webhooks,
    scheduler: Arc<Scheduler>,
    worker: Worker,
    runs_queued: Arc<Notify>,
    mail_queued: Arc<Notify>,
    pages: Vec<BoundPages>,
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
        let deps = Arc::new(WorkerDeps::set_up(
            store.clone(),
            config.clone(),
            mail_queued.clone(),
        )?);
        if let Some(errors) =
            ConfigErrors::of(price_problems(&config, &deps.providers, clock.now()))
        {
            return Err(errors.into());
        }
        let intake = Arc::new(Intake::new(
            store.clone(),
            config.clone(),
            runs_queued.clone(),
        )?);
        let outbound = start_outbound(&config, &store, &clock)?;
        if let Err(error) = in_force::note(&config.snapshot, &config.workspace) {
            tracing::warn!(%error, "commands beside this engine cannot tell what was edited since its start");
        }
        let engine_mail = EngineMailWorker::new(&store, &config);
        engine_mail
            .note_out_of_service()
            .await
            .context("noting which personas are out of service")?;
        let webhooks = Webhooks::new(&store, &config, WebhookSender::default());
        webhooks.open().await.context("opening the webhooks")?;
        let names = WorkspaceNames::of(&config, tools::of_config(&config).names());
        let scheduler = Arc::new(Scheduler::new(
            store.clone(),
            Arc::new(config.personas.clone()),
            names,
            clock,
        ));
        let worker = Worker::new(deps.clone());
        Ok(Self {
            store,
            config,
            deps,
            intake,
            outbound,
            engine_mail,
            webhooks,
            scheduler,
            worker,
            runs_queued,
            mail_queued,
            pages: Vec::new(),
        })
    }

    /// Warnings, which do not prevent a start: letters are accepted all the same.
    pub fn warnings(&self) -> Vec<Problem> {
        let now = self.store.clock().now();
        let texts = preflight::text_problems(&self.config, now);
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
        let warnings = preflight::warnings(&self.config, &self.deps.providers, now);
        out.chain(warnings).chain(texts).collect()
    }

    /// The intake for letters that do not arrive through a listener.
    pub fn intake(&self) -> Arc<dyn LetterIntake> {
        self.intake.clone()
    }

    /// The scheduler, whose heartbeat is not started.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        &self.scheduler
    }

    /// Processes everything that is queued and due now, then returns.
    pub async fn drain(&self) -> anyhow::Result<Drained> {
        let mut drained = Drained::default();
        let mut worker = Worker::new(self.deps.clone());
        loop {
            let letters = self
                .intake
                .verify_held()
                .await
                .context("verifying held letters")?;
            // Before runs, because a command may halt them.
            let commands = self
                .engine_mail
                .carry_out_commands()
                .await
                .context("carrying out commands")?;
            let runs = worker.drain().await.context("working off runs")?;
            let mut mails = 0;
            if let Some(outbound) = &self.outbound {
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
            let written = self
                .engine_mail
                .work_once()
                .await
                .context("telling owners and senders")?;
            let events = self
                .webhooks
                .work_once()
                .await
                .context("telling webhooks")?;
            drained.runs += runs;
            drained.mails += mails;
            if letters + commands + runs + mails + written + events == 0 {
                self.deps.make_vectors().await;
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
        } = &*self.config;
        let relays = &security.authentication.trusted_relays;
        let listener_factory =
            ListenerFactory::open(gateway, limits, relays, self.store.clock()).context("no TLS")?;
        let mut bound = Vec::new();
        for listener in &self.config.gateway.listeners {
            let opened =
                BoundSocket::open(&listener.address, listener_factory.settings(listener)).await;
            bound.push(opened.with_context(|| format!("cannot listen on {}", listener.address))?);
        }
        Ok(bound)
    }

    /// Returns the parts that pages use.
    pub fn web_parts(&self) -> WebParts {
        WebParts {
            store: self.store.clone(),
            config: self.config.clone(),
            intake: self.intake(),
            scheduler: self.scheduler.clone(),
            wakes: vec![self.runs_queued.clone(), self.mail_queued.clone()],
        }
    }

    /// Binds every configured listener of the pages, to be served with the others, and returns the addresses that the system
    /// bound.
    pub async fn bind_pages(&mut self) -> anyhow::Result<Vec<String>> {
        self.pages.clear();
        let parts = self.web_parts();
        for listener in &self.config.gateway.http_listeners {
            let opened = BoundPages::open(listener, &parts).await;
            let opened = opened.with_context(|| format!("cannot listen on {}", listener.address));
            self.pages.push(opened?);
        }
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
        let (store, intake, drain_max) = (
            self.store.clone(),
            self.intake.clone(),
            self.config.limits.drain_max,
        );
        let mut work = self.start(listeners, &shutdown);
        let halted = tokio::select! {
            () = shutdown.cancelled() => None,
            halted = store.halted() => Some(halted.into()),
            panicked = work.panicked() => Some(panicked),
        };
        shutdown.cancel();
        service_manager::tell_stopping();
        intake.stop();
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
        drop((work, intake));
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
        for pages in std::mem::take(&mut self.pages) {
            work.road.spawn(http::serve(pages, shutdown.clone()));
        }
        let (intake, stop) = (self.intake.clone(), shutdown.clone());
        work.intake
            .spawn(async move { intake.watch_queue(stop).await });
        let (intake, stop) = (self.intake.clone(), shutdown.clone());
        work.intake
            .spawn(async move { intake.watch_held(stop).await });
        let (intake, stop) = (self.intake.clone(), shutdown.clone());
        work.intake
            .spawn(async move { intake.watch_shortages(stop).await });
        for watched in &self.config.gateway.folders {
            work.intake.spawn(folder::watch(
                self.folder_watch(watched.clone()),
                shutdown.clone(),
            ));
        }
        for mailbox in &self.config.gateway.mailboxes {
            work.intake.spawn(imap::watch(
                self.mailbox_watch(mailbox.clone()),
                shutdown.clone(),
            ));
        }
        work.road
            .spawn(self.worker.run(self.runs_queued.clone(), shutdown.clone()));
        let (scheduler, runs_queued, stop) =
            (self.scheduler, self.runs_queued.clone(), shutdown.clone());
        work.road
            .spawn(async move { scheduler.run(&runs_queued, stop).await });
        if let Some(outbound) = self.outbound {
            let (mail_queued, stop) = (self.mail_queued.clone(), shutdown.clone());
            let grace_period = self.config.limits.drain_grace_period();
            work.road
                .spawn(async move { outbound.run(&mail_queued, stop, grace_period).await });
        }
        let (engine_mail, mail_queued, stop) =
            (self.engine_mail, self.mail_queued.clone(), shutdown.clone());
        work.road
            .spawn(async move { engine_mail.run(&mail_queued, stop).await });
        work.road.spawn(self.webhooks.run(shutdown.clone()));
        let store = self.store.clone();
        work.road.spawn(store.index_older_letters(shutdown.clone()));
        work.road.spawn(self.deps.keep_vectors(shutdown.clone()));
        if let Some(timeout) = service_manager::watchdog_timeout() {
            let (store, stop) = (self.store.clone(), shutdown.clone());
            work.road
                .spawn(service_manager::keep_alive(store, timeout, stop));
        }
        let keeping = keeping::work(&self.store, &self.config, shutdown.clone());
        work.road.spawn(keeping);
        let edits = ConfigEdits::new(&self.store, &self.config);
        work.intake.spawn(edits.watch(shutdown.clone()));
        work
    }

    fn folder_watch(&self, watched: WatchedFolder) -> FolderWatch {
        let fallback = self.address_of(watched.fallback.as_ref());
        let source = watched.path.display().to_string();
        let in_flight = InFlightMarker::open(self.store.clone(), &self.config.workspace, &source);
        FolderWatch::new(
            watched,
            fallback,
            self.intake(),
            self.config.limits.letter_bytes_max,
        )
        .with_in_flight(in_flight)
    }

    /// Builds the watch of one mailbox without starting it.
    pub fn mailbox_watch(&self, mailbox: ImapMailbox) -> MailboxWatch {
        let fallback = self.address_of(mailbox.fallback.as_ref());
        MailboxWatch::new(
            mailbox,
            fallback,
            self.intake(),
            self.store.clone(),
            &self.config.limits,
        )
        .in_workspace(&self.config.workspace)
    }

    /// Returns an address of a persona; for a persona that is out of service, an address at which
    /// its letters wait.
    fn address_of(&self, persona: Option<&PersonaId>) -> Option<Address> {
        let (id, personas) = (persona?, &self.config.personas);
        if let Some(persona) = personas.get(id) {
            return Some(persona.address.clone());
        }
        let out = personas
            .out_of_service()
            .iter()
            .find(|out| out.name == id.as_str())?;
        let usual = || Address::parse(&format!("{id}@{}", self.config.gateway.mail_domain)).ok();
        out.addresses.first().cloned().or_else(usual)
    }
}

/// Opens the configured transport; `None`: no mail can be sent.
fn start_outbound(
    config: &Config,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Option<Arc<Outbound>>> {
    let Some(transport) = &config.gateway.outbound else {
        return Ok(None);
    };
    let setup = outbound::Setup {
        transport,
        host_name: &config.gateway.host_name,
        clock,
    };
    let transport = outbound::transport(&setup)?;
    let retry = config.gateway.retry.clone();
    Ok(Some(Arc::new(Outbound::new(
        store.clone(),
        transport,
        retry,
    ))))
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
