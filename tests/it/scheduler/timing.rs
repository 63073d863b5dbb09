//! One-shots and intervals: what is read, what is refused, and which slots follow.

use super::world::at;
use attache::schedule_file::timing::{Timing, local_text};
use chrono_tz::{Australia::Lord_Howe, Europe::Berlin, Pacific::Apia, Tz, UTC};
use std::time::Duration;

fn one_shot(text: &str, zone: Tz) -> String {
    match Timing::at(text, zone) {
        Ok(Timing::At(instant)) => local_text(instant, zone),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn an_instant_is_rfc_3339_or_local_odd_nights_have_one_meaning() {
    let rows = [
        (
            "2026-12-24T18:00:00+01:00",
            Berlin,
            "2026-12-24T18:00:00+01:00",
        ),
        ("2026-12-24T17:00:00Z", Berlin, "2026-12-24T18:00:00+01:00"),
        ("2026-12-24 17:00:00Z", Berlin, "2026-12-24T18:00:00+01:00"),
        ("2026-12-24 18:00", Berlin, "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00", Berlin, "2026-12-24T18:00:00+01:00"),
        ("2026-12-24 18:00:30", Berlin, "2026-12-24T18:00:30+01:00"),
        // In a gap: its end. Twice: the first.
        ("2026-03-29 02:30", Berlin, "2026-03-29T03:00:00+02:00"),
        ("2026-03-29 02:59:59", Berlin, "2026-03-29T03:00:00+02:00"),
        ("2026-10-25 02:30", Berlin, "2026-10-25T02:30:00+02:00"),
        (
            "2026-10-25T02:30:00+01:00",
            Berlin,
            "2026-10-25T02:30:00+01:00",
        ),
        ("2026-10-04 02:15", Lord_Howe, "2026-10-04T02:30:00+11:00"),
        ("2026-04-05 01:45", Lord_Howe, "2026-04-05T01:45:00+11:00"),
        // The day that a zone skipped.
        ("2011-12-30 09:00", Apia, "2011-12-31T00:00:00+14:00"),
    ];
    for (text, zone, expected) in rows {
        assert_eq!(one_shot(text, zone), expected, "{text} {zone}");
    }
}

#[test]
fn what_is_no_instant_or_interval_is_refused_with_what_works() {
    for text in [
        "",
        "tomorrow",
        "2026-12-24",
        "18:00",
        "2026-02-30 10:00",
        "24.12.2026 18:00",
        "2026-12-24 25:00",
    ] {
        let error = Timing::at(text, Berlin).expect_err(text).to_string();
        assert!(
            error.contains("such as `2026-12-24 18:00`"),
            "{text}: {error}"
        );
    }
    let far = Timing::at("9999-12-31T23:00:00-09:00", UTC)
        .expect_err("far")
        .to_string();
    assert!(far.contains("years 1970 to 9998"), "{far}");
    assert!(Timing::at("1969-12-31T23:59:59Z", UTC).is_err());
    let fine = Timing::at("2026-12-24T18:00:00.5Z", UTC)
        .expect_err("fine")
        .to_string();
    assert!(fine.contains("whole seconds"), "{fine}");
    for text in [
        "",
        "90",
        "m",
        "1h30m",
        "-5m",
        "1.5h",
        "PT90M",
        "99999999999999999999m",
    ] {
        let error = Timing::every(text).expect_err(text).to_string();
        assert!(error.contains("such as `90m`"), "{text}: {error}");
    }
    for text in ["0m", "30s", "90s", "61s", "500ms", "367d"] {
        let error = Timing::every(text).expect_err(text).to_string();
        assert!(error.contains("from `1m` to `366d`"), "{text}: {error}");
    }
}

#[test]
fn a_timing_reads_back_as_it_was_spelled() {
    let rows = [
        ("0  9 * * *", "0 9 * * *"),
        ("at 2026-12-24 18:00", "at 2026-12-24T17:00:00Z"),
        ("every 90m", "every 90m"),
        ("every 120m", "every 2h"),
        ("every 60s", "every 1m"),
    ];
    for (text, formatted) in rows {
        let timing = Timing::parse(text, Berlin).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(timing.formatted(), formatted);
        assert_eq!(
            Timing::parse(formatted, Berlin).as_ref(),
            Ok(&timing),
            "{text}"
        );
    }
    for text in ["at", "every", "at ", "every ", "sometimes 5m"] {
        assert!(Timing::parse(text, Berlin).is_err(), "{text}");
    }
}

#[test]
fn an_interval_comes_at_epoch_multiples_and_an_instant_once() {
    let every = Timing::every("90m").expect("an interval");
    let from = at("1970-01-01T00:00:00Z");
    let slots: Vec<String> = every
        .upcoming(from, 3)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        slots,
        [
            "1970-01-01T01:30:00.000Z",
            "1970-01-01T03:00:00.000Z",
            "1970-01-01T04:30:00.000Z"
        ]
    );
    assert_eq!(
        every.next_after(at("1970-01-01T01:29:59.999Z")),
        Some(at("1970-01-01T01:30:00Z"))
    );
    assert_eq!(
        every.next_after(at("1970-01-01T01:30:00Z")),
        Some(at("1970-01-01T03:00:00Z"))
    );
    assert_eq!(every.next_after(at("1969-12-31T23:59:00Z")), Some(from));
    let once = Timing::at("2026-12-24T17:00:00Z", UTC).expect("an instant");
    assert_eq!(
        once.upcoming(at("2026-12-24T16:59:59Z"), 5),
        [at("2026-12-24T17:00:00Z")]
    );
    assert_eq!(once.next_after(at("2026-12-24T17:00:00Z")), None);
    assert!(once.ends() && !every.ends());
}

#[test]
fn at_the_end_of_time_no_timing_goes_back_to_its_beginning() {
    let last = at("9999-12-31T23:59:00Z");
    for text in ["* * * * *", "0 0 1 1 *", "every 1m", "every 366d"] {
        let timing = Timing::parse(text, UTC).expect("a timing");
        assert_eq!(timing.next_after(last), None, "{text}");
    }
}

#[test]
fn the_smallest_distance_between_slots_bounds_jitter() {
    let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
    let rows = [
        ("* * * * *", minutes(1)),
        ("*/7 * * * *", minutes(4)), // 56 and the next hour's 0
        ("0 9 * * *", minutes(24 * 60)),
        ("0 9,17 * * *", minutes(8 * 60)),
        ("50 23 * * *", minutes(24 * 60)),
        ("10 0,23 * * *", minutes(60)),
        ("0 9 * * mon-fri", minutes(24 * 60)),
        ("0 9 * * mon", minutes(7 * 24 * 60)),
        ("0 9 1 * *", minutes(28 * 24 * 60)),
        ("0 9 1,3 * *", minutes(2 * 24 * 60)),
        ("0 0,23 * * mon", minutes(23 * 60)),
        ("0 12 29 2 *", minutes(1461 * 24 * 60)),
        ("every 90m", minutes(90)),
        ("at 2026-12-24 18:00", None),
    ];
    for (text, expected) in rows {
        assert_eq!(
            Timing::parse(text, UTC).expect("a timing").period_min(),
            expected,
            "{text}"
        );
    }
}
