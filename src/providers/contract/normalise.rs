//! Normalises any history for the strictest vendor, so that no adapter has to check it. Pure.
//!
//! The rules of the strictest vendor: roles alternate, the user is first, every tool call has
//! exactly one result in the next user message and before its text, no empty text, legal and unique
//! call ids, arguments that are objects. Images and files stay where the user has them.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::ToolSpec;
use crate::providers::contract::traits::{
    Block, Message, Phase, ProviderError, ProviderState, Request, Role, ToolArgs, ToolChoice,
};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Longest call id: OpenAI's bound; Anthropic allows 64.
const CALL_ID_LEN_MAX: usize = 40;
const TOOL_NAME_LEN_MAX: usize = 64;
/// First user message of a history that the persona began, as in a thread that it opened.
const OPENING: &str = "(This conversation begins with a message of yours.)";
const NO_RESULT: &str =
    r#"{"ok":false,"error":{"code":"no_result","message":"no result of this call was recorded"}}"#;

/// Encodes an adapter's body as the bytes to send. Errors: class `BadRequest`.
pub fn encode(body: &impl Serialize) -> Result<String, ProviderError> {
    serde_json::to_string(body).map_err(|error| {
        ProviderError::new(ErrorClass::BadRequest, Phase::BeforeSend, error.to_string())
    })
}

/// Prepares a request for the adapters of `family`. Errors: class `BadRequest`, when a tool's name
/// or schema is one that vendors refuse, or when there is no message.
pub fn request(request: &Request, family: &str) -> Result<Request, ProviderError> {
    let refused = |message: String| {
        Err(ProviderError::new(
            ErrorClass::BadRequest,
            Phase::BeforeSend,
            message,
        ))
    };
    if let Some(tool) = request
        .tools
        .iter()
        .find(|tool| !is_wire_name(&tool.name, TOOL_NAME_LEN_MAX))
    {
        return refused(format!(
            "tool name `{}` is not 1 to 64 of A-Z a-z 0-9 `_` `-`",
            tool.name
        ));
    }
    if let Some(tool) = request
        .tools
        .iter()
        .find(|tool| !tool.input_schema.is_object())
    {
        return refused(format!(
            "the input schema of tool `{}` is not an object",
            tool.name
        ));
    }
    let messages = history(&request.messages, family, &request.model);
    if messages.is_empty() {
        return refused("the request has no message with content".to_owned());
    }
    let system = request.system.iter();
    let mut ready = Request {
        model: request.model.clone(),
        system: system
            .filter(|section| !section.trim().is_empty())
            .cloned()
            .collect(),
        messages,
        past_messages: request.past_messages,
        cache_key: request.cache_key.clone(),
        tools: request.tools.clone(),
        tool_choice: request.tool_choice,
        max_output_tokens: request.max_output_tokens,
        temperature: request.temperature,
        output: request.output.clone(),
        without: request.without.clone(),
        agent: request.agent.clone(),
    };
    if ready.tools.is_empty() {
        // Vendors refuse tool blocks in the history of a request that declares no tools.
        ready.tools = tools_of(&ready.messages);
        ready.tool_choice = ToolChoice::None;
    }
    Ok(ready)
}

/// Counts the parts at the beginning of the prepared history that the thread's next letter will have,
/// too: those of its past.
pub fn past_parts(request: &Request, ready: &[Message], family: &str) -> usize {
    let past = request.messages.get(..request.past_messages);
    let past = history(past.unwrap_or_default(), family, &request.model);
    let parts = |messages: &[Message]| -> Vec<(Role, Block)> {
        let parts = messages.iter().flat_map(|message| {
            let part = |block: &Block| (message.role, block.clone());
            message.blocks.iter().map(part).collect::<Vec<_>>()
        });
        parts.collect()
    };
    let (past, all) = (parts(&past), parts(ready));
    past.iter().zip(&all).take_while(|(a, b)| a == b).count()
}

