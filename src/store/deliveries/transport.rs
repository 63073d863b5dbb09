//! Health of the outbound transport: columns of the row of `engine`, so that an operator sees why no
//! mail is sent.
//!
//! Written when the state changes and when a pause begins, never for consecutive successes. The
//! breaker itself is in memory: a fresh engine tries at once. The owner is notified in the same
//! transaction, once per outage: at once when a person has to act, after a while when waiting may
//! help.

use crate::domain::{NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::store::db::Scope;
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::sql::instant;
use crate::store::{Result, Store, StoreError};
use std::time::Duration;

/// Shortest outage that causes a notice: shorter ones are restarts of the server, or a broken line.
pub const DOWN_AFTER: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportState {
    Well,
    /// Unavailable: no connection, no TLS, no greeting, or 421; mail waits.
    Unreachable,
    /// The server refuses our credentials: mail waits until a person acts.
    AuthFailed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportHealth {
    pub state: TransportState,
    /// Instant at which it entered this state.
    pub since: Timestamp,
    /// Text of the server, or ours when it gave none. Empty when well.
    pub reason: String,
    /// Instant of the next probe; `None` when well, and while every mail has its own retry time.
    pub next_probe_at: Option<Timestamp>,
}

/// State of the transport, to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportNote {
    /// Name of the transport for display, such as its host.
    pub name: String,
    pub state: TransportState,
    /// Empty when well.
    pub reason: String,
    /// `None` when well.
    pub next_probe_at: Option<Timestamp>,
}

const HEALTH: &str = "
SELECT transport_state, transport_since, transport_reason, transport_next_probe_at FROM engine
WHERE id = 1 AND transport_state IS NOT NULL";

const NOTE: &str = "
UPDATE engine SET
  transport_since = CASE WHEN transport_state = $1 THEN transport_since ELSE $2 END,
  transport_state = $1, transport_reason = $3, transport_next_probe_at = $4 WHERE id = 1
RETURNING transport_since";

impl Store {
    /// Returns the health; `None` while no transport ever failed.
    pub async fn transport_health(&self) -> Result<Option<TransportHealth>> {
        let Some(row) = self.maybe_row(HEALTH, ()).await? else {
            return Ok(None);
        };
        let state: String = row.try_get("transport_state")?;
        let next_probe_at: Option<String> = row.try_get("transport_next_probe_at")?;
        Ok(Some(TransportHealth {
            state: TransportState::parse(&state).ok_or(StoreError::Unreadable {
                what: "transport state",
            })?,
            since: instant(&row.try_get::<String>("transport_since")?)?,
            reason: row.try_get("transport_reason")?,
            next_probe_at: next_probe_at.map(|text| instant(&text)).transpose()?,
        }))
    }

    /// Records the state of the transport and the instant of its next probe.
    pub async fn note_transport(&self, note: TransportNote) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        transact!(self, Scope::Engine, |conn| {
            let since: String = conn
                .one(NOTE, (&note.state, now, &note.reason, note.next_probe_at))
                .await?;
            if let Some(notice) = notice(&note, instant(&since)?, now) {
                let id = NoticeId::new(clock.new_id());
                emit(conn, &NewNotice { id, ..notice }, now).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Returns the notice to the owner, once per outage: the same outage has the same `since`. The id
/// is the caller's.
fn notice(note: &TransportNote, since: Timestamp, now: Timestamp) -> Option<NewNotice> {
    let (name, reason) = (quoted(&note.name), quoted(&note.reason));
    let (kind, summary, hint) = match note.state {
        TransportState::AuthFailed => (
            NoticeKind::TransportRefused,
            format!(
                "{name} refuses our credentials since {since} and said {reason}; all mail out waits"
            ),
            "put the right password into `.secrets`, and it is used within seconds (one in the environment after a restart); it tries \
             every 15 minutes by itself, and mail is kept",
        ),
        TransportState::Unreachable if now.since(since) >= DOWN_AFTER => (
            NoticeKind::TransportDown,
            format!(
                "{name} cannot be used for mail out since {since}: {reason}; all mail out waits"
            ),
            "nothing has to be done if it comes back; `attache outbox list` shows when it is tried again, \
             `attache config show` shows what is configured under `outbound`",
        ),
        TransportState::Unreachable | TransportState::Well => return None,
    };
    Some(NewNotice {
        id: NoticeId::new(String::new()),
        persona: None,
        kind,
        detail: note.name.clone(),
        subject: NoticeSubject::Transport,
        subject_id: note.name.clone(),
        occurrence: since.to_string(),
        summary,
        hint: hint.to_owned(),
    })
}

impl TransportState {
    /// Returns the spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Unreachable => "unreachable",
            Self::AuthFailed => "auth_failed",
        }
    }
    fn parse(text: &str) -> Option<Self> {
        [Self::Well, Self::Unreachable, Self::AuthFailed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

text_column!(TransportState: "transport state";);
