//! Slots of cron expressions: golden rows, refusals, and a minute-by-minute oracle that shares no code.

use super::oracle::{self, Dice};
use attache::domain::Timestamp;
use attache::schedule_file::cron::{CronError, CronSchedule, next_after};
use chrono::{Datelike, NaiveDate};
use chrono_tz::Tz;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text} is no instant"))
}

fn schedule(text: &str) -> CronSchedule {
    CronSchedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The slots in `[from, until)`, as local time with offset.
fn slots(expression: &str, zone: Tz, from: Timestamp, until: Timestamp) -> Vec<String> {
    let schedule = schedule(expression);
    let mut found = Vec::new();
    let mut after = Timestamp::from_millis(from.as_millis() - 1);
    while let Some(slot) = next_after(&schedule, zone, after).filter(|slot| *slot < until) {
        found.push(
            slot.to_utc()
                .with_timezone(&zone)
                .format("%dT%H:%M%:z")
                .to_string(),
        );
        after = slot;
    }
    found
}

/// The slots of one local day.
fn slots_of_day(expression: &str, zone: Tz, date: &str) -> Vec<String> {
    let date: NaiveDate = date.parse().expect("a date");
    let utc =
        |date: NaiveDate| Timestamp::from(date.and_hms_opt(0, 0, 0).expect("midnight").and_utc());
    let (from, until) = (
        utc(date.pred_opt().expect("a day")),
        utc(date + chrono::Days::new(2)),
    );
    let day = format!("{:02}T", date.day());
    slots(expression, zone, from, until)
        .into_iter()
        .filter(|slot| slot.starts_with(&day))
        .collect()
}

#[test]
fn golden_rows_of_the_days_on_which_the_clocks_change() {
    use chrono_tz::{Africa::Cairo, America::New_York, Australia::Lord_Howe, Europe::Berlin};
    let rows: &[(&str, Tz, &str, &[&str])] = &[
        ("30 2 * * *", Berlin, "2026-03-29", &["29T03:00+02:00"]),
        (
            "30 2,14 * * *",
            Berlin,
            "2026-03-29",
            &["29T03:00+02:00", "29T14:30+02:00"],
        ),
        (
            "30 2,14 * * *",
            Berlin,
            "2026-10-25",
            &["25T02:30+02:00", "25T14:30+01:00"],
        ),
        (
            "*/30 2 * * *",
            Berlin,
            "2026-10-25",
            &[
                "25T02:00+02:00",
                "25T02:30+02:00",
                "25T02:00+01:00",
                "25T02:30+01:00",
            ],
        ),
        ("30 2-2 * * *", Berlin, "2026-10-25", &["25T02:30+02:00"]),
        ("0 0 * * *", Cairo, "2026-04-24", &["24T01:00+03:00"]),
        ("15 2 * * *", Lord_Howe, "2026-10-04", &["04T02:30+11:00"]),
        ("45 1 * * *", Lord_Howe, "2026-04-05", &["05T01:45+11:00"]),
        (
            "30 2-3 * * *",
            New_York,
            "2026-03-08",
            &["08T03:00-04:00", "08T03:30-04:00"],
        ),
        (
            "0,20,40 2 * * *",
            New_York,
            "2026-03-08",
            &["08T03:00-04:00"],
        ),
        ("0 2-3 * * *", New_York, "2026-03-08", &["08T03:00-04:00"]),
        ("*/20 2 * * *", New_York, "2026-03-08", &[]),
        ("0 9 * * *", Berlin, "2026-03-29", &["29T09:00+02:00"]),
        ("0 9 * * *", Berlin, "2026-10-25", &["25T09:00+01:00"]),
    ];
    for (expression, zone, date, expected) in rows {
        assert_eq!(
            slots_of_day(expression, *zone, date),
            *expected,
            "{expression} {zone} {date}"
        );
    }
}

#[test]
fn an_hourly_expression_fires_in_both_passes_of_a_repeated_hour() {
    let day = slots_of_day("30 * * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    let twos: Vec<_> = day.iter().filter(|slot| slot.contains("T02:30")).collect();
    assert_eq!(twos, ["25T02:30+02:00", "25T02:30+01:00"]);
    assert_eq!(day.len(), 25);
    let steps = slots_of_day("5 */2 * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    assert_eq!(
        steps[..3],
        ["25T00:05+02:00", "25T02:05+02:00", "25T02:05+01:00"]
    );
    let halves = slots_of_day("*/30 * * * *", chrono_tz::Europe::Berlin, "2026-10-25");
    assert_eq!(halves.len(), 50);
    let twos = [
        "25T02:00+02:00",
        "25T02:30+02:00",
        "25T02:00+01:00",
        "25T02:30+01:00",
    ];
    assert_eq!(halves[4..8], twos);
}

#[test]
fn leap_days_come_every_four_years() {
    let found = slots(
        "0 12 29 2 *",
        Tz::UTC,
        at("2026-01-01T00:00:00Z"),
        at("2033-01-01T00:00:00Z"),
    );
    assert_eq!(found, ["29T12:00+00:00", "29T12:00+00:00"]);
    let first = next_after(
        &schedule("0 12 29 2 *"),
        Tz::UTC,
        at("2026-01-01T00:00:00Z"),
    );
    assert_eq!(first, Some(at("2028-02-29T12:00:00Z")));
}

#[test]
fn a_day_that_a_zone_skipped_is_not_replayed_and_ends_nothing() {
    let zone = chrono_tz::Pacific::Apia;
    let found = slots(
        "0 9 * * *",
        zone,
        at("2011-12-29T00:00:00Z"),
        at("2012-01-02T00:00:00Z"),
    );
    assert_eq!(
        found,
        [
            "29T09:00-10:00",
            "31T09:00+14:00",
            "01T09:00+14:00",
            "02T09:00+14:00"
        ]
    );
}

#[test]
fn two_restricted_day_fields_match_either_and_an_open_one_both() {
    let march = |text| {
        slots(
            text,
            Tz::UTC,
            at("2026-03-01T00:00:00Z"),
            at("2026-04-01T00:00:00Z"),
        )
    };
    let days = |text| {
        march(text)
            .iter()
            .map(|slot| slot[..2].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(days("0 0 13 * 5"), ["06", "13", "20", "27"]);
    assert_eq!(days("0 0 13 * fri"), ["06", "13", "20", "27"]);
    // crontab(5): a field that starts with `*` is not restricted, a step included.
    assert_eq!(days("0 0 */10 * *"), ["01", "11", "21", "31"]);
    assert_eq!(days("0 0 */10 * sat,sun"), ["01", "21"]);
    assert_eq!(days("0 0 * MAR 7"), ["01", "08", "15", "22", "29"]);
    assert_eq!(days("0 0 * 1-3/2 fri-sun"), days("0 0 * * 5,6,0"));
}

#[test]
fn what_is_not_a_five_field_schedule_is_refused_with_help() {
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
        let error = CronSchedule::parse(expression)
            .expect_err(expression)
            .to_string();
        assert!(error.contains(says), "{expression}: {error}");
    }
    assert_eq!(
        CronSchedule::parse("0 0 31 4 *"),
        Err(CronError::Never("0 0 31 4 *".into()))
    );
}

#[test]
fn hostile_expressions_are_refused_and_do_not_panic() {
    let long = format!("{} * * * *", vec!["1"; 100_000].join(","));
    for expression in [
        long.as_str(),
        "9999999999 * * * *",
        "é * * * *",
        "\0 * * * *",
        "*/99 * * * *-",
        "- - - - -",
    ] {
        assert!(
            CronSchedule::parse(expression).is_err(),
            "{expression:.40} was taken"
        );
    }
}

/// The days around every change of the clocks in ten years, and one whole decade of an expression with few slots.
fn walk(zones: &[Tz], dice: Dice, expressions: usize) {
    const DAY: usize = 1440;
    let expressions = oracle::expressions(dice, expressions);
    for &zone in zones {
        let minutes = oracle::decade(zone);
        let changes = (1..minutes.len()).filter(|i| minutes[*i].1.0 - minutes[*i - 1].1.0 != 1);
        let mut spans: Vec<_> = changes
            .map(|i| i.saturating_sub(DAY)..(i + DAY).min(minutes.len()))
            .collect();
        spans.push(100 * DAY..110 * DAY);
        for expression in &expressions {
            for span in &spans {
                oracle::agree(expression, zone, &minutes[span.clone()])
                    .unwrap_or_else(|found| panic!("{found}"));
            }
        }
    }
}

#[test]
#[ignore = "second tier"]
fn slots_agree_with_a_minute_walk_around_every_clock_change() {
    walk(&oracle::ZONES[..10], Dice(20_261_120), 8);
}

#[test]
#[ignore = "second tier"]
fn slots_agree_with_that_walk_in_odd_zones_too() {
    walk(&oracle::ZONES[10..], Dice(20_261_121), 8);
}

#[test]
#[ignore = "second tier"]
fn sparse_expressions_agree_with_that_walk_over_ten_years() {
    let sparse = |text: &String| !text.starts_with('*') && !text.contains(" * ");
    let expressions: Vec<_> = oracle::expressions(Dice(20_261_122), 40)
        .into_iter()
        .filter(sparse)
        .collect();
    assert!(expressions.len() >= 2, "{expressions:?}");
    for (zone, expression) in [Tz::Europe__Berlin, Tz::Pacific__Apia]
        .into_iter()
        .zip(&expressions)
    {
        let minutes = oracle::decade(zone);
        oracle::agree(expression, zone, &minutes).unwrap_or_else(|found| panic!("{found}"));
    }
}

#[test]
fn the_walk_sees_a_slot_that_is_lost_and_one_that_is_doubled() {
    let minutes = oracle::decade(Tz::Europe__Berlin);
    let daily = oracle::slots("30 2 * * *", &minutes);
    assert_eq!(daily.len(), 3652, "once on every day of ten years");
    let every = oracle::slots("*/30 2 * * *", &minutes);
    assert_eq!(every.len(), 2 * 3652, "ten nights have none, ten have four");
}