/// Returns the normalised history: empty, or valid for every vendor. Blocks that only their maker
/// may have back stay when `family` and `model` made them.
pub fn history(messages: &[Message], family: &str, model: &str) -> Vec<Message> {
    let own = |state: &Option<ProviderState>| {
        let is_own = |state: &ProviderState| {
            state.family == family && (state.model.is_empty() || state.model == model)
        };
        state.clone().filter(is_own)
    };
    let open_calls = OpenCalls::from_messages(messages);
    let mut ids = LegalIds::default();
    let mut out = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::User => say(
                &mut out,
                Role::User,
                message.blocks.iter().filter_map(user_part).collect(),
            ),
            Role::Assistant => {
                let (blocks, results) = assistant_turn(at, message, &own, &open_calls, &mut ids);
                say(&mut out, Role::Assistant, blocks);
                say(&mut out, Role::User, results);
            }
        }
    }
    trim_final_turn(&mut out);
    out
}

/// Appends blocks, merged into the last message when it has that role.
fn say(out: &mut Vec<Message>, role: Role, blocks: Vec<Block>) {
    if blocks.is_empty() {
        return;
    }
    if out.is_empty() && role == Role::Assistant {
        out.push(Message::user(OPENING));
    }
    match out.last_mut() {
        Some(last) if last.role == role => last.blocks.extend(blocks),
        _ => out.push(Message { role, blocks }),
    }
}

fn user_part(block: &Block) -> Option<Block> {
    match block {
        Block::Text { text } if !text.trim().is_empty() => Some(block.clone()),
        Block::Image(_) | Block::Pdf(_) | Block::FileReference(_) => Some(block.clone()),
        _ => None,
    }
}

/// Appends an assistant's message, and the results that must follow at once.
fn assistant_turn(
    at: usize,
    message: &Message,
    own: &dyn Fn(&Option<ProviderState>) -> Option<ProviderState>,
    open_calls: &OpenCalls,
    ids: &mut LegalIds,
) -> (Vec<Block>, Vec<Block>) {
    let (mut blocks, mut results) = (Vec::new(), Vec::new());
    for (position, block) in message.blocks.iter().enumerate() {
        match block {
            Block::Text { text } if !text.trim().is_empty() => blocks.push(block.clone()),
            Block::Thinking {
                text,
                provider_state,
            } => {
                if let Some(state) = own(provider_state) {
                    blocks.push(Block::Thinking {
                        text: text.clone(),
                        provider_state: Some(state),
                    });
                }
            }
            Block::ToolCall {
                id,
                name,
                args,
                provider_state,
            } => {
                let (id, name) = (ids.unique(id), wire_name(name));
                results.push(open_calls.result_of(at, position, &id, &name));
                let (args, provider_state) =
                    (ToolArgs::Object(args_object(args)), own(provider_state));
                blocks.push(Block::ToolCall {
                    id,
                    name,
                    args,
                    provider_state,
                });
            }
            // No model answers with a file, and a result is the user's.
            Block::Text { .. }
            | Block::Image(_)
            | Block::Pdf(_)
            | Block::FileReference(_)
            | Block::ToolResult { .. } => {}
        }
    }
    // A vendor that signs its reasoning refuses a message that ends with it.
    while matches!(blocks.last(), Some(Block::Thinking { .. })) {
        blocks.pop();
    }
    (blocks, results)
}

/// Results by call: a result goes to the latest message that has an open call of its id.
struct OpenCalls {
    calls: Vec<OpenCall>,
}

struct OpenCall {
    id: String,
    message: usize,
    position: usize,
    answer: Option<(String, bool)>,
}

impl OpenCalls {
    fn from_messages(messages: &[Message]) -> Self {
        let mut open_calls = Self { calls: Vec::new() };
        for (message, blocks) in messages.iter().map(|m| (m.role, &m.blocks)).enumerate() {
            for (position, block) in blocks.1.iter().enumerate() {
                match (blocks.0, block) {
                    (Role::Assistant, Block::ToolCall { id, .. }) => {
                        let id = id.clone();
                        open_calls.calls.push(OpenCall {
                            id,
                            message,
                            position,
                            answer: None,
                        });
                    }
                    (
                        Role::User,
                        Block::ToolResult {
                            call_id,
                            content,
                            is_error,
                            ..
                        },
                    ) => {
                        open_calls.answer(call_id, content, *is_error);
                    }
                    _ => {}
                }
            }
        }
        open_calls
    }

