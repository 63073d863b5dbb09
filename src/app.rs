//! The composition root: opens the store, builds the stations, starts them, waits, shuts them down.
//!
//! The one place that knows every part. Stations meet in committed rows; what passes here is only hints
//! ([`Notify`]) and the order to stop ([`CancellationToken`]).

use crate::clock::Clock;
use crate::config::{Config, ConfigErrors, ImapMailbox, WatchedFolder};
use crate::domain::{Address, PersonaId};
use crate::gateway::door::Door;
use crate::gateway::ingress::folder::{self, FolderWatch};
use crate::gateway::ingress::imap::{self, MailboxWatch};
use crate::gateway::ingress::smtp::{self, Bound, Reception};
use crate::gateway::intake::Intake;
use crate::gateway::notices::Notices;
use crate::gateway::outbound::{self, Outbound};
use crate::harness::desk::Desk;
use crate::harness::preflight::price_problems;
use crate::harness::providers::mark;
use crate::harness::worker::Worker;
use crate::scheduler::Scheduler;
use crate::store::Store;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the session of an agent is kept after its last call.
const SESSION_UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An engine on a workspace: the lock is held, the crash of the last one is recovered from, nothing runs yet.
pub struct Engine {
    pub store: Store,
    pub config: Arc<Config>,
    desk: Arc<Desk>,
    door: Arc<Intake>,
    outbound: Option<Arc<Outbound>>,
    notices: Notices,
    scheduler: Scheduler,
    runs_queued: Arc<Notify>,
    mail_queued: Arc<Notify>,
}

/// What [`Engine::drain`] worked off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Runs worked on, whatever their end.
    pub runs: usize,
    /// Delivery attempts made.
    pub mails: usize,
}

impl Engine {
    /// Opens the workspace for work. Errors: another engine has it, the database is unusable, a provider or
    /// transport cannot be built.
    pub async fn open(config: Config, clock: Arc<dyn Clock>) -> anyhow::Result<Self> {
        let config = Arc::new(config);
        let store = Store::open(&config.workspace, clock.clone()).await?;
        // The lock is ours: the engine that started them is gone, and what they go on doing nobody records.
        let left = mark::sweep(&config.workspace);
        if left > 0 {
            tracing::warn!(
                processes = left,
                "an agent's processes had outlived their engine; they were killed"
            );
        }
        let recovered = store.recover_runs().await.context("recovering runs")?;
        if recovered > 0 {
            tracing::info!(runs = recovered, "an engine stopped in the middle; its runs are queued again");
        }
        store.forget_sessions(SESSION_UNUSED_MAX).await.context("forgetting sessions of agents")?;
        let (runs_queued, mail_queued) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let desk = Arc::new(Desk::set_up(store.clone(), config.clone(), mail_queued.clone())?);
        if let Some(errors) = ConfigErrors::of(price_problems(&config, &desk.providers, clock.now())) {
            return Err(errors.into());
        }
        let door = Arc::new(Intake::new(store.clone(), config.clone(), runs_queued.clone())?);
        let outbound = match &config.gateway.outbound {
            None => None,
            Some(transport) => {
                let setup =
                    outbound::Setup { transport, host_name: &config.gateway.host_name, clock: &clock };
                let transport = outbound::transport(&setup)?;
                Some(Arc::new(Outbound::new(store.clone(), transport, config.gateway.retry.clone())))
            }
        };
        let notices = Notices::new(store.clone(), config.clone());
        let scheduler = Scheduler::new(store.clone(), Arc::new(config.personas.clone()), clock);
        Ok(Self { store, config, desk, door, outbound, notices, scheduler, runs_queued, mail_queued })
    }

    /// The door for letters that come some other way than by a listener.
    pub fn door(&self) -> Arc<dyn Door> {
        self.door.clone()
    }

