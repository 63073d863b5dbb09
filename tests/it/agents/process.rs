//! Programs that hang, flood, die and leave children: the right class, in bounded time, and nothing is left.

use super::{CLAUDE_ANSWERS, CLAUDE_BEGINS, Fake, context, processes};
use attache::domain::ErrorClass;
use attache::providers::child::process::Output;
use attache::providers::child::program::Program;
use attache::providers::transport::lines::OutputLimits;
use attache::providers::{CallContext, Phase, build};
use futures_util::StreamExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

fn script(parts: &[&str]) -> Fake {
    Fake::new(&parts.join("\n"))
}

/// Says where its bytes went, then answers.
fn curious() -> Fake {
    script(&[
        "tr '\\0' '\\n' < /proc/$$/environ > $OUT/environ",
        "tr '\\0' '\\n' < /proc/$$/cmdline > $OUT/cmdline",
        "ls -l /proc/$$/fd > $OUT/descriptors",
        "pwd > $OUT/folder",
        CLAUDE_BEGINS,
        "printf '%s\\n%s\\n' \"$initialize\" \"$user\" > $OUT/stdin",
        CLAUDE_ANSWERS,
    ])
}

#[tokio::test]
async fn an_agent_sees_the_allow_list_and_nothing_else() {
    let fake = curious();
    let own = fake.path("own");
    let _open = std::fs::File::create(&own).expect("a file of this process");
    fake.ask("claude", context()).await.expect("it answers");
    let environ = fake.text("environ");
    let mut names: Vec<_> = environ
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    let expected = [
        "ATTACHE_AGENT_GROUP",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
        "CLAUDE_CODE_DISABLE_CRON",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "FAKE",
        "OUT",
        "PATH",
    ];
    assert_eq!(names, expected);
    let of_this_process = |name: String| !expected.contains(&name.as_str());
    assert!(
        std::env::vars().any(|(name, _)| of_this_process(name)),
        "the control: there is more to see"
    );
    let opened = fake.text("descriptors");
    let opened: Vec<_> = opened
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(_, to)| to)
        .collect();
    assert!(opened.len() >= 3, "{opened:?}");
    let own = own.display().to_string();
    assert!(
        !opened.contains(&own.as_str()),
        "a file that this process has open came through"
    );
    assert_eq!(
        fake.text("folder").trim(),
        fake.path("work/workspace").display().to_string()
    );
    fake.assert_gone().await;
}

