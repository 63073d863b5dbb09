//! The history normaliser: any history in, one that the strictest vendor accepts out.

use super::images::image;
use super::{request, tool};
use attache::domain::ErrorClass;
use attache::providers::contract::normalise;
use attache::providers::{Block, Message, ProviderState, Role, ToolArgs, ToolChoice};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::collections::HashSet;

fn call(id: &str) -> Block {
    let args = ToolArgs::Object(Map::new());
    Block::ToolCall {
        id: id.into(),
        name: "look".into(),
        args,
        provider_state: None,
    }
}
fn result(id: &str, content: &str) -> Block {
    Block::ToolResult {
        call_id: id.into(),
        name: "look".into(),
        content: content.into(),
        is_error: false,
    }
}
fn thinking(family: &str) -> Block {
    thinking_of(family, "")
}
/// Reasoning as `family`'s adapter would have made it with `model`.
fn thinking_of(family: &str, model: &str) -> Block {
    let state = match family {
        "openrouter" => json!([{"type": "reasoning.text", "text": "hm"}]),
        _ => json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
    };
    let state = ProviderState {
        family: family.into(),
        model: model.into(),
        state,
    };
    Block::Thinking {
        text: "hm".into(),
        provider_state: Some(state),
    }
}
fn user(blocks: Vec<Block>) -> Message {
    Message {
        role: Role::User,
        blocks,
    }
}
fn assistant(blocks: Vec<Block>) -> Message {
    Message {
        role: Role::Assistant,
        blocks,
    }
}
fn no_result(id: &str) -> Block {
    let content = r#"{"ok":false,"error":{"code":"no_result","message":"no result of this call was recorded"}}"#;
    Block::ToolResult {
        call_id: id.into(),
        name: "look".into(),
        content: content.into(),
        is_error: true,
    }
}
fn normal(messages: &[Message]) -> Vec<Message> {
    normalise::history(messages, "anthropic", "model-x")
}

fn call_fault(
    at: usize,
    (id, name): (&str, &str),
    args: &ToolArgs,
    seen_ids: &mut HashSet<String>,
) -> Option<String> {
    let legal = |text: &str, max: usize| {
        let ok = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        !text.is_empty() && text.len() <= max && text.chars().all(ok)
    };
    if !legal(id, 40) || !legal(name, 64) || !seen_ids.insert(id.to_owned()) {
        return Some(format!("call id `{id}` or name `{name}` in message {at}"));
    }
    if matches!(args, ToolArgs::Malformed { .. }) {
        return Some(format!("arguments in message {at} are not an object"));
    }
    None
}

fn end_fault(messages: &[Message], awaited: &[String]) -> Option<String> {
    if let Some(Message {
        role: Role::Assistant,
        blocks,
    }) = messages.last()
        && let Some(Block::Text { text }) = blocks.last()
        && text.ends_with(char::is_whitespace)
    {
        return Some("the last words end with white space".into());
    }
    (!awaited.is_empty()).then(|| format!("no answers to {awaited:?}"))
}

/// What Anthropic's and OpenAI's references ask of a history; written without looking at the normaliser.
fn fault(messages: &[Message]) -> Option<String> {
    let mut seen_ids = HashSet::new();
    let mut awaited: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let expected = [Role::User, Role::Assistant][at % 2];
        if message.role != expected {
            return Some(format!("message {at} is not by {expected:?}"));
        }
        if message.blocks.is_empty() {
            return Some(format!("message {at} is empty"));
        }
        let mut text_seen = false;
        let (mut answered, mut called) = (Vec::new(), Vec::new());
        for block in &message.blocks {
            match (message.role, block) {
                (_, Block::Text { text }) => {
                    if text.trim().is_empty() {
                        return Some(format!("message {at} has an empty text"));
                    }
                    text_seen = true;
                }
                (Role::User, Block::Image(_) | Block::FileReference(_)) => text_seen = true,
                (Role::Assistant, Block::ToolCall { id, name, args, .. }) => {
                    if let Some(fault) = call_fault(at, (id, name), args, &mut seen_ids) {
                        return Some(fault);
                    }
                    called.push(id.clone());
                }
                (
                    Role::User,
                    Block::ToolResult {
                        call_id, content, ..
                    },
                ) => {
                    if text_seen || content.is_empty() {
                        let why = "is empty or comes after text";
                        return Some(format!("a result in message {at} {why}"));
                    }
                    answered.push(call_id.clone());
                }
                (
                    Role::Assistant,
                    Block::Thinking {
                        provider_state: Some(state),
                        ..
                    },
                ) => {
                    if state.family != "anthropic" {
                        return Some(format!("foreign reasoning in message {at}"));
                    }
                }
                (role, other) => return Some(format!("{role:?} may not say {other:?}")),
            }
        }
        answered.sort();
        awaited.sort();
        if answered != awaited {
            let found = format!("{answered:?} instead of {awaited:?}");
            return Some(format!("message {at} answers {found}"));
        }
        if matches!(
            (message.role, message.blocks.last()),
            (Role::Assistant, Some(Block::Thinking { .. }))
        ) {
            return Some(format!("message {at} ends with reasoning"));
        }
        awaited = called;
    }
    end_fault(messages, &awaited)
}