    /// Schedules, without their heartbeat.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Works off what is queued and due now, then returns.
    pub async fn drain(&self) -> anyhow::Result<Drained> {
        let mut drained = Drained::default();
        let mut worker = Worker::new(self.desk.clone());
        loop {
            let runs = worker.drain().await.context("working off runs")?;
            let mut mails = 0;
            if let Some(outbound) = &self.outbound {
                loop {
                    match outbound.work_once().await.context("working off the outbox")? {
                        0 => break,
                        tried => mails += tried,
                    }
                }
            }
            let told = self.notices.work_once().await.context("telling the owner")?;
            drained.runs += runs;
            drained.mails += mails;
            if runs + mails + told == 0 {
                return Ok(drained);
            }
        }
    }

    /// Binds every configured listener; the addresses are those really bound.
    pub async fn bind(&self) -> anyhow::Result<Vec<Bound>> {
        let reception = Reception::open(&self.config.gateway, &self.config.limits, self.store.clock())
            .context("no TLS")?;
        let mut bound = Vec::new();
        for listener in &self.config.gateway.listeners {
            let opened = Bound::open(&listener.address, reception.settings(listener)).await;
            bound.push(opened.with_context(|| format!("cannot listen on {}", listener.address))?);
        }
        Ok(bound)
    }

    /// Serves until `shutdown`, then stops accepting, lets running work end, and closes the database.
    pub async fn serve(self, listeners: Vec<Bound>, shutdown: CancellationToken) -> anyhow::Result<()> {
        let (intake_tasks, road_tasks) = (TaskTracker::new(), TaskTracker::new());
        for listener in listeners {
            intake_tasks.spawn(smtp::serve(listener, self.door(), shutdown.clone()));
        }
        let (door, stop) = (self.door.clone(), shutdown.clone());
        intake_tasks.spawn(async move { door.watch_queue(stop).await });
        for watched in &self.config.gateway.folders {
            intake_tasks.spawn(folder::watch(self.folder_watch(watched.clone()), shutdown.clone()));
        }
        for mailbox in &self.config.gateway.mailboxes {
            intake_tasks.spawn(imap::watch(self.mailbox_watch(mailbox.clone()), shutdown.clone()));
        }
        let worker = Worker::new(self.desk.clone());
        road_tasks.spawn(worker.run(self.runs_queued.clone(), shutdown.clone()));
        let (scheduler, runs_queued, stop) = (self.scheduler, self.runs_queued.clone(), shutdown.clone());
        road_tasks.spawn(async move { scheduler.run(&runs_queued, stop).await });
        if let Some(outbound) = self.outbound {
            let (mail_queued, stop) = (self.mail_queued.clone(), shutdown.clone());
            let drain_max = self.config.limits.drain_max;
            road_tasks.spawn(async move { outbound.run(&mail_queued, stop, drain_max).await });
        }
        let (notices, mail_queued, stop) = (self.notices, self.mail_queued.clone(), shutdown.clone());
        road_tasks.spawn(async move { notices.run(&mail_queued, stop).await });
        shutdown.cancelled().await;
        tracing::info!("stopping");
        self.door.stop();
        for tasks in [intake_tasks, road_tasks] {
            tasks.close();
            tasks.wait().await;
        }
        drop((self.desk, self.door));
        self.store.close().await;
        Ok(())
    }

    fn folder_watch(&self, watched: WatchedFolder) -> FolderWatch {
        let fallback = self.address_of(watched.fallback.as_ref());
        FolderWatch::new(watched, fallback, self.door(), self.config.limits.letter_bytes_max)
    }

    /// The watch of one mailbox, which does nothing by itself.
    pub fn mailbox_watch(&self, mailbox: ImapMailbox) -> MailboxWatch {
        let fallback = self.address_of(mailbox.fallback.as_ref());
        MailboxWatch::new(mailbox, fallback, self.door(), self.store.clone(), &self.config.limits)
    }

    fn address_of(&self, persona: Option<&PersonaId>) -> Option<Address> {
        persona.and_then(|id| self.config.personas.get(id)).map(|persona| persona.address.clone())
    }
}

/// The addresses of bound listeners, for the one line that says that we listen.
pub fn addresses(listeners: &[Bound]) -> Vec<String> {
    listeners.iter().map(Bound::address).collect()
}
