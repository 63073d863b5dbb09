//! Messages of a request or an answer, in typed parts.
//!
//! The serde forms are those of recorded answers (`run_turns.response_json`) and of the scripted
//! provider's requests: a part that exists keeps its form.

use crate::providers::contract::content::{FileReference, Image, PdfFile};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

impl Message {
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            blocks: vec![Block::text(text)],
        }
    }
    pub fn assistant(text: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            blocks: vec![Block::text(text)],
        }
    }
}

/// One piece of a message. Tool results are blocks of a user message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    /// An image of a user's message. An adapter that takes none reads a sentence instead.
    Image(Image),
    /// A PDF file of a user's message. As an image.
    Pdf(PdfFile),
    /// A file of a user's message whose content is not shown. As an image.
    FileReference(FileReference),
    /// Reasoning that must be sent back unchanged to the provider family that made it, and to no
    /// other.
    Thinking {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<ProviderState>,
    },
    ToolCall {
        /// Our id, unique inside the request; adapters map it to the vendor's.
        id: String,
        name: String,
        args: ToolArgs,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_state: Option<ProviderState>,
    },
    ToolResult {
        call_id: String,
        name: String,
        /// Result as the model reads it: JSON text.
        content: String,
        is_error: bool,
    },
}

impl Block {
    pub fn text(text: impl Into<String>) -> Self {
        Block::Text { text: text.into() }
    }
}

/// Opaque to us, tagged by the family that may have it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderState {
    /// Name of the family, for example `anthropic`.
    pub family: String,
    /// Model that made it, the only one that may have it back; filled in by the engine, empty in an
    /// adapter.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    pub state: Value,
}

/// Arguments of a tool call. Malformed ones are data: the loop answers them with a failure that the
/// model can correct.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolArgs {
    Object(Map<String, Value>),
    Malformed { raw: String, error: String },
}

/// Deepest nesting of lists and objects in arguments. They are stored inside other values and must
/// be readable again; serde_json reads 128 levels.
const ARGS_DEPTH_MAX: usize = 64;

impl ToolArgs {
    /// Wraps arguments that came as an object.
    pub fn from_object(args: Map<String, Value>) -> Self {
        if args
            .values()
            .all(|value| nests_within(value, ARGS_DEPTH_MAX - 1))
        {
            return ToolArgs::Object(args);
        }
        let error = format!("nested deeper than {ARGS_DEPTH_MAX} levels");
        ToolArgs::Malformed {
            raw: Value::Object(args).to_string(),
            error,
        }
    }

    /// Parses a model's text; empty text is an empty object.
    pub fn parse(raw: &str) -> Self {
        if raw.trim().is_empty() {
            return ToolArgs::Object(Map::new());
        }
        match serde_json::from_str::<Value>(raw) {
            Ok(Value::Object(map)) => ToolArgs::from_object(map),
            Ok(_) => ToolArgs::Malformed {
                raw: raw.to_owned(),
                error: "not a JSON object".to_owned(),
            },
            Err(error) => ToolArgs::Malformed {
                raw: raw.to_owned(),
                error: error.to_string(),
            },
        }
    }
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(items), Some(left)) => items.iter().all(|item| nests_within(item, left)),
        (Value::Object(members), Some(left)) => {
            members.values().all(|member| nests_within(member, left))
        }
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}
