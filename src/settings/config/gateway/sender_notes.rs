//! `sender_notes` in `configs/gateway.json`: one short mail to the sender of a letter whose run failed or takes long.

use crate::config::values::section::*;
use crate::domain::Trust;

/// Shortest `slow_after`.
const SLOW_MIN: Duration = Duration::from_secs(60);

/// One short mail to the sender of a letter whose run failed or takes long. It says nothing of why.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SenderNoteSettings {
    /// Whether the sender is told of a run that failed for good.
    pub failed: bool,
    /// Time from the arrival of a letter after which its sender is told that the answer takes longer; `0s` tells nobody.
    #[serde(with = "TypedDuration")]
    pub slow_after: Duration,
    /// Lowest trust of a sender who is told.
    pub trust_min: NoteTrust,
}

/// Lowest trust of a sender who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoteTrust {
    /// Owners only.
    Owner,
    /// Proven senders that `access.allow` names, and owners.
    Contact,
    /// Every sender who is proven.
    Unknown,
    /// Everybody whose letters are answered: also a person whose name somebody else has written into From.
    Unauthenticated,
}

impl NoteTrust {
    pub fn trust(self) -> Trust {
        match self {
            Self::Owner => Trust::Owner,
            Self::Contact => Trust::Contact,
            Self::Unknown => Trust::Unknown,
            Self::Unauthenticated => Trust::Unauthenticated,
        }
    }
}

impl Default for SenderNoteSettings {
    fn default() -> Self {
        Self {
            failed: true,
            slow_after: Duration::from_secs(3600),
            trust_min: NoteTrust::Contact,
        }
    }
}

/// Checks the section. Problems go to the context.
pub fn check(settings: &SenderNoteSettings, place: &mut CheckPlace<'_, '_>) {
    if !settings.slow_after.is_zero() && settings.slow_after < SLOW_MIN {
        place.refuse(
            "slow_after",
            "must be a minute or more, or `0s`",
            "most answers take some minutes, and each note is a mail",
        );
    }
}
