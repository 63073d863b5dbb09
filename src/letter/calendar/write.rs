//! Calendar parts of ours (RFC 5546 sections 3.2.2, 3.2.3 and 3.2.5). Lines end in CRLF and are folded at 75 bytes.
//!
//! Times are written in UTC, which every program reads alike; an instance of a recurring event is named as its organiser
//! wrote it.

use super::event::{CalendarEvent, EventPerson, EventTime};
use crate::domain::{Address, Timestamp};
use crate::text::one_line;

const PRODUCT: &str = "-//Attache//EN";
const LINE_BYTES_MAX: usize = 75;

/// An event that the persona organises.
#[derive(Debug, Clone, PartialEq)]
pub struct EventDraft<'a> {
    pub event: &'a CalendarEvent,
    pub organizer: (&'a str, &'a Address),
    pub now: Timestamp,
}

/// Writes the answer to an invitation: the attendee alone, with its answer (`PARTSTAT`). Two attendees would be an answer
/// for somebody else too, and organisers' programs refuse it.
pub fn answer_text(
    invitation: &CalendarEvent,
    (name, address): (&str, &Address),
    (answer, comment): (&str, &str),
    now: Timestamp,
) -> String {
    let mut lines = CalendarLines::begin("REPLY", invitation.zone_definition.as_deref());
    lines.event(invitation, now);
    if let Some(organizer) = &invitation.organizer {
        lines.person("ORGANIZER", "", organizer);
    }
    let person = EventPerson {
        address: address.to_string(),
        name: name.to_owned(),
        answer: String::new(),
    };
    lines.person("ATTENDEE", &format!(";PARTSTAT={answer}"), &person);
    lines.text("COMMENT", comment);
    lines.end()
}

/// Writes an invitation, or a new version of one.
pub fn invitation_text(draft: &EventDraft<'_>) -> String {
    own_text("REQUEST", "CONFIRMED", draft)
}

/// Writes the cancellation of an event.
pub fn cancellation_text(draft: &EventDraft<'_>) -> String {
    own_text("CANCEL", "CANCELLED", draft)
}

fn own_text(method: &str, status: &str, draft: &EventDraft<'_>) -> String {
    let event = draft.event;
    let mut lines = CalendarLines::begin(method, None);
    lines.event(event, draft.now);
    let (name, address) = draft.organizer;
    let organizer = EventPerson {
        address: address.to_string(),
        name: name.to_owned(),
        answer: String::new(),
    };
    lines.person("ORGANIZER", "", &organizer);
    for attendee in &event.attendees {
        let answer = match attendee.answer.as_str() {
            "" => "NEEDS-ACTION",
            answer => answer,
        };
        let parameters = format!(";ROLE=REQ-PARTICIPANT;PARTSTAT={answer};RSVP=TRUE");
        lines.person("ATTENDEE", &parameters, attendee);
    }
    lines.text("LOCATION", &event.location);
    lines.text("DESCRIPTION", &event.description);
    lines.line(&format!("STATUS:{status}"));
    lines.line("TRANSP:OPAQUE");
    lines.end()
}

/// Lines of a calendar with one event.
struct CalendarLines(String);

impl CalendarLines {
    fn begin(method: &str, zone: Option<&str>) -> Self {
        let mut lines = Self(String::new());
        lines.line("BEGIN:VCALENDAR");
        lines.line(&format!("PRODID:{PRODUCT}"));
        lines.line("VERSION:2.0");
        lines.line("CALSCALE:GREGORIAN");
        lines.line(&format!("METHOD:{method}"));
        // It was written line by line by the reader, so each line is one.
        lines.0.push_str(zone.unwrap_or_default());
        lines.line("BEGIN:VEVENT");
        lines
    }

    fn end(mut self) -> String {
        self.line("END:VEVENT");
        self.line("END:VCALENDAR");
        self.0
    }

    /// Adds what every event has.
    fn event(&mut self, event: &CalendarEvent, now: Timestamp) {
        self.line(&format!("UID:{}", escaped(&one_line(&event.uid))));
        self.line(&format!("DTSTAMP:{}", utc(now)));
        self.line(&format!("SEQUENCE:{}", event.sequence));
        if let Some(line) = &event.recurrence_line {
            self.line(&one_line(line));
        }
        self.time("DTSTART", event.start.as_ref());
        self.time("DTEND", event.end.as_ref());
        self.text("SUMMARY", &event.summary);
    }

    fn time(&mut self, name: &str, time: Option<&EventTime>) {
        let Some(time) = time else {
            return;
        };
        match (time.at, &time.zone) {
            (Some(at), _) => self.line(&format!("{name}:{}", utc(at))),
            (None, None) => {
                let digits = time.written.replace(['-', ':'], "");
                match digits.split_once(' ') {
                    Some((date, clock)) => self.line(&format!("{name}:{date}T{clock}00")),
                    None => self.line(&format!("{name};VALUE=DATE:{digits}")),
                }
            }
            // A time in an unknown zone cannot be written so that all read it alike.
            (None, Some(_)) => {}
        }
    }

    fn person(&mut self, name: &str, parameters: &str, person: &EventPerson) {
        // RFC 5545 section 3.1: a quoted parameter holds no quotes and no controls.
        let shown = one_line(&person.name).replace('"', "'");
        let shown = match shown.trim() {
            "" => String::new(),
            shown => format!(";CN=\"{shown}\""),
        };
        let address = one_line(&person.address);
        self.line(&format!("{name}{parameters}{shown}:mailto:{address}"));
    }

    fn text(&mut self, name: &str, value: &str) {
        if !value.trim().is_empty() {
            self.line(&format!("{name}:{}", escaped(value.trim())));
        }
    }

    /// Adds one line, folded (RFC 5545 section 3.1).
    fn line(&mut self, line: &str) {
        let mut rest = line;
        let mut room = LINE_BYTES_MAX;
        while rest.len() > room {
            let (now, later) = rest.split_at(rest.floor_char_boundary(room));
            self.0.push_str(now);
            self.0.push_str("\r\n ");
            // The space of the fold counts.
            (rest, room) = (later, LINE_BYTES_MAX - 1);
        }
        self.0.push_str(rest);
        self.0.push_str("\r\n");
    }
}

/// Escapes a text (RFC 5545 section 3.3.11): none of its characters ends the line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\\' | ';' | ',' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

fn utc(at: Timestamp) -> String {
    at.to_utc().format("%Y%m%dT%H%M%SZ").to_string()
}
