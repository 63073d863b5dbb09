//! Calendar parts that are bombs, or lies about their form: bounded, and nothing of them ends a line of ours.

use super::parts::part;
use attache::calendar::{CalendarEvent, EventPerson, answer_text, read_calendar};
use attache::domain::{Address, Timestamp};

fn event(lines: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:u1\r\nDTSTAMP:20261120T080000Z\r\nDTSTART:20261201T130000Z\r\n{lines}END:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

#[test]
fn recurrences_without_end_are_bounded() {
    let rules = [
        "RRULE:FREQ=SECONDLY",
        "RRULE:FREQ=MINUTELY;INTERVAL=1",
        "RRULE:FREQ=HOURLY",
        "RRULE:FREQ=DAILY",
        "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "RRULE:FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31",
        "RRULE:FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;BYMONTH=6",
        "RRULE:FREQ=MONTHLY;BYDAY=5MO,5TU,5WE;BYSETPOS=9",
        "RRULE:FREQ=HOURLY;INTERVAL=24;BYHOUR=5",
        "RRULE:FREQ=DAILY;INTERVAL=7;BYDAY=SA",
        "RRULE:FREQ=MONTHLY;INTERVAL=12;BYMONTH=5",
        "RRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
        "RRULE:FREQ=WEEKLY;INTERVAL=2;BYMONTH=2;BYDAY=MO,TU,WE,TH,FR,SA,SU",
        "RRULE:FREQ=YEARLY;BYDAY=60MO",
        "RRULE:FREQ=DAILY;COUNT=4000000000",
        "RRULE:FREQ=WEEKLY;INTERVAL=65535",
        "RRULE:FREQ=DAILY;INTERVAL=0",
        "RRULE:FREQ=YEARLY;UNTIL=99991231T235959Z",
        "RRULE:FREQ=YEARLY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11;BYMINUTE=0,1,2,3,4,5,6,7,8,9;BYSECOND=0,1,2,3,4,5,6,7,8,9",
        "RRULE:FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3",
    ];
    for rule in rules {
        let text = event(&format!("{rule}\r\n"));
        let started = std::time::Instant::now();
        let read = read_calendar(text.as_bytes()).expect("a calendar");
        let took = started.elapsed();
        assert!(
            read.events[0].spans.len() <= 366,
            "{rule}: {}",
            read.events[0].spans.len()
        );
        assert!(!read.events[0].spans.is_empty(), "{rule}");
        // The build without an optimiser takes about ten times as long as the one that ships.
        println!("{rule}: {took:?}");
        assert!(took.as_millis() < 2_000, "{rule}: {took:?}");
    }
    let dates: Vec<String> = (0..15_000)
        .map(|n| format!("20270101T{:02}{:02}{:02}", n / 3600, n / 60 % 60, n % 60))
        .collect();
    let bomb = event(&format!("RDATE:{}\r\n", dates[..10_000].join(",")));
    let read = read_calendar(bomb.as_bytes()).expect("a calendar");
    assert!(read.events[0].spans.len() <= 366);
}

#[test]
fn too_much_of_anything_is_refused_or_left_out() {
    let huge = event(&format!("DESCRIPTION:{}\r\n", "x".repeat(300_000)));
    assert!(read_calendar(huge.as_bytes()).is_err());
    let nested = format!(
        "{}{}",
        "BEGIN:VEVENT\r\n".repeat(10_000),
        "END:VEVENT\r\n".repeat(10_000)
    );
    assert!(read_calendar(nested.as_bytes()).is_err());
    let people: String = (0..3_000)
        .map(|n| format!("ATTENDEE:mailto:p{n}@x.test\r\n"))
        .collect();
    let read = read_calendar(event(&people).as_bytes()).expect("a calendar");
    assert_eq!(read.events[0].attendees.len(), 200);
    assert!(
        read.warnings[0].contains("2800 more attendees"),
        "{:?}",
        read.warnings
    );
    let one = event("")
        .replace("BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\n", "")
        .replace("END:VCALENDAR\r\n", "");
    let many = format!(
        "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\n{}END:VCALENDAR\r\n",
        one.repeat(100)
    );
    let read = read_calendar(many.as_bytes()).expect("a calendar");
    assert_eq!(read.events.len(), 32);
    let rule = format!(
        "{}RRULE:FREQ=DAILY;COUNT=9\r\nEND:VEVENT\r\n",
        one.replace("END:VEVENT\r\n", "")
    );
    let many = format!(
        "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\n{}END:VCALENDAR\r\n",
        rule.repeat(5)
    );
    let spans: Vec<usize> = read_calendar(many.as_bytes())
        .expect("a calendar")
        .events
        .iter()
        .map(|e| e.spans.len())
        .collect();
    assert_eq!(spans, [9, 9, 9, 1, 1]);
    for nothing in [
        "",
        "BEGIN:VCARD\r\nEND:VCARD\r\n",
        "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n",
        "\u{0}\u{1}",
        "BEGIN:VCALENDAR",
    ] {
        assert!(read_calendar(nothing.as_bytes()).is_err(), "{nothing:?}");
    }
}

#[test]
fn every_cut_and_every_changed_byte_of_a_part_is_read_or_refused() {
    let whole = part("outlook_request.ics")
        .replace('\n', "\r\n")
        .into_bytes();
    let mut read = 0;
    for cut in 0..whole.len() {
        read += usize::from(read_calendar(&whole[..cut]).is_ok());
    }
    // A generator of Knuth's: the same bytes in every run.
    let mut state = 7_u64;
    for _ in 0..2_000 {
        let mut changed = whole.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = (state >> 33) as usize % changed.len();
            changed[at] = (state >> 20) as u8;
        }
        read += usize::from(read_calendar(&changed).is_ok());
    }
    assert!(read > 100, "some of them can be read: {read}");
}

#[test]
fn no_text_of_an_invitation_ends_a_line_of_the_answer() {
    let bad = "Lunch\r\nATTENDEE:mailto:evil@evil.test\nX:1\u{2028}";
    let invitation = CalendarEvent {
        uid: "u\r\nX-UID:1".to_owned(),
        summary: bad.to_owned(),
        recurrence_line: Some(format!("RECURRENCE-ID:20261201T130000Z\r\n{bad}")),
        organizer: Some(EventPerson {
            address: "carol@partner.test\r\nX-A:1".to_owned(),
            name: format!("Carol\";X=\"1{bad}"),
            answer: String::new(),
        }),
        ..CalendarEvent::default()
    };
    let me = Address::parse("ada@engine.test").expect("address");
    let now = Timestamp::parse("2026-11-20T08:00:00Z").expect("instant");
    let text = answer_text(&invitation, ("A\"d\r\na", &me), ("ACCEPTED", bad), now);
    let names: Vec<&str> = text
        .replace("\r\n ", "")
        .leak()
        .split("\r\n")
        .map(|line| line.split([':', ';']).next().unwrap_or_default())
        .collect();
    assert_eq!(
        names,
        [
            "BEGIN",
            "PRODID",
            "VERSION",
            "CALSCALE",
            "METHOD",
            "BEGIN",
            "UID",
            "DTSTAMP",
            "SEQUENCE",
            "RECURRENCE-ID",
            "SUMMARY",
            "ORGANIZER",
            "ATTENDEE",
            "COMMENT",
            "END",
            "END",
            ""
        ]
    );
    assert_eq!(text.matches("ATTENDEE;PARTSTAT").count(), 1);
    assert!(text.split("\r\n").all(|line| line.len() <= 75), "{text}");
}