#[tokio::test]
async fn the_prompt_and_instructions_come_over_standard_input_alone() {
    let fake = curious();
    fake.ask("claude", context()).await.expect("it answers");
    let (arguments, stdin) = (fake.text("cmdline"), fake.text("stdin"));
    assert!(
        stdin.contains("Hello?") && stdin.contains("You are Ada."),
        "{stdin}"
    );
    assert!(
        !arguments.contains("Hello?") && !arguments.contains("You are Ada."),
        "{arguments}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_hangs_is_ended_by_whichever_bound_comes_first() {
    // Long enough that a busy machine has started the script by then.
    let short = Duration::from_secs(2);
    // The second one does not mind being asked to end.
    for stubborn in ["", "trap '' TERM INT"] {
        let fake = script(&[
            stubborn,
            CLAUDE_BEGINS,
            "touch $OUT/hanging",
            "while :; do sleep 1000; done",
        ]);
        for context in [
            CallContext {
                idle: short,
                ..context()
            },
            CallContext {
                deadline: short,
                ..context()
            },
        ] {
            let begun = Instant::now();
            let error = fake.ask("claude", context).await.expect_err("it hangs");
            assert_eq!(error.class, ErrorClass::Timeout, "{error}");
            assert!(begun.elapsed() < Duration::from_secs(10));
            fake.assert_gone().await;
        }
        let cancel = CancellationToken::new();
        let context = CallContext {
            cancel: cancel.clone(),
            ..context()
        };
        let hanging = fake.path("hanging");
        std::fs::remove_file(&hanging).expect("it was hanging");
        let cancelling = cancel_when_there(&cancel, &hanging);
        let (answer, ()) = tokio::join!(fake.ask("claude", context), cancelling);
        assert_eq!(
            answer.expect_err("it was cancelled").class,
            ErrorClass::Cancelled
        );
        fake.assert_gone().await;
    }
}

#[tokio::test]
async fn an_agent_is_asked_before_it_is_killed() {
    // The grace period is longer than any machine needs: the agent ends because it is asked.
    let fake = Fake {
        grace: Duration::from_secs(30),
        ..script(&[
            "trap 'echo asked > $OUT/asked' TERM",
            CLAUDE_BEGINS,
            // Reads to the end of its input, whatever it is asked meanwhile.
            "(trap '' TERM; touch $OUT/reading; cat > $OUT/words)",
            // Its input may end before the signal comes.
            "while [ ! -e $OUT/asked ]; do :; done",
        ])
    };
    let cancel = CancellationToken::new();
    let context = CallContext {
        cancel: cancel.clone(),
        ..context()
    };
    let reading = fake.path("reading");
    let cancelling = cancel_when_there(&cancel, &reading);
    let (answer, ()) = tokio::join!(fake.ask("claude", context), cancelling);
    assert_eq!(
        answer.expect_err("it was cancelled").class,
        ErrorClass::Cancelled
    );
    assert_eq!(fake.text("asked"), "asked\n");
    assert!(
        fake.text("words").contains("interrupt"),
        "{}",
        fake.text("words")
    );
    fake.assert_gone().await;
}

/// Cancels a call as soon as its script has made this file.
async fn cancel_when_there(cancel: &CancellationToken, file: &Path) {
    while !file.exists() {
        crate::app::glance().await;
    }
    cancel.cancel();
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_child_that_keeps_the_pipe_holds_nobody_up_and_dies() {
    // The second one leaves the group, as the tools of some agents do.
    for child in [
        "sleep 1000 &",
        "setsid sleep 1000 &",
        "(trap '' TERM HUP; while :; do sleep 1000; done) &",
    ] {
        let fake = script(&[CLAUDE_BEGINS, child, CLAUDE_ANSWERS]);
        let begun = Instant::now();
        let response = fake.ask("claude", context()).await.expect("it answers");
        assert_eq!(response.text(), "Good morning.");
        assert!(begun.elapsed() < Duration::from_secs(10), "{child}");
        fake.assert_gone().await;
    }
}

#[tokio::test]
async fn an_agent_that_answers_and_stays_is_sent_away() {
    let fake = script(&[
        CLAUDE_BEGINS,
        CLAUDE_ANSWERS,
        "trap '' TERM; while :; do sleep 1000; done",
    ]);
    assert_eq!(
        fake.ask("claude", context())
            .await
            .expect("it answers")
            .text(),
        "Good morning."
    );
    fake.assert_gone().await;
}

#[tokio::test]
async fn an_agent_that_dies_in_the_middle_has_not_answered() {
    let half = "printf '{\"type\":\"result\",\"subtype\":\"succ'";
    let cases = [
        ("kill -9 $$", ErrorClass::Protocol),
        ("exit 0", ErrorClass::Protocol),
    ];
    for (end, class) in cases {
        let fake = script(&[CLAUDE_BEGINS, half, end]);
        assert_eq!(
            fake.ask("claude", context())
                .await
                .expect_err("half a line")
                .class,
            class,
            "{end}"
        );
        fake.assert_gone().await;
    }
    let cases = [
        ("kill -9 $$", ErrorClass::Transient),
        ("exit 0", ErrorClass::Protocol),
        (
            "echo 'Invalid API key · Please run /login' >&2; exit 1",
            ErrorClass::Auth,
        ),
        (
            "echo 'No conversation found with session ID: s-1' >&2; exit 1",
            ErrorClass::SessionMissing,
        ),
        (
            "echo 'Error: Session ID s-1 is already in use.' >&2; exit 1",
            ErrorClass::SessionBusy,
        ),
    ];
    for (end, class) in cases {
        let fake = script(&[CLAUDE_BEGINS, end]);
        let error = fake.ask("claude", context()).await.expect_err("no result");
        assert_eq!(
            (error.class, error.phase),
            (class, Phase::MidStream),
            "{end}: {error}"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn too_much_of_anything_is_an_error_too_many_complaints_are_not() {
    let zeros = |count: u32, to: &str| format!("head -c {count} /dev/zero | tr '\\0' 'x' {to}");
    let fake = script(&[CLAUDE_BEGINS, &zeros(20 << 20, ""), CLAUDE_ANSWERS]);
    let error = fake
        .ask("claude", context())
        .await
        .expect_err("a line of 20 MiB");
    assert_eq!(error.class, ErrorClass::Protocol);
    assert!(error.message.contains("16777216"), "{error}");
    fake.assert_gone().await;

    let fake = script(&[CLAUDE_BEGINS, &zeros(20 << 20, ">&2"), CLAUDE_ANSWERS]);
    assert_eq!(
        fake.ask("claude", context())
            .await
            .expect("it answers")
            .text(),
        "Good morning."
    );
    fake.assert_gone().await;

    let fake = script(&["while :; do echo '{\"type\":\"noise\"}'; done"]);
    let mut program = Program::find(&fake.settings(), "fake", "nothing").expect("it is there");
    program.limits = OutputLimits {
        total_bytes_max: 1_000_000,
        ..OutputLimits::default()
    };
    let mut process = program.start(&[], &fake.path("work")).expect("it starts");
    let error = loop {
        match process.next().await {
            Ok(Output::Line(_)) => {}
            Ok(Output::End(ending)) => panic!("it ended by itself: {ending}"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, ErrorClass::Protocol);
    drop(process);
    fake.assert_gone().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_agent_that_never_reads_may_still_answer() {
    let begins = CLAUDE_BEGINS
        .replace("IFS= read -r user", "")
        .replace("read -r initialize", "");
    let fake = script(&[&begins, CLAUDE_ANSWERS]);
    let request = fake.request(&"long ".repeat(200_000));
    let (_, answer) = fake.events("claude", &request, context()).await;
    assert_eq!(answer.expect("it answers").text(), "Good morning.");
    // The other way round: as much as is written, all of it is read while it writes.
    let fake = script(&[
        CLAUDE_BEGINS,
        "printf '%s' \"$user\" | wc -c > $OUT/count",
        CLAUDE_ANSWERS,
    ]);
    let (_, answer) = fake.events("claude", &request, context()).await;
    assert!(answer.is_ok());
    assert!(
        fake.text("count")
            .trim()
            .parse::<usize>()
            .expect("a number")
            > 1_000_000
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn dropping_the_stream_kills_everything() {
    let fake = script(&[
        "setsid sleep 1000 &",
        "trap '' TERM",
        CLAUDE_BEGINS,
        "while :; do sleep 1000; done",
    ]);
    let agent = fake.agent("claude");
    let wire = agent
        .encode_request(&fake.request("Hello?"))
        .expect("sound");
    let mut stream = agent.stream(&wire, context());
    stream.next().await.expect("it begins").expect("and well");
    let mark = format!("FAKE={}", fake.path("script").display());
    assert!(
        processes(&fake.text("group"), &mark).len() >= 3,
        "the control: there is something to kill"
    );
    drop(stream);
    fake.assert_gone().await;
}

#[tokio::test]
async fn a_missing_program_is_found_out_without_a_call() {
    let fake = Fake::new("");
    let mut settings = fake.settings();
    for binary in [
        Some("/nowhere/claude"),
        Some("no-such-agent"),
        Some("/etc/passwd"),
        Some("/tmp"),
    ] {
        settings.agent.binary = binary.map(str::to_owned);
        let error = build("claude", &settings).err().expect("it is not there");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::BinaryMissing, Phase::Config)
        );
        assert!(
            error
                .message
                .contains("npm install -g @anthropic-ai/claude-code"),
            "{error}"
        );
    }
    settings.agent.binary = Some("sh".into());
    assert!(
        build("claude", &settings).is_ok(),
        "found on PATH, and not started"
    );
    settings
        .agent
        .environment
        .retain(|(name, _)| name != "PATH");
    assert!(
        build("claude", &settings).is_err(),
        "only the PATH that the agent has counts"
    );
}

#[tokio::test]
async fn a_check_tells_path_and_version_and_waits_for_nobody() {
    let fake =
        Fake::new("case $1 in --version) echo noise >&2; echo '9.9.9 (Fake)';; *) exit 3;; esac");
    let health = fake
        .agent("claude")
        .check(context())
        .await
        .expect("it has a version");
    assert_eq!(health.version.as_deref(), Some("9.9.9 (Fake)"));
    assert!(
        health
            .endpoint
            .expect("a path")
            .ends_with("tests/fixtures/agents/fake")
    );
    let broken = Fake::new("echo 'cannot load' >&2; exit 7");
    let error = broken
        .agent("claude")
        .check(context())
        .await
        .expect_err("it fails");
    assert!(
        error.message.contains("exit code 7: cannot load"),
        "{error}"
    );
}
