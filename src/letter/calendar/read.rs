//! Bytes of a calendar part to values. calcard reads the lines; here the part is bounded before and after.

use super::event::{CalendarEvent, CalendarMethod, CalendarObject, EventPerson, EventTime};
use super::recurrence;
use super::zones::{PartZones, ZoneSource, local_time};
use crate::domain::Timestamp;
use crate::text::truncated;
use calcard::icalendar::{
    ICalendar, ICalendarComponent, ICalendarComponentType, ICalendarEntry, ICalendarMethod,
    ICalendarParameterName, ICalendarProperty, ICalendarStatus, ICalendarValue,
};
use calcard::{Entry, Parser};
use chrono::{NaiveDateTime, TimeDelta};
use std::panic::{UnwindSafe, catch_unwind};

/// Largest calendar part that is read, in bytes.
pub const CALENDAR_BYTES_MAX: usize = 256 * 1024;
const COMPONENTS_MAX: usize = 500;
const EVENTS_MAX: usize = 32;
/// Most recurrence rules of a part that are computed: one may take 50 ms.
const RULES_MAX: usize = 3;
const ATTENDEES_MAX: usize = 200;
const UID_BYTES_MAX: usize = 1024;
const LINE_CHARS_MAX: usize = 300;
const TEXT_CHARS_MAX: usize = 4000;
const ZONE_DEFINITION_BYTES_MAX: usize = 8 * 1024;

/// Reports whether a part of a letter is a calendar, by its type or the end of its name.
pub fn is_calendar_part(content_type: &str, filename: &str) -> bool {
    let is_named = || {
        let name = filename.to_ascii_lowercase();
        name.ends_with(".ics") || name.ends_with(".ical")
    };
    match content_type {
        "text/calendar" | "application/ics" => true,
        "application/octet-stream" | "text/plain" => is_named(),
        _ => false,
    }
}

/// Reads a calendar part. Errors: why it is not read, for the model.
pub fn read_calendar(bytes: &[u8]) -> Result<CalendarObject, &'static str> {
    if bytes.len() > CALENDAR_BYTES_MAX {
        return Err("it is larger than 256 kB");
    }
    let text = String::from_utf8_lossy(bytes);
    let begins = text.to_ascii_lowercase().matches("begin:").count();
    if begins > COMPONENTS_MAX {
        return Err("it has more than 500 parts");
    }
    caught(|| understand(&text))
}

/// Returns what a reading comes to. A letter must not fail because a library does.
fn caught<T>(
    reading: impl FnOnce() -> Result<T, &'static str> + UnwindSafe,
) -> Result<T, &'static str> {
    catch_unwind(reading).unwrap_or(Err("its reader gave up"))
}

fn understand(text: &str) -> Result<CalendarObject, &'static str> {
    let Entry::ICalendar(calendar) = Parser::new(text).entry() else {
        return Err("it is no calendar");
    };
    let mut object = CalendarObject {
        method: method(&calendar),
        events: Vec::new(),
        warnings: Vec::new(),
    };
    let zones = PartZones::from_calendar(&calendar);
    let mut rules_left = RULES_MAX;
    let is_event =
        |part: &&ICalendarComponent| part.component_type == ICalendarComponentType::VEvent;
    let mut events = calendar.components.iter().filter(is_event);
    for component in events.by_ref().take(EVENTS_MAX) {
        let mut reader = EventReading {
            calendar: &calendar,
            zones: &zones,
            component,
            warnings: &mut object.warnings,
            rules_left: &mut rules_left,
        };
        match reader.event() {
            Ok(event) => object.events.push(event),
            Err(why) => warn(
                &mut object.warnings,
                format!("an event was left out: {why}"),
            ),
        }
    }
    let left = events.count();
    if left > 0 {
        warn(
            &mut object.warnings,
            format!("{left} more events were left out"),
        );
    }
    match object.events.is_empty() {
        true => Err("it has no event that can be read"),
        false => Ok(object),
    }
}

