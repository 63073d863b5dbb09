//! What a letter may change of the events that a persona knows (RFC 5546 sections 2.1.4, 3.2 and 6.1).
//!
//! Pure: what is known, what arrived and who provably sent it decide. An event belongs to its
//! organiser: two organisers may use one UID without touching each other's events.

use super::event::{CalendarEvent, CalendarMethod, CalendarObject};
use crate::domain::{Address, Timestamp};
use serde::{Deserialize, Serialize};

/// Sender of a letter, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarSender {
    /// Address of its From in [`Address::key`] form.
    pub address: String,
    /// `true`: the gateway authenticated that address.
    pub is_proven: bool,
}

/// Event that a persona knows.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownEvent {
    pub sequence: i64,
    pub stamped_at: Timestamp,
    pub is_cancelled: bool,
    pub event: CalendarEvent,
}

/// Name of an event row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRef {
    pub uid: String,
    /// Address of the organiser in [`Address::key`] form.
    pub organizer: String,
    /// See [`CalendarEvent::recurrence_id`].
    pub recurrence_id: String,
}

impl EventRef {
    /// Returns the row that an event of a letter is about: a reply goes to the event that the persona organises, anything
    /// else to one of its organiser. Replies of Exchange name no organiser.
    pub fn from_event(
        method: CalendarMethod,
        event: &CalendarEvent,
        persona: &Address,
    ) -> Option<Self> {
        let organizer = match method {
            CalendarMethod::Reply | CalendarMethod::Counter | CalendarMethod::Refresh => {
                persona.key()
            }
            _ => Address::parse(&event.organizer.as_ref()?.address)
                .ok()?
                .key(),
        };
        Some(Self {
            uid: event.uid.clone(),
            organizer,
            recurrence_id: event.recurrence_id.clone(),
        })
    }
}

/// What became of one event of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarOutcome {
    /// A new event is known.
    Added,
    /// A known event has changed.
    Updated,
    /// The letter says what is known already.
    Unchanged,
    /// A newer version is known.
    Stale,
    Cancelled,
    /// An attendee has answered the persona's invitation.
    Answered,
    /// The sender is not provably the organiser (or, of an answer, the attendee): nothing changed.
    Unproven,
    /// No such event is known: nothing changed.
    Unknown,
    /// A kind of message that changes nothing.
    Shown,
}

impl CalendarOutcome {
    /// Describes it for the model.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Added => "new",
            Self::Updated => "an update of an event that you know",
            Self::Unchanged => "you know it already",
            Self::Stale => "outdated: you know a newer version, so it changed nothing",
            Self::Cancelled => "its organiser has cancelled it",
            Self::Answered => "an answer to an invitation of yours",
            Self::Unproven => {
                "NOT PROVEN: the sender of this letter is not provably who may change this event, so it changed nothing"
            }
            Self::Unknown => "you know no such event, so it changed nothing",
            Self::Shown => "for your information",
        }
    }
}

/// Change of an event row.
#[derive(Debug, Clone, PartialEq)]
pub struct EventChange {
    pub sequence: i64,
    pub stamped_at: Timestamp,
    pub is_cancelled: bool,
    pub event: CalendarEvent,
}

/// Decides on one event of a letter. `known` is the row of [`EventRef::from_event`]; `whole` is the row of the event that it is an
/// instance of.
pub fn judge_event(
    (known, whole): (Option<&KnownEvent>, Option<&KnownEvent>),
    (object, event): (&CalendarObject, &CalendarEvent),
    sender: &CalendarSender,
    now: Timestamp,
) -> (CalendarOutcome, Option<EventChange>) {
    match object.method {
        CalendarMethod::Request => request(known, event, sender, now),
        CalendarMethod::Cancel => cancel(known, whole, event, sender, now),
        CalendarMethod::Reply => reply(known, whole, event, sender),
        CalendarMethod::Publish
        | CalendarMethod::Add
        | CalendarMethod::Refresh
        | CalendarMethod::Counter
        | CalendarMethod::DeclineCounter
        | CalendarMethod::None => (CalendarOutcome::Shown, None),
    }
}

