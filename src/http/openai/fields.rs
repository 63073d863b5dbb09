//! Members of a request: read, refused where an answer without them would be another than was asked for, or named in
//! `X-Attache-Ignored` where the persona decides.

use super::error::ClientError;
use crate::text::{truncated, visible};
use axum::http::HeaderValue;
use serde_json::{Map, Value};

/// Most members of a request that count for nothing and are named.
const IGNORED_MAX: usize = 30;

/// Members that are refused unless they say nothing.
const REFUSED: &[&str] = &[
    "tools",
    "functions",
    "function_call",
    "logprobs",
    "top_logprobs",
    "audio",
    "prediction",
    "web_search_options",
    "prompt",
    "conversation",
    "context_management",
];

/// Members of the request that are understood, in either form.
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "input",
    "instructions",
    "previous_response_id",
    "background",
    "stream",
    "stream_options",
    "user",
    "safety_identifier",
    "metadata",
    "n",
    "tool_choice",
    "modalities",
    "response_format",
    "text",
];

/// Members of a request.
pub(super) struct RequestFields(Map<String, Value>);

impl RequestFields {
    /// Reads a request. Errors: it is no JSON object, or asks for what there is not.
    pub fn read(body: &[u8]) -> Result<Self, ClientError> {
        let fields: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
            ClientError::invalid(
                "",
                "invalid_json",
                format!("the body is no JSON object: {error}"),
            )
        })?;
        let fields = Self(fields);
        fields.check()?;
        Ok(fields)
    }

    fn check(&self) -> Result<(), ClientError> {
        for name in REFUSED {
            if self.0.get(*name).is_some_and(says_something) {
                let message =
                    format!("`{name}` is not supported: a persona has its own tools and settings");
                return Err(ClientError::unsupported(name, message));
            }
        }
        if self.0.get("n").is_some_and(|n| !n.is_null() && *n != 1) {
            return Err(ClientError::unsupported("n", "one message has one answer"));
        }
        if !matches!(self.text("tool_choice"), "" | "none" | "auto")
            || self.0.get("tool_choice").is_some_and(Value::is_object)
        {
            return Err(ClientError::unsupported(
                "tool_choice",
                "a persona chooses its tools itself",
            ));
        }
        let is_text = |kind: &Value| *kind == "text";
        let modalities = self.0.get("modalities").and_then(Value::as_array);
        if modalities.is_some_and(|kinds| !kinds.iter().all(is_text)) {
            return Err(ClientError::unsupported("modalities", "answers are text"));
        }
        let forms = [
            ("response_format", self.0.get("response_format")),
            (
                "text.format",
                self.0.get("text").and_then(|text| text.get("format")),
            ),
        ];
        for (name, form) in forms {
            if form.is_some_and(|form| !form.is_null() && form["type"] != "text") {
                let message = "answers are text; a form of answers is a setting of the persona (`output_schema`)";
                return Err(ClientError::unsupported(name, message));
            }
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a text; empty: there is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// Returns the members that count for nothing, for a header field; `None`: there is none.
    pub fn ignored(&self) -> Option<HeaderValue> {
        let mut names: Vec<String> = self
            .0
            .iter()
            .filter(|(name, value)| {
                let name = name.as_str();
                !value.is_null() && !KNOWN.contains(&name) && !REFUSED.contains(&name)
            })
            .take(IGNORED_MAX)
            .map(|(name, _)| visible(&truncated(name, 40)))
            .collect();
        names.sort_unstable();
        let text = names.join(", ");
        (!names.is_empty()).then(|| HeaderValue::from_str(&text).ok())?
    }
}

/// Reports whether a value is more than a default that a client writes out.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::String(text) => !text.is_empty() && text != "none",
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(true) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(more: &Value) -> Result<RequestFields, ClientError> {
        RequestFields::read(more.to_string().as_bytes())
    }

    #[test]
    fn what_would_change_the_answer_is_refused_and_defaults_pass() {
        for (refused, param) in [
            (json!({ "tools": [{}] }), "tools"),
            (json!({ "functions": [{}] }), "functions"),
            (json!({ "n": 2 }), "n"),
            (json!({ "logprobs": true }), "logprobs"),
            (json!({ "modalities": ["text", "audio"] }), "modalities"),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (
                json!({ "response_format": { "type": "json_object" } }),
                "response_format",
            ),
            (
                json!({ "text": { "format": { "type": "json_schema" } } }),
                "text.format",
            ),
        ] {
            let error = read(&refused).err().expect("an error");
            assert_eq!(
                (error.param.as_deref(), error.code),
                (Some(param), "unsupported_parameter"),
                "{refused}"
            );
        }
        let defaults = json!({ "tools": [], "functions": null, "n": 1, "logprobs": false, "tool_choice": "auto", "temperature": 1,
            "modalities": ["text"], "response_format": { "type": "text" }, "top_logprobs": 0, "stop": null, "seed": 7 });
        let ignored = read(&defaults)
            .expect("a request")
            .ignored()
            .expect("names");
        assert_eq!(ignored, "seed, temperature");
        assert_eq!(
            read(&json!([])).err().expect("an error").code,
            "invalid_json"
        );
    }
}
