//! `notices` in `configs/gateway.json`: mails to the owners about failures. There is no switch:
//! without owners no such mail is sent.

use crate::config::values::section::*;
use crate::domain::PersonaId;

/// Mails to the owners about failures.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NoticeSettings {
    /// Persona that sends notices about the engine itself. Default: the first by id. Notices about
    /// a persona come from that persona's address.
    #[serde(rename = "persona")]
    named: Option<String>,
    /// The persona of that name.
    #[serde(skip)]
    pub persona: Option<PersonaId>,
    /// Minimum time between two mails about one cause.
    #[serde(with = "TypedDuration")]
    pub interval: Duration,
    /// Age at which a mail that is still queued causes a notice.
    #[serde(with = "TypedDuration")]
    pub delayed_after: Duration,
    /// Minimum time between two mails about letters to a persona that were filed and not answered;
    /// `0s` sends none.
    #[serde(with = "TypedDuration")]
    pub filed_interval: Duration,
}

impl Default for NoticeSettings {
    fn default() -> Self {
        Self {
            named: None,
            persona: None,
            interval: Duration::from_secs(3600),
            delayed_after: Duration::from_secs(4 * 3600),
            filed_interval: Duration::from_secs(24 * 3600),
        }
    }
}

/// Resolves the section. Problems go to the context.
pub fn resolve(typed: Option<&NoticeSettings>, place: &mut CheckPlace<'_, '_>) -> NoticeSettings {
    let mut settings = typed.cloned().unwrap_or_default();
    settings.persona = place.persona("persona", settings.named.as_deref());
    if settings.interval < Duration::from_secs(60) {
        place.refuse(
            "interval",
            "must be a minute or more",
            "a broken mail server would otherwise fill the mailbox of its owner",
        );
    }
    settings
}
