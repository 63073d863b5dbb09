//! Calendar parts of mail (iCalendar, RFC 5545; scheduling by mail, RFC 5546 and RFC 6047).
//!
//! - `event`: what a calendar part says, as values
//! - `read`: bytes to values, within bounds; `zones`: time zones that a part defines itself;
//!   `recurrence`: rules in words, and their instances
//! - `rules`: what a letter may change of the events that are known, by who sent it
//! - `write`: invitations, cancellations and answers of ours
//!
//! Absent on purpose: storage, clocks and every decision about who may be written to.

mod event;
mod read;
mod recurrence;
mod rules;
mod write;
mod zones;

pub use event::{CalendarEvent, CalendarMethod, CalendarObject, EventPerson, EventTime, TimeSpan};
pub use read::{CALENDAR_BYTES_MAX, is_calendar_part, read_calendar};
pub use rules::{CalendarOutcome, CalendarSender, EventChange, EventRef, KnownEvent, judge_event};
pub use write::{EventDraft, answer_text, cancellation_text, invitation_text};