    fn answer(&mut self, call_id: &str, content: &str, is_error: bool) {
        let open = |call: &&mut OpenCall| call.answer.is_none() && call.id == call_id;
        let latest = self
            .calls
            .iter_mut()
            .filter(open)
            .map(|call| call.message)
            .max();
        let mut candidates = self.calls.iter_mut().filter(open);
        if let Some(call) = candidates.find(|call| Some(call.message) == latest) {
            // An empty result is refused by some vendors; `null` is the JSON for it.
            let content = if content.trim().is_empty() {
                "null"
            } else {
                content
            };
            call.answer = Some((content.to_owned(), is_error));
        }
    }

    fn result_of(&self, message: usize, position: usize, id: &str, name: &str) -> Block {
        // Calls were recorded in this very order, so the search succeeds.
        let key = (message, position);
        let found = self
            .calls
            .binary_search_by_key(&key, |call| (call.message, call.position));
        let answer = found.ok().and_then(|at| self.calls[at].answer.clone());
        let (content, is_error) = answer.unwrap_or_else(|| (NO_RESULT.to_owned(), true));
        Block::ToolResult {
            call_id: id.to_owned(),
            name: name.to_owned(),
            content,
            is_error,
        }
    }
}

/// Generator of call ids that are legal for every vendor and unique in the request; a legal, unused
/// id stays as it is.
#[derive(Default)]
struct LegalIds {
    used: HashSet<String>,
    made: usize,
}

impl LegalIds {
    fn unique(&mut self, id: &str) -> String {
        if is_wire_name(id, CALL_ID_LEN_MAX) && self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        loop {
            self.made += 1;
            let made = format!("c_{}", self.made);
            if self.used.insert(made.clone()) {
                return made;
            }
        }
    }
}

fn is_wire_name(text: &str, len_max: usize) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.len() <= len_max && text.chars().all(legal)
}

/// Returns a legal form of a name that a model invented; it still has to be sent back as part of
/// the history.
fn wire_name(name: &str) -> String {
    if is_wire_name(name, TOOL_NAME_LEN_MAX) {
        return name.to_owned();
    }
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
            c
        } else {
            '_'
        }
    };
    let mended: String = name.chars().map(legal).take(TOOL_NAME_LEN_MAX).collect();
    if mended.is_empty() {
        "unnamed".to_owned()
    } else {
        mended
    }
}

/// Wraps malformed arguments in an object, so that the model sees what it wrote.
fn args_object(args: &ToolArgs) -> Map<String, Value> {
    match args {
        ToolArgs::Object(map) => map.clone(),
        ToolArgs::Malformed { raw, .. } => {
            let mut map = Map::new();
            map.insert("malformed_arguments".to_owned(), Value::String(raw.clone()));
            map
        }
    }
}

/// Trims the end of a final assistant text: Anthropic refuses white space there.
fn trim_final_turn(messages: &mut [Message]) {
    let Some(Message {
        role: Role::Assistant,
        blocks,
    }) = messages.last_mut()
    else {
        return;
    };
    if let Some(Block::Text { text }) = blocks.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

fn tools_of(messages: &[Message]) -> Vec<ToolSpec> {
    let mut tools: Vec<ToolSpec> = Vec::new();
    for block in messages.iter().flat_map(|message| &message.blocks) {
        let Block::ToolCall { name, .. } = block else {
            continue;
        };
        if tools.iter().all(|tool| tool.name != *name) {
            let description = "No longer offered.".to_owned();
            tools.push(ToolSpec {
                name: name.clone(),
                description,
                input_schema: json!({"type": "object"}).into(),
            });
        }
    }
    tools
}
