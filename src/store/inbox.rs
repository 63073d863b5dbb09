//! What came in for a persona of late, for the prompts of its responsibilities.
//!
//! Letters are in the order in which they came to this engine, which their ids have: a mailbox may have had a letter for
//! days before it was fetched, and whoever asks what is new has not seen it.

use super::runs::to_i64;
use super::{PersonaStore, Result, StoreError};
use crate::domain::{ThreadId, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// Letters of one answer.
pub const INBOX_MAX: usize = 200;
/// Characters of a letter that are given.
const EXCERPT_CHARS: u32 = 500;

/// A letter as a prompt may have it. Everything but `received_at` is as its writer would have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxItem {
    /// When it came to this engine.
    pub received_at: Timestamp,
    /// `Name <address>` as typed.
    pub sender: String,
    pub subject: String,
    /// The beginning of what is new in it.
    pub excerpt: String,
    /// A word of [`crate::domain::Trust`].
    pub trust: String,
    pub thread: ThreadId,
}

/// Only what a person or a persona wrote to be answered: reports, lists and whatever else a rule held is not news.
pub(super) const INBOX: &str = "
    SELECT id, sender, subject, substr(coalesce(fresh_text, text_body), 1, $5) AS excerpt, trust, thread_id
    FROM messages
    WHERE persona_id = $1 AND id >= $2 AND id < $3 AND direction = 'inbound' AND disposition = 'run'
    ORDER BY id DESC LIMIT $4";

impl PersonaStore {
    /// Letters that came after `after` and not after `until`, the newest first, at most `limit` and at most [`INBOX_MAX`].
    pub async fn inbox_between(
        &self,
        after: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<InboxItem>> {
        let inbox = sqlx::query(INBOX).bind(self.persona.as_str());
        let inbox = inbox.bind(first_id_after(after)).bind(first_id_after(until));
        let inbox = inbox.bind(to_i64(limit.min(INBOX_MAX))).bind(EXCERPT_CHARS);
        inbox.fetch_all(self.store.readers()).await?.iter().map(item).collect()
    }
}

fn item(row: &SqliteRow) -> Result<InboxItem> {
    let came = instant_of(row.get("id"));
    Ok(InboxItem {
        received_at: came.ok_or(StoreError::Unreadable { what: "id of a message" })?,
        sender: row.get("sender"),
        subject: row.get("subject"),
        excerpt: row.get("excerpt"),
        trust: row.get("trust"),
        thread: ThreadId::new(row.get::<String, _>("thread_id")),
    })
}

/// Where the ids of the next millisecond begin: a UUIDv7 begins with its time (RFC 9562 section 5.7).
fn first_id_after(at: Timestamp) -> String {
    let ms = at.as_millis().saturating_add(1).clamp(0, 0xffff_ffff_ffff);
    format!("{:08x}-{:04x}-", ms >> 16, ms & 0xffff)
}

fn instant_of(id: &str) -> Option<Timestamp> {
    let digits = format!("{}{}", id.get(..8)?, id.get(9..13)?);
    i64::from_str_radix(&digits, 16).ok().map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_millisecond_stands_between_its_beginning_and_that_of_the_next() {
        let at = Timestamp::parse("2026-11-20T09:00:00.123Z").expect("an instant");
        let before = Timestamp::from_millis(at.as_millis() - 1);
        let id = "01a1f82f-6a7b-7000-8000-000000000001";
        let id = id.replace("01a1f82f-6a7b-", &first_id_after(before));
        assert_eq!(instant_of(&id), Some(at));
        assert!(first_id_after(before) < id && id < first_id_after(at), "{id}");
        assert!(first_id_after(Timestamp::from_millis(-5)) < id);
        assert_eq!(instant_of("none"), None);
    }
}
