//! What the handlers of one listener share.

use super::api::pulse::FeedPulse;
use super::attempts::FailedAttempts;
use super::connections::WebPeer;
use super::failure::PageError;
use super::metrics::EventCounts;
use super::pages::workspace::installation::InstallationWatch;
use super::templates;
use crate::config::{Config, HttpListener, Persona, WebOrigin};
use crate::domain::{
    ApprovalState, DeliveryId, Network, NoticeKind, PersonaId, RunId, RunState, Timestamp,
};
use crate::gateway::intake_contract::LetterIntake;
use crate::scheduler::Scheduler;
use crate::store::{
    DeliveryState, ListPage, Notice, PersonaHalt, Store, StoreError, TransportState, WebSession,
};
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// Most sessions whose last use is known without the database.
const USES_MAX: usize = 4096;

/// Most large bodies that are in memory at once, each until its handler has answered.
const LARGE_BODIES_MAX: usize = 8;

/// Most programs that wait for an answer at a time: each holds one of the connections.
const ANSWERS_MAX: usize = 16;
/// Most open questions that the head of a page counts.
const WAITING_SHOWN_MAX: u32 = 100;
/// Most causes of notices that it looks at, their age, and the time between two looks.
const CAUSES_COUNTED_MAX: u32 = 30;
const CAUSES_NEW: Duration = Duration::from_secs(7 * 24 * 3600);
const CAUSES_COUNTED_EVERY: Duration = Duration::from_secs(5);

/// Work that waits for the owner.
#[derive(Debug, Serialize)]
pub(super) struct OpenWork {
    /// Number of open questions, up to a bound.
    approvals: usize,
    /// Number of causes of notices that are new and not over, up to a bound.
    notices: usize,
    halts: Vec<PersonaHalt>,
}

/// Parts of the engine that the pages use.
#[derive(Clone)]
pub struct WebParts {
    pub store: Store,
    pub config: Arc<Config>,
    pub intake: Arc<dyn LetterIntake>,
    pub scheduler: Arc<Scheduler>,
    /// Hints to those who work on what an action changes.
    pub wakes: Vec<Arc<Notify>>,
    /// What the page about the engine's state shows of the installation.
    pub installation: Option<Arc<InstallationWatch>>,
}

/// Parts that the handlers of one listener share. Each request has one, and with it one configuration.
pub struct WebContext {
    pub(super) store: Store,
    pub(super) config: Arc<Config>,
    pub(super) intake: Arc<dyn LetterIntake>,
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) installation: Option<Arc<InstallationWatch>>,
    pub(super) templates: Arc<Environment<'static>>,
    /// One-time codes that were not good, and keys of programs that were not.
    pub(super) codes_failed: Arc<FailedAttempts>,
    pub(super) keys_failed: Arc<FailedAttempts>,
    /// Paths of the pages, with variables in braces.
    pub(super) page_paths: Vec<&'static str>,
    /// Room in memory for large bodies.
    pub(super) large_bodies: Arc<Semaphore>,
    /// Places of programs that wait for an answer.
    pub(super) answers: Arc<Semaphore>,
    /// Address as configured, to which one-time codes are bound.
    pub(super) listener: String,
    /// Addresses by which browsers may call it.
    origins: Vec<WebOrigin>,
    proxies: Vec<Network>,
    /// `true`: what connects to the Unix socket is a proxy.
    is_proxied: bool,
    pub(super) pulse: Arc<FeedPulse>,
    pub(super) event_counts: Arc<EventCounts>,
    /// Held while a file of a persona is replaced.
    pub(super) files: Arc<tokio::sync::Mutex<()>>,
    /// Last use of sessions since it was last noted, by id.
    uses: Arc<Mutex<HashMap<String, Timestamp>>>,
    /// Number of open causes of notices, with the instant at which they were counted.
    causes: Arc<Mutex<Option<(Duration, usize)>>>,
    /// Hints to those who work on what an action changes.
    wakes: Vec<Arc<Notify>>,
}

