//! Reads of events: invitations in a thread, what a persona has at a time.

use super::record::CalendarNote;
use crate::calendar::CalendarEvent;
use crate::domain::{Address, MessageId, Timestamp};
use crate::store::db::{self, Row};
use crate::store::sql::from_json;
use crate::store::threads::opened::ReadersRule;
use crate::store::{PersonaStore, Result};

/// Most messages of a thread that are looked through, and most calendar parts that are returned.
const THREAD_MESSAGES_MAX: u32 = 200;
const PARTS_MAX: u32 = 20;
/// Most events of a list.
const EVENTS_MAX: u32 = 200;

/// Calendar parts in the run's thread that every reader may see, newest first.
pub(in crate::store) const THREAD_CALENDARS: &str = "
    SELECT m.id AS message_id, json_extract(m.metadata_json, '$.calendar') AS calendar
    FROM (SELECT m.seq, m.id, m.persona_id, m.disposition, m.metadata_json
        FROM messages t JOIN messages m ON m.thread_id = t.thread_id AND m.seq <= t.seq
        WHERE t.id = $1 AND t.persona_id = $2 ORDER BY m.seq DESC LIMIT $4) m
    WHERE m.persona_id = $2 AND json_extract(m.metadata_json, '$.calendar') IS NOT NULL
      AND (m.id = $1 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
    ORDER BY m.seq DESC LIMIT $5";
pub(in crate::store) const OWN_EVENT: &str = "
    SELECT is_cancelled, answer, event_json FROM events
    WHERE persona_id = $1 AND uid = $2 AND organizer = $3 AND recurrence_id = $4";
pub(in crate::store) const EVENTS_BETWEEN: &str = "
    SELECT is_cancelled, answer, event_json FROM events
    WHERE persona_id = $1 AND ends_at > $2 AND starts_at < $3 ORDER BY ends_at LIMIT $4";

/// Event of a persona.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    pub is_cancelled: bool,
    /// Answer of the persona.
    pub answer: Option<String>,
    pub event: CalendarEvent,
}

impl PersonaStore {
    /// Returns the calendar parts of letters in the thread of the message that the run answers, newest first.
    pub async fn thread_calendars(
        &self,
        rule: ReadersRule<'_>,
    ) -> Result<Vec<(MessageId, CalendarNote)>> {
        let rows = db::query(THREAD_CALENDARS)
            .bind(rule.trigger.as_str())
            .bind(self.persona.as_str())
            .bind(rule.readers_json())
            .bind(THREAD_MESSAGES_MAX)
            .bind(PARTS_MAX);
        let rows = rows.fetch_all(self.store.readers()).await?;
        let found = |row: &Row| {
            let id = MessageId::new(row.get::<String>("message_id"));
            let note: String = row.get("calendar");
            Ok((id, from_json(&note, "calendar of a message")?))
        };
        rows.iter().map(found).collect()
    }

    /// Returns one event; `recurrence_id` is empty for the event itself.
    pub async fn event(
        &self,
        (uid, organizer): (&str, &Address),
        recurrence_id: &str,
    ) -> Result<Option<StoredEvent>> {
        let row = db::query(OWN_EVENT)
            .bind(self.persona.as_str())
            .bind(uid)
            .bind(organizer.key())
            .bind(recurrence_id);
        let row = row.fetch_optional(self.store.readers()).await?;
        row.as_ref().map(stored).transpose()
    }

    /// Returns events that may have an instance between two instants.
    pub async fn events_between(
        &self,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Vec<StoredEvent>> {
        let rows = db::query(EVENTS_BETWEEN)
            .bind(self.persona.as_str())
            .bind(from.to_string())
            .bind(to.to_string())
            .bind(EVENTS_MAX);
        let rows = rows.fetch_all(self.store.readers()).await?;
        rows.iter().map(stored).collect()
    }
}

fn stored(row: &Row) -> Result<StoredEvent> {
    let event: String = row.get("event_json");
    Ok(StoredEvent {
        is_cancelled: row.get("is_cancelled"),
        answer: row.get("answer"),
        event: from_json(&event, "events")?,
    })
}
