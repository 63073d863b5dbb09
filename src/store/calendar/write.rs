//! Changes of events inside the transaction that stores a letter or a mail.

use super::record::{CalendarEventNote, CalendarNote, EventWrite, NewCalendarPart};
use crate::calendar::{
    CalendarEvent, CalendarMethod, EventChange, EventRef, KnownEvent, TimeSpan, judge_event,
};
use crate::domain::{Address, MessageId, PersonaId, Timestamp};
use crate::store::db::{Connection, Sql};
use crate::store::sql::{from_json, timestamp, to_json};
use crate::store::{Result, StoreError};

/// Most events that are compared with an invitation, and most overlaps that are noted.
const COMPARED_MAX: u32 = 50;
const OVERLAPS_MAX: usize = 5;
/// Most instances that are kept with the letter.
const NOTED_SPANS_MAX: usize = 10;

const KNOWN_EVENT: &str = "
    SELECT sequence, stamped_at, is_cancelled, event_json FROM events
    WHERE persona_id = $1 AND uid = $2 AND organizer = $3 AND recurrence_id = $4";
const PUT_EVENT: &str = "
    INSERT INTO events (persona_id, uid, organizer, recurrence_id, sequence, stamped_at, is_cancelled, answer, starts_at, ends_at,
      event_json, message_id, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (persona_id, uid, organizer, recurrence_id) DO UPDATE SET sequence = excluded.sequence,
      stamped_at = excluded.stamped_at, is_cancelled = excluded.is_cancelled, answer = excluded.answer,
      starts_at = excluded.starts_at, ends_at = excluded.ends_at, event_json = excluded.event_json,
      message_id = excluded.message_id, updated_at = excluded.updated_at";
const ANSWER_EVENT: &str = "
    UPDATE events SET answer = $5, message_id = $6, updated_at = $7
    WHERE persona_id = $1 AND uid = $2 AND organizer = $3 AND recurrence_id = $4";
/// Events that may overlap a time, but for those of one UID.
const EVENTS_AROUND: &str = "
    SELECT event_json FROM events
    WHERE persona_id = $1 AND ends_at > $2 AND starts_at < $3 AND uid <> $4 AND is_cancelled = 0
      AND coalesce(answer, '') <> 'DECLINED'
    ORDER BY ends_at LIMIT $5";
const NOTE_CALENDAR: Sql = Sql::pair(
    "
    UPDATE messages SET metadata_json = json_set(metadata_json, '$.calendar', json($2)) WHERE id = $1",
    "
    UPDATE messages SET metadata_json = json_set(metadata_json, '$.calendar', $2::JSON) WHERE id = $1",
);

/// Applies the calendar part of a letter that was just stored, and notes what became of it.
pub async fn apply_letter(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    part: &NewCalendarPart,
    now: Timestamp,
) -> Result<()> {
    let mut notes = Vec::with_capacity(part.object.events.len());
    for event in &part.object.events {
        notes.push(apply_event(conn, persona, message, part, event, now).await?);
    }
    let mut object = part.object.clone();
    for event in &mut object.events {
        event.spans.truncate(NOTED_SPANS_MAX);
    }
    let note = CalendarNote {
        object,
        events: notes,
    };
    conn.exec(NOTE_CALENDAR, (&message, to_json(&note)?))
        .await?;
    Ok(())
}

async fn apply_event(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    part: &NewCalendarPart,
    event: &CalendarEvent,
    now: Timestamp,
) -> Result<CalendarEventNote> {
    let address = &part.persona_address;
    let found = EventRef::from_event(part.object.method, event, address);
    let (mut known, mut whole) = (None, None);
    if let Some(of) = &found {
        known = known_event(conn, persona, of).await?;
        if !of.recurrence_id.is_empty() {
            let of = EventRef {
                recurrence_id: String::new(),
                ..of.clone()
            };
            whole = known_event(conn, persona, &of).await?;
        }
    }
    let known = (known.as_ref(), whole.as_ref());
    let (outcome, change) = judge_event(known, (&part.object, event), &part.sender, now);
    if let (Some(change), Some(of)) = (change, &found) {
        // An organiser who sends a new version asks anew, unless it says that it has the answer.
        let attendee = change.event.attendee(address);
        let answer = match of.organizer == address.key() {
            true => organizers_answer(),
            false => attendee.map(|person| person.answer.clone()),
        };
        put(conn, persona, message, of, change, answer, now).await?;
    }
    let overlaps = match part.object.method {
        CalendarMethod::Request | CalendarMethod::None | CalendarMethod::Publish => {
            overlaps(conn, persona, event).await?
        }
        _ => Vec::new(),
    };
    Ok(CalendarEventNote { outcome, overlaps })
}

async fn known_event(
    conn: &mut Connection,
    persona: &PersonaId,
    of: &EventRef,
) -> Result<Option<KnownEvent>> {
    let Some(row) = conn
        .maybe_row(
            KNOWN_EVENT,
            (persona, &of.uid, &of.organizer, &of.recurrence_id),
        )
        .await?
    else {
        return Ok(None);
    };
    let event: String = row.get("event_json");
    Ok(Some(KnownEvent {
        sequence: row.get("sequence"),
        stamped_at: timestamp(&row, "stamped_at")?,
        is_cancelled: row.get("is_cancelled"),
        event: from_json(&event, "events")?,
    }))
}

async fn put(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    of: &EventRef,
    change: EventChange,
    answer: Option<String>,
    now: Timestamp,
) -> Result<()> {
    let spans = &change.event.spans;
    let starts_at = spans.iter().map(|span| span.start).min();
    let ends_at = spans.iter().map(|span| span.end).max();
    conn.exec(
        PUT_EVENT,
        (
            &persona,
            &of.uid,
            &of.organizer,
            &of.recurrence_id,
            change.sequence,
            change.stamped_at,
            change.is_cancelled,
            answer,
            starts_at,
            ends_at,
            to_json(&change.event)?,
            &message,
            now,
        ),
    )
    .await?;
    Ok(())
}

async fn overlaps(
    conn: &mut Connection,
    persona: &PersonaId,
    event: &CalendarEvent,
) -> Result<Vec<TimeSpan>> {
    let (Some(first), Some(last)) = (event.spans.first(), event.spans.last()) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<TimeSpan> = Vec::new();
    for row in conn
        .rows(
            EVENTS_AROUND,
            (persona, first.start, last.end, &event.uid, COMPARED_MAX),
        )
        .await?
    {
        let json: String = row.get("event_json");
        let other: CalendarEvent = from_json(&json, "events")?;
        let is_taken = |span: &&TimeSpan| event.spans.iter().any(|own| own.overlaps(**span));
        found.extend(other.spans.iter().filter(is_taken));
    }
    found.sort_unstable_by_key(|span| span.start);
    found.truncate(OVERLAPS_MAX);
    Ok(found)
}

/// Records what a mail of the persona's does to an event.
pub async fn apply_mail(
    conn: &mut Connection,
    persona: &PersonaId,
    message: &MessageId,
    write: &EventWrite,
    now: Timestamp,
) -> Result<()> {
    match write {
        EventWrite::Answer {
            uid,
            organizer,
            recurrence_id,
            answer,
        } => {
            conn.exec(
                ANSWER_EVENT,
                (
                    &persona,
                    uid,
                    organizer,
                    recurrence_id,
                    answer,
                    &message,
                    now,
                ),
            )
            .await?;
            Ok(())
        }
        EventWrite::Own {
            event,
            is_cancelled,
        } => {
            let organizer = event.organizer.as_ref();
            let organizer = organizer.and_then(|person| Address::parse(&person.address).ok());
            let organizer = organizer.ok_or(StoreError::Unreadable {
                what: "organiser of an event",
            })?;
            let of = EventRef {
                uid: event.uid.clone(),
                organizer: organizer.key(),
                recurrence_id: event.recurrence_id.clone(),
            };
            let change = EventChange {
                sequence: event.sequence,
                stamped_at: event.stamped_at.unwrap_or(now),
                is_cancelled: *is_cancelled,
                event: (**event).clone(),
            };
            put(
                conn,
                persona,
                message,
                &of,
                change,
                organizers_answer(),
                now,
            )
            .await
        }
    }
}

/// Returns the answer of the persona to events that it organises.
fn organizers_answer() -> Option<String> {
    Some("ACCEPTED".to_owned())
}