fn warn(warnings: &mut Vec<String>, warning: String) {
    const WARNINGS_MAX: usize = 10;
    if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
        warnings.push(warning);
    }
}

fn method(calendar: &ICalendar) -> CalendarMethod {
    let property = calendar.components.first().and_then(|whole| {
        let entry = whole.property(&ICalendarProperty::Method)?;
        entry.values.first()
    });
    match property {
        Some(ICalendarValue::Method(method)) => match method {
            ICalendarMethod::Publish => CalendarMethod::Publish,
            ICalendarMethod::Request => CalendarMethod::Request,
            ICalendarMethod::Reply => CalendarMethod::Reply,
            ICalendarMethod::Add => CalendarMethod::Add,
            ICalendarMethod::Cancel => CalendarMethod::Cancel,
            ICalendarMethod::Refresh => CalendarMethod::Refresh,
            ICalendarMethod::Counter => CalendarMethod::Counter,
            ICalendarMethod::Declinecounter => CalendarMethod::DeclineCounter,
        },
        _ => CalendarMethod::None,
    }
}

/// Reading of one event.
struct EventReading<'a> {
    calendar: &'a ICalendar,
    zones: &'a PartZones<'a>,
    component: &'a ICalendarComponent,
    warnings: &'a mut Vec<String>,
    rules_left: &'a mut usize,
}

