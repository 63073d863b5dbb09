//! Recurrence rules (RFC 5545 section 3.3.10): in words, and as a bounded number of instances.

use super::event::TimeSpan;
use super::zones::local_time;
use calcard::common::PartialDateTime;
use calcard::common::timezone::Tz;
use calcard::icalendar::{
    ICalendar, ICalendarComponent, ICalendarComponentType, ICalendarEntry, ICalendarFrequency,
    ICalendarMonth, ICalendarProperty, ICalendarRecurrenceRule, ICalendarValue, ICalendarWeekday,
};
use chrono::{Datelike, Days, NaiveDateTime, Timelike};

/// Most instances of one event that are computed.
pub const INSTANCES_MAX: usize = 366;
/// Days after the first instance beyond which none is computed.
const DAYS_AHEAD_MAX: u64 = 5 * 366;
/// Most values of one part of a rule, and most times of day that it may name.
const RULE_VALUES_MAX: usize = 64;
const TIMES_OF_DAY_MAX: usize = 24;

/// Returns the recurrence rule of an event.
pub fn rule(event: &ICalendarComponent) -> Option<&ICalendarRecurrenceRule> {
    match event.property(&ICalendarProperty::Rrule)?.values.first()? {
        ICalendarValue::RecurrenceRule(rule) => Some(rule),
        _ => None,
    }
}

/// Returns the rule in words, such as `every 2 weeks on Monday, until 2027-01-31`.
pub fn words(rule: &ICalendarRecurrenceRule) -> String {
    let unit = match rule.freq {
        ICalendarFrequency::Yearly => "year",
        ICalendarFrequency::Monthly => "month",
        ICalendarFrequency::Weekly => "week",
        ICalendarFrequency::Daily => "day",
        ICalendarFrequency::Hourly => "hour",
        ICalendarFrequency::Minutely => "minute",
        ICalendarFrequency::Secondly => "second",
    };
    let mut text = match rule.interval.unwrap_or(1) {
        0 | 1 => format!("every {unit}"),
        interval => format!("every {interval} {unit}s"),
    };
    let mut list = |before: &str, values: Vec<String>| {
        let shown = values.iter().take(RULE_VALUES_MAX).map(String::as_str);
        if !values.is_empty() {
            text.push_str(before);
            text.push_str(&shown.collect::<Vec<_>>().join(", "));
        }
    };
    let numbers = |values: &[i8]| values.iter().map(i8::to_string).collect();
    list(
        " in month ",
        rule.bymonth.iter().map(|m| m.month().to_string()).collect(),
    );
    let day = |day: &calcard::icalendar::ICalendarDay| match day.ordwk {
        None => weekday(day.weekday).to_owned(),
        Some(-1) => format!("the last {}", weekday(day.weekday)),
        Some(ordinal) => format!("{} number {ordinal}", weekday(day.weekday)),
    };
    list(" on ", rule.byday.iter().map(day).collect());
    list(" on day ", numbers(&rule.bymonthday));
    list(
        " on day of the year ",
        rule.byyearday.iter().map(i16::to_string).collect(),
    );
    list(" in week ", numbers(&rule.byweekno));
    list(" at hour ", rule.byhour.iter().map(u8::to_string).collect());
    list(
        ", of these number ",
        rule.bysetpos.iter().map(i32::to_string).collect(),
    );
    if let Some(count) = rule.count {
        text.push_str(&format!(", {count} times"));
    }
    let until = rule.until.as_ref().and_then(PartialDateTime::to_date_time);
    match until {
        Some(until) => text.push_str(&format!(", until {}", until.date_time.format("%Y-%m-%d"))),
        None if rule.count.is_none() => text.push_str(", without end"),
        None => {}
    }
    text
}

fn weekday(day: ICalendarWeekday) -> &'static str {
    match day {
        ICalendarWeekday::Sunday => "Sunday",
        ICalendarWeekday::Monday => "Monday",
        ICalendarWeekday::Tuesday => "Tuesday",
        ICalendarWeekday::Wednesday => "Wednesday",
        ICalendarWeekday::Thursday => "Thursday",
        ICalendarWeekday::Friday => "Friday",
        ICalendarWeekday::Saturday => "Saturday",
    }
}

/// Returns the local starts of an event's instances, in order, the first one included. `Err`: the rule is too large or
/// too frequent to be computed; the words of a warning.
pub fn starts(
    event: &ICalendarComponent,
    first: NaiveDateTime,
) -> Result<Vec<NaiveDateTime>, &'static str> {
    let mut starts = match rule(event) {
        None => vec![first],
        Some(rule) => by_rule(rule, first)?,
    };
    starts.extend(times(event, &ICalendarProperty::Rdate));
    let excluded: Vec<NaiveDateTime> = times(event, &ICalendarProperty::Exdate).collect();
    starts.retain(|start| !excluded.contains(start));
    starts.sort_unstable();
    starts.dedup();
    starts.truncate(INSTANCES_MAX);
    Ok(starts)
}

