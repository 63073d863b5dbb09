//! Servers that fail now, as the store knows them: the mail server, mailboxes, providers.

use crate::config::ImapMailbox;
use crate::domain::Timestamp;
use crate::store::{ProviderCalls, Result, Store, TransportHealth, TransportState};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Age from which the failure of a provider is old.
const PROVIDER_FAILURE_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A server that fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailingServer {
    /// `outbound`, `mailbox` or `provider`.
    pub kind: &'static str,
    /// Name in the configuration; empty for the mail server.
    pub name: String,
    /// State in words.
    pub state: String,
    /// When it began (mail server), or when it failed last.
    pub at: Timestamp,
    /// What the server said; empty where nothing is kept.
    pub reason: String,
}

impl fmt::Display for FailingServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            name,
            state,
            at,
            ..
        } = self;
        match *kind {
            "outbound" => write!(f, "the mail server {state} since {at}"),
            "mailbox" => write!(f, "mailbox `{name}` failed at {at}"),
            _ => write!(
                f,
                "provider `{name}` failed at {at} ({state}) and has not answered since"
            ),
        }
    }
}

/// Returns the servers that fail, of the mailboxes those that are given.
pub async fn failing_servers(
    store: &Store,
    mailboxes: &[ImapMailbox],
) -> Result<Vec<FailingServer>> {
    let now = store.clock().now();
    let health = store.transport_health().await?;
    let mut failing: Vec<FailingServer> = health.and_then(mail_server).into_iter().collect();
    for mailbox in mailboxes {
        let Some(health) = store.mailbox_health(&mailbox.name).await? else {
            continue;
        };
        let failed = health
            .last_error_at
            .filter(|at| Some(*at) > health.last_fetch_at);
        failing.extend(failed.map(|at| FailingServer {
            kind: "mailbox",
            name: mailbox.name.clone(),
            state: "fails".to_owned(),
            at,
            reason: health.last_error.unwrap_or_default(),
        }));
    }
    let calls = store.provider_calls().await?.into_iter();
    failing.extend(calls.filter_map(|calls| provider(calls, now)));
    Ok(failing)
}

fn mail_server(health: TransportHealth) -> Option<FailingServer> {
    let state = match health.state {
        TransportState::Well => return None,
        TransportState::Unreachable => "is away",
        TransportState::AuthFailed => "refuses the login",
    };
    Some(FailingServer {
        kind: "outbound",
        name: String::new(),
        state: state.to_owned(),
        at: health.since,
        reason: health.reason,
    })
}

fn provider(calls: ProviderCalls, now: Timestamp) -> Option<FailingServer> {
    let is_recent = |at: &Timestamp| now.since(*at) <= PROVIDER_FAILURE_AGE_MAX;
    let last = calls.last_failure_at.filter(is_recent);
    let at = last.filter(|at| Some(*at) > calls.last_success_at)?;
    Some(FailingServer {
        kind: "provider",
        name: calls.provider,
        state: calls.last_failure_class.unwrap_or_default(),
        at,
        reason: calls.last_failure_message.unwrap_or_default(),
    })
}
