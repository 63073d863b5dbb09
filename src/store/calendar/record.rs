//! Changes of events, as values.

use crate::calendar::{CalendarEvent, CalendarObject, CalendarOutcome, CalendarSender, TimeSpan};
use crate::domain::Address;
use serde::{Deserialize, Serialize};

/// Calendar part of a letter that is stored.
#[derive(Debug, Clone)]
pub struct NewCalendarPart {
    pub object: CalendarObject,
    pub sender: CalendarSender,
    /// Address of the persona that gets the letter.
    pub persona_address: Address,
}

/// Calendar part of a stored letter, with what became of its events; `messages.metadata_json` has it at `calendar`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalendarNote {
    pub object: CalendarObject,
    /// One for each event of `object`.
    pub events: Vec<CalendarEventNote>,
}

/// What became of one event of a letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalendarEventNote {
    pub outcome: CalendarOutcome,
    /// Times at which the persona has another event; the first few.
    pub overlaps: Vec<TimeSpan>,
}

/// Change of an event by a mail of the persona's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventWrite {
    /// An event that the persona organises: its new version.
    Own {
        event: Box<CalendarEvent>,
        is_cancelled: bool,
    },
    /// The persona's answer to an invitation.
    Answer {
        uid: String,
        /// Address of the organiser in [`Address::key`] form.
        organizer: String,
        recurrence_id: String,
        /// `ACCEPTED`, `DECLINED` or `TENTATIVE`.
        answer: String,
    },
}
