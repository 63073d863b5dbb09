//! The states of deliveries and of their recipients, and their one spelling.
//!
//! ```text
//! queued -> sending -> committing -> done | failed | queued (some recipients deferred)
//! queued <-> held          queued, held -> cancelled          failed, held -> queued (by hand)
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    Queued,
    /// An engine works on the delivery; the peer cannot have it yet.
    Sending,
    /// An engine works on the delivery; the peer may have it.
    Committing,
    /// Every recipient has the mail.
    Done,
    /// At least one recipient will not get the mail.
    Failed,
    /// An operator holds the delivery.
    Held,
    Cancelled,
}

/// Purpose of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryKind {
    /// A mail of a persona.
    #[default]
    Mail,
    /// A notice to the owner. Its own failure causes no notice and no bounce.
    Notice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecipientState {
    Queued,
    /// An attempt was deferred; the delivery will be retried.
    Deferred,
    Delivered,
    Failed,
    Cancelled,
}

impl DeliveryState {
    /// Returns the spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Committing => "committing",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Cancelled => "cancelled",
        }
    }
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Sending,
        Self::Committing,
        Self::Done,
        Self::Failed,
        Self::Held,
        Self::Cancelled,
    ];
    /// States of a mail that is on its way.
    pub const UNDERWAY: [Self; 3] = [Self::Queued, Self::Sending, Self::Committing];
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl DeliveryKind {
    /// Returns the spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Notice => "notice",
        }
    }
    pub(in crate::store) fn parse(text: &str) -> Option<Self> {
        [Self::Mail, Self::Notice]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

impl RecipientState {
    /// Returns the spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Deferred => "deferred",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
    pub(in crate::store) fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Queued,
            Self::Deferred,
            Self::Delivered,
            Self::Failed,
            Self::Cancelled,
        ];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

text_column! {
    DeliveryState: "delivery state";
    DeliveryKind: "delivery kind";
    RecipientState: "recipient state";
}
