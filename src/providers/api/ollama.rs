//! Ollama's own `/api/chat`: the body, the check, and the bound of the model's window. The decoder
//! is in `ollama_lines.rs`.
//!
//! Not its `/v1`, which has no `num_ctx`: without it the server takes a small default and silently
//! drops the beginning of a longer input. So `num_ctx` is always sent, and a longer input is
//! refused before it is sent. Absent on purpose: pulling models, images.

use crate::config::{ProviderSettings, Think};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::api::ollama_lines::LineDecoder;
use crate::providers::contract::estimate;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, CallContext, Capabilities, Event, Health, Message, OutputSchema, Parameter, Phase,
    Provider, ProviderError, Request, RequestEncoder, Role, Structured, ToolArgs, ToolChoice,
    ToolSpec,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::decode::Decoder;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::AUTHORIZATION;
use serde::Serialize;
use serde_json::{Value, json};

/// Adapter without a key: one is sent if the configuration names it (a proxy in front of the
/// server).
pub const ADAPTER: Adapter = Adapter {
    id: "ollama",
    key_variable: None,
    settings: &[http::SETTINGS, &["context_tokens", "keep_alive", "think"]],
    build,
};

const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";
/// Default window in tokens: enough for a conversation by mail, and for a machine with 16 GB.
const CONTEXT_TOKENS: u32 = 16_384;

struct Ollama {
    endpoint: Endpoint,
    /// Name of the provider in the configuration.
    name: String,
    context_tokens: u32,
    keep_alive: Option<Value>,
    think: Option<Think>,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        name: ADAPTER.id,
        family: Family::Ollama,
        base_url: settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL),
        plain_http: settings.plain_http,
        path: "api/chat",
        key: settings.api_key.as_ref(),
        key_header: (AUTHORIZATION, "Bearer "),
        extra_headers: &[],
    })?;
    // The server reads a number as seconds and refuses a text without a unit.
    let keep_alive = |text: &String| {
        text.parse::<i64>()
            .map_or_else(|_| json!(text), |number| json!(number))
    };
    Ok(Box::new(Ollama {
        endpoint,
        name: if settings.name.is_empty() {
            ADAPTER.id.to_owned()
        } else {
            settings.name.clone()
        },
        context_tokens: settings.context_tokens.unwrap_or(CONTEXT_TOKENS),
        keep_alive: settings.keep_alive.as_ref().map(keep_alive),
        think: settings.think,
    }))
}

impl RequestEncoder for Ollama {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        let window_tokens = Some(u64::from(self.context_tokens));
        Capabilities {
            structured: Structured::Native,
            window_tokens,
            ..Capabilities::MODEL
        }
    }

    fn encode_request(&self, request: &Request) -> Result<String, ProviderError> {
        let request = normalise::request(request, ADAPTER.id)?;
        let encoded = normalise::encode(&self.body(&request))?;
        self.fits(&encoded, request.max_output_tokens)?;
        Ok(encoded)
    }
}

