//! Reads of events: invitations in a thread, what a persona has at a time.

use super::record::CalendarNote;
use crate::calendar::CalendarEvent;
use crate::domain::{Address, MessageId, Timestamp};
use crate::store::db::Row;
use crate::store::sql::from_json;
use crate::store::threads::opened::ReadersRule;
use crate::store::{PersonaStore, Result};

/// Most messages of a thread that are looked through, and most calendar parts that are returned.
const THREAD_MESSAGES_MAX: u32 = 200;
const PARTS_MAX: u32 = 20;
/// Most events of a list.
const EVENTS_MAX: u32 = 200;

/// Calendar parts in the run's thread that every reader may see, newest first.
const THREAD_CALENDARS: &str = "
    SELECT m.id AS message_id, json_extract(m.metadata_json, '$.calendar') AS calendar
    FROM (SELECT m.seq, m.id, m.persona_id, m.disposition, m.metadata_json
        FROM messages t JOIN messages m ON m.thread_id = t.thread_id AND m.seq <= t.seq
        WHERE t.id = $1 AND t.persona_id = $2 ORDER BY m.seq DESC LIMIT $4) m
    WHERE m.persona_id = $2 AND json_extract(m.metadata_json, '$.calendar') IS NOT NULL
      AND (m.id = $1 OR $3 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($3) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
    ORDER BY m.seq DESC LIMIT $5";
const OWN_EVENT: &str = "
    SELECT is_cancelled, answer, event_json FROM events
    WHERE persona_id = $1 AND uid = $2 AND organizer = $3 AND recurrence_id = $4";
const EVENTS_BETWEEN: &str = "
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
        let rows = self
            .rows(
                THREAD_CALENDARS,
                (
                    &rule.trigger,
                    &self.persona,
                    rule.readers_json(),
                    THREAD_MESSAGES_MAX,
                    PARTS_MAX,
                ),
            )
            .await?;
        let found = |row: &Row| {
            let id: MessageId = row.get("message_id");
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
        self.maybe(
            OWN_EVENT,
            (&self.persona, uid, organizer.key(), recurrence_id),
        )
        .await
    }

    /// Returns events that may have an instance between two instants.
    pub async fn events_between(
        &self,
        (from, to): (Timestamp, Timestamp),
    ) -> Result<Vec<StoredEvent>> {
        self.all(EVENTS_BETWEEN, (&self.persona, from, to, EVENTS_MAX))
            .await
    }
}

from_row!(|row| StoredEvent {
    is_cancelled,
    answer,
    event: { row.json("event_json", "events")? }
});