fn times<'a>(
    event: &'a ICalendarComponent,
    property: &'a ICalendarProperty,
) -> impl Iterator<Item = NaiveDateTime> + use<'a> {
    let entries = event.properties(property);
    let values = entries.flat_map(|entry| &entry.values);
    let time = |value: &ICalendarValue| {
        let time = value.as_partial_date_time()?.to_date_time()?;
        Some(time.date_time)
    };
    values.filter_map(time).take(INSTANCES_MAX)
}

fn by_rule(
    rule: &ICalendarRecurrenceRule,
    first: NaiveDateTime,
) -> Result<Vec<NaiveDateTime>, &'static str> {
    if matches!(
        rule.freq,
        ICalendarFrequency::Minutely | ICalendarFrequency::Secondly
    ) {
        return Err("it repeats more often than once an hour; only its first instance is known");
    }
    let times_of_day =
        rule.byhour.len().max(1) * rule.byminute.len().max(1) * rule.bysecond.len().max(1);
    let longest = [
        rule.byday.len(),
        rule.bymonthday.len(),
        rule.byyearday.len(),
        rule.byweekno.len(),
        rule.bymonth.len(),
        rule.bysetpos.len(),
    ];
    if times_of_day > TIMES_OF_DAY_MAX || longest.iter().any(|len| *len > RULE_VALUES_MAX) {
        return Err("its recurrence rule is too large; only its first instance is known");
    }
    let Some(limit) = first.checked_add_days(Days::new(DAYS_AHEAD_MAX)) else {
        return Ok(vec![first]);
    };
    let mut bounded = rule.clone();
    let until = rule.until.as_ref().and_then(PartialDateTime::to_date_time);
    // A time in UTC is later or earlier than the local one by less than a day.
    let until = until.map(|until| match until.offset {
        Some(_) => until.date_time + Days::new(1),
        None => until.date_time,
    });
    bounded.until = Some(partial(until.unwrap_or(limit).min(limit)));
    if !has_instance(rule) {
        return Ok(vec![first]);
    }
    let mut event = ICalendarComponent::new(ICalendarComponentType::VEvent);
    event.add_property(ICalendarProperty::Dtstart, partial(first));
    event
        .entries
        .push(ICalendarEntry::new(ICalendarProperty::Rrule).with_value(bounded));
    let calendar = ICalendar {
        components: vec![event],
    };
    let found = calendar.expand_dates(Tz::Floating, INSTANCES_MAX);
    let mut starts: Vec<_> = found.events.iter().map(|e| e.start.naive_local()).collect();
    if !starts.contains(&first) {
        starts.push(first);
    }
    Ok(starts)
}

/// Reports whether a month has such a day at all: a rule for 30 February is searched for decades.
fn has_instance(rule: &ICalendarRecurrenceRule) -> bool {
    let longest = |month: u8| match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let months: Vec<u8> = match rule.bymonth.is_empty() {
        true => (1..=12).collect(),
        false => rule.bymonth.iter().map(ICalendarMonth::month).collect(),
    };
    let fits = |day: &i8| {
        months
            .iter()
            .any(|month| day.unsigned_abs() <= longest(*month))
    };
    rule.bymonthday.is_empty() || rule.bymonthday.iter().any(fits)
}

/// Returns a local time as calcard takes it.
pub fn partial(time: NaiveDateTime) -> PartialDateTime {
    let small = |number: u32| u8::try_from(number).ok();
    PartialDateTime {
        year: u16::try_from(time.year()).ok(),
        month: small(time.month()),
        day: small(time.day()),
        hour: small(time.hour()),
        minute: small(time.minute()),
        second: small(time.second()),
        ..PartialDateTime::default()
    }
}

/// Returns the spans of an event from its local starts.
pub fn spans(
    starts: Vec<NaiveDateTime>,
    length: chrono::TimeDelta,
    instant: impl Fn(NaiveDateTime) -> Option<chrono::DateTime<chrono::Utc>>,
) -> Vec<TimeSpan> {
    let span = |start: NaiveDateTime| {
        let start = instant(start)?;
        let end = start.checked_add_signed(length)?;
        Some(TimeSpan {
            start: start.into(),
            end: end.into(),
        })
    };
    starts.into_iter().filter_map(span).collect()
}

/// Returns the local start of an event.
pub fn first_start(event: &ICalendarComponent) -> Option<NaiveDateTime> {
    local_time(event.property(&ICalendarProperty::Dtstart)?)
}
