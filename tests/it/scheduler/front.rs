//! Front matter: what YAML may say, what every key wants, and which line an error names.

use super::oracle::Dice;
use super::world::{at, names};
use attache::domain::{
    CatchUp, DeliverTo, Overlap, RunOptions, RunSettings, SlotOptions, Temperature,
};
use attache::schedule_file::timing::Timing;
use attache::schedule_file::{FileError, ParseContext, Responsibility, file};
use chrono_tz::{America::New_York, Europe::Berlin};
use std::time::Duration;

fn read(bytes: &[u8]) -> Result<Responsibility, FileError> {
    file::parse(
        bytes,
        &ParseContext {
            zone: New_York,
            tools: None,
            names: &names(),
            mails_answers: true,
        },
    )
}

fn front(front: &str) -> Result<Responsibility, FileError> {
    read(format!("---\n{front}\n---\nWrite.").as_bytes())
}

fn good(text: &str) -> Responsibility {
    front(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Each with the line that the error must name, and words that it must say.
fn refused(cases: &[(&str, usize, &str)]) {
    let mut complaints = Vec::new();
    for (text, line, says) in cases {
        match front(text) {
            Err(error) if error.line == *line && error.problem.contains(says) => {}
            other => complaints.push(format!(
                "{text}\n  wanted line {line}: {says}\n  found {other:?}"
            )),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn plain_quoted_folded_and_commented_values_read_alike() {
    let plain = good("name: Day's digest\nschedule: 0 9 * * *\ntimezone: Europe/Berlin");
    for same in [
        "name: 'Day''s digest'\nschedule: \"0 9 * * *\" # daily\n# zone\ntimezone: Europe/Berlin",
        "name: \"Day\\u0027s digest\"\nschedule: '0 9 * * *'\ntimezone: \"Europe/Berlin\"",
        "\"name\": Day's digest\n'schedule': 0 9 * * *\n\n\ntimezone:   Europe/Berlin   ",
        "{name: \"Day's digest\", schedule: 0 9 * * *, timezone: Europe/Berlin}",
        "name: >-\n  Day's\n  digest\nschedule: |\n  0 9 * * *\ntimezone: Europe/Berlin",
        "name: Day's\n  digest\nschedule:\n  0 9 * * *\ntimezone: Europe/Berlin\nenabled: true",
        "name: Day's digest\nschedule: 0 9 * * *\ntimezone: Europe/Berlin\nenabled: True\njitter: 0s",
    ] {
        assert_eq!(good(same), plain, "{same}");
    }
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    let unix = "---\nname: A\nschedule: 0 9 * * *\nenabled: false\ntools:\n  - read_file\n---\n\nOne.\nTwo.\n";
    let windows = format!("\u{feff}{}", unix.replace('\n', "\r\n"));
    assert_eq!(read(windows.as_bytes()), read(unix.as_bytes()));
    assert_eq!(
        read(unix.as_bytes()).map(|r| (r.enabled, r.prompt)),
        Ok((false, "One.\nTwo.".into()))
    );
    let wrong = windows.replace("read_file", "red_file");
    assert_eq!(read(wrong.as_bytes()).map_err(|error| error.line), Err(6));
}

#[test]
fn everything_that_a_file_may_say_is_understood() {
    let schedule = good(
        "name: Digest\nevery: 6h\ntimezone: Europe/Berlin\nenabled: false\ncatch_up: all\ncatch_up_window: 2d\n\
         overlap: buffer_one\njitter: 36m\ngrace: 10m\nbudget: 0.25\nprovider: anthropic\nmodel: large-1\n\
         tools: [send_email, read_file]\nprofile: thread\ndeliver_to:\n  mail:\n    - ann@example.test\n    - bo@friends.test\n\
         output_schema: schemas/report.json\nretries: 2\nplan: ask\nproposed_by: r1",
    );
    assert_eq!(
        (
            schedule.name.as_str(),
            schedule.enabled,
            schedule.budget_micros
        ),
        ("Digest", false, Some(250_000))
    );
    assert_eq!(
        (&schedule.timing, schedule.timezone),
        (&Timing::every("6h").expect("an interval"), Berlin)
    );
    let span = |seconds| Duration::from_secs(seconds);
    let expected = SlotOptions {
        catch_up: CatchUp::All,
        catch_up_window: span(2 * 86_400),
        overlap: Overlap::BufferOne,
        jitter: span(36 * 60),
        grace: span(600),
        proposed_by: schedule.slot_options.proposed_by.clone(),
    };
    assert_eq!(schedule.slot_options, expected);
    assert_eq!(
        schedule
            .slot_options
            .proposed_by
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("r1")
    );
    let RunOptions {
        profile,
        provider,
        model,
        tools,
        deliver_to,
        retries,
        plan,
        settings,
        reply,
    } = schedule.run_options;
    assert_eq!(settings, attache::domain::RunSettings::default());
    assert_eq!(reply, None);
    assert_eq!(
        (profile.as_str(), provider.as_deref(), model.as_deref()),
        ("thread", Some("anthropic"), Some("large-1"))
    );
    assert_eq!(plan, Some(attache::domain::PlanMode::Ask));
    assert_eq!(
        (tools, retries),
        (Some(vec!["send_email".into(), "read_file".into()]), Some(2))
    );
    let DeliverTo::People(people) = deliver_to else {
        panic!("{deliver_to:?}")
    };
    assert_eq!(
        people.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["ann@example.test", "bo@friends.test"]
    );
}

#[test]
fn what_a_file_omits_is_default_an_answer_goes_where_it_says() {
    let bare = good("name: A\nschedule: 0 9 * * *");
    assert_eq!(
        (bare.slot_options, bare.run_options),
        (SlotOptions::default(), RunOptions::default())
    );
    assert_eq!(
        (bare.timezone, bare.enabled, bare.budget_micros),
        (New_York, true, None)
    );
    let to = |line: &str| good(&format!("name: A\nschedule: 0 9 * * *\n{line}")).run_options;
    assert_eq!(to("deliver_to: mail").deliver_to, DeliverTo::Owners);
    assert_eq!(to("deliver_to: store").deliver_to, DeliverTo::Store);
    assert!(
        matches!(to("deliver_to: {mail: OLGA@example.test}").deliver_to, DeliverTo::People(one) if one.len() == 1)
    );
    assert!(
        matches!(to("deliver_to:\n  thread: th-1").deliver_to, DeliverTo::Thread(id) if id.as_str() == "th-1")
    );
    assert_eq!(to("tools: []").tools, Some(Vec::new()));
}

#[test]
fn the_next_slots_of_a_file_are_shown_with_their_offset() {
    let schedule = good("name: A\nschedule: 30 2 * * *\ntimezone: Europe/Berlin\nenabled: false");
    let next = schedule.upcoming(at("2026-03-28T00:00:00Z"), 5);
    let expected = [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-31T02:30:00+02:00",
        "2026-04-01T02:30:00+02:00",
    ];
    assert_eq!(next, expected);
    let once = good("name: A\nat: 2026-12-24 18:00\ntimezone: Europe/Berlin");
    assert_eq!(
        once.upcoming(at("2026-03-28T00:00:00Z"), 5),
        ["2026-12-24T18:00:00+01:00"]
    );
}

#[test]
fn every_fault_of_a_key_names_its_line_and_what_would_work() {
    let schedule = "name: A\nschedule: 0 9 * * *\n";
    let after = |line: &str| format!("{schedule}{line}");
    #[rustfmt::skip]
    let cases = [
        ("catch_up: newest", "did you mean `latest`?"),
        ("catch_up: no", "there are: latest, skip, all"),
        ("catch_up: lates", "did you mean `latest`?"),
        ("catch_up_window: 30s", "from `1m` to `366d`"),
        ("catch_up_window: a week", "such as `30s`"),
        ("overlap: buffer", "did you mean `buffer_one`?"),
        ("overlap: [skip]", "`overlap` is a list; write one value"),
        ("jitter: 5", "one number and its unit"),
        ("jitter: 3h", "they come 1d apart, so at most `144m`"),
        ("grace: 0s", "from `1m` to `366d`"),
        ("budget: much", "write US dollars such as `0.25`"),
        ("budget_usd: -1", "`budget_usd` is `-1`"),
        ("budget: 1\nbudget_usd: 1", "keep `budget`"),
        ("model: \"\"", "`model` is empty"),
        ("model: ~", "`model` has no value"),
        ("provider: anthropic", "needs a `model`"),
        ("model: m\nprovider: antropic", "did you mean `anthropic`?"),
        ("tools: send_email", "write `tools: [one, two]`"),
        ("tools: [send_mail]", "there is no tool `send_mail`; did you mean `send_email`?"),
        ("tools: [{a: b}]", "lists names only"),
        ("tools: [read_file, read_file]", "twice"),
        ("profile: threat", "did you mean `thread`?"),
        ("deliver_to: post", "write `mail`"),
        ("deliver_to:", "is a list or nothing"),
        ("deliver_to: [mail]", "is a list or nothing"),
        ("deliver_to: {post: x}", "has no `post`"),
        ("deliver_to: {mail: []}", "names nobody"),
        ("deliver_to: {mail: [eve@elsewhere.test]}", "`send_allow` of `configs/security.json`"),
        ("deliver_to: {mail: not an address}", "`deliver_to`"),
        ("deliver_to: {mail: [ann@example.test, ann@example.test]}", "twice"),
        ("deliver_to: {thread: \"../x\"}", "the id of a thread"),
        ("deliver_to: {thread: a, mail: b}", "has one way"),
        ("output_schema: ../x.json", "below the persona's folder"),
        ("retries: 1.5", "a whole number from 0 to 99"),
        ("retries: 100", "a whole number from 0 to 99"),
        ("max_output_tokens: 0", "a whole number from 1 to"),
        ("temperature: hot", "a number from 0 to 2"),
        ("temperature: 2.1", "a number from 0 to 2"),
        ("temperature: -1", "a number from 0 to 2"),
        ("max_tool_turns: 1001", "a whole number from 0 to 1000"),
        ("tool_calls_max: few", "a whole number from 0 to"),
        ("duration_max: 2d", "a duration from `1s` to `1d`"),
        ("call_timeout: 0s", "a duration from `1s` to `1d`"),
        ("timezone: Europe/Berln", "did you mean `Europe/Berlin`?"),
        ("timezone: Qqqq", "an IANA name"),
        ("enabled: maybe", "write `true` or `false`"),
        ("enabled: yes", "write `true` or `false`"),
        ("at: 2026-12-24 18:00", "all say when it comes due; keep one of them"),
        ("every: 5m", "`schedule`, `every` all say when"),
        ("proposed_by: [a]", "is a list"),
        ("schedule: 0 10 * * *", "`schedule` is given twice, first on line 3"),
        ("catchup: all", "unknown key `catchup`; did you mean `catch_up`?"),
        ("wholly_unlike: 1", "there are: name, schedule, at"),
    ];
    let texts: Vec<String> = cases.iter().map(|(line, _)| after(line)).collect();
    let lines = cases.iter().map(|(line, _)| 4 + line.matches('\n').count());
    let cases: Vec<_> = texts
        .iter()
        .zip(lines)
        .zip(cases)
        .map(|((text, line), (_, says))| (&**text, line, says))
        .collect();
    refused(&cases);
}

#[test]
fn a_duty_bounds_its_runs() {
    let duty = good(
        "name: A\nschedule: 0 9 * * *\nmax_output_tokens: 900\ntemperature: 0.25\nmax_tool_turns: 3\ntool_calls_max: 4\n\
         duration_max: 30m\ncall_timeout: 90s\nidle_timeout: 20s",
    );
    let span = |seconds| Some(Duration::from_secs(seconds));
    let expected = RunSettings {
        max_output_tokens: Some(900),
        temperature: Temperature::from_number(0.25),
        max_tool_turns: Some(3),
        tool_calls_max: Some(4),
        duration_max: span(1800),
        call_timeout: span(90),
        idle_timeout: span(20),
    };
    assert_eq!(duty.run_options.settings, expected);
}

#[test]
fn a_file_that_does_not_say_who_or_when_names_the_line_too() {
    refused(&[
        (
            "name: A",
            3,
            "say when by one of `schedule: 0 9 * * mon-fri`",
        ),
        ("schedule: 0 9 * * *", 3, "`name` is missing"),
        ("", 3, "`name` is missing"),
        ("# nothing", 3, "`name` is missing"),
        ("name: A\nscedule: 0 9 * * *", 3, "did you mean `schedule`?"),
        ("name: A\nname: B", 3, "first on line 2"),
        ("name: A\nschedule: 0 25 * * *", 3, "the hour field `25`"),
        (
            "name: A\nschedule: 0 25 * * *",
            3,
            "for example `0 9,17 * * *`",
        ),
        ("name: A\nschedule: every 5m", 3, "write `every: 5m`"),
        (
            "name: A\nschedule: noon",
            3,
            "for example `0 9 * * mon-fri`",
        ),
        ("name: A\nat: tomorrow", 3, "such as `2026-12-24 18:00`"),
        (
            "name: A\nat: 2026-12-24 18:00\njitter: 1m",
            4,
            "leave it out",
        ),
        ("name: A\nevery: 30s", 3, "from `1m` to `366d`"),
        (
            "name: A\nschedule:\n  - 0 9 * * *",
            3,
            "`schedule` is a list",
        ),
        (
            "name: A\nschedule:\ngrace: 1h",
            3,
            "`schedule` has no value",
        ),
        ("name: [A]", 2, "is a list"),
        ("name: {a: b}", 2, "nested values"),
        ("name: |\n  A\n  B", 3, "control character"),
    ]);
}

#[test]
fn a_persona_s_files_name_only_tools_that_it_may_use() {
    let own = ["read_file".to_owned()];
    let names = names();
    let bounds = ParseContext {
        zone: Berlin,
        tools: Some(&own),
        names: &names,
        mails_answers: true,
    };
    let text =
        |tool: &str| format!("---\nname: A\nevery: 1h\ntools:\n- read_file\n- {tool}\n---\nGo.");
    let error = file::parse(text("send_email").as_bytes(), &bounds).expect_err("not its tool");
    assert_eq!(
        (error.line, error.problem.as_str()),
        (
            6,
            "`tools`: its persona may not use `send_email`; there are: read_file"
        )
    );
    assert!(read(text("send_email").as_bytes()).is_ok());
}

#[test]
fn yaml_that_means_something_else_is_refused_with_what_to_write() {
    refused(&[
        (
            "name: A\nschedule: * * * * *",
            3,
            "write `schedule: \"* * * * *\"`",
        ),
        (
            "name: A\nschedule: */5 * * * * # often",
            3,
            "write `schedule: \"*/5 * * * *\"`",
        ),
        ("name: A\nschedule: @daily", 3, "cannot begin with `@`"),
        (
            "name: `A`\nschedule: 0 9 * * *",
            2,
            "cannot begin with a backtick",
        ),
        (
            "name: &a A\nschedule: 0 9 * * *",
            2,
            "cannot begin with `&`",
        ),
        ("name: !!str A", 2, "cannot begin with `!`"),
        (
            "name: A: B\nschedule: 0 9 * * *",
            2,
            "needs quotes: `name: \"A: B\"`",
        ),
        ("name:A", 2, "a space after the colon"),
        ("name: A\nschedule:0 9 * * *", 3, "a space after the colon"),
        ("just words", 2, "expected lines `key: value`"),
        ("- name: A", 2, "expected lines `key: value`"),
        ("name: A\n\tgrace: 1h", 3, "indent with spaces"),
        ("name: \"A", 2, "a quote or bracket is not closed"),
        ("tools: [&x read_file, *x]", 2, "anchors"),
        ("tools: [!t read_file]", 2, "tags"),
        ("<<: {name: A}", 2, "unknown key `<<`"),
        ("? [a]\n: b", 2, "a key is one word"),
        ("name: A\n...\nname: B", 4, ""),
        ("tools: [[[[read_file]]]]", 2, "nested too deeply"),
        ("deliver_to: {mail: {a: {b: c}}}", 2, "nested too deeply"),
    ]);
}

#[test]
fn hostile_files_cost_little_and_say_what_is_wrong() {
    let begun = std::time::Instant::now();
    let laughs: String = (1..9)
        .map(|n| {
            format!(
                "a{n}: &a{n} [{}]\n",
                vec![format!("*a{}", n - 1); 9].join(", ")
            )
        })
        .collect();
    let deep = format!("tools: {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let maps = format!("deliver_to: {}", "{a: ".repeat(10_000));
    let dashes = "- ".repeat(30_000);
    let keys: String = (0..5_000).map(|n| format!("k{n}: 1\n")).collect();
    let long_key = format!("{}: 1", "k".repeat(60_000));
    let spaces = format!("name: A{}\nschedule: 0 9 * * *\nx: 1", " ".repeat(60_000));
    let quotes = format!("name: \"{}", "\\\"".repeat(30_000));
    let block = format!("name: |\n{}", "  x\n".repeat(15_000));
    let question = "? ".repeat(30_000);
    let control = "name: a\u{1}b\nschedule: 0 9 * * *";
    let wide = format!("tools: [{}]", vec!["send_email"; 5_000].join(","));
    for hostile in [
        &*laughs, &deep, &maps, &dashes, &keys, &long_key, &spaces, &quotes, &block, &question,
        control, &wide,
    ] {
        let error = front(hostile).expect_err("a hostile file");
        assert!(error.problem.len() < 600, "{:.600}", error.problem);
        assert!(
            !error.problem.contains(char::is_control),
            "{:?}",
            error.problem
        );
    }
    for bytes in [
        &b""[..],
        b"---",
        b"---\n",
        b"---\n---",
        b"---\nname: A\n",
        b"\xff\xfe---",
        b"---\n\xff\n---\nx",
        b"\0\0\0",
    ] {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
    let large = vec![b' '; file::FILE_BYTES_MAX + 1];
    assert!(read(&large).is_err_and(|error| error.problem.contains("larger")));
    // Seconds in a debug build; without bounds it would be hours, or the end of the memory.
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
#[ignore = "second tier"]
fn whatever_is_typed_ends_in_a_duty_or_in_one_line_about_a_line() {
    let whole = "---\nname: \"Digest\"\nschedule: '0 9 * * *'\ntimezone: Europe/Berlin # here\nenabled: true\ntools: [send_email]\n\
                 deliver_to:\n  mail:\n    - ann@example.test\nbudget: >-\n  0.25\njitter: 5m\n---\n\
                 It is {{ now }}: {% for l in inbox(since=\"1d\") %}{{ l.subject }}{% endfor %}\n";
    assert!(read(whole.as_bytes()).is_ok());
    let pieces = [
        "\n", ": ", "- ", "---\n", "\t", "  ", "{", "}", "[", "]", "\"", "'", "|\n", ">\n", "&a ",
        "*a ", "!!str ", "? ", "#", ",", "%", "@", "\\", "\u{feff}", "é", "\0", "\r", "...\n",
        "<<", "{{", "}}", "{%", "%}", "inbox(", ")", "~", "\u{2028}",
    ];
    let mut dice = Dice(20_261_124);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..4_000 {
        let mut text: Vec<char> = whole.chars().collect();
        for _ in 0..=dice.value(0, 3) {
            let at = dice.value(0, text.len() as u64 - 1) as usize;
            let cut = dice.value(0, 5) as usize;
            let piece = pieces[dice.value(0, pieces.len() as u64 - 1) as usize];
            let piece = if dice.value(0, 3) == 0 { "" } else { piece };
            text.splice(at..(at + cut).min(text.len()), piece.chars());
        }
        let text: String = text.into_iter().collect();
        match read(text.as_bytes()) {
            Ok(_) => taken += 1,
            Err(FileError { line, problem }) => {
                refused += 1;
                assert!(
                    (1..=text.lines().count().max(1)).contains(&line),
                    "line {line} of {text}"
                );
                assert!(
                    !problem.is_empty() && !problem.contains(char::is_control),
                    "{problem:?} of {text}"
                );
            }
        }
    }
    assert!(
        taken > 50 && refused > 50,
        "{taken} taken, {refused} refused"
    );
}
