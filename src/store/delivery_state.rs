//! The states of deliveries and of their recipients, and their one spelling.
//!
//! ```text
//! queued -> sending -> committing -> done | failed | queued (some recipients deferred)
//! queued <-> held          queued, held -> cancelled          failed, held -> queued (by hand)
//! ```

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    Queued,
    /// An engine works on it; the peer cannot have it yet.
    Sending,
    /// An engine works on it; the peer may have it.
    Committing,
    /// Every recipient has it.
    Done,
    /// At least one recipient will not get it.
    Failed,
    /// An operator keeps it back.
    Held,
    Cancelled,
}

/// What a delivery is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeliveryKind {
    /// What a persona wrote.
    #[default]
    Mail,
    /// The engine tells its owner something. Its own failure is nobody's business: no notice, no bounce.
    Notice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecipientState {
    Queued,
    /// Tried, and to be tried again.
    Deferred,
    Delivered,
    Failed,
    Cancelled,
}

impl DeliveryState {
    /// The spelling in the database, on the command line and in JSON.
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
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl DeliveryKind {
    /// The spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mail => "mail",
            Self::Notice => "notice",
        }
    }
    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Mail, Self::Notice].into_iter().find(|kind| kind.as_str() == text)
    }
}

impl RecipientState {
    /// The spelling in the database, on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Deferred => "deferred",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
    pub(super) fn parse(text: &str) -> Option<Self> {
        let all = [Self::Queued, Self::Deferred, Self::Delivered, Self::Failed, Self::Cancelled];
        all.into_iter().find(|state| state.as_str() == text)
    }
}
