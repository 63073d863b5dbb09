//! Rows of webhooks and of what they are told.

use crate::domain::{PersonaId, Timestamp, WebhookEvent};
use serde::Serialize;

/// State of what a webhook is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookDeliveryState {
    Queued,
    Done,
    Failed,
}

impl WebhookDeliveryState {
    pub const ALL: [Self; 3] = [Self::Queued, Self::Done, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    /// Parses the text of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A webhook as far as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookStatus {
    pub name: String,
    /// Number of the feed's newest event that was looked at for it.
    pub through_seq: i64,
    /// Since when it is asked no more.
    pub disabled_at: Option<Timestamp>,
    /// Why it is asked no more.
    pub reason: Option<String>,
    /// It is asked again from then on, because its server is busy or away.
    pub rests_until: Option<Timestamp>,
    /// Failed attempts since the last success.
    pub failures: u32,
    /// When it last took an event.
    pub success_at: Option<Timestamp>,
    pub queued: u32,
}

impl WebhookStatus {
    /// Reports whether it may be asked now.
    pub fn may_be_asked(&self, now: Timestamp) -> bool {
        self.disabled_at.is_none() && self.rests_until.is_none_or(|until| until <= now)
    }
}

/// An event that a webhook is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewWebhookDelivery {
    /// `webhook-id` of every attempt.
    pub id: String,
    /// Number of the event in the feed.
    pub seq: i64,
    pub event: WebhookEvent,
    pub persona: Option<PersonaId>,
    /// The exact body of every attempt.
    pub body: String,
}

/// An event that a webhook is told, was told, or could not be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebhookDelivery {
    pub id: String,
    pub webhook: String,
    pub seq: i64,
    /// Its name as it is sent.
    pub event: String,
    pub persona: Option<PersonaId>,
    pub body: String,
    pub state: WebhookDeliveryState,
    pub attempts: u32,
    pub next_attempt_at: Timestamp,
    /// Status of HTTP of the last attempt.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

from_row!(WebhookStatus {
    name,
    through_seq,
    disabled_at,
    reason,
    rests_until,
    failures,
    success_at,
    queued
});

from_row!(WebhookDelivery {
    id,
    webhook,
    seq,
    event,
    persona: "persona_id",
    body,
    state,
    attempts,
    next_attempt_at,
    status,
    error,
    created_at,
    finished_at
});

text_column!(WebhookDeliveryState: "state of a webhook's delivery";);
