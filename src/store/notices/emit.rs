//! Emission of an event: its row is inserted in the transaction that makes it true.

use crate::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId, Timestamp};
use crate::store::Result;
use crate::store::db::Connection;
use crate::text::truncated;

/// Most characters of a summary or of a hint that are kept.
const TEXT_CHARS_MAX: usize = 2000;

/// An event that the owner is to be notified of.
///
/// The same (kind, subject, occurrence) emitted again is the same event and is not stored twice.
/// Events of one kind, detail and persona have one cause: they share a mail, and a cause has at
/// most one mail an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNotice {
    pub id: NoticeId,
    /// Persona of the event; `None`: the engine itself.
    pub persona: Option<PersonaId>,
    pub kind: NoticeKind,
    /// Detail that separates causes of one kind, such as an error class or a host; may be empty.
    pub detail: String,
    pub subject: NoticeSubject,
    /// Id of the subject: of a run, of a delivery, the name of a host or mailbox.
    pub subject_id: String,
    /// Occurrence that separates two events of one subject, such as the instant since when it is
    /// so; empty when there is only one.
    pub occurrence: String,
    /// The event, as a sentence without full stop, with the ids. Of a letter only its subject, and
    /// all foreign text through [`quoted`].
    pub summary: String,
    /// Remedy for the owner, with the exact commands; where possible equal for all events of a
    /// cause.
    pub hint: String,
}

impl NewNotice {
    /// Returns the key of the cause: kind, detail and persona.
    pub fn cause(&self) -> String {
        let persona = self.persona.as_ref().map_or("", PersonaId::as_str);
        let parts = [self.kind.as_str(), &self.detail, persona];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(":")
    }
}

const EMIT: &str = "
    INSERT INTO notices (id, persona_id, kind, cause, subject_kind, subject_id, occurrence, summary, hint, emitted_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (kind, subject_id, occurrence) DO NOTHING";

/// Stores an event inside the transaction that makes it true; `false` when it was stored before.
pub async fn emit(conn: &mut Connection, new: &NewNotice, now: Timestamp) -> Result<bool> {
    Ok(conn
        .exec(
            EMIT,
            (
                &new.id,
                &new.persona,
                &new.kind,
                new.cause(),
                &new.subject,
                &new.subject_id,
                &new.occurrence,
                bounded(&new.summary),
                bounded(&new.hint),
                now,
            ),
        )
        .await?
        > 0)
}

pub fn bounded(text: &str) -> String {
    truncated(text, TEXT_CHARS_MAX)
}
