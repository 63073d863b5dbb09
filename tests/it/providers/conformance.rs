//! One suite for all adapters: the same ten situations, each in the words of its vendor, one expectation.
//!
//! The streams of the HTTP dialects are also cut and split at every byte.

use super::server::{Reply, Server};
use super::{adapter, context, fixture, request};
use attache::config::ProviderSettings;
use attache::domain::ErrorClass;
use attache::providers::api::anthropic::decoder::AnthropicDecoder;
use attache::providers::api::gemini::decoder::GeminiDecoder;
use attache::providers::api::ollama::decoder::OllamaDecoder;
use attache::providers::api::openai::decoder::ChunkDecoder;
use attache::providers::api::openai::responses::decoder::ResponsesDecoder;
use attache::providers::contract::accumulate::Accumulator;
use attache::providers::transport::classify::Family;
use attache::providers::transport::decode::{self, Decoder, Framing};
use attache::providers::{
    Block, Event, FinishReason, Phase, Provider, ProviderError, Response, ToolArgs, build,
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
/// One wire: who speaks it, how it is framed, and what reads it.
pub struct ConformanceCase {
    pub name: &'static str,
    framing: Framing,
    decoder: fn() -> Box<dyn Decoder>,
}

/// Every wire; a new adapter adds a line and its ten streams in `tests/fixtures/providers/NAME/`.
pub const WIRES: &[ConformanceCase] = &[
    wire("anthropic", || Box::new(AnthropicDecoder::new(None))),
    wire("openai", || chunks(Family::OpenAi)),
    wire("grok", || chunks(Family::Grok)),
    wire("openrouter", || chunks(Family::OpenRouter)),
    wire("compat", || chunks(Family::OpenAi)),
    wire("openai-responses", || responses(Family::OpenAi, "openai")),
    wire("grok-responses", || responses(Family::Grok, "grok")),
    wire("gemini", || Box::new(GeminiDecoder::new(None, 0))),
    ConformanceCase {
        name: "ollama",
        framing: Framing::Lines,
        decoder: || Box::new(OllamaDecoder::new(None, 0, 16_384)),
    },
];

/// Adapters that read no stream of a model: they follow a script, or start a program whose output has tests of its own.
const WITHOUT_WIRE: &[&str] = &["scripted", "claude", "codex", "opencode", "pi"];

#[test]
fn every_adapter_to_a_model_is_in_the_table_of_wires() {
    let missing: Vec<_> = attache::providers::adapters()
        .map(|adapter| adapter.id)
        .filter(|id| !WITHOUT_WIRE.contains(id) && !WIRES.iter().any(|wire| wire.name == *id))
        .collect();
    assert!(missing.is_empty(), "no line in WIRES for {missing:?}");
}

const fn wire(name: &'static str, decoder: fn() -> Box<dyn Decoder>) -> ConformanceCase {
    ConformanceCase {
        name,
        framing: Framing::ServerSent,
        decoder,
    }
}

fn chunks(family: Family) -> Box<dyn Decoder> {
    Box::new(ChunkDecoder::new(None, family, true, 0))
}

fn responses(family: Family, adapter: &'static str) -> Box<dyn Decoder> {
    Box::new(ResponsesDecoder::new(None, family, adapter, 0))
}

pub fn wire_of(name: &str) -> &'static ConformanceCase {
    WIRES
        .iter()
        .find(|wire| wire.name == name)
        .expect("a wire of the table")
}

/// Every wire in every situation.
fn everything() -> impl Iterator<Item = (&'static ConformanceCase, &'static str)> {
    WIRES
        .iter()
        .flat_map(|wire| CASES.iter().map(move |case| (wire, *case)))
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(fixture(path)).expect(path)
}

impl ConformanceCase {
    /// What the wire's server sends in a situation.
    pub fn stream_of(&self, case: &str) -> String {
        let ending = if self.framing == Framing::Lines {
            "ndjson"
        } else {
            "sse"
        };
        read(&format!("{}/{case}.{ending}", self.name))
    }

    pub async fn decoded(&self, pieces: Vec<&[u8]>) -> Result<Response, ProviderError> {
        decode_framed(self.framing, (self.decoder)(), pieces).await
    }
}

/// What is expected of every wire, except where a vendor has no word for it.
fn expectation(name: &str, case: &str) -> Value {
    let own = format!("expected/{case}.{name}.json");
    let path = if fixture(&own).exists() {
        own
    } else {
        format!("expected/{case}.json")
    };
    serde_json::from_str(&read(&path)).expect("JSON")
}

