//! One suite for all adapters: the same ten situations, each in the words of its vendor, one expectation.
//!
//! The streams of the HTTP dialects are also cut and split at every byte.

use super::server::{Reply, Server};
use super::{adapter, context, fixture, request};
use attache::config::ProviderSettings;
use attache::domain::ErrorClass;
use attache::harness::providers::accumulate::Accumulator;
use attache::harness::providers::classify::Family;
use attache::harness::providers::decode::{self, Decoder, Framing};
use attache::harness::providers::{
    Block, Event, Phase, Provider, ProviderError, Response, Stop, ToolArgs, anthropic, build, gemini_parts,
    ollama_lines, openai_chunks,
};
use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use serde_json::{Value, json};

const CASES: &[&str] = &[
    "text",
    "one_call",
    "three_calls",
    "malformed_args",
    "refusal",
    "truncation",
    "mid_stream_error",
    "missing_terminal",
    "late_usage",
    "comments_and_pings",
];
const DIALECTS: &[&str] = &["anthropic", "openai", "gemini", "ollama"];

fn read(path: &str) -> String {
    std::fs::read_to_string(fixture(path)).expect(path)
}

/// What a dialect's server sends in a situation.
fn stream_of(dialect: &str, case: &str) -> String {
    let ending = if framing(dialect) == Framing::Lines { "ndjson" } else { "sse" };
    read(&format!("{dialect}/{case}.{ending}"))
}

fn framing(dialect: &str) -> Framing {
    if dialect == "ollama" { Framing::Lines } else { Framing::ServerSent }
}

/// What is expected of every dialect, except where a vendor has no word for it.
fn expectation(dialect: &str, case: &str) -> Value {
    let own = format!("expected/{case}.{dialect}.json");
    let path = if fixture(&own).exists() { own } else { format!("expected/{case}.json") };
    serde_json::from_str(&read(&path)).expect("JSON")
}

pub fn decoder(dialect: &str) -> Box<dyn Decoder> {
    match dialect {
        "anthropic" => Box::new(anthropic::StreamDecoder::new(None)),
        "gemini" => Box::new(gemini_parts::PartsDecoder::new(None, 0)),
        "ollama" => Box::new(ollama_lines::LineDecoder::new(None, 0, 16_384)),
        _ => Box::new(openai_chunks::ChunkDecoder::new(None, Family::OpenAi, true)),
    }
}

/// Folds a stream and checks that the deltas and the final blocks tell the same.
async fn fold(
    mut events: stream::BoxStream<'_, Result<Event, ProviderError>>,
) -> Result<Response, ProviderError> {
    let mut accumulator = Accumulator::default();
    let (mut text, mut calls) = (String::new(), Vec::new());
    while let Some(event) = events.next().await {
        let event = event?;
        match &event {
            Event::TextDelta(piece) => text.push_str(piece),
            Event::ToolCall { id, name, args } => calls.push((id.clone(), name.clone(), args.clone())),
            _ => {}
        }
        accumulator.push(event).expect("the order of events is kept");
    }
    let response = accumulator.finish().expect("a stream without an error ends with its terminal event");
    assert!(events.next().await.is_none(), "nothing comes after the end");
    assert_eq!(text, response.text());
    let own = response.calls().map(|(id, name, args)| (id.to_owned(), name.to_owned(), args.clone()));
    assert_eq!(calls, own.collect::<Vec<_>>());
    Ok(response)
}

pub async fn decode_pieces(decoder: Box<dyn Decoder>, pieces: Vec<&[u8]>) -> Result<Response, ProviderError> {
    decode_framed(Framing::ServerSent, decoder, pieces).await
}

pub async fn decode_framed(
    framing: Framing,
    decoder: Box<dyn Decoder>,
    pieces: Vec<&[u8]>,
) -> Result<Response, ProviderError> {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Ok(piece.to_vec())).collect();
    fold(decode::events(stream::iter(pieces).boxed(), framing, decoder)).await
}

async fn decoded(dialect: &str, pieces: Vec<&[u8]>) -> Result<Response, ProviderError> {
    decode_framed(framing(dialect), decoder(dialect), pieces).await
}

fn as_expected(outcome: &Result<Response, ProviderError>, with_usage: bool) -> Value {
    let response = match outcome {
        Err(error) => {
            assert_eq!(error.phase, Phase::MidStream);
            return json!({"error": error.class.as_str()});
        }
        Ok(response) => response,
    };
    let call = |(_, name, args): (&str, &str, &ToolArgs)| match args {
        ToolArgs::Object(map) => json!([name, map]),
        ToolArgs::Malformed { raw, .. } => json!([name, raw]),
    };
    let calls: Vec<Value> = response.calls().map(call).collect();
    let stop = serde_json::to_value(&response.stop).expect("a stop is JSON");
    let mut value = json!({"text": response.text(), "calls": calls, "stop": stop});
    if with_usage {
        value["output_tokens"] = json!(response.usage.output_tokens);
    }
    value
}

async fn ask(provider: &dyn Provider) -> Result<Response, ProviderError> {
    let wire = provider.wire_request(&request("hello"))?;
    fold(provider.stream(&wire, context())).await
}

