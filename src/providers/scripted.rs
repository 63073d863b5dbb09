//! A provider that answers from a JSON script: for the demo, for tests, and for load without a
//! network.
//!
//! A script is `{"model": "…", "turns": [ANSWER, …], "rules": [{"when": {…}, ANSWER}, …]}`; both
//! lists may be left out. The first rule whose `when` holds answers; otherwise `turns[n]` answers
//! turn `n` of the run. Without a matching answer the call fails with an error that names the
//! script. `when` (all given parts must hold; empty always holds): `turn` (number), `contains` (in
//! the last user text, any case), `system_contains`, `after_tool` (one of the newest results is of
//! this tool), `after_error` (the newest results contain a failure: true or false), `tools` (tools
//! may be called), `model` (the requested one), `without` (this parameter is left out),
//! `longer_than` (characters of the whole request).
//!
//! An ANSWER: `say` (text, may be empty), `call` (list of `{"tool", "args"}`, or `{"tool", "raw"}`
//! for arguments that are not JSON; `id` optional), `stop` (`max_tokens`, `refused`, `paused`, …),
//! `usage`, `delay_ms`, `hang` (until the call is cancelled or times out), `error` (`{"class",
//! "message", "status", "retry_after_ms", "mid_stream", "refused", "window_tokens", "acted",
//! "times"}`). `times` counts per run and place: `{"times": 2}` fails twice, then the rest of the
//! answer applies; without it the error is permanent. The counts live in memory.
//!
//! Texts may hold `{{text}}`, `{{body}}` (after its first empty line), `{{first_line}}`,
//! `{{subject}}`, `{{from}}`, `{{sender}}` (the bare address of `From:`), `{{header:NAME}}` (a line
//! `NAME: …`), all of the last user text, and `{{result}}` or `{{result:/json/pointer}}` of the
//! newest tool result. Inserted text is never expanded again.

use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, CallContext, Capabilities, Event, FinishReason, Phase, Provider, ProviderError, Request,
    RequestEncoder, Response, TokenUsage, ToolArgs,
};
use crate::providers::script::{Placeholders, Script, ScriptedAnswer, ScriptedFault, Situation};
use crate::providers::transport::guard::Guard;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub const ADAPTER: Adapter = Adapter {
    id: "scripted",
    key_variable: None,
    settings: &[&[
        "script",
        "tier",
        "model",
        "timeouts",
        "max_output_tokens",
        "temperature",
    ]],
    bounds: None,
    build,
};

/// Number of failures that are remembered; the oldest run is dropped first.
const FAILURES_MAX: usize = 10_000;

/// Run, turn, and index of the answer in the script.
type FailureKey = (String, u32, usize);

/// Provider that answers from a script; its only state is the count of its intended failures.
pub struct Scripted {
    /// Name in the configuration.
    name: String,
    script: Script,
    failures: Mutex<BTreeMap<FailureKey, u32>>,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let wrong = |message: String| {
        ProviderError::new(
            ErrorClass::Config,
            Phase::Config,
            format!("`{}`: {message}", settings.name_or(ADAPTER.id)),
        )
    };
    let path = settings
        .script
        .as_ref()
        .ok_or_else(|| wrong("set `script` to a JSON file".to_owned()))?;
    let name = path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot read `{name}`: {e}")))?;
    let mut scripted = Scripted::named(&name, &text)?;
    settings.name_or(ADAPTER.id).clone_into(&mut scripted.name);
    Ok(Box::new(scripted))
}

/// Returns an encoder that needs no script.
pub(super) fn encoder(name: &str) -> Box<dyn RequestEncoder> {
    Box::new(Scripted {
        name: name.to_owned(),
        script: Script::default(),
        failures: Mutex::default(),
    })
}

impl Scripted {
    /// Builds a provider that answers from this script. Errors: class `Config`, with the place in
    /// the script.
    pub fn from_json(text: &str) -> Result<Self, ProviderError> {
        Self::named("inline", text)
    }

    fn named(name: &str, text: &str) -> Result<Self, ProviderError> {
        Ok(Self {
            name: ADAPTER.id.to_owned(),
            script: Script::parse(name, text)?,
            failures: Mutex::new(BTreeMap::new()),
        })
    }

    async fn answer(
        &self,
        encoded: &str,
        context: CallContext,
    ) -> Vec<Result<Event, ProviderError>> {
        let mut guard = Guard::start(&context);
        let request: Request = match serde_json::from_str(encoded) {
            Ok(request) => request,
            Err(error) => return vec![Err(broken(format!("the body is not a request: {error}")))],
        };
        let situation = Situation::from_request(&request, context.turn_index);
        let Some((place, answer)) = self.script.answer_for(&situation) else {
            return vec![Err(self.no_answer(&situation))];
        };
        if let Err(ended) = pause(&mut guard, answer).await {
            return vec![Err(ended)];
        }
        let started = Event::Started {
            provider_request_id: None,
            model: self.model(&request),
        };
        let key = (context.run_id, context.turn_index, place);
        match answer
            .error
            .as_ref()
            .filter(|fault| self.fails_now(fault, key))
        {
            Some(fault) if fault.mid_stream => vec![Ok(started), Err(fault.error())],
            Some(fault) => vec![Err(fault.error())],
            None => self.events(started, answer, &situation, encoded.len()),
        }
    }

