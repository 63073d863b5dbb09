//! `invite`: drafts an invitation, a new version of one, or a cancellation (RFC 5546 sections 3.2.2 and 3.2.5) of an event
//! that the persona organises. The run loop queues it with the call's result.

use super::visibility::EventAudience;
use crate::calendar::{
    CalendarEvent, EventDraft, EventPerson, EventTime, TimeSpan, cancellation_text, invitation_text,
};
use crate::domain::{Address, Timestamp};
use crate::store::EventWrite;
use crate::text::one_line;
use crate::tools::contract::*;
use crate::tools::mail::send_email::{OneOrMany, described, may_send, read_recipients};
use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;

const SUMMARY_CHARS_MAX: usize = 200;
const TEXT_CHARS_MAX: usize = 4000;

/// Invites people to an event that you organize. With the `uid` of an event of yours it sends a new version to
/// everybody invited.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Invite {
    /// Title. Needed for a new event, as are start, end and attendees.
    summary: Option<String>,
    /// `2026-12-01T14:00`, or `2026-12-01` for a whole day.
    start: Option<String>,
    /// Like `start`; of whole days the last one.
    end: Option<String>,
    /// Such as `Europe/Berlin`. Default: yours.
    zone: Option<String>,
    /// Addresses; with `uid` the new list.
    attendees: Option<OneOrMany>,
    location: Option<String>,
    /// Also the text of the mail.
    description: Option<String>,
    uid: Option<String>,
    /// true: the event with `uid` is off.
    cancel: Option<bool>,
}

impl TypedTool for Invite {
    const NAME: &str = "invite";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::SENDS_OUT;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(mail, calendar);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders, ToolNeed::Invitation];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        may_send(call.env.mail()?)?;
        let is_cancelled = self.cancel == Some(true);
        let before = known(call, &self).await?;
        let mut event = match before {
            Some(before) => CalendarEvent {
                sequence: before.sequence.saturating_add(1),
                ..before
            },
            None => new_event(call)?,
        };
        change(&mut event, &self, call.env.calendar()?.zone())?;
        let to = recipients(call, &mut event, self.attendees.as_ref())?;
        event.stamped_at = Some(call.clock.now());
        event.is_cancelled = is_cancelled;
        let draft = draft(call, event, to)?;
        let mut result = described(&draft);
        if let Some(DraftCalendar {
            event: EventWrite::Own { event, .. },
            ..
        }) = &draft.calendar
        {
            result["uid"] = event.uid.clone().into();
        }
        Ok(ToolOutcome::mailing(result, draft))
    }
}

/// Returns the event that changes; `None`: it is a new one. Errors: there is none that everybody who reads the answer
/// attends.
async fn known(call: &ToolCall<'_>, args: &Invite) -> Result<Option<CalendarEvent>, ToolError> {
    let Some(uid) = args
        .uid
        .as_deref()
        .map(str::trim)
        .filter(|uid| !uid.is_empty())
    else {
        return match args.cancel {
            Some(true) => refuse(
                "uid_missing",
                "give the `uid` of the event that you cancel; list_events shows it",
            ),
            _ => Ok(None),
        };
    };
    let mail = call.env.mail()?;
    let found = call
        .env
        .calendar()?
        .event((uid, &mail.persona_address), "")
        .await?;
    let audience = EventAudience::of(mail)?;
    match found.filter(|found| audience.takes_part_in(&found.event)) {
        Some(found) if found.is_cancelled => refuse(
            "event_cancelled",
            "that event was cancelled; invite to a new one without `uid`",
        ),
        Some(found) => Ok(Some(found.event)),
        None => refuse(
            "event_not_found",
            "you organize no event with that `uid` that everybody who reads your answer attends; list_events shows yours",
        ),
    }
}

fn new_event(call: &ToolCall<'_>) -> Result<CalendarEvent, ToolError> {
    let address = &call.env.mail()?.persona_address;
    Ok(CalendarEvent {
        uid: format!("{}@{}", call.clock.new_id(), address.domain()),
        organizer: Some(EventPerson {
            address: address.to_string(),
            ..EventPerson::default()
        }),
        ..CalendarEvent::default()
    })
}

/// Takes what the arguments say over into the event. Errors: a time that is none, or that ends before it begins.
fn change(event: &mut CalendarEvent, args: &Invite, own_zone: Tz) -> Result<(), ToolError> {
    let typed = |text: &Option<String>, chars_max| match text.as_deref().map(str::trim) {
        Some(text) if text.chars().count() > chars_max => refuse(
            "too_long",
            format!("a text of the event is longer than {chars_max} characters; say it shorter"),
        ),
        text => Ok(text.map(str::to_owned)),
    };
    if let Some(summary) = typed(&args.summary, SUMMARY_CHARS_MAX)? {
        event.summary = one_line(&summary);
    }
    if let Some(location) = typed(&args.location, SUMMARY_CHARS_MAX)? {
        event.location = one_line(&location);
    }
    if let Some(description) = typed(&args.description, TEXT_CHARS_MAX)? {
        event.description = description;
    }
    if event.summary.is_empty() {
        return refuse("summary_missing", "a new event needs a `summary`");
    }
    let zone = match args.zone.as_deref().map(str::trim) {
        None | Some("") => own_zone,
        Some(name) => name.parse().map_err(|_| {
            ToolError::mendable(
                "bad_zone",
                format!(
                    "no time zone `{}`; write one such as `Europe/Berlin`",
                    one_line(name)
                ),
            )
        })?,
    };
    if let Some(start) = &args.start {
        event.start = Some(read_time(start, zone, false)?);
    }
    if let Some(end) = &args.end {
        event.end = Some(read_time(end, zone, true)?);
    }
    checked_span(event)
}