fn is_organizer(event: &CalendarEvent, sender: &CalendarSender) -> bool {
    let organizer = event.organizer.as_ref();
    let is_from = organizer.is_some_and(|organizer| organizer.is(&sender.address));
    is_from && sender.is_proven
}

fn request(
    known: Option<&KnownEvent>,
    event: &CalendarEvent,
    sender: &CalendarSender,
    now: Timestamp,
) -> (CalendarOutcome, Option<EventChange>) {
    if !is_organizer(event, sender) {
        return (CalendarOutcome::Unproven, None);
    }
    let stamped_at = event.stamped_at.unwrap_or(now);
    let outcome = match known {
        None => CalendarOutcome::Added,
        Some(known) => {
            match (event.sequence, stamped_at).cmp(&(known.sequence, known.stamped_at)) {
                std::cmp::Ordering::Less => return (CalendarOutcome::Stale, None),
                std::cmp::Ordering::Equal => return (CalendarOutcome::Unchanged, None),
                std::cmp::Ordering::Greater => CalendarOutcome::Updated,
            }
        }
    };
    let change = EventChange {
        sequence: event.sequence,
        stamped_at,
        is_cancelled: event.is_cancelled,
        event: event.clone(),
    };
    (outcome, Some(change))
}

fn cancel(
    known: Option<&KnownEvent>,
    whole: Option<&KnownEvent>,
    event: &CalendarEvent,
    sender: &CalendarSender,
    now: Timestamp,
) -> (CalendarOutcome, Option<EventChange>) {
    if !is_organizer(event, sender) {
        return (CalendarOutcome::Unproven, None);
    }
    let Some(before) = known.or(whole) else {
        return (CalendarOutcome::Unknown, None);
    };
    if event.sequence < before.sequence {
        return (CalendarOutcome::Stale, None);
    }
    if known.is_some_and(|known| known.is_cancelled) {
        return (CalendarOutcome::Unchanged, None);
    }
    // A cancellation need not repeat what it cancels.
    let mut cancelled = match known {
        Some(known) => known.event.clone(),
        None => event.clone(),
    };
    cancelled.is_cancelled = true;
    let change = EventChange {
        sequence: event.sequence,
        stamped_at: event.stamped_at.unwrap_or(now),
        is_cancelled: true,
        event: cancelled,
    };
    (CalendarOutcome::Cancelled, Some(change))
}

/// An answer changes the answer of the attendee who sent it, and nothing else.
fn reply(
    known: Option<&KnownEvent>,
    whole: Option<&KnownEvent>,
    event: &CalendarEvent,
    sender: &CalendarSender,
) -> (CalendarOutcome, Option<EventChange>) {
    let Some(before) = known.or(whole) else {
        return (CalendarOutcome::Unknown, None);
    };
    let of_sender = |person: &&super::EventPerson| person.is(&sender.address);
    let is_proven = sender.is_proven;
    let answer = event.attendees.iter().find(of_sender).filter(|_| is_proven);
    let invited = before
        .event
        .attendees
        .iter()
        .any(|person| person.is(&sender.address));
    let Some(answer) = answer.filter(|_| invited) else {
        return (CalendarOutcome::Unproven, None);
    };
    if event.sequence < before.sequence {
        return (CalendarOutcome::Stale, None);
    }
    let mut answered = before.event.clone();
    for person in &mut answered.attendees {
        if person.is(&sender.address) {
            person.answer.clone_from(&answer.answer);
        }
    }
    if answered == before.event {
        return (CalendarOutcome::Unchanged, None);
    }
    if known.is_none() {
        answered.recurrence_id.clone_from(&event.recurrence_id);
        answered.recurrence_line.clone_from(&event.recurrence_line);
        answered.zone_definition.clone_from(&event.zone_definition);
        answered.spans = Vec::new();
    }
    let change = EventChange {
        sequence: before.sequence,
        stamped_at: before.stamped_at,
        is_cancelled: before.is_cancelled,
        event: answered,
    };
    (CalendarOutcome::Answered, Some(change))
}