/// What reads a dialect's stream.
pub fn decoder(name: &str) -> Box<dyn Decoder> {
    (wire_of(name).decoder)()
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
            Event::ToolCall { id, name, args } => {
                calls.push((id.clone(), name.clone(), args.clone()));
            }
            _ => {}
        }
        accumulator
            .push(event)
            .expect("the order of events is kept");
    }
    let response = accumulator
        .finish()
        .expect("a stream without an error ends with its terminal event");
    assert!(events.next().await.is_none(), "nothing comes after the end");
    assert_eq!(text, response.text());
    let own = response
        .calls()
        .map(|(id, name, args)| (id.to_owned(), name.to_owned(), args.clone()));
    assert_eq!(calls, own.collect::<Vec<_>>());
    Ok(response)
}

pub async fn decode_pieces(
    decoder: Box<dyn Decoder>,
    pieces: Vec<&[u8]>,
) -> Result<Response, ProviderError> {
    decode_framed(Framing::ServerSent, decoder, pieces).await
}

pub async fn decode_framed(
    framing: Framing,
    decoder: Box<dyn Decoder>,
    pieces: Vec<&[u8]>,
) -> Result<Response, ProviderError> {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Ok(piece.to_vec())).collect();
    fold(decode::events(
        stream::iter(pieces).boxed(),
        framing,
        decoder,
    ))
    .await
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
    let wire = provider.encode_request(&request("hello"))?;
    fold(provider.stream(&wire, context())).await
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_adapter_tells_the_same_story_in_every_situation() {
    for (wire, case) in everything() {
        let expected = expectation(wire.name, case);
        let with_usage = expected.get("output_tokens").is_some();
        let body = wire.stream_of(case);
        let reply = match wire.framing {
            Framing::Lines => Reply::lines(&body),
            _ => Reply::stream(&body),
        };
        let server = Server::start(vec![reply]).await;
        let outcome = ask(&*adapter(wire.name, &server.url)).await;
        assert_eq!(
            as_expected(&outcome, with_usage),
            expected,
            "{} {case}",
            wire.name
        );
        if let Ok(response) = outcome {
            assert_eq!(response.model_served, "model-x-1");
            assert_eq!(response.provider_request_id.as_deref(), Some("req-7"));
        }
    }
    for case in CASES {
        let expected = expectation("scripted", case);
        let with_usage = expected.get("output_tokens").is_some();
        let script = Some(fixture(&format!("scripted/{case}.json")));
        let scripted = build(
            "scripted",
            &ProviderSettings {
                script,
                ..Default::default()
            },
        )
        .expect("sound");
        assert_eq!(
            as_expected(&ask(&*scripted).await, with_usage),
            expected,
            "scripted {case}"
        );
    }
}

/// Splits a stream at every byte. Errors: where the meaning changed.
async fn split_everywhere(wire: &ConformanceCase, bytes: &[u8]) -> Result<(), String> {
    let whole = wire.decoded(vec![bytes]).await;
    for at in 0..=bytes.len() {
        if wire.decoded(vec![&bytes[..at], &bytes[at..]]).await != whole {
            return Err(format!("split at {at}: it means something else"));
        }
    }
    match wire.decoded(bytes.chunks(1).collect()).await == whole {
        true => Ok(()),
        false => Err("byte by byte: it means something else".into()),
    }
}