fn any_block() -> impl Strategy<Value = Block> {
    // Who made a state, and with which model; for one of an answer that was not stored yet, nobody says.
    let family = || prop::sample::select(vec!["anthropic", "openai", "openrouter"]);
    let model = || prop::sample::select(vec!["", "model-x", "model-y"]);
    let id = || {
        prop_oneof![
            Just("a"),
            Just("b"),
            Just("c_1"),
            Just(""),
            Just("not legal!")
        ]
    };
    let text = prop_oneof![Just(""), Just(" \n"), Just("hello"), Just("bye \n")];
    prop_oneof![
        text.clone().prop_map(Block::text),
        any::<bool>().prop_map(|has_bytes| Block::Image(image(has_bytes))),
        Just(Block::FileReference(image(false).file)),
        (family(), model()).prop_map(|(family, model)| thinking_of(family, model)),
        Just(Block::Thinking {
            text: "unsigned".into(),
            provider_state: None
        }),
        (id(), any::<bool>()).prop_map(|(id, sound)| {
            let malformed = || ToolArgs::Malformed {
                raw: "{".into(),
                error: "cut".into(),
            };
            let args = if sound {
                ToolArgs::Object(Map::new())
            } else {
                malformed()
            };
            let name = if sound {
                "look".into()
            } else {
                "no such.tool?".into()
            };
            Block::ToolCall {
                id: id.into(),
                name,
                args,
                provider_state: None,
            }
        }),
        (id(), family(), model()).prop_map(|(id, family, model)| {
            let Block::Thinking { provider_state, .. } = thinking_of(family, model) else {
                return call(id);
            };
            let (name, args) = ("look".into(), ToolArgs::Object(Map::new()));
            Block::ToolCall {
                id: id.into(),
                name,
                args,
                provider_state,
            }
        }),
        (id(), text).prop_map(|(id, content)| result(id, content)),
    ]
}

pub fn any_history() -> impl Strategy<Value = Vec<Message>> {
    let message =
        (any::<bool>(), prop::collection::vec(any_block(), 0..5)).prop_map(|(by_user, blocks)| {
            Message {
                role: if by_user { Role::User } else { Role::Assistant },
                blocks,
            }
        });
    prop::collection::vec(message, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "second tier"]
    fn any_history_becomes_valid_and_stays_so_when_normalised_again(history in any_history()) {
        let once = normal(&history);
        prop_assert_eq!(fault(&once), None);
        prop_assert_eq!(normal(&once), once);
    }

    #[test]
    #[ignore = "second tier"]
    fn no_state_of_another_family_or_model_survives_every_own_does(
        history in any_history(),
        family in prop::sample::select(vec!["anthropic", "openrouter", "gemini"]),
    ) {
        let own = |state: &&ProviderState| {
            state.family == family && (state.model.is_empty() || state.model == "model-x")
        };
        let states = |messages: &[Message]| -> Vec<ProviderState> {
            let assistants = messages.iter().filter(|message| message.role == Role::Assistant);
            let state = |block: &Block| match block {
                Block::Thinking { provider_state, .. } | Block::ToolCall { provider_state, .. } => provider_state.clone(),
                _ => None,
            };
            assistants.flat_map(|message| &message.blocks).filter_map(state).collect()
        };
        let out = normalise::history(&history, family, "model-x");
        prop_assert!(states(&out).iter().all(|state| own(&state)), "{:?}", states(&out));
        // Reasoning at the very end of a message goes, a call's state never does.
        let calls = |messages: &[Message]| {
            let blocks = messages.iter().filter(|message| message.role == Role::Assistant).flat_map(|m| m.blocks.clone());
            let is_own = |block: &Block| matches!(block, Block::ToolCall { provider_state: Some(state), .. } if own(&state));
            blocks.filter(is_own).count()
        };
        prop_assert_eq!(calls(&out), calls(&history));
    }

    #[test]
    #[ignore = "second tier"]
    fn no_word_is_lost(history in any_history()) {
        let words = |messages: &[Message]| -> Vec<String> {
            let blocks = messages.iter().flat_map(|m| &m.blocks);
            let texts = blocks.filter_map(|b| match b { Block::Text { text } => Some(text.trim().to_owned()), _ => None });
            texts.filter(|text| !text.is_empty() && !text.starts_with("(This conversation begins")).collect()
        };
        prop_assert_eq!(words(&normal(&history)), words(&history));
    }
}

