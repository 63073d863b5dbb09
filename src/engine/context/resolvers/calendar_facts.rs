//! Calendar part of the letter in words: what it is and what became of it for the head of the input, what it says for the
//! input itself.
//!
//! What it says is the sender's text and stands with the letter's. That it is new, outdated or not proven are the
//! engine's words, and stand where no letter writes.

use super::Subject;
use crate::calendar::{CalendarEvent, CalendarMethod, EventPerson, EventTime, TimeSpan};
use crate::config::Persona;
use crate::domain::{Timestamp, Trust};
use crate::store::{CalendarEventNote, CalendarNote, StoredMessage};
use chrono_tz::Tz;
use serde_json::Value;
use std::fmt::Write;

/// Most people and instances of one event that are listed.
const PEOPLE_LISTED_MAX: usize = 20;
const SPANS_LISTED_MAX: usize = 5;

/// Reads the calendar part of a stored letter, if it has one.
fn note_of(message: &StoredMessage) -> Option<CalendarNote> {
    if !message.metadata_json.contains("\"calendar\"") {
        return None;
    }
    let mut metadata: Value = serde_json::from_str(&message.metadata_json).ok()?;
    serde_json::from_value(metadata.get_mut("calendar")?.take()).ok()
}

/// Returns the engine's lines on the calendar part, one an event.
pub fn head_lines(subject: &Subject, persona: &Persona) -> Vec<String> {
    let Some(note) = note_of(&subject.message) else {
        return Vec::new();
    };
    let kind = kind(note.object.method);
    let events = note.object.events.iter().zip(&note.events);
    let mut lines: Vec<String> = events
        .map(|(event, found)| head_line(kind, subject, event, found, persona))
        .collect();
    lines.extend(note.object.warnings);
    lines
}

fn head_line(
    kind: &str,
    subject: &Subject,
    event: &CalendarEvent,
    found: &CalendarEventNote,
    persona: &Persona,
) -> String {
    let mut line = format!("{kind}, {}", found.outcome.describe());
    if kind == "invitation" && event.attendee(&persona.address).is_none() {
        line.push_str("; your address is not among those invited");
    }
    let starts = event.spans.iter().take(SPANS_LISTED_MAX);
    let starts: Vec<String> = starts
        .map(|span| local(span.start, persona.timezone))
        .collect();
    if !starts.is_empty() {
        let what = if starts.len() == 1 {
            "start"
        } else {
            "first starts"
        };
        line.push_str(&format!(
            "; {what} in your time zone: {}",
            starts.join(", ")
        ));
    }
    // Times at which the persona is busy are not for strangers.
    if subject.sender_trust() >= Trust::Contact && !found.overlaps.is_empty() {
        let busy = found
            .overlaps
            .iter()
            .map(|span| span_text(*span, persona.timezone));
        let busy: Vec<String> = busy.collect();
        line.push_str(&format!(
            "; you have other events then: {}",
            busy.join(", ")
        ));
    }
    line
}

fn kind(method: CalendarMethod) -> &'static str {
    match method {
        CalendarMethod::Request => "invitation",
        CalendarMethod::Cancel => "cancellation",
        CalendarMethod::Reply => "answer to an invitation",
        CalendarMethod::Counter => "proposal of another time (COUNTER)",
        CalendarMethod::DeclineCounter => "refusal of another time (DECLINECOUNTER)",
        CalendarMethod::Refresh => "request for the newest version (REFRESH)",
        CalendarMethod::Add => "further instances (ADD)",
        CalendarMethod::Publish | CalendarMethod::None => "event",
    }
}

/// Returns what the calendar part of the letter says; `None`: it has none.
pub fn text(subject: &Subject) -> Option<String> {
    let note = note_of(&subject.message)?;
    let mut text = format!(
        "Calendar part of this letter ({}):\n",
        note.object.method.as_str()
    );
    for event in &note.object.events {
        describe(&mut text, event);
    }
    Some(text)
}

fn describe(text: &mut String, event: &CalendarEvent) {
    let mut line = |name: &str, value: &str| {
        if !value.trim().is_empty() {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{name}: {}", value.trim());
        }
    };
    line("event", &event.summary);
    line("uid", &event.uid);
    line("instance", &event.recurrence_id);
    line(
        "start",
        &event.start.as_ref().map(as_written).unwrap_or_default(),
    );
    line(
        "end",
        &event.end.as_ref().map(as_written).unwrap_or_default(),
    );
    line("repeats", event.recurrence.as_deref().unwrap_or_default());
    line("place", &event.location);
    line(
        "organizer",
        &event.organizer.as_ref().map(person).unwrap_or_default(),
    );
    let people = event.attendees.iter().take(PEOPLE_LISTED_MAX).map(person);
    let mut people = people.collect::<Vec<_>>().join(", ");
    let more = event.attendees.len().saturating_sub(PEOPLE_LISTED_MAX);
    if more > 0 {
        people.push_str(&format!(" and {more} more"));
    }
    line("attendees", &people);
    line("comment", &event.comment);
    line("description", &event.description);
}

fn as_written(time: &EventTime) -> String {
    let zone = match (&time.zone, time.written.contains(' ')) {
        (Some(zone), _) => zone.as_str(),
        (None, true) => "no time zone given",
        (None, false) => "whole day",
    };
    format!("{} ({zone})", time.written)
}

fn person(person: &EventPerson) -> String {
    let name = match person.name.as_str() {
        "" => String::new(),
        name => format!("{name} "),
    };
    let answer = match person.answer.as_str() {
        "" => String::new(),
        answer => format!(" ({})", answer.to_ascii_lowercase()),
    };
    format!("{name}<{}>{answer}", person.address)
}

fn local(at: Timestamp, zone: Tz) -> String {
    let at = at.to_utc().with_timezone(&zone);
    at.format("%a, %d %b %Y %H:%M %z").to_string()
}

fn span_text(span: TimeSpan, zone: Tz) -> String {
    let end = span.end.to_utc().with_timezone(&zone);
    format!("{} to {}", local(span.start, zone), end.format("%H:%M"))
}
