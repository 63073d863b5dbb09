//! The parts of an engine that are built from its configuration, and their exchange when it is read again.
//!
//! Everything that can fail is built before the first part is exchanged. Parts meet in committed rows, so they may be
//! exchanged one after another: whoever works on letters knows a new persona before the first letter to it is taken.

use crate::config::{
    Config, ConfigErrors, Current, ListenAddress, Problem, ReadAgain, in_force, load_again,
};
use crate::domain::PersonaId;
use crate::gateway::engine_mail_worker::EngineMailWorker;
use crate::gateway::ingress::smtp::{
    BoundSocket, Certificates, ListenerFactory, SmtpSettings, TlsError,
};
use crate::gateway::intake::{CurrentIntake, Intake};
use crate::gateway::outbound::{self, Outbound};
use crate::http::{BoundPages, InstallationWatch, PagesInForce, WebParts};
use crate::runs::deps::WorkerDeps;
use crate::runs::preflight::{self, price_problems};
use crate::schedule_file::WorkspaceNames;
use crate::scheduler::Scheduler;
use crate::store::files::guard::is_guarded;
use crate::store::{Store, StoreError};
use crate::tools;
use crate::webhooks::{WebhookSender, Webhooks};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::Notify;

/// Parts of an engine, each with the value in force.
pub(super) struct EngineParts {
    pub store: Store,
    pub config: Current<Config>,
    pub deps: Arc<Current<WorkerDeps>>,
    pub intake: Arc<CurrentIntake>,
    pub engine_mail: Current<EngineMailWorker>,
    pub webhooks: Current<Webhooks>,
    pub scheduler: Current<Scheduler>,
    pub outbound: Current<WayOut>,
    pub runs_queued: Arc<Notify>,
    pub mail_queued: Arc<Notify>,
    listeners: Mutex<Listeners>,
    /// Problems of standing texts at the last reading.
    text_problems: Mutex<Vec<Problem>>,
    /// `true`: runs that wait, and owners, are still to hear of what was read.
    is_wake_due: AtomicBool,
    /// What pages show of the installation; empty: nobody looks.
    pub installation: OnceLock<Arc<InstallationWatch>>,
}

/// The outbound worker; `None`: no mail can be sent.
pub(super) struct WayOut {
    /// Digest of the settings that it was built from.
    pub fingerprint: String,
    pub outbound: Option<Arc<Outbound>>,
}

/// Open listeners, with what they give each connection and each request.
#[derive(Default)]
struct Listeners {
    factory: Option<ListenerFactory>,
    mail: Vec<(ListenAddress, Arc<Current<SmtpSettings>>)>,
    pages: Vec<Arc<Current<PagesInForce>>>,
}

/// Parts of another configuration, built and not in force.
struct Prepared {
    config: Arc<Config>,
    deps: WorkerDeps,
    intake: Arc<Intake>,
    /// `None`: as before.
    outbound: Option<WayOut>,
    scheduler: Arc<Scheduler>,
    listeners: RenewedListeners,
}

/// What open listeners will give, each with its place. A listener that the configuration has no more stays as it was.
struct RenewedListeners {
    factory: Option<ListenerFactory>,
    mail: Vec<(Arc<Current<SmtpSettings>>, SmtpSettings)>,
    pages: Vec<(Arc<Current<PagesInForce>>, PagesInForce)>,
}

impl Listeners {
    /// Builds what they give under the configuration of `parts`. Errors: the certificate cannot be used.
    fn renewed(&self, parts: &WebParts) -> Result<RenewedListeners, TlsError> {
        let Config {
            gateway,
            limits,
            security,
            ..
        } = &*parts.config;
        let relays = &security.authentication.trusted_relays;
        let renew = |factory: &ListenerFactory| factory.renewed(gateway, limits, relays);
        let factory = self.factory.as_ref().map(renew).transpose()?;
        let mut mail = Vec::new();
        for (address, open) in &self.mail {
            let listener = gateway.listeners.iter().find(|one| one.address == *address);
            if let (Some(listener), Some(factory)) = (listener, &factory) {
                mail.push((open.clone(), factory.settings(listener)));
            }
        }
        let mut pages = Vec::new();
        for open in &self.pages {
            let before = open.get();
            let mut wanted = gateway.http_listeners.iter();
            if let Some(listener) = wanted.find(|one| one.address == before.address) {
                pages.push((open.clone(), before.renewed(listener, parts)?));
            }
        }
        Ok(RenewedListeners {
            factory,
            mail,
            pages,
        })
    }
}

/// Result of reading the files again.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// `false`: the files are those in force.
    pub is_new: bool,
    /// Problems of personas and prompts that stay as they were.
    pub kept: Vec<Problem>,
    /// `true`: a persona is not read while an agent works in its folder.
    pub is_held: bool,
    /// Settings that count after a restart.
    pub after_restart: Vec<String>,
}

/// Reason why what was in force stays so.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Faulty(#[from] ConfigErrors),
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
}

impl ReloadError {
    fn of(file: &str, error: impl Into<anyhow::Error>) -> Self {
        let problem = Problem::in_file(file, format!("{:#}", error.into()));
        Self::Faulty(ConfigErrors {
            problems: vec![problem],
        })
    }
}

