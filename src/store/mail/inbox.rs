//! Recent letters of a persona, for the prompts of its responsibilities.
//!
//! Letters are in the order of their arrival at this engine, which is the order of their ids: a
//! mailbox may have had a letter for days before it was fetched, and a prompt that asks for new
//! letters has not seen it.

use crate::domain::{ThreadId, Timestamp};
use crate::store::sql::to_i64;
use crate::store::{PersonaStore, Result, StoreError};

/// Most letters of one query.
pub const INBOX_MAX: usize = 200;
/// Most characters of an excerpt.
const EXCERPT_CHARS: u32 = 500;

/// A letter for a prompt. All fields but `received_at` are the sender's claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxItem {
    /// Arrival at this engine.
    pub received_at: Timestamp,
    /// `Name <address>` as typed.
    pub sender: String,
    pub subject: String,
    /// Beginning of the fresh text.
    pub excerpt: String,
    /// A word of [`crate::domain::Trust`].
    pub trust: String,
    pub thread: ThreadId,
}

/// Only letters that were written to be answered: reports, lists and other letters that a rule held
/// are left out.
const INBOX: &str = "
    SELECT id, sender, subject, substr(coalesce(fresh_text, text_body), 1, $5) AS excerpt, trust, thread_id
    FROM messages
    WHERE persona_id = $1 AND id >= $2 AND id < $3 AND direction = 'inbound' AND disposition = 'run'
    ORDER BY id DESC LIMIT $4";

impl PersonaStore {
    /// Returns letters that came after `after` and not after `until`, the newest first, at most
    /// `limit` and at most [`INBOX_MAX`].
    pub async fn inbox_between(
        &self,
        after: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<InboxItem>> {
        self.all(
            INBOX,
            (
                &self.persona,
                first_id_after(after),
                first_id_after(until),
                to_i64(limit.min(INBOX_MAX)),
                EXCERPT_CHARS,
            ),
        )
        .await
    }
}

from_row!(|row| InboxItem {
    received_at: {
        instant_of(row.get("id")).ok_or(StoreError::Unreadable {
            what: "id of a message",
        })?
    },
    sender,
    subject,
    excerpt,
    trust,
    thread: "thread_id"
});

/// Returns the first id of the next millisecond: a UUIDv7 begins with its time (RFC 9562 section
/// 5.7).
fn first_id_after(at: Timestamp) -> String {
    let ms = at.as_millis().saturating_add(1).clamp(0, 0xffff_ffff_ffff);
    format!("{:08x}-{:04x}-", ms >> 16, ms & 0xffff)
}

fn instant_of(id: &str) -> Option<Timestamp> {
    let digits = format!("{}{}", id.get(..8)?, id.get(9..13)?);
    i64::from_str_radix(&digits, 16)
        .ok()
        .map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_millisecond_stands_between_its_start_and_the_next() {
        let at = Timestamp::parse("2026-11-20T09:00:00.123Z").expect("an instant");
        let before = Timestamp::from_millis(at.as_millis() - 1);
        let id = "01a1f82f-6a7b-7000-8000-000000000001";
        let id = id.replace("01a1f82f-6a7b-", &first_id_after(before));
        assert_eq!(instant_of(&id), Some(at));
        assert!(
            first_id_after(before) < id && id < first_id_after(at),
            "{id}"
        );
        assert!(first_id_after(Timestamp::from_millis(-5)) < id);
        assert_eq!(instant_of("none"), None);
    }
}
