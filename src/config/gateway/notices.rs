//! `notices` in `configs/gateway.json`: mails to the owners about failures. There is no switch:
//! without owners no such mail is sent.

use crate::config::file::Document;
use crate::config::file::duration::{self, TypedDuration};
use crate::config::values::check_context::CheckContext;
use crate::domain::PersonaId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Mails to the owners about failures.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TypedNotices {
    /// Persona that sends notices about the engine itself. Default: the first by id. Notices about
    /// a persona come from that persona's address.
    persona: Option<String>,
    /// Minimum time between two mails about one cause.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    interval: Duration,
    /// Age at which a mail that is still queued causes a notice.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    delayed_after: Duration,
    /// Minimum time between two mails about letters to a persona that were filed and not answered;
    /// `0s` sends none.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    filed_interval: Duration,
}

impl Default for TypedNotices {
    fn default() -> Self {
        Self {
            persona: None,
            interval: Duration::from_secs(3600),
            delayed_after: Duration::from_secs(4 * 3600),
            filed_interval: Duration::from_secs(24 * 3600),
        }
    }
}

/// Mails to the owners about failures.
#[derive(Debug, Clone)]
pub struct NoticeSettings {
    /// Persona that sends notices about the engine itself; `None`: the first persona.
    pub persona: Option<PersonaId>,
    /// Minimum time between two mails about one cause.
    pub interval: Duration,
    /// Age at which a mail that is still queued causes a notice.
    pub delayed_after: Duration,
    /// Minimum time between two mails about letters to a persona that were filed; zero sends none.
    pub filed_interval: Duration,
}

/// Resolves the section. Problems go to the context.
pub fn resolve(
    file: &Document,
    typed: Option<&TypedNotices>,
    ctx: &mut CheckContext<'_>,
) -> NoticeSettings {
    let none = TypedNotices::default();
    let typed = typed.unwrap_or(&none);
    let persona = typed.persona.as_deref();
    let persona = persona.and_then(|name| ctx.persona(file, "/notices/persona", name));
    if typed.interval < Duration::from_secs(60) {
        ctx.refuse(
            file,
            "/notices/interval",
            "must be a minute or more",
            "a broken mail server would otherwise fill the mailbox of its owner",
        );
    }
    NoticeSettings {
        persona,
        interval: typed.interval,
        delayed_after: typed.delayed_after,
        filed_interval: typed.filed_interval,
    }
}