#[tokio::test]
async fn every_adapter_tells_the_same_story_in_every_situation() {
    for case in CASES {
        for dialect in DIALECTS {
            let expected = expectation(dialect, case);
            let with_usage = expected.get("output_tokens").is_some();
            let body = stream_of(dialect, case);
            let reply = match framing(dialect) {
                Framing::Lines => Reply::lines(&body),
                _ => Reply::stream(&body),
            };
            let server = Server::start(vec![reply]).await;
            let outcome = ask(&*adapter(dialect, &server.url)).await;
            assert_eq!(as_expected(&outcome, with_usage), expected, "{dialect} {case}");
            if let Ok(response) = outcome {
                assert_eq!(response.model_served, "model-x-1");
                assert_eq!(response.provider_request_id.as_deref(), Some("req-7"));
            }
        }
        let expected = expectation("scripted", case);
        let with_usage = expected.get("output_tokens").is_some();
        let script = Some(fixture(&format!("scripted/{case}.json")));
        let scripted = build("scripted", &ProviderSettings { script, ..Default::default() }).expect("sound");
        assert_eq!(as_expected(&ask(&*scripted).await, with_usage), expected, "scripted {case}");
    }
}

#[tokio::test]
async fn a_stream_split_anywhere_means_the_same() {
    for (dialect, case) in DIALECTS.iter().flat_map(|d| CASES.iter().map(move |c| (d, c))) {
        let bytes = stream_of(dialect, case).into_bytes();
        let whole = decoded(dialect, vec![&bytes]).await;
        for at in 0..=bytes.len() {
            let split = decoded(dialect, vec![&bytes[..at], &bytes[at..]]).await;
            assert_eq!(split, whole, "{dialect} {case} split at {at}");
        }
        assert_eq!(decoded(dialect, bytes.chunks(1).collect()).await, whole, "{dialect} {case}");
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_is_never_a_silent_success() {
    for (dialect, case) in DIALECTS.iter().flat_map(|d| CASES.iter().map(move |c| (d, c))) {
        let bytes = stream_of(dialect, case).into_bytes();
        let whole = decoded(dialect, vec![&bytes]).await;
        let mut failures = 0;
        for at in 0..bytes.len() {
            match decoded(dialect, vec![&bytes[..at]]).await {
                Ok(response) => assert_eq!(Ok(response), whole, "{dialect} {case} cut at {at}"),
                Err(error) => {
                    failures += 1;
                    let class_is_right = matches!(error.class, ErrorClass::Transient | ErrorClass::Protocol);
                    assert!(
                        class_is_right || Err(&error) == whole.as_ref(),
                        "{dialect} {case} cut at {at}: {error:?}"
                    );
                    assert_eq!(error.phase, Phase::MidStream, "{dialect} {case} cut at {at}");
                }
            }
        }
        // All but the end marker has to be there.
        assert!(
            failures > bytes.len() - 40,
            "{dialect} {case}: only {failures} of {} cuts failed",
            bytes.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_stream_is_an_answer_or_an_error_and_never_a_panic(
        (dialect, case) in (prop::sample::select(DIALECTS), prop::sample::select(CASES)),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = stream_of(dialect, case).into_bytes();
        for (place, byte) in damage {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        if let Err(error) = runtime.block_on(decoded(dialect, vec![&bytes])) {
            prop_assert_eq!(error.phase, Phase::MidStream);
        }
    }
}

#[tokio::test]
async fn usage_is_counted_the_same_way_whoever_reports_it() {
    let anthropic = decoded("anthropic", vec![read("anthropic/text.sse").as_bytes()]).await;
    let usage = anthropic.expect("sound").usage;
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens), (25, 60, 10));
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (12, 0));
    let openai = decoded("openai", vec![read("openai/text.sse").as_bytes()]).await;
    let usage = openai.expect("sound").usage;
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens), (35, 60, 0));
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (12, 5));
    let gemini = decoded("gemini", vec![stream_of("gemini", "text").as_bytes()]).await;
    let usage = gemini.expect("sound").usage;
    assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens), (35, 60, 0));
    assert_eq!((usage.output_tokens, usage.reasoning_tokens), (12, 5));
    let ollama = decoded("ollama", vec![stream_of("ollama", "text").as_bytes()]).await;
    let usage = ollama.expect("sound").usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (95, 12, false));
}

#[tokio::test]
async fn signed_reasoning_goes_back_as_it_came() {
    let bytes = read("anthropic/thinking.sse");
    let response = decoded("anthropic", vec![bytes.as_bytes()]).await.expect("sound");
    assert_eq!(response.stop, Stop::ToolUse);
    assert_eq!(response.text(), "Done.");
    assert!(matches!(&response.blocks[0], Block::Thinking { text, .. } if text == "Let me think."));
    let mut again = request("hi");
    again.messages.push(attache::harness::providers::Message {
        role: attache::harness::providers::Role::Assistant,
        blocks: response.blocks,
    });
    let wire = adapter("anthropic", "http://127.0.0.1:9").wire_request(&again).expect("sound");
    let wire: Value = serde_json::from_str(&wire).expect("JSON");
    let content = &wire["messages"][1]["content"];
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"}));
    assert_eq!(content[1], json!({"type": "redacted_thinking", "data": "ZW5j"}));
    let foreign = adapter("openai", "http://127.0.0.1:9").wire_request(&again).expect("sound");
    assert!(!foreign.contains("think") && !foreign.contains("c2ln"), "{foreign}");
}