/// Cuts a stream at every byte. Errors: where the rest passes for an answer, or fails as what it is not.
async fn cut_everywhere(wire: &ConformanceCase, bytes: &[u8]) -> Result<(), String> {
    let whole = wire.decoded(vec![bytes]).await;
    let mut failures = 0;
    for at in 0..bytes.len() {
        match wire.decoded(vec![&bytes[..at]]).await {
            Ok(response) if Ok(&response) == whole.as_ref() => {}
            Ok(_) => return Err(format!("cut at {at}: a silent success")),
            Err(error) => {
                failures += 1;
                let class_is_right =
                    matches!(error.class, ErrorClass::Transient | ErrorClass::Protocol);
                if error.phase != Phase::MidStream
                    || !(class_is_right || Err(&error) == whole.as_ref())
                {
                    return Err(format!("cut at {at}: {error:?}"));
                }
            }
        }
    }
    // All but the end marker has to be there.
    match failures > bytes.len() - 40 {
        true => Ok(()),
        false => Err(format!("only {failures} of {} cuts failed", bytes.len())),
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_stream_split_anywhere_means_the_same() {
    for (wire, case) in everything() {
        let outcome = split_everywhere(wire, wire.stream_of(case).as_bytes()).await;
        assert_eq!(outcome, Ok(()), "{} {case}", wire.name);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_stream_cut_anywhere_is_never_a_silent_success() {
    for (wire, case) in everything() {
        let outcome = cut_everywhere(wire, wire.stream_of(case).as_bytes()).await;
        assert_eq!(outcome, Ok(()), "{} {case}", wire.name);
    }
}

/// Takes whatever came as the whole answer when the connection closes.
struct Credulous(ChunkDecoder);

impl Decoder for Credulous {
    fn feed(&mut self, event: &str, data: &str) -> Result<Vec<Event>, ProviderError> {
        self.0.feed(event, data)
    }
    fn whole(&mut self, body: &str) -> Result<Vec<Event>, ProviderError> {
        self.0.whole(body)
    }
    fn finish(&mut self) -> Result<Vec<Event>, ProviderError> {
        let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let mut events = self.0.feed("", end)?;
        events.extend(self.0.feed("", "[DONE]")?);
        Ok(events)
    }
}

#[tokio::test]
async fn the_suite_finds_a_decoder_that_believes_a_cut_stream() {
    let credulous = wire("openai", || {
        Box::new(Credulous(ChunkDecoder::new(None, Family::OpenAi, true, 0)))
    });
    for case in ["text", "one_call", "three_calls", "truncation"] {
        let found = cut_everywhere(&credulous, credulous.stream_of(case).as_bytes()).await;
        assert!(
            found.is_err_and(|complaint| complaint.contains("silent success")),
            "{case}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_stream_is_an_answer_or_an_error_and_never_a_panic(
        (wire, case) in (0..WIRES.len(), prop::sample::select(CASES)),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let wire = &WIRES[wire];
        let mut bytes = wire.stream_of(case).into_bytes();
        for (place, byte) in damage {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        if let Err(error) = runtime.block_on(wire.decoded(vec![&bytes])) {
            prop_assert_eq!(error.phase, Phase::MidStream);
        }
    }
}

#[tokio::test]
async fn usage_is_counted_the_same_way_whoever_reports_it() {
    // Input that no cache had, read from the cache, written to it; output, reasoning within it.
    let table = [
        ("anthropic", (25, 60, 10), (12, 0)),
        ("openai", (35, 60, 0), (12, 5)),
        // xAI says 7 beside 5.
        ("grok", (35, 60, 0), (12, 5)),
        ("openrouter", (25, 60, 10), (12, 5)),
        ("compat", (35, 60, 0), (12, 0)),
        ("openai-responses", (35, 60, 0), (12, 5)),
        ("grok-responses", (35, 60, 0), (12, 5)),
        ("gemini", (35, 60, 0), (12, 5)),
        ("ollama", (95, 0, 0), (12, 0)),
    ];
    for (name, input, output) in table {
        let wire = wire_of(name);
        let usage = wire
            .decoded(vec![wire.stream_of("text").as_bytes()])
            .await
            .expect("sound")
            .usage;
        let told = (
            usage.input_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
        );
        assert_eq!(
            (told, (usage.output_tokens, usage.reasoning_tokens)),
            (input, output),
            "{name}"
        );
        // 0.0123456 dollars: what was spent is never counted as less.
        let cost = (name == "openrouter").then_some(12_346);
        assert_eq!(
            (usage.cost_micros, usage.estimated),
            (cost, false),
            "{name}"
        );
    }
    assert_eq!(table.len(), WIRES.len());
}

#[tokio::test]
async fn signed_reasoning_goes_back_as_it_came() {
    let bytes = read("anthropic/thinking.sse");
    let response = wire_of("anthropic")
        .decoded(vec![bytes.as_bytes()])
        .await
        .expect("sound");
    assert_eq!(response.stop, FinishReason::ToolUse);
    assert_eq!(response.text(), "Done.");
    assert!(matches!(&response.blocks[0], Block::Thinking { text, .. } if text == "Let me think."));
    let mut again = request("hi");
    again.messages.push(attache::providers::Message {
        role: attache::providers::Role::Assistant,
        blocks: response.blocks,
    });
    let wire = adapter("anthropic", "http://127.0.0.1:9")
        .encode_request(&again)
        .expect("sound");
    let wire: Value = serde_json::from_str(&wire).expect("JSON");
    let content = &wire["messages"][1]["content"];
    assert_eq!(
        content[0],
        json!({"type": "thinking", "thinking": "Let me think.", "signature": "c2ln"})
    );
    assert_eq!(
        content[1],
        json!({"type": "redacted_thinking", "data": "ZW5j"})
    );
    let foreign = adapter("openai", "http://127.0.0.1:9")
        .encode_request(&again)
        .expect("sound");
    assert!(
        !foreign.contains("think") && !foreign.contains("c2ln"),
        "{foreign}"
    );
}