/// Computes the span of the event. Errors: start or end is missing, or they do not fit.
fn checked_span(event: &mut CalendarEvent) -> Result<(), ToolError> {
    let (Some(start), Some(end)) = (&event.start, &event.end) else {
        return refuse("time_missing", "a new event needs `start` and `end`");
    };
    let fits = match (start.at, end.at) {
        (Some(start), Some(end)) => start < end,
        (None, None) => start.written < end.written,
        _ => false,
    };
    if !fits {
        return refuse(
            "bad_time",
            "`end` must be after `start`, and both must be times or both days",
        );
    }
    event.spans = match (start.at, end.at) {
        (Some(start), Some(end)) => vec![TimeSpan { start, end }],
        _ => Vec::new(),
    };
    Ok(())
}

/// Reads a day, a local time, or a time with its offset.
fn read_time(typed: &str, zone: Tz, is_end: bool) -> Result<EventTime, ToolError> {
    let typed = typed.trim();
    let refused = || {
        ToolError::mendable(
            "bad_time",
            format!(
                "`{}` is no time; write `2026-12-01T14:00`, or `2026-12-01` for a whole day",
                one_line(typed)
            ),
        )
    };
    if let Ok(day) = NaiveDate::parse_from_str(typed, "%Y-%m-%d") {
        // RFC 5545 section 3.6.1: the end of whole days is the day after the last.
        let day = if is_end {
            day.succ_opt().ok_or_else(refused)?
        } else {
            day
        };
        return Ok(EventTime {
            written: day.format("%Y-%m-%d").to_string(),
            ..EventTime::default()
        });
    }
    let at = match DateTime::parse_from_rfc3339(typed) {
        Ok(at) => at.with_timezone(&zone),
        Err(_) => {
            let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"];
            let mut read = forms
                .iter()
                .map(|form| NaiveDateTime::parse_from_str(typed, form));
            let local = read.find_map(Result::ok).ok_or_else(refused)?;
            // A local time that is skipped when clocks go forward is no time.
            zone.from_local_datetime(&local)
                .earliest()
                .ok_or_else(refused)?
        }
    };
    Ok(EventTime {
        written: at.format("%Y-%m-%d %H:%M").to_string(),
        zone: Some(zone.name().to_owned()),
        at: Some(Timestamp::from(at.to_utc())),
    })
}

/// Returns who gets the mail, and makes them the attendees. Answers of those who were invited before stay.
fn recipients(
    call: &ToolCall<'_>,
    event: &mut CalendarEvent,
    typed: Option<&OneOrMany>,
) -> Result<Vec<Address>, ToolError> {
    if let Some(typed) = typed {
        let people = read_recipients(typed, None, None, call.env.mail()?)?.to;
        let person = |address: &Address| match event.attendee(address) {
            Some(known) => known.clone(),
            None => EventPerson {
                address: address.to_string(),
                ..EventPerson::default()
            },
        };
        event.attendees = people.iter().map(person).collect();
        return Ok(people);
    }
    let people = event.attendees.iter();
    let people: Vec<Address> = people
        .filter_map(|person| Address::parse(&person.address).ok())
        .collect();
    match people.is_empty() {
        true => refuse("attendees_missing", "a new event needs `attendees`"),
        false => Ok(people),
    }
}

fn draft(
    call: &ToolCall<'_>,
    event: CalendarEvent,
    to: Vec<Address>,
) -> Result<MailDraft, ToolError> {
    let address = &call.env.mail()?.persona_address;
    let parts = EventDraft {
        event: &event,
        organizer: ("", address),
        now: call.clock.now(),
    };
    let is_cancelled = event.is_cancelled;
    let (method, text, word) = match (is_cancelled, event.sequence) {
        (true, _) => ("CANCEL", cancellation_text(&parts), "Cancelled"),
        (false, 0) => ("REQUEST", invitation_text(&parts), "Invitation"),
        (false, _) => ("REQUEST", invitation_text(&parts), "Updated invitation"),
    };
    let when = |time: &Option<EventTime>| match time {
        Some(time) => format!(
            "{} {}",
            time.written,
            time.zone.as_deref().unwrap_or_default()
        ),
        None => String::new(),
    };
    let mut body = format!("{word}: {}\n\n", event.summary);
    body.push_str(&format!("Start: {}  \n", when(&event.start).trim_end()));
    body.push_str(&format!("End: {}\n", when(&event.end).trim_end()));
    for text in [&event.location, &event.description] {
        if !text.is_empty() {
            body.push_str(&format!("\n{text}\n"));
        }
    }
    Ok(MailDraft {
        to,
        subject: format!("{word}: {}", event.summary),
        body,
        calendar: Some(DraftCalendar {
            method,
            text,
            event: EventWrite::Own {
                event: Box::new(event),
                is_cancelled,
            },
        }),
        ..MailDraft::default()
    })
}
