//! Slots of cron expressions: golden rows, refusals, and a minute-by-minute oracle that shares no code.

use attache::domain::Timestamp;
use attache::scheduler::duty::cron::{CronError, Schedule, next_after};
use chrono::{Datelike, NaiveDate, Offset, TimeZone, Utc};
use chrono_tz::Tz;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text} is no instant"))
}

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The slots in `[from, until)`, as local time with offset.
fn slots(expression: &str, zone: Tz, from: Timestamp, until: Timestamp) -> Vec<String> {
    let schedule = schedule(expression);
    let mut found = Vec::new();
    let mut after = Timestamp::from_millis(from.as_millis() - 1);
    while let Some(slot) = next_after(&schedule, zone, after).filter(|slot| *slot < until) {
        found.push(slot.to_utc().with_timezone(&zone).format("%dT%H:%M%:z").to_string());
        after = slot;
    }
    found
}

/// The slots of one local day.
fn slots_of_day(expression: &str, zone: Tz, date: &str) -> Vec<String> {
    let date: NaiveDate = date.parse().expect("a date");
    let utc = |date: NaiveDate| Timestamp::from(date.and_hms_opt(0, 0, 0).expect("midnight").and_utc());
    let (from, until) = (utc(date.pred_opt().expect("a day")), utc(date + chrono::Days::new(2)));
    let day = format!("{:02}T", date.day());
    slots(expression, zone, from, until).into_iter().filter(|slot| slot.starts_with(&day)).collect()
}

#[test]
fn golden_rows_of_the_days_on_which_the_clocks_change() {
    use chrono_tz::{Africa::Cairo, America::New_York, Australia::Lord_Howe, Europe::Berlin};
    let rows: &[(&str, Tz, &str, &[&str])] = &[
        ("30 2 * * *", Berlin, "2026-03-29", &["29T03:00+02:00"]),
        ("30 2,14 * * *", Berlin, "2026-03-29", &["29T03:00+02:00", "29T14:30+02:00"]),
        ("30 2,14 * * *", Berlin, "2026-10-25", &["25T02:30+02:00", "25T14:30+01:00"]),
        (
            "*/30 2 * * *",
            Berlin,
            "2026-10-25",
            &["25T02:00+02:00", "25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00"],
        ),
        ("30 2-2 * * *", Berlin, "2026-10-25", &["25T02:30+02:00"]),
        ("0 0 * * *", Cairo, "2026-04-24", &["24T01:00+03:00"]),
        ("15 2 * * *", Lord_Howe, "2026-10-04", &["04T02:30+11:00"]),
        ("45 1 * * *", Lord_Howe, "2026-04-05", &["05T01:45+11:00"]),
        ("30 2-3 * * *", New_York, "2026-03-08", &["08T03:00-04:00", "08T03:30-04:00"]),
        ("0,20,40 2 * * *", New_York, "2026-03-08", &["08T03:00-04:00"]),
        ("0 2-3 * * *", New_York, "2026-03-08", &["08T03:00-04:00"]),
        ("*/20 2 * * *", New_York, "2026-03-08", &[]),
        ("0 9 * * *", Berlin, "2026-03-29", &["29T09:00+02:00"]),
        ("0 9 * * *", Berlin, "2026-10-25", &["25T09:00+01:00"]),
    ];
    for (expression, zone, date, expected) in rows {
        assert_eq!(slots_of_day(expression, *zone, date), *expected, "{expression} {zone} {date}");
    }
}