impl Provider for Ollama {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move {
            let version = self.endpoint.get("api/version", &context).await?;
            let tags = self.endpoint.get("api/tags", &context).await?;
            let text = |value: &Value, key: &str| {
                value.get(key).and_then(Value::as_str).map(str::to_owned)
            };
            let models = tags
                .get("models")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let models: Vec<String> = models.filter_map(|model| text(model, "name")).collect();
            let none = "the server has no model: `ollama pull MODEL` fetches one";
            Ok(Health {
                endpoint: self.endpoint(),
                version: text(&version, "version"),
                note: models.is_empty().then(|| none.to_owned()),
                models,
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let model = context.model.clone();
        let window = u64::from(self.context_tokens);
        let decoder = move |request_id| -> Box<dyn Decoder + 'a> {
            Box::new(LineDecoder::new(
                request_id,
                estimate::tokens(encoded),
                window,
            ))
        };
        let events = self.endpoint.call(encoded, context, Box::new(decoder));
        events
            .map(move |event| event.map_err(|error| with_hint(error, &model)))
            .boxed()
    }
}

fn with_hint(error: ProviderError, model: &str) -> ProviderError {
    match error.class {
        ErrorClass::ModelNotFound => {
            let message = format!("{}; `ollama pull {model}` fetches it", error.message);
            ProviderError { message, ..error }
        }
        _ => error,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<&'a Value>,
    /// Servers since 0.12.6 then refuse an input that is too long instead of dropping its
    /// beginning; older ones ignore both.
    truncate: bool,
    shift: bool,
    options: Options,
}

#[derive(Serialize)]
struct Options {
    num_ctx: u32,
    num_predict: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

impl Ollama {
    fn body<'a>(&'a self, request: &'a Request) -> Body<'a> {
        let keeps = |parameter: Parameter| !request.without.contains(&parameter);
        // There is no `tool_choice`: for `none` no tool is offered.
        let tools = match request.tool_choice {
            ToolChoice::Auto => request.tools.iter().map(tool).collect(),
            ToolChoice::None => Vec::new(),
        };
        // `format` binds the whole output, calls too: a model that may still call gets its schema
        // in the prompt.
        let bound = request
            .output
            .as_ref()
            .filter(|_| keeps(Parameter::OutputSchema) && tools.is_empty());
        let spoken = request
            .output
            .as_ref()
            .filter(|_| bound.is_none())
            .map(OutputSchema::in_words);
        Body {
            model: &request.model,
            messages: messages(request, spoken),
            tools,
            stream: true,
            think: self
                .think
                .filter(|_| keeps(Parameter::Reasoning))
                .map(thinking),
            format: bound.map(|output| &output.schema),
            keep_alive: self.keep_alive.as_ref(),
            truncate: false,
            shift: false,
            options: Options {
                num_ctx: self.context_tokens,
                num_predict: request.max_output_tokens,
                temperature: request
                    .temperature
                    .filter(|_| keeps(Parameter::Temperature)),
            },
        }
    }

    /// Checks that input and answer fit into the window together. Errors: class `ContextOverflow`,
    /// phase `BeforeSend`.
    fn fits(&self, encoded: &str, answer_tokens: u32) -> Result<(), ProviderError> {
        let window = u64::from(self.context_tokens);
        let input = estimate::tokens(encoded);
        if input.saturating_add(u64::from(answer_tokens)) <= window {
            return Ok(());
        }
        let message = format!(
            "about {input} tokens of input and {answer_tokens} of answer are more than the {window} that the model is \
             given: raise `context_tokens` of provider `{}`, or lower `max_output_tokens`",
            self.name
        );
        let error = ProviderError::new(ErrorClass::ContextOverflow, Phase::BeforeSend, message);
        Err(ProviderError {
            window_tokens: Some(window),
            ..error
        })
    }
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.input_schema});
    json!({"type": "function", "function": function})
}

fn thinking(think: Think) -> Value {
    think
        .level()
        .map_or_else(|| json!(think != Think::Off), |level| json!(level))
}

fn messages(request: &Request, spoken: Option<String>) -> Vec<Value> {
    let system: Vec<String> = request.system.iter().cloned().chain(spoken).collect();
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    for message in &request.messages {
        match message.role {
            Role::User => user(message, &mut messages),
            Role::Assistant => messages.push(assistant(message)),
        }
    }
    messages
}

/// Appends every tool result as a message of its own, right after the calls and in their order; the
/// user's text follows.
fn user(message: &Message, messages: &mut Vec<Value>) {
    for block in &message.blocks {
        if let Block::ToolResult { name, content, .. } = block {
            messages.push(json!({"role": "tool", "tool_name": name, "content": content}));
        }
    }
    let text = texts(message);
    if !text.is_empty() {
        messages.push(json!({"role": "user", "content": text}));
    }
}

fn assistant(message: &Message) -> Value {
    let mut encoded = json!({"role": "assistant", "content": texts(message)});
    let thought = |block: &Block| match block {
        // The normaliser has dropped reasoning of other models.
        Block::Thinking { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let thoughts: Vec<String> = message.blocks.iter().filter_map(thought).collect();
    if !thoughts.is_empty() {
        encoded["thinking"] = json!(thoughts.join("\n\n"));
    }
    let calls: Vec<Value> = message.blocks.iter().filter_map(call).collect();
    if !calls.is_empty() {
        encoded["tool_calls"] = Value::Array(calls);
    }
    encoded
}

fn call(block: &Block) -> Option<Value> {
    match block {
        // The normaliser has made objects of all arguments.
        Block::ToolCall {
            name,
            args: ToolArgs::Object(map),
            ..
        } => Some(json!({"function": {"name": name, "arguments": map}})),
        _ => None,
    }
}

fn texts(message: &Message) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    message
        .blocks
        .iter()
        .filter_map(text)
        .collect::<Vec<_>>()
        .join("\n\n")
}