impl EventReading<'_> {
    fn event(&mut self) -> Result<CalendarEvent, &'static str> {
        let uid = self.component.uid().map(str::trim).unwrap_or_default();
        if uid.is_empty() {
            return Err("it has no UID");
        }
        if uid.len() > UID_BYTES_MAX || uid.chars().any(char::is_control) {
            return Err("its UID is too long, or not plain text");
        }
        let start = self.time(&ICalendarProperty::Dtstart);
        let (recurrence_id, recurrence_line, zone_definition) = self.instance();
        Ok(CalendarEvent {
            uid: uid.to_owned(),
            recurrence_id,
            recurrence_line,
            zone_definition,
            sequence: self.sequence(),
            stamped_at: self.stamped_at(),
            organizer: self
                .component
                .property(&ICalendarProperty::Organizer)
                .and_then(person),
            attendees: self.attendees(),
            spans: self.spans(),
            end: self.time(&ICalendarProperty::Dtend),
            start,
            summary: self.text(&ICalendarProperty::Summary, LINE_CHARS_MAX),
            location: self.text(&ICalendarProperty::Location, LINE_CHARS_MAX),
            description: self.text(&ICalendarProperty::Description, TEXT_CHARS_MAX),
            comment: self.comment(),
            is_cancelled: self.component.status() == Some(&ICalendarStatus::Cancelled),
            recurrence: recurrence::rule(self.component).map(recurrence::words),
        })
    }

    fn text(&self, property: &ICalendarProperty, chars_max: usize) -> String {
        let entry = self.component.property(property);
        let value = entry.and_then(|entry| entry.values.first()?.as_text());
        let plain = |c: char| match c {
            '\n' if chars_max > LINE_CHARS_MAX => '\n',
            c if c.is_control() => ' ',
            c => c,
        };
        let text: String = value.unwrap_or_default().chars().map(plain).collect();
        truncated(text.trim(), chars_max)
    }

    /// Returns `COMMENT`; Google puts what an attendee adds into a parameter of the attendee.
    fn comment(&self) -> String {
        let said = self.text(&ICalendarProperty::Comment, LINE_CHARS_MAX);
        if !said.is_empty() {
            return said;
        }
        let name = ICalendarParameterName::Other("X-RESPONSE-COMMENT".to_owned());
        let mut attendees = self.component.properties(&ICalendarProperty::Attendee);
        let added = attendees.find_map(|attendee| attendee.parameter(&name)?.as_text());
        added
            .map(|text| plain_line(text.trim()))
            .unwrap_or_default()
    }

    fn sequence(&self) -> i64 {
        let entry = self.component.property(&ICalendarProperty::Sequence);
        let value = entry.and_then(|entry| entry.values.first()?.as_integer());
        value.unwrap_or(0).clamp(0, i64::from(i32::MAX))
    }

    fn stamped_at(&self) -> Option<Timestamp> {
        let entry = self.component.property(&ICalendarProperty::Dtstamp)?;
        let local = local_time(entry)?;
        Some(
            self.instant_of(entry, local)
                .unwrap_or(local.and_utc())
                .into(),
        )
    }

    fn attendees(&mut self) -> Vec<EventPerson> {
        let entries = self.component.properties(&ICalendarProperty::Attendee);
        let mut people: Vec<EventPerson> = entries.filter_map(person).collect();
        if people.len() > ATTENDEES_MAX {
            let more = people.len() - ATTENDEES_MAX;
            people.truncate(ATTENDEES_MAX);
            warn(
                self.warnings,
                format!("{more} more attendees were left out"),
            );
        }
        people
    }

    /// Returns the instant of a local time, by the zone of its property.
    fn instant_of(
        &self,
        entry: &ICalendarEntry,
        local: NaiveDateTime,
    ) -> Option<chrono::DateTime<chrono::Utc>> {
        let time = entry.values.first()?.as_partial_date_time()?;
        if let Some(offset) = time.to_date_time()?.offset {
            let offset = TimeDelta::seconds(i64::from(offset.local_minus_utc()));
            return local.checked_sub_signed(offset).map(|utc| utc.and_utc());
        }
        let (at, _) = self.zones.instant(local, entry.tz_id()?)?;
        Some(at)
    }

    /// Reads the start or the end, as written and as an instant.
    fn time(&mut self, property: &ICalendarProperty) -> Option<EventTime> {
        let entry = self.component.property(property)?;
        let time = entry.values.first()?.as_partial_date_time()?;
        let local = local_time(entry)?;
        if !time.has_time() {
            let written = local.format("%Y-%m-%d").to_string();
            return Some(EventTime {
                written,
                ..EventTime::default()
            });
        }
        let at = self.instant_of(entry, local);
        let is_utc = time.tz_hour.is_some();
        let zone = entry.tz_id().map(plain_line);
        match &zone {
            Some(zone) if at.is_none() => warn(
                self.warnings,
                format!("the time zone `{zone}` is unknown: its times have no instant"),
            ),
            Some(name) => {
                let found = self.zones.instant(local, name);
                if found.is_some_and(|(_, source)| source == ZoneSource::Redefined) {
                    warn(
                        self.warnings,
                        format!(
                            "the letter defines `{name}` otherwise than that zone is; its own definition was used"
                        ),
                    );
                }
            }
            None => {}
        }
        Some(EventTime {
            written: local.format("%Y-%m-%d %H:%M").to_string(),
            zone: zone.or_else(|| is_utc.then(|| "UTC".to_owned())),
            at: at.map(Timestamp::from),
        })
    }

    /// Returns the id of the instance that the event replaces, its property as written, and the zone that it refers to.
    fn instance(&self) -> (String, Option<String>, Option<String>) {
        let Some(entry) = self.component.property(&ICalendarProperty::RecurrenceId) else {
            return (String::new(), None, None);
        };
        let Some(local) = local_time(entry) else {
            return (String::new(), None, None);
        };
        let id = match self.instant_of(entry, local) {
            Some(at) => Timestamp::from(at).to_string(),
            None => local.format("%Y-%m-%dT%H:%M:%S").to_string(),
        };
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _infallible = entry.write_to(&mut line);
        let line = line.replace("\r\n ", "").replace(['\r', '\n'], "");
        // calcard quotes every parameter; organisers' programs compare the line as they wrote it.
        let line = match entry.tz_id() {
            Some(zone) if !zone.contains([':', ';', ',']) => {
                line.replacen(&format!("\"{zone}\""), zone, 1)
            }
            _ => line,
        };
        let definition = entry.tz_id().and_then(|zone| self.definition(zone));
        (id, Some(line), definition)
    }

    fn definition(&self, zone: &str) -> Option<String> {
        let zone = self.zones.definition(zone)?;
        let mut text = String::from("BEGIN:VTIMEZONE\r\n");
        let write = |text: &mut String, part: &ICalendarComponent| {
            for entry in &part.entries {
                let _infallible = entry.write_to(text);
            }
        };
        write(&mut text, zone);
        for id in &zone.component_ids {
            let part = self.calendar.component_by_id(*id)?;
            let name = match part.component_type {
                ICalendarComponentType::Standard => "STANDARD",
                ICalendarComponentType::Daylight => "DAYLIGHT",
                _ => continue,
            };
            text.push_str(&format!("BEGIN:{name}\r\n"));
            write(&mut text, part);
            text.push_str(&format!("END:{name}\r\n"));
        }
        text.push_str("END:VTIMEZONE\r\n");
        (text.len() <= ZONE_DEFINITION_BYTES_MAX).then_some(text)
    }

    fn spans(&mut self) -> Vec<super::TimeSpan> {
        let Some(entry) = self.component.property(&ICalendarProperty::Dtstart) else {
            return Vec::new();
        };
        let Some(first) = recurrence::first_start(self.component) else {
            return Vec::new();
        };
        let has_rule = recurrence::rule(self.component).is_some();
        let computed = match has_rule && *self.rules_left == 0 {
            true => Err(
                "it has more recurring events than are computed; of some only the first instance is known",
            ),
            false => recurrence::starts(self.component, first),
        };
        *self.rules_left -= usize::from(has_rule && *self.rules_left > 0);
        let starts = match computed {
            Ok(starts) => starts,
            Err(why) => {
                warn(self.warnings, why.to_owned());
                vec![first]
            }
        };
        let length = self.length(first);
        recurrence::spans(starts, length, |local| self.instant_of(entry, local))
    }

    /// Returns the length of an event; zero where none is written.
    fn length(&self, first: NaiveDateTime) -> TimeDelta {
        let end = self.component.property(&ICalendarProperty::Dtend);
        let duration = || {
            let entry = self.component.property(&ICalendarProperty::Duration)?;
            match entry.values.first()? {
                ICalendarValue::Duration(duration) => duration.to_time_delta(),
                _ => None,
            }
        };
        // Its end may be in another zone than its start.
        let between = |end: &ICalendarEntry| {
            let local = local_time(end)?;
            let start = self.component.property(&ICalendarProperty::Dtstart)?;
            match (self.instant_of(start, first), self.instant_of(end, local)) {
                (Some(start), Some(end)) => Some(end - start),
                _ => Some(local - first),
            }
        };
        let length = end.and_then(between).or_else(duration).unwrap_or_default();
        length.clamp(TimeDelta::zero(), TimeDelta::days(366))
    }
}

fn person(entry: &ICalendarEntry) -> Option<EventPerson> {
    let address = plain_line(entry.calendar_address()?.trim());
    let parameter = |name: ICalendarParameterName| {
        let value = entry.parameter(&name).and_then(|value| value.as_text());
        value.map(plain_line).unwrap_or_default()
    };
    Some(EventPerson {
        address,
        name: parameter(ICalendarParameterName::Cn),
        answer: parameter(ICalendarParameterName::Partstat).to_ascii_uppercase(),
    })
}

fn plain_line(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    truncated(&plain, LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_panics_is_a_calendar_that_cannot_be_read() {
        assert_eq!(
            caught::<()>(|| panic!("a bug of the library")),
            Err("its reader gave up")
        );
    }
}