    fn events(
        &self,
        started: Event,
        answer: &ScriptedAnswer,
        situation: &Situation<'_>,
        wire_len: usize,
    ) -> Vec<Result<Event, ProviderError>> {
        let blocks = blocks(answer, situation);
        let mut events = vec![Ok(started)];
        for block in &blocks {
            match block {
                Block::Text { text } => events.push(Ok(Event::TextDelta(text.clone()))),
                Block::ToolCall { id, name, args, .. } => {
                    let (id, name, args) = (id.clone(), name.clone(), args.clone());
                    events.push(Ok(Event::ToolCall { id, name, args }));
                }
                Block::Thinking { .. }
                | Block::ToolResult { .. }
                | Block::Image(_)
                | Block::Pdf(_)
                | Block::FileReference(_) => {}
            }
        }
        let natural = if answer.call.is_empty() {
            FinishReason::EndTurn
        } else {
            FinishReason::ToolUse
        };
        events.push(Ok(Event::Finished(Response {
            usage: answer
                .usage
                .map_or_else(|| estimated(wire_len, &blocks), TokenUsage::from),
            blocks,
            stop: answer.stop.clone().unwrap_or(natural),
            model_served: self.model(situation.request),
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: None,
        })));
        events
    }

    fn model(&self, request: &Request) -> String {
        self.script
            .model
            .clone()
            .unwrap_or_else(|| request.model.clone())
    }

    /// Reports whether this fault has failures left for this run and place; counts one.
    fn fails_now(&self, fault: &ScriptedFault, key: FailureKey) -> bool {
        let Some(times) = fault.times else {
            return true;
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_MAX && !failures.contains_key(&key) {
            // Run ids sort by time, so the first key belongs to the oldest run.
            failures.pop_first();
        }
        let count = failures.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        *count <= times
    }

    fn no_answer(&self, situation: &Situation<'_>) -> ProviderError {
        let (name, turn) = (&self.script.name, situation.turn);
        let message =
            format!("script `{name}` has no answer for turn {turn}: add a rule or a turn");
        ProviderError::new(ErrorClass::Config, Phase::BeforeFirstByte, message)
    }
}

impl RequestEncoder for Scripted {
    fn id(&self) -> &str {
        &self.name
    }

    /// A script may name the cost of a call (`usage.cost_micros`).
    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            reports_cost: true,
            window_tokens: self.script.window_tokens,
            ..Capabilities::MODEL
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        let mut request = normalise::request(request, ADAPTER.id)?;
        // No cache, no key: a script is the same for every thread.
        request.cache_key = None;
        normalise::encode(&request)
    }
}

impl Provider for Scripted {
    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        stream::once(self.answer(encoded, context))
            .flat_map(stream::iter)
            .boxed()
    }
}

async fn pause(guard: &mut Guard, answer: &ScriptedAnswer) -> Result<(), ProviderError> {
    if answer.hang {
        guard
            .wait(Phase::BeforeFirstByte, std::future::pending::<()>())
            .await?;
    }
    let delay = Duration::from_millis(answer.delay_ms);
    if delay.is_zero() {
        // Still checks for cancellation.
        return guard
            .wait(Phase::BeforeFirstByte, std::future::ready(()))
            .await;
    }
    guard
        .wait(Phase::BeforeFirstByte, tokio::time::sleep(delay))
        .await
}

fn blocks(answer: &ScriptedAnswer, situation: &Situation<'_>) -> Vec<Block> {
    let filling = Placeholders::from_request(situation.request);
    let mut blocks = Vec::new();
    if let Some(say) = &answer.say {
        blocks.push(Block::text(filling.fill(say)));
    }
    for (position, call) in answer.call.iter().enumerate() {
        let made = || format!("call_{}_{}", situation.turn, position);
        let args = match &call.raw {
            Some(raw) => ToolArgs::parse(&filling.fill(raw)),
            None => ToolArgs::Object(filling.fill_map(&call.args)),
        };
        let id = call.id.clone().unwrap_or_else(made);
        blocks.push(Block::ToolCall {
            id,
            name: call.tool.clone(),
            args,
            provider_state: None,
        });
    }
    blocks
}

/// Estimates four characters a token; equal requests cost equally.
fn estimated(wire_len: usize, blocks: &[Block]) -> TokenUsage {
    let output = serde_json::to_string(blocks).map_or(0, |text| text.len());
    TokenUsage {
        input_tokens: (wire_len / 4) as u64,
        output_tokens: (output / 4) as u64,
        ..TokenUsage::default()
    }
}
