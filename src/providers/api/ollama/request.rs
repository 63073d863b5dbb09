//! Body of a call of Ollama's `/api/chat`, and the check that it fits the model's window. Pure.

use crate::config::Think;
use crate::domain::ErrorClass;
use crate::providers::api::openai::request::FunctionTool;
use crate::providers::contract::estimate;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    Block, Message, OutputSchema, Parameter, Phase, ProviderError, Request, Role, ToolArgs,
    ToolChoice,
};
use crate::providers::transport::classify::Family;
use serde::Serialize;
use serde_json::{Value, json};

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FunctionTool<'a>>,
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
    options: OllamaOptions,
}

#[derive(Serialize)]
struct OllamaOptions {
    num_ctx: u32,
    num_predict: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

/// Settings of the provider that are part of every body.
pub struct RequestSettings {
    /// Name of the provider in the configuration.
    pub name: String,
    pub context_tokens: u32,
    pub keep_alive: Option<Value>,
    pub think: Option<Think>,
}

impl RequestSettings {
    /// Encodes the bytes to send. Errors: class `BadRequest` or `ContextOverflow`.
    pub fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        let request = normalise::request(request, Family::Ollama.as_str())?;
        let encoded = normalise::encode(&self.body(&request))?;
        self.fits(&encoded, request.max_output_tokens)?;
        Ok(encoded)
    }

    fn body<'a>(&'a self, request: &'a Request) -> OllamaRequest<'a> {
        let keeps = |parameter: Parameter| !request.without.contains(&parameter);
        // There is no `tool_choice`: for `none` no tool is offered.
        let tools = match request.tool_choice {
            ToolChoice::Auto => {
                let tools = request.tools.iter();
                tools.map(|tool| FunctionTool::new(tool, false)).collect()
            }
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
        OllamaRequest {
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
            options: OllamaOptions {
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
        let input = estimate::request(encoded);
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
    let (text, images) = (texts(message), images(message));
    if text.is_empty() && images.is_empty() {
        return;
    }
    let mut encoded = json!({"role": "user", "content": text});
    if !images.is_empty() {
        encoded["images"] = json!(images);
    }
    messages.push(encoded);
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

/// Returns the images in base64: they stand beside the text, and the model sees them before it.
fn images(message: &Message) -> Vec<String> {
    let image = |block: &Block| match block {
        Block::Image(image) => Some(image.base64()),
        _ => None,
    };
    message.blocks.iter().filter_map(image).collect()
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