#[test]
fn a_sound_history_passes_unchanged() {
    let history = vec![
        Message::user("hi"),
        assistant(vec![
            thinking("anthropic"),
            Block::text("let me see"),
            call("a"),
            call("b"),
        ]),
        user(vec![result("a", "1"), result("b", "2")]),
        Message::assistant("done"),
        Message::user("thanks"),
    ];
    assert_eq!(fault(&history), None);
    assert_eq!(normal(&history), history);
}

#[test]
fn neighbours_of_one_role_merge_and_empty_text_goes() {
    let history = vec![
        Message::user("a"),
        Message::user(" "),
        Message::user("b"),
        Message::assistant("c"),
    ];
    let merged = user(vec![Block::text("a"), Block::text("b")]);
    assert_eq!(normal(&history), vec![merged, Message::assistant("c")]);
}

#[test]
fn orphans_are_answered_and_strays_are_dropped() {
    let history = vec![
        user(vec![result("never", "x"), Block::text("hi")]),
        assistant(vec![call("a"), call("b")]),
        user(vec![
            Block::text("and?"),
            result("b", "2"),
            result("b", "again"),
        ]),
    ];
    let expected = vec![
        Message::user("hi"),
        assistant(vec![call("a"), call("b")]),
        user(vec![no_result("a"), result("b", "2"), Block::text("and?")]),
    ];
    assert_eq!(normal(&history), expected);
}

#[test]
fn a_late_result_moves_to_its_call_and_a_repeated_id_is_renamed() {
    let history = vec![
        Message::user("hi"),
        assistant(vec![call("a")]),
        Message::assistant("still waiting"),
        user(vec![result("a", "1")]),
        assistant(vec![call("a")]),
        user(vec![result("a", "2")]),
    ];
    let expected = vec![
        Message::user("hi"),
        assistant(vec![call("a")]),
        user(vec![result("a", "1")]),
        assistant(vec![Block::text("still waiting"), call("c_1")]),
        user(vec![result("c_1", "2")]),
    ];
    assert_eq!(normal(&history), expected);
}

#[test]
fn a_persona_that_spoke_first_is_introduced() {
    let out = normal(&[Message::assistant("Good morning"), Message::user("hello")]);
    assert_eq!(out.len(), 3);
    assert_eq!(out[0].role, Role::User);
    assert_eq!(
        out[1..],
        [Message::assistant("Good morning"), Message::user("hello")]
    );
}

#[test]
fn reasoning_of_another_family_is_not_sent_on() {
    let history = vec![
        Message::user("hi"),
        assistant(vec![
            thinking("openai"),
            thinking("anthropic"),
            Block::text("x"),
        ]),
    ];
    let expected = vec![
        Message::user("hi"),
        assistant(vec![thinking("anthropic"), Block::text("x")]),
    ];
    assert_eq!(normal(&history), expected);
}

#[test]
fn a_request_that_vendors_would_refuse_is_refused_here() {
    let refused = |request| normalise::request(&request, "anthropic").map_err(|e| e.class);
    let mut silent = request(" ");
    assert_eq!(refused(silent.clone()), Err(ErrorClass::BadRequest));
    silent.messages = vec![Message::user("hi")];
    silent.tools = vec![tool("email.send")];
    assert_eq!(refused(silent.clone()), Err(ErrorClass::BadRequest));
    silent.tools[0] = tool("fine");
    silent.tools[0].input_schema = json!("not a schema").into();
    assert_eq!(refused(silent), Err(ErrorClass::BadRequest));
}

#[test]
fn tools_that_are_gone_but_were_called_are_declared_and_closed() {
    let mut gone = request("hi");
    gone.tools = vec![];
    gone.system.push("  ".into());
    gone.messages.push(assistant(vec![call("a")]));
    gone.messages.push(user(vec![result("a", "1")]));
    let ready = normalise::request(&gone, "anthropic").expect("it is mended");
    let names: Vec<_> = ready.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        (names, ready.tool_choice, ready.system.len()),
        (vec!["look"], ToolChoice::None, 2)
    );
}