#[test]
fn an_hourly_expression_fires_in_both_passes_of_a_repeated_hour() {
    let day = slots_of_day("30 * * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    let twos: Vec<_> = day.iter().filter(|slot| slot.contains("T02:30")).collect();
    assert_eq!(twos, ["25T02:30+02:00", "25T02:30+01:00"]);
    assert_eq!(day.len(), 25);
    let steps = slots_of_day("5 */2 * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    assert_eq!(steps[..3], ["25T00:05+02:00", "25T02:05+02:00", "25T02:05+01:00"]);
    let halves = slots_of_day("*/30 * * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    assert_eq!(halves.len(), 50);
}

#[test]
fn leap_days_come_every_four_years() {
    let found = slots("0 12 29 2 *", Tz::UTC, at("2026-01-01T00:00:00Z"), at("2033-01-01T00:00:00Z"));
    assert_eq!(found, ["29T12:00+00:00", "29T12:00+00:00"]);
    let first = next_after(&schedule("0 12 29 2 *"), Tz::UTC, at("2026-01-01T00:00:00Z"));
    assert_eq!(first, Some(at("2028-02-29T12:00:00Z")));
}

#[test]
fn a_day_that_a_zone_skipped_is_not_replayed_and_ends_nothing() {
    let zone = chrono_tz::Pacific::Apia;
    let found = slots("0 9 * * *", zone, at("2011-12-29T00:00:00Z"), at("2012-01-02T00:00:00Z"));
    assert_eq!(found, ["29T09:00-10:00", "31T09:00+14:00", "01T09:00+14:00", "02T09:00+14:00"]);
}

#[test]
fn two_restricted_day_fields_match_either_and_an_open_one_matches_both() {
    let march = |text| slots(text, Tz::UTC, at("2026-03-01T00:00:00Z"), at("2026-04-01T00:00:00Z"));
    let days = |text| march(text).iter().map(|slot| slot[..2].to_owned()).collect::<Vec<_>>();
    assert_eq!(days("0 0 13 * 5"), ["06", "13", "20", "27"]);
    assert_eq!(days("0 0 13 * fri"), ["06", "13", "20", "27"]);
    // crontab(5): a field that starts with `*` is not restricted, a step included.
    assert_eq!(days("0 0 */10 * *"), ["01", "11", "21", "31"]);
    assert_eq!(days("0 0 */10 * sat,sun"), ["01", "21"]);
    assert_eq!(days("0 0 * MAR 7"), ["01", "08", "15", "22", "29"]);
    assert_eq!(days("0 0 * 1-3/2 fri-sun"), days("0 0 * * 5,6,0"));
}

#[test]
fn what_is_not_a_five_field_schedule_is_refused_with_a_sentence_that_helps() {
    let cases = [
        ("", "has 0 fields"),
        ("0 9 * *", "has 4 fields"),
        ("0 0 9 * * *", "without seconds it is `0 9 * * *`"),
        ("0 0 9 * * * 2026", "has 7 fields"),
        ("@daily", "write `0 0 * * *`"),
        ("60 * * * *", "minute field `60`"),
        ("0 24 * * *", "hour field `24`"),
        ("0 0 0 * *", "day-of-month field `0`"),
        ("0 0 * 13 *", "month field `13`"),
        ("0 0 * * 8", "day-of-week field `8`"),
        ("0 0 L * *", "not part of a five-field schedule"),
        ("0 0 15W * *", "not part of a five-field schedule"),
        ("0 0 * * 5#2", "not part of a five-field schedule"),
        ("0 0 * * 5L", "not part of a five-field schedule"),
        ("0 0 * * +5", "not part of a five-field schedule"),
        ("0 0 ? * *", "not part of a five-field schedule"),
        ("*/0 * * * *", "steps above 0"),
        ("5/15 * * * *", "steps from a single value"),
        ("10-5 * * * *", "ranges from low to high"),
        ("1,,2 * * * *", "empty item"),
        ("1-2-3 * * * *", "has `2-3`"),
        ("mon * * * *", "has `mon`"),
        ("0 0 * * jan", "has `jan`"),
        ("0 0 * * sat-mon", "ranges from low to high"),
        ("0 0 31 2 *", "never comes due"),
        ("0 0 30,31 feb *", "never comes due"),
    ];
    for (expression, says) in cases {
        let error = Schedule::parse(expression).expect_err(expression).to_string();
        assert!(error.contains(says), "{expression}: {error}");
    }
    assert_eq!(Schedule::parse("0 0 31 4 *"), Err(CronError::Never("0 0 31 4 *".into())));
}

#[test]
fn hostile_expressions_are_refused_and_do_not_panic() {
    let long = format!("{} * * * *", vec!["1"; 100_000].join(","));
    for expression in
        [long.as_str(), "9999999999 * * * *", "é * * * *", "\0 * * * *", "*/99 * * * *-", "- - - - -"]
    {
        assert!(Schedule::parse(expression).is_err(), "{expression:.40} was taken");
    }
}

/// An independent reading of an expression: tables of booleans.
struct Oracle {
    minute: Vec<bool>,
    hour: Vec<bool>,
    day: Vec<bool>,
    month: Vec<bool>,
    weekday: Vec<bool>,
    any_day: bool,
    fixed: bool,
}

impl Oracle {
    fn read(expression: &str) -> Self {
        let fields: Vec<&str> = expression.split(' ').collect();
        let table = |field: &str, low: usize, high: usize| {
            let mut table = vec![false; high + 1];
            for item in field.split(',') {
                let (range, step) = item.split_once('/').unwrap_or((item, "1"));
                let (first, last) = match range.split_once('-') {
                    Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
                    None if range == "*" => (low, high),
                    None => (range.parse().unwrap(), range.parse().unwrap()),
                };
                (first..=last).step_by(step.parse().unwrap()).for_each(|value: usize| table[value] = true);
            }
            table
        };
        Self {
            minute: table(fields[0], 0, 59),
            hour: table(fields[1], 0, 23),
            day: table(fields[2], 1, 31),
            month: table(fields[3], 1, 12),
            weekday: table(fields[4], 0, 6),
            any_day: !fields[2].starts_with('*') && !fields[4].starts_with('*'),
            fixed: !fields[0].contains(['*', '/']) && !fields[1].contains(['*', '/']),
        }
    }

    fn matches(&self, local: Local) -> bool {
        let of_day = local.0.rem_euclid(1440) as usize;
        if !self.minute[of_day % 60] || !self.hour[of_day / 60] {
            return false;
        }
        let date = NaiveDate::default() + chrono::Duration::days(local.0.div_euclid(1440));
        let day = self.day[date.day() as usize];
        let weekday = self.weekday[date.weekday().num_days_from_sunday() as usize];
        self.month[date.month() as usize] && if self.any_day { day || weekday } else { day && weekday }
    }

    /// Walks the UTC minutes as a daemon would that looks at the wall clock every minute.
    fn walk(&self, minutes: &[(i64, Local)]) -> Vec<i64> {
        let mut fired = Vec::new();
        let mut latest = Local(minutes[0].1.0 - 1);
        for (utc, local) in minutes {
            let jumped = local.0 - latest.0;
            let due = if !self.fixed {
                self.matches(*local)
            } else if jumped <= 0 {
                false // The second pass of an hour: fixed times had their turn.
            } else if jumped <= 181 {
                (0..jumped).any(|back| self.matches(Local(local.0 - back)))
            } else {
                self.matches(*local)
            };
            if due {
                fired.push(*utc);
            }
            latest = latest.max(*local);
        }
        fired
    }
}

/// Minutes of local time since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Local(i64);

/// A small deterministic generator (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
    fn value(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high - low + 1)
    }
    fn field(&mut self, low: u64, high: u64) -> String {
        match self.roll(7) {
            0 | 1 => "*".to_owned(),
            2 => format!("*/{}", self.value(2, 7)),
            3 => {
                let first = self.value(low, high);
                format!("{first}-{}", self.value(first, high))
            }
            4 => {
                let first = self.value(low, high);
                format!("{first}-{}/{}", self.value(first, high), self.value(1, 4))
            }
            5 => format!("{},{}", self.value(low, high), self.value(low, high)),
            _ => self.value(low, high).to_string(),
        }
    }
    fn expression(&mut self) -> String {
        // Hours near the night are where clocks change.
        let hour = if self.roll(2) == 0 { self.field(0, 4) } else { self.field(0, 23) };
        let month = if self.roll(3) == 0 { self.field(1, 12) } else { "*".to_owned() };
        let (day, weekday) = (self.field(1, 28), self.field(0, 6));
        let minute = self.field(0, 59);
        format!("{minute} {hour} {day} {month} {weekday}")
    }
}

/// Every UTC minute of two years with its local time. Sao Paulo still changed its clocks then, at midnight.
fn two_years(zone: Tz) -> Vec<(i64, Local)> {
    let first = Utc.with_ymd_and_hms(2017, 1, 1, 0, 0, 0).unwrap().timestamp() / 60;
    let last = Utc.with_ymd_and_hms(2019, 1, 1, 0, 0, 0).unwrap().timestamp() / 60;
    let mut minutes = Vec::new();
    for quarter in (first..last).step_by(15) {
        // No zone changes its offset inside a quarter of an hour.
        let instant = chrono::DateTime::from_timestamp(quarter * 60, 0).unwrap().naive_utc();
        let offset = i64::from(zone.offset_from_utc_datetime(&instant).fix().local_minus_utc()) / 60;
        minutes.extend((quarter..quarter + 15).map(|utc| (utc, Local(utc + offset))));
    }
    minutes
}

fn agrees(expression: &str, zone: Tz, minutes: &[(i64, Local)]) {
    let schedule = schedule(expression);
    let expected = Oracle::read(expression).walk(minutes);
    let (first, last) = (minutes[0].0, minutes[minutes.len() - 1].0);
    let mut found = Vec::new();
    let mut after = Timestamp::from_millis(first * 60_000 - 1);
    while let Some(slot) = next_after(&schedule, zone, after).filter(|slot| slot.as_millis() <= last * 60_000)
    {
        assert!(slot > after, "{expression} {zone}: {slot} does not come after {after}");
        assert_eq!(slot.as_millis() % 60_000, 0, "{expression} {zone}: {slot} is no minute");
        found.push(slot.as_millis() / 60_000);
        after = slot;
    }
    let differs = (0..expected.len().max(found.len())).find(|i| expected.get(*i) != found.get(*i));
    let instant = |list: &[i64]| {
        differs.and_then(|i| list.get(i)).map(|m| Timestamp::from_millis(m * 60_000).to_string())
    };
    assert!(
        differs.is_none(),
        "{expression} {zone}: found {:?}, expected {:?}",
        instant(&found),
        instant(&expected)
    );
}

#[test]
fn slots_in_usual_zones_agree_with_a_minute_by_minute_walk_over_two_years() {
    use chrono_tz::{America, Europe, UTC};
    walk_two_years(&[UTC, Europe::Berlin, America::New_York, America::Sao_Paulo], Dice(20_261_120));
}

#[test]
fn slots_in_odd_zones_agree_with_a_minute_by_minute_walk_over_two_years() {
    use chrono_tz::{Africa, America, Asia, Australia};
    let odd = [Africa::Casablanca, Australia::Lord_Howe, Asia::Kathmandu, America::Havana];
    walk_two_years(&odd, Dice(20_261_121));
}

fn walk_two_years(zones: &[Tz], mut dice: Dice) {
    const DAY: usize = 1440;
    for &zone in zones {
        let minutes = two_years(zone);
        let changes = (1..minutes.len()).filter(|i| minutes[*i].1.0 - minutes[*i - 1].1.0 != 1);
        let mut spans: Vec<_> =
            changes.map(|i| i.saturating_sub(2 * DAY)..(i + 2 * DAY).min(minutes.len())).collect();
        spans.extend((0..2).map(|_| dice.roll(600) as usize * DAY).map(|from| from..from + 10 * DAY));
        let mut expressions =
            std::iter::repeat_with(|| dice.expression()).filter(|text| Schedule::parse(text).is_ok());
        for expression in expressions.by_ref().take(40) {
            for span in &spans {
                agrees(&expression, zone, &minutes[span.clone()]);
            }
        }
        // The whole two years, for expressions with few slots a day.
        let sparse = |text: &String| !text.starts_with('*') && !text.contains(" * ");
        for expression in expressions.filter(sparse).take(1) {
            agrees(&expression, zone, &minutes);
        }
    }
}
