//! One suite for the agents that speak lines: the same situations, each in the words of its program, one expectation; and
//! every fixture cut at every byte.

use super::{Fake, NOW};
use attache::config::Tier;
use attache::domain::{ErrorClass, Timestamp};
use attache::providers::agents::agent::{AgentDecoder, Invocation};
use attache::providers::agents::claude::lines::ClaudeDecoder;
use attache::providers::agents::codex::lines::CodexDecoder;
use attache::providers::agents::pi::lines::PiDecoder;
use attache::providers::child::process::Ending;
use attache::providers::contract::accumulate::Accumulator;
use attache::providers::transport::lines::{Lines, OutputLimits};
use attache::providers::{
    AgentSession, Event, FinishReason, Message, Phase, ProviderError, Request, Response,
    TokenUsage, build,
};
use serde_json::{Value, json};
use std::path::PathBuf;

const AGENTS: [&str; 3] = ["claude", "codex", "pi"];
const TEXT: &str = "Grüße, the nuthatch\u{2028} sleeps at ten.";

/// The dialogue of a fresh call, with the terms that `change` makes.
fn decoder(agent: &str, change: impl FnOnce(&mut Request)) -> Box<dyn AgentDecoder> {
    begin(agent, &invocation(agent, change))
}

fn invocation(agent: &str, change: impl FnOnce(&mut Request)) -> Invocation {
    let fake = Fake::new("");
    let mut request = fake.request("Hello?");
    let options = request.agent.as_mut().expect("terms");
    options.folder = "/work/ada".into();
    change(&mut request);
    let wire = fake.agent(agent).encode_request(&request).expect("sound");
    serde_json::from_str(&wire).expect("an invocation")
}

pub fn begin(agent: &str, invocation: &Invocation) -> Box<dyn AgentDecoder> {
    let now = Timestamp::from_millis(NOW);
    match agent {
        "claude" => Box::new(ClaudeDecoder::new(invocation, now)),
        "codex" => Box::new(CodexDecoder::new(invocation, now)),
        _ => Box::new(PiDecoder::new(invocation, now)),
    }
}

/// What comes of a program that wrote these bytes and ended well.
pub fn read(
    decoder: &mut dyn AgentDecoder,
    bytes: &[u8],
) -> Result<(Vec<Event>, Response), ProviderError> {
    let (mut lines, mut accumulator, mut events) = (
        Lines::new(OutputLimits::default()),
        Accumulator::default(),
        Vec::new(),
    );
    let mut take = |decoder: &mut dyn AgentDecoder, line: &str| -> Result<(), ProviderError> {
        for event in decoder.line(line)?.events {
            accumulator
                .push(event.clone())
                .expect("the order of events is kept");
            events.push(event);
        }
        Ok(())
    };
    lines.push(bytes)?;
    while let Some(line) = lines.take()? {
        take(decoder, &line)?;
    }
    if let Some(line) = lines.rest()? {
        take(decoder, &line)?;
    }
    for event in decoder.end(&Ending {
        code: Some(0),
        ..Ending::default()
    })? {
        accumulator
            .push(event)
            .expect("the order of events is kept");
    }
    let response = accumulator
        .finish()
        .expect("an end without an error is a whole answer");
    Ok((events, response))
}