impl EngineParts {
    pub fn new(
        config: &Arc<Config>,
        store: &Store,
        deps: WorkerDeps,
        intake: Intake,
        runs_queued: Arc<Notify>,
        mail_queued: Arc<Notify>,
    ) -> Result<Self, outbound::SetupError> {
        Ok(Self {
            outbound: Current::new(Arc::new(way_out(config, store)?)),
            engine_mail: Current::new(Arc::new(EngineMailWorker::new(store, config))),
            webhooks: Current::new(Arc::new(webhooks(store, config))),
            scheduler: Current::new(Arc::new(scheduler(store, config))),
            store: store.clone(),
            config: Current::new(config.clone()),
            deps: Arc::new(Current::new(Arc::new(deps))),
            intake: Arc::new(CurrentIntake::new(intake)),
            runs_queued,
            mail_queued,
            listeners: Mutex::default(),
            text_problems: Mutex::new(text_problems(config, store)),
            is_wake_due: AtomicBool::new(false),
            installation: OnceLock::new(),
        })
    }

    /// Returns the parts that pages use.
    pub fn web_parts(&self) -> WebParts {
        WebParts {
            store: self.store.clone(),
            config: self.config.get(),
            intake: self.intake.get(),
            scheduler: self.scheduler.get(),
            wakes: vec![self.runs_queued.clone(), self.mail_queued.clone()],
            installation: self.installation.get().cloned(),
        }
    }

    /// Remembers open listeners of mail, so that they follow the configuration.
    pub fn listens(&self, factory: ListenerFactory, bound: Vec<(ListenAddress, &BoundSocket)>) {
        let mut listeners = self.listeners();
        listeners.factory = Some(factory);
        let bound = bound.into_iter();
        listeners.mail = bound
            .map(|(address, bound)| (address, bound.settings().clone()))
            .collect();
    }

    /// Remembers open listeners of the pages.
    pub fn listens_for_pages(&self, bound: &[BoundPages]) {
        self.listeners().pages = bound.iter().map(|pages| pages.in_force().clone()).collect();
    }

    /// Reads the files again and puts them in force, if they are good and others than before; `start`: the configuration of
    /// the engine's start. Runs that wait look again when there is something new for them, and when `has_asked`: their owner
    /// has asked for it, or edited a text.
    ///
    /// Errors: the files are faulty and what was in force stays so; or the store's, and the next reading does the rest.
    pub async fn reload(&self, start: &Config, has_asked: bool) -> Result<Reloaded, ReloadError> {
        let read = self.take_files(start).await;
        if let Err(ReloadError::Store(error)) = read {
            return Err(error.into());
        }
        // Runs read them for themselves, whatever is wrong with other files, so that a missing one counts at once, and is told.
        let texts = text_problems(&self.config.get(), &self.store);
        if self.is_text_back(&texts) || has_asked {
            self.is_wake_due.store(true, Ordering::Relaxed);
        }
        if self.is_wake_due.load(Ordering::Relaxed) {
            self.engine_mail.get().note_out_of_service().await?;
            self.store.wake_waits().await?;
            self.is_wake_due.store(false, Ordering::Relaxed);
            // Also for runs that waited for their persona.
            self.runs_queued.notify_one();
        }
        let mut reloaded = read?;
        reloaded.kept.extend(texts);
        Ok(reloaded)
    }

    /// Reads the files and puts them in force.
    async fn take_files(&self, start: &Config) -> Result<Reloaded, ReloadError> {
        let before = self.config.get();
        let reading = before.clone();
        let read = tokio::task::spawn_blocking(move || read_again(&reading)).await;
        let (ReadAgain { config, kept }, is_held) =
            read.map_err(|error| ReloadError::of("configs", error))??;
        let after_restart = in_force::after_restart(
            &in_force::StartedListeners::from_gateway(&start.gateway),
            &config.gateway,
        );
        let is_new = fingerprint(&config) != fingerprint(&before);
        if !is_new {
            self.check_certificate(&before)?;
        } else {
            let prepared = self.prepare(Arc::new(config))?;
            webhooks(&self.store, &prepared.config).open().await?;
            self.put_in_force(prepared);
            self.is_wake_due.store(true, Ordering::Relaxed);
        }
        Ok(Reloaded {
            is_new,
            kept,
            is_held,
            after_restart,
        })
    }

    /// Remembers the problems of this reading; reports whether one of the last reading is gone.
    fn is_text_back(&self, now: &[Problem]) -> bool {
        let mut last = self
            .text_problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_back = !formatted(&last).is_subset(&formatted(now));
        *last = now.to_vec();
        is_back
    }