impl WebContext {
    /// Builds the context of a listener; `bound`: its address, `None` for a Unix socket.
    pub(super) fn new(
        parts: &WebParts,
        listener: &HttpListener,
        bound: Option<SocketAddr>,
        page_paths: Vec<&'static str>,
    ) -> Result<Self, minijinja::Error> {
        Ok(Self {
            codes_failed: Arc::new(FailedAttempts::new(parts.store.clock().clone())),
            keys_failed: Arc::new(FailedAttempts::new(parts.store.clock().clone())),
            page_paths,
            answers: Arc::new(Semaphore::new(ANSWERS_MAX)),
            store: parts.store.clone(),
            config: parts.config.clone(),
            intake: parts.intake.clone(),
            scheduler: parts.scheduler.clone(),
            installation: parts.installation.clone(),
            templates: Arc::new(templates::environment()?),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES_MAX)),
            listener: listener.address.to_string(),
            origins: origins_of(listener, bound),
            proxies: listener.proxies.clone(),
            is_proxied: listener.is_proxied,
            pulse: Arc::new(FeedPulse::new()),
            event_counts: Arc::new(EventCounts::since_instant(parts.store.clock().now())),
            files: Arc::default(),
            uses: Arc::default(),
            causes: Arc::default(),
            wakes: parts.wakes.clone(),
        })
    }

    /// Builds the context of another configuration; what is counted and remembered is shared.
    pub(super) fn renewed(
        &self,
        parts: &WebParts,
        listener: &HttpListener,
        bound: Option<SocketAddr>,
    ) -> Self {
        Self {
            store: self.store.clone(),
            config: parts.config.clone(),
            intake: parts.intake.clone(),
            scheduler: parts.scheduler.clone(),
            installation: self.installation.clone(),
            templates: self.templates.clone(),
            codes_failed: self.codes_failed.clone(),
            keys_failed: self.keys_failed.clone(),
            page_paths: self.page_paths.clone(),
            large_bodies: self.large_bodies.clone(),
            answers: self.answers.clone(),
            listener: self.listener.clone(),
            origins: origins_of(listener, bound),
            proxies: listener.proxies.clone(),
            is_proxied: listener.is_proxied,
            pulse: self.pulse.clone(),
            event_counts: self.event_counts.clone(),
            files: self.files.clone(),
            uses: self.uses.clone(),
            causes: self.causes.clone(),
            wakes: self.wakes.clone(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Returns the origin that a `Host` names, if it is one of ours: exactly, but for the case of letters.
    pub(super) fn origin_of(&self, host: &str) -> Option<&WebOrigin> {
        let host = host.to_ascii_lowercase();
        self.origins.iter().find(|origin| origin.authority == host)
    }

    /// Reports whether a peer may connect: with proxies configured, only they may.
    pub(super) fn lets_in(&self, peer: WebPeer) -> bool {
        self.proxies.is_empty() || self.is_proxy(peer)
    }

    pub(super) fn is_proxy(&self, peer: WebPeer) -> bool {
        match peer {
            WebPeer::Address(ip) => self.proxies.iter().any(|network| network.contains(ip)),
            WebPeer::Socket => self.is_proxied,
        }
    }

    /// Name of the cookie: browsers send cookies to every port of a host, so it has the port, or the prefix that binds it to
    /// this host under TLS (RFC 6265bis section 4.1.3.2).
    pub(super) fn cookie(&self, origin: &WebOrigin) -> String {
        match origin.is_https {
            true => "__Host-attache".to_owned(),
            false => {
                let port = origin.authority.rsplit(':').next().unwrap_or_default();
                format!("attache_{port}")
            }
        }
    }

    /// Reports whether a session is good now, and remembers that it was used.
    pub(super) fn uses(&self, session: &WebSession) -> bool {
        let now = self.now();
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let used = uses.get(&session.id).copied().unwrap_or(session.used_at);
        let is_good = session.listener == self.listener && session.is_good(used, now);
        if is_good && (uses.len() < USES_MAX || uses.contains_key(&session.id)) {
            uses.insert(session.id.clone(), now);
        }
        is_good
    }

    /// Stores which sessions were used since this was last done.
    pub(super) async fn note_uses(&self) {
        let used: Vec<String> = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.drain().map(|(id, _)| id).collect()
        };
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.store.note_web_session_uses(used).await {
            tracing::debug!(%error, "the use of sessions was not noted");
        }
    }

    /// Returns the persona of an id, as typed.
    pub(super) fn persona(&self, typed: &str) -> Result<&Persona, PageError> {
        PersonaId::parse(typed)
            .ok()
            .and_then(|id| self.config.personas.get(&id))
            .ok_or_else(|| PageError::Missing("persona".to_owned()))
    }

    /// Wakes those who work on what an action has changed.
    pub(super) fn wake(&self) {
        for wake in &self.wakes {
            wake.notify_one();
        }
    }

    /// Counts what waits for the owner, for the head of every page.
    pub(super) async fn waiting(&self) -> Result<OpenWork, PageError> {
        let open = Some(ApprovalState::Open);
        let approvals = self
            .store
            .approvals(open, None, ListPage::first(WAITING_SHOWN_MAX))
            .await?;
        Ok(OpenWork {
            approvals: approvals.len(),
            notices: self.open_causes().await?,
            halts: self.store.halts().await?,
        })
    }

    /// Has the causes of notices counted anew by the next page.
    pub(super) fn count_causes_anew(&self) {
        *self.causes.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts the causes of new notices that last, as far as the store tells. It is counted anew every few seconds.
    async fn open_causes(&self) -> Result<usize, PageError> {
        let now = self.store.clock().monotonic();
        let counted = *self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, count)) = counted
            && now.saturating_sub(at) < CAUSES_COUNTED_EVERY
        {
            return Ok(count);
        }
        let since = self.now().minus(CAUSES_NEW);
        let mut open = HashSet::new();
        for fold in self
            .store
            .list_notices(ListPage::first(CAUSES_COUNTED_MAX))
            .await?
        {
            if fold.last_at < since || fold.dismissed_at.is_some() || open.contains(&fold.cause) {
                continue;
            }
            let newest = self.store.notices_of_cause(&fold.cause, 1).await?.pop();
            let over = match &newest {
                Some(newest) => self.end_of_cause(newest).await?,
                None => None,
            };
            if over.is_none() {
                open.insert(fold.cause);
            }
        }
        let counted = Some((now, open.len()));
        *self.causes.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        Ok(open.len())
    }

    /// Says how the cause of a notice has ended; `None`: it lasts, or nothing tells.
    pub(super) async fn end_of_cause(
        &self,
        event: &Notice,
    ) -> Result<Option<&'static str>, PageError> {
        let ended = self.look_at_cause(event).await;
        match ended {
            Err(StoreError::Missing { .. }) => Ok(Some("it is not there any more")),
            ended => Ok(ended?),
        }
    }

    async fn look_at_cause(&self, event: &Notice) -> Result<Option<&'static str>, StoreError> {
        let (store, id) = (&self.store, event.subject.id.as_str());
        Ok(match event.kind {
            NoticeKind::RunFailed | NoticeKind::OutcomeUnknown => {
                match store.run_summary(&RunId::new(id)).await?.state {
                    RunState::Succeeded => Some("its run has succeeded since"),
                    RunState::Cancelled => Some("its run was cancelled"),
                    RunState::Failed => None,
                    _ => Some("its run is tried again"),
                }
            }
            NoticeKind::DeliveryFailed | NoticeKind::DeliveryDelayed | NoticeKind::DeliveryHeld => {
                match store.delivery(&DeliveryId::new(id)).await?.delivery.state {
                    DeliveryState::Done => Some("the mail was delivered since"),
                    DeliveryState::Cancelled => Some("the mail was given up"),
                    _ => None,
                }
            }
            NoticeKind::TransportRefused | NoticeKind::TransportDown => {
                let health = store.transport_health().await?;
                let is_well = health.is_none_or(|health| health.state == TransportState::Well);
                is_well.then_some("mail leaves again")
            }
            NoticeKind::MailboxRefused | NoticeKind::MailboxDown => {
                let health = store.mailbox_health(id).await?;
                let is_well = health.is_some_and(|health| health.last_error.is_none());
                is_well.then_some("the mailbox is fetched again")
            }
            NoticeKind::ResponsibilityBroken
            | NoticeKind::ResponsibilityPaused
            | NoticeKind::ResponsibilityProposed => {
                let rows = store.responsibilities().await?;
                let row = rows.into_iter().find(|row| row.id.as_str() == id);
                match (event.kind, row.filter(|row| row.removed_at.is_none())) {
                    (_, None) => Some("its file is gone"),
                    (NoticeKind::ResponsibilityBroken, Some(row)) => {
                        row.error.is_none().then_some("its file can be used again")
                    }
                    (NoticeKind::ResponsibilityPaused, Some(row)) => {
                        row.paused.is_none().then_some("it is not paused any more")
                    }
                    (_, Some(row)) => row.enabled.then_some("it is enabled"),
                }
            }
            NoticeKind::PersonaOutOfService => {
                let is_back =
                    PersonaId::parse(id).is_ok_and(|id| self.config.personas.get(&id).is_some());
                is_back.then_some("it is in service again")
            }
            NoticeKind::TextMissing => {
                let is_back = self.config.workspace.join(id).exists();
                is_back.then_some("the file is back")
            }
            NoticeKind::WebhookDisabled => {
                let webhook = store.webhook(id).await?;
                let is_on = webhook.is_some_and(|webhook| webhook.disabled_at.is_none());
                is_on.then_some("it is asked again")
            }
            _ => None,
        })
    }

    /// Renders a template.
    pub(super) fn render(
        &self,
        template: &str,
        values: impl Serialize,
    ) -> Result<String, PageError> {
        let rendered = self
            .templates
            .get_template(template)
            .and_then(|page| page.render(Serde(values)));
        rendered.map_err(|error| PageError::Internal(error.into()))
    }
}

/// Returns the addresses by which browsers may call a listener.
fn origins_of(listener: &HttpListener, bound: Option<SocketAddr>) -> Vec<WebOrigin> {
    let mut origins = listener.origins.clone();
    match bound {
        Some(bound) => origins.extend(own_origins(bound, listener.is_tls)),
        None => origins.push(WebOrigin::localhost()),
    }
    origins
}

/// Returns the origins of a bound TCP address: itself, and on loopback its name.
fn own_origins(bound: SocketAddr, is_tls: bool) -> Vec<WebOrigin> {
    let own = |host: &str| WebOrigin::new(is_tls, host, Some(bound.port()));
    let ip = bound.ip().to_canonical();
    let mut origins = Vec::new();
    if !ip.is_unspecified() {
        origins.push(own(&match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        }));
    }
    if ip.is_loopback() {
        origins.push(own("localhost"));
    }
    origins
}
