//! Values of a calendar part. They are stored as JSON and shown to the model, so every text is
//! bounded and free of control characters when it gets here.

use crate::domain::{Address, Timestamp};
use serde::{Deserialize, Serialize};

/// Method of a scheduling message (RFC 5546 section 1.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CalendarMethod {
    Publish,
    Request,
    Reply,
    Add,
    Cancel,
    Refresh,
    Counter,
    DeclineCounter,
    /// A part without a method: events to look at, nothing to answer.
    None,
}

impl CalendarMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "PUBLISH",
            Self::Request => "REQUEST",
            Self::Reply => "REPLY",
            Self::Add => "ADD",
            Self::Cancel => "CANCEL",
            Self::Refresh => "REFRESH",
            Self::Counter => "COUNTER",
            Self::DeclineCounter => "DECLINECOUNTER",
            Self::None => "none",
        }
    }
}

/// A calendar part of a letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalendarObject {
    pub method: CalendarMethod,
    /// Events in the order of the part.
    pub events: Vec<CalendarEvent>,
    /// What could not be read as written, for the model and the owner.
    pub warnings: Vec<String>,
}

/// One `VEVENT`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CalendarEvent {
    pub uid: String,
    /// Instance of a recurring event, as UTC instant or as written; empty: the event itself.
    pub recurrence_id: String,
    /// Property that names the instance, as written, without line breaks; it goes back unchanged.
    pub recurrence_line: Option<String>,
    /// `VTIMEZONE` to which `recurrence_line` refers.
    pub zone_definition: Option<String>,
    pub sequence: i64,
    /// `DTSTAMP`: when the organiser's program wrote it.
    pub stamped_at: Option<Timestamp>,
    pub organizer: Option<EventPerson>,
    pub attendees: Vec<EventPerson>,
    pub start: Option<EventTime>,
    pub end: Option<EventTime>,
    pub summary: String,
    pub location: String,
    pub description: String,
    pub comment: String,
    /// `true`: its status is `CANCELLED`.
    pub is_cancelled: bool,
    /// The recurrence in words.
    pub recurrence: Option<String>,
    /// Instants from start to end, of all instances that were computed, in order.
    pub spans: Vec<TimeSpan>,
}

impl CalendarEvent {
    /// Returns the attendee with that address.
    pub fn attendee(&self, address: &Address) -> Option<&EventPerson> {
        let key = address.key();
        self.attendees.iter().find(|person| person.is(&key))
    }
}

/// Organiser or attendee.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventPerson {
    /// Without `mailto:`, as written.
    pub address: String,
    pub name: String,
    /// `PARTSTAT`, such as `ACCEPTED`; empty for organisers.
    pub answer: String,
}

impl EventPerson {
    /// Reports whether it has the address with that key ([`Address::key`]).
    pub fn is(&self, key: &str) -> bool {
        Address::parse(&self.address).is_ok_and(|address| address.key() == key)
    }
}

/// Start or end of an event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventTime {
    /// `2026-12-01 14:00`, or `2026-12-01` for a whole day, as written.
    pub written: String,
    /// Zone as written; `None`: floating, or a whole day.
    pub zone: Option<String>,
    /// `None`: a whole day, or a time without a zone that is known.
    pub at: Option<Timestamp>,
}

/// Span of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSpan {
    pub start: Timestamp,
    pub end: Timestamp,
}

impl TimeSpan {
    /// Reports whether the spans have an instant in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}