fn fixture(agent: &str, case: &str) -> Option<Vec<u8>> {
    let path = format!("tests/fixtures/providers/{agent}/{case}.jsonl");
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

fn answer(agent: &str, case: &str) -> Result<(Vec<Event>, Response), ProviderError> {
    let bytes = fixture(agent, case).unwrap_or_else(|| panic!("no fixture {agent}/{case}"));
    read(&mut *decoder(agent, full), &bytes)
}

fn full(request: &mut Request) {
    request.agent.as_mut().expect("terms").tier = Tier::Full;
}

#[test]
fn the_same_situation_gives_the_same_answer_whoever_tells_it() {
    for agent in AGENTS {
        for case in ["text", "one_call", "comments_and_pings"] {
            let (events, response) =
                answer(agent, case).unwrap_or_else(|error| panic!("{agent} {case}: {error}"));
            assert_eq!(
                (response.text().as_str(), &response.stop),
                (TEXT, &FinishReason::EndTurn),
                "{agent} {case}"
            );
            assert!(
                events
                    .iter()
                    .any(|event| matches!(event, Event::Session(_))),
                "{agent} {case}"
            );
        }
        let (_, response) = answer(agent, "text").expect("it answers");
        let usage = TokenUsage {
            cost_micros: None,
            reasoning_tokens: 0,
            ..response.usage
        };
        let expected = TokenUsage {
            input_tokens: 11,
            cache_read_tokens: 100,
            cache_write_tokens: 20,
            output_tokens: 7,
            ..TokenUsage::default()
        };
        assert_eq!(usage, expected, "{agent}");
        let cost = build(agent, &Fake::new("").settings())
            .expect("built")
            .capabilities("m")
            .reports_cost;
        assert_eq!(
            response.usage.cost_micros,
            cost.then_some(12_300),
            "{agent}"
        );
    }
}

#[test]
fn a_call_of_an_agents_own_is_told_with_its_result() {
    for agent in AGENTS {
        let (events, _) = answer(agent, "one_call").expect("it answers");
        let calls: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::ObservedCall { id, name, .. } => Some((id.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        let results: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::ObservedResult {
                    id,
                    content,
                    is_error,
                } => Some((id.as_str(), content.trim(), *is_error)),
                _ => None,
            })
            .collect();
        assert_eq!(calls.len(), 1, "{agent}");
        assert_eq!(results, [(calls[0].0, "1 nuthatch", false)], "{agent}");
    }
    for agent in ["claude", "codex"] {
        let (events, _) = answer(agent, "three_calls").expect("it answers");
        let ours = |event: &&Event| matches!(event, Event::ObservedCall { name, .. } if name == "mcp__attache__send_email");
        assert_eq!(events.iter().filter(ours).count(), 1, "{agent}");
        let failed = |event: &&Event| matches!(event, Event::ObservedResult { is_error: true, .. });
        assert_eq!(events.iter().filter(failed).count(), 1, "{agent}");
    }
}

#[test]
fn an_end_that_is_no_answer_is_told_as_what_it_is() {
    for agent in AGENTS {
        let class = |case| answer(agent, case).expect_err(case).class;
        assert_eq!(class("mid_stream_error"), ErrorClass::Overloaded, "{agent}");
        assert_eq!(class("missing_terminal"), ErrorClass::Protocol, "{agent}");
    }
    // Codex says neither: it drops the words of a refusal, and calls a cut answer a lost connection.
    for agent in ["claude", "codex"] {
        assert_eq!(
            answer(agent, "refusal").expect("an end").1.stop,
            FinishReason::Refused,
            "{agent}"
        );
    }
    let cut = answer("codex", "truncation").expect_err("an error");
    assert_eq!(cut.class, ErrorClass::OutputLimit, "{cut}");
    for agent in ["claude", "pi"] {
        assert_eq!(
            answer(agent, "truncation").expect("an end").1.stop,
            FinishReason::MaxTokens,
            "{agent}"
        );
    }
}

#[test]
#[ignore = "second tier"]
fn a_program_broken_off_at_any_byte_failed_or_said_the_same() {
    let cases = [
        "text",
        "one_call",
        "three_calls",
        "refusal",
        "truncation",
        "mid_stream_error",
        "missing_terminal",
        "comments_and_pings",
    ];
    let mut seen = 0;
    for agent in AGENTS {
        let invocation = invocation(agent, full);
        for case in cases {
            let Some(bytes) = fixture(agent, case) else {
                continue;
            };
            seen += 1;
            let whole = read(&mut *begin(agent, &invocation), &bytes).ok();
            for end in 0..bytes.len() {
                if let Ok((_, response)) = read(&mut *begin(agent, &invocation), &bytes[..end]) {
                    let (_, whole) = whole
                        .as_ref()
                        .unwrap_or_else(|| panic!("{agent} {case} cut at {end} answers"));
                    assert_eq!(response, *whole, "{agent} {case} cut at {end}");
                }
            }
        }
    }
    assert_eq!(seen, 8 + 8 + 6);
}

#[test]
fn a_codex_thread_tells_its_sum_and_what_calls_add_is_counted() {
    let used = TokenUsage {
        input_tokens: 1,
        cache_read_tokens: 60,
        output_tokens: 5,
        ..TokenUsage::default()
    };
    let mut reading = decoder("codex", |request| {
        request.agent.as_mut().expect("terms").session = AgentSession::Resume {
            id: "t-1".into(),
            used: Some(used),
        };
    });
    let (_, response) = read(
        &mut *reading,
        &fixture("codex", "text").expect("it is there"),
    )
    .expect("it answers");
    let total = response.session_usage.expect("the sum");
    assert_eq!(
        (
            total.input_tokens,
            total.cache_read_tokens,
            total.output_tokens
        ),
        (11, 100, 7)
    );
    let added = response.usage;
    assert_eq!(
        (
            added.input_tokens,
            added.cache_read_tokens,
            added.output_tokens
        ),
        (10, 40, 2)
    );
}

#[test]
fn pi_that_looks_outside_its_folder_is_stopped() {
    let call = |path: &str| {
        let says = json!({"type": "message_start", "message": {"role": "assistant", "model": "m", "content": []}});
        let call = json!({"type": "tool_execution_start", "toolCallId": "t", "toolName": "read", "args": {"path": path}});
        let mut reading = decoder("pi", |_| {});
        reading.line(&says.to_string()).expect("it begins");
        reading
            .line(&call.to_string())
            .map(|_| ())
            .map_err(|error| error.class)
    };
    assert_eq!(call("notes/a.md"), Ok(()));
    assert_eq!(call("/work/ada/a.md"), Ok(()));
    for path in ["/etc/passwd", "../../bob/a.md", "~/.ssh/id"] {
        assert_eq!(call(path), Err(ErrorClass::DisallowedTool), "{path}");
    }
}

fn argv(agent: &str, change: impl FnOnce(&mut Request)) -> Vec<String> {
    let fake = Fake::new("");
    let mut request = fake.request("Hello?");
    change(&mut request);
    let wire = fake.agent(agent).encode_request(&request).expect("sound");
    let wire: Value = serde_json::from_str(&wire).expect("JSON");
    serde_json::from_value(wire["argv"].clone()).expect("words")
}

#[test]
fn codex_is_held_by_its_sandbox_and_its_values_are_toml() {
    for (tier, sandbox) in [
        (Tier::None, "read-only"),
        (Tier::ReadOnly, "read-only"),
        (Tier::Write, "workspace-write"),
        (Tier::Full, "danger-full-access"),
    ] {
        let argv = argv("codex", |request| {
            request.agent.as_mut().expect("terms").tier = tier;
        });
        assert!(argv.contains(&format!("--sandbox={sandbox}")), "{argv:?}");
        assert_eq!(
            argv.contains(&"--disable=shell_tool".to_owned()),
            tier == Tier::None
        );
        assert!(argv.contains(&"--config=approval_policy=\"never\"".to_owned()));
        assert_eq!(
            argv.last().map(String::as_str),
            Some("-"),
            "the prompt comes over standard input"
        );
    }
    let argv = argv("codex", |request| {
        let options = request.agent.as_mut().expect("terms");
        options.session = AgentSession::Resume {
            id: "t-1".into(),
            used: None,
        };
        let args = vec!["serve".into(), "a \"b\" \\ \u{7f}".into()];
        let server = attache::providers::ToolServer {
            name: "attache".into(),
            program: "/opt/at\"x".into(),
            args,
        };
        options.tool_server = Some(server);
    });
    assert_eq!(argv[argv.len() - 3..], ["resume", "t-1", "-"]);
    assert!(
        argv.contains(&r#"--config=mcp_servers.attache.command="/opt/at\"x""#.to_owned()),
        "{argv:?}"
    );
    assert!(
        argv.contains(
            &r#"--config=mcp_servers.attache.args=["serve","a \"b\" \\ \u007f"]"#.to_owned()
        ),
        "{argv:?}"
    );
}

#[test]
fn pi_has_the_tools_of_its_tier_and_nothing_of_the_owners() {
    let tools = |tier| {
        let argv = argv("pi", |request| {
            request.agent.as_mut().expect("terms").tier = tier;
        });
        for flag in [
            "--no-extensions",
            "--no-skills",
            "--no-context-files",
            "--offline",
        ] {
            assert!(argv.contains(&flag.to_owned()), "{argv:?}");
        }
        let at = argv.iter().position(|word| word == "--tools");
        at.map_or_else(
            || argv.contains(&"--no-tools".to_owned()).to_string(),
            |at| argv[at + 1].clone(),
        )
    };
    assert_eq!(tools(Tier::None), "true");
    assert_eq!(tools(Tier::ReadOnly), "read,grep,find,ls");
    assert_eq!(tools(Tier::Write), "read,grep,find,ls,edit,write");
    assert_eq!(tools(Tier::Full), "read,grep,find,ls,edit,write,bash");
}

#[test]
fn pi_tells_every_answer_of_its_model_with_what_it_cost() {
    let (events, response) = answer("pi", "one_call").expect("it answers");
    let rounds = events.iter().filter_map(|event| match event {
        Event::Round { usage, goes_on } => Some((*usage, *goes_on)),
        _ => None,
    });
    let rounds: Vec<_> = rounds.collect();
    assert_eq!(
        rounds
            .iter()
            .map(|(_, goes_on)| *goes_on)
            .collect::<Vec<_>>(),
        [true, false]
    );
    let sum = rounds
        .iter()
        .fold(TokenUsage::default(), |sum, (usage, _)| sum.plus(*usage));
    assert_eq!(sum, response.usage);
    assert!(sum.cost_micros.is_some());
}

#[test]
#[ignore = "second tier"]
fn a_prompt_that_is_too_long_for_an_agent_starts_no_program() {
    for agent in AGENTS {
        let fake = Fake::new("");
        let mut request = fake.request("Hello?");
        request.messages = vec![Message::user("x".repeat(33 * 1024 * 1024))];
        let error = fake
            .agent(agent)
            .encode_request(&request)
            .expect_err("too long");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::RequestTooLarge, Phase::BeforeSend),
            "{agent}"
        );
    }
}
