//! A tool of an MCP server: declared by its owner and by the definition that the owner approved, not by the server as it is.

use crate::config::{ApprovedTool, DESCRIPTION_BYTES_MAX, McpServer, McpTool};
use crate::domain::{Readers, TextLabel, Trust};
use crate::text::visible;
use crate::tools::contract::arguments::without_nulls;
use crate::tools::contract::services::McpCall;
use crate::tools::contract::*;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Returns the approved tools of a server.
pub fn of_server(server: &McpServer) -> Vec<Box<dyn Tool>> {
    let whole = Arc::new(server.clone());
    let approved = server.tools.iter().filter_map(|(name, declared)| {
        Some(Box::new(McpServerTool {
            server: whole.clone(),
            name: name.clone(),
            declared: declared.clone(),
            approved: declared.pin.clone()?,
        }) as Box<dyn Tool>)
    });
    approved.collect()
}

struct McpServerTool {
    server: Arc<McpServer>,
    /// Name that the server gives it.
    name: String,
    declared: McpTool,
    approved: ApprovedTool,
}

impl Tool for McpServerTool {
    fn declaration(&self) -> ToolDeclaration {
        let McpTool {
            class,
            effects,
            senders,
            ..
        } = self.declared;
        ToolDeclaration {
            name: self.declared.offered.clone(),
            description: description(&self.approved.definition),
            input_schema: arguments(&self.approved.definition).into(),
            class: class.into(),
            effects: Effects::declared(effects, senders),
            // Its outcome says whose.
            result_words: ResultWords::Engine,
            capabilities: uses!(mcp),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.server.timeout)
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args = without_nulls(call.args);
            let made = call.env.mcp()?.call(McpCall {
                run: call.run,
                server: &self.server,
                tool: &self.name,
                args: &args,
                result_bytes_max: call.limits.result_bytes_max,
                within: call.limits.duration_max,
            });
            let answer = made.await?;
            let mut result = answer.content;
            if answer.is_error {
                result["is_error"] = json!(true);
            }
            Ok(ToolOutcome::labelled(result, self.label()))
        })
    }
}

impl McpServerTool {
    /// Returns the label of what the server answers: an unknown author's words, for its audience.
    fn label(&self) -> TextLabel {
        let readers = match (&self.server.audience, self.declared.effects.reads_private) {
            (Readers::Everyone, true) => Readers::OWNERS,
            (audience, _) => audience.clone(),
        };
        TextLabel {
            lowest: Some(Trust::Unknown),
            readers,
        }
    }
}

/// Returns the approved description, in which no character is hidden.
fn description(definition: &Value) -> String {
    let words = |member: &str| definition[member].as_str().filter(|text| !text.is_empty());
    let text = visible(
        words("description")
            .or_else(|| words("title"))
            .unwrap_or_default(),
    );
    text[..text.floor_char_boundary(2 * DESCRIPTION_BYTES_MAX)].to_owned()
}

/// Returns the approved schema of the arguments, as an object's.
fn arguments(definition: &Value) -> Value {
    let mut schema = match &definition["inputSchema"] {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    // Which draft it is written in is nothing to the model, and some vendors refuse the member.
    schema.remove("$schema");
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}