    /// Returns the problems of texts that runs read, as of the last reading.
    pub fn text_problems(&self) -> Vec<Problem> {
        let last = self.text_problems.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks the files of the certificate: renewed ones are taken by the next handshake, if they are good.
    fn check_certificate(&self, config: &Config) -> Result<(), ReloadError> {
        let Some(files) = &config.gateway.tls else {
            return Ok(());
        };
        let loaded = Certificates::load(files.clone(), self.store.clock().clone());
        loaded.map(drop).map_err(|error| of_tls(config, error))
    }

    fn prepare(&self, config: Arc<Config>) -> Result<Prepared, ReloadError> {
        let deps = self.deps.get().renewed(config.clone());
        let deps = deps.map_err(|error| ReloadError::of("configs/inference.json", error))?;
        let now = self.store.clock().now();
        if let Some(errors) =
            ConfigErrors::from_problems(price_problems(&config, &deps.providers, now))
        {
            return Err(errors.into());
        }
        let intake = self.intake.get().renewed(config.clone());
        let intake = intake.map_err(|error| ReloadError::of("configs/security.json", error))?;
        let outbound = if self.outbound.get().fingerprint == way_out_fingerprint(&config) {
            None
        } else {
            let built = way_out(&config, &self.store);
            Some(built.map_err(|error| ReloadError::of("configs/gateway.json", error))?)
        };
        let (intake, scheduler) = (Arc::new(intake), Arc::new(scheduler(&self.store, &config)));
        let web_parts = WebParts {
            config: config.clone(),
            intake: intake.clone(),
            scheduler: scheduler.clone(),
            ..self.web_parts()
        };
        let listeners = self.listeners().renewed(&web_parts);
        Ok(Prepared {
            listeners: listeners.map_err(|error| of_tls(&config, error))?,
            config,
            deps,
            intake,
            outbound,
            scheduler,
        })
    }

    fn put_in_force(&self, prepared: Prepared) {
        let Prepared {
            config,
            deps,
            intake,
            outbound,
            scheduler,
            listeners,
        } = prepared;
        self.deps.replace(Arc::new(deps));
        let engine_mail = EngineMailWorker::new(&self.store, &config);
        self.engine_mail.replace(Arc::new(engine_mail));
        self.webhooks
            .replace(Arc::new(webhooks(&self.store, &config)));
        self.scheduler.replace(scheduler);
        if let Some(outbound) = outbound {
            self.outbound.replace(Arc::new(outbound));
        }
        self.intake.replace(intake);
        for (open, settings) in listeners.mail {
            open.replace(Arc::new(settings));
        }
        for (open, pages) in listeners.pages {
            open.replace(Arc::new(pages));
        }
        if let Some(factory) = listeners.factory {
            self.listeners().factory = Some(factory);
        }
        self.config.replace(config);
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the files; also says whether a persona was left as it is, because an agent works in its folder.
fn read_again(before: &Config) -> Result<(ReadAgain, bool), ConfigErrors> {
    let guarded = || -> BTreeSet<PersonaId> {
        let personas = before.personas.iter();
        let at_work = personas.filter(|persona| is_guarded(&persona.folder));
        at_work.map(|persona| persona.id.clone()).collect()
    };
    let mut held = guarded();
    loop {
        let read = load_again(before, &held);
        // An agent may have begun meanwhile, and have written before the file was read.
        let now = guarded();
        if now.is_subset(&held) {
            return read.map(|read| (read, !held.is_empty()));
        }
        held.extend(now);
    }
}

fn text_problems(config: &Config, store: &Store) -> Vec<Problem> {
    preflight::text_problems(config, store.clock().now())
}

fn formatted(problems: &[Problem]) -> BTreeSet<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Returns a digest of all files and secrets.
fn fingerprint(config: &Config) -> String {
    config.fingerprint(config.snapshot.sha256())
}

fn of_tls(config: &Config, error: TlsError) -> ReloadError {
    let message = format!("{:#}", anyhow::Error::new(error));
    let snapshot = &config.snapshot;
    let problem = snapshot.problem_at("configs/gateway.json", "/tls", message);
    ReloadError::Faulty(ConfigErrors {
        problems: vec![problem],
    })
}

fn scheduler(store: &Store, config: &Config) -> Scheduler {
    let names = WorkspaceNames::from_config(config, tools::of_config(config).names());
    let personas = Arc::new(config.personas.clone());
    Scheduler::new(store.clone(), personas, names, store.clock().clone())
}

fn webhooks(store: &Store, config: &Arc<Config>) -> Webhooks {
    Webhooks::new(store, config, WebhookSender::default())
}

fn way_out_fingerprint(config: &Config) -> String {
    let gateway = &config.gateway;
    config.fingerprint((&gateway.outbound, &gateway.retry, &gateway.host_name))
}

/// Opens the configured transport.
fn way_out(config: &Config, store: &Store) -> Result<WayOut, outbound::SetupError> {
    let fingerprint = way_out_fingerprint(config);
    let Some(transport) = &config.gateway.outbound else {
        return Ok(WayOut {
            fingerprint,
            outbound: None,
        });
    };
    let setup = outbound::Setup {
        transport,
        host_name: &config.gateway.host_name,
        clock: store.clock(),
    };
    let transport = outbound::transport(&setup)?;
    let retry = config.gateway.retry.clone();
    let outbound = Some(Arc::new(Outbound::new(store.clone(), transport, retry)));
    Ok(WayOut {
        fingerprint,
        outbound,
    })
}
