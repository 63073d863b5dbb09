//! Members of a request: read, refused where an answer without them would be another than was asked for, or named in
//! `X-Attache-Ignored` where the persona decides.

use super::error::ClientError;
use crate::config::answer_schema;
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
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
];

/// Members that bound the length of the answer; the least counts.
const LENGTHS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

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
        Ok(())
    }

    /// Forgets what was asked, which is the most of a large request.
    pub fn forget_texts(&mut self) {
        for name in ["messages", "input"] {
            self.0.remove(name);
        }
    }

    /// Returns the most tokens that the answer may have; `None`: the client does not bound it.
    pub fn output_tokens_max(&self) -> Result<Option<u32>, ClientError> {
        let mut least = None;
        for name in LENGTHS {
            let Some(typed) = self.get(name) else {
                continue;
            };
            let Some(tokens) = typed.as_u64().filter(|tokens| *tokens > 0) else {
                let message = format!("`{name}` is a whole number from 1");
                return Err(ClientError::invalid(name, "invalid_value", message));
            };
            let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
            least = Some(least.map_or(tokens, |other: u32| other.min(tokens)));
        }
        Ok(least)
    }

    /// Returns the JSON Schema that the answer must fit, on one line; `None`: any text.
    pub fn output_schema(&self) -> Result<Option<String>, ClientError> {
        let format = self.get("text").and_then(|text| text.get("format"));
        let forms = [
            ("response_format", self.get("response_format")),
            ("text.format", format.filter(|form| !form.is_null())),
        ];
        let Some((name, form)) = forms
            .into_iter()
            .find_map(|(name, form)| form.map(|form| (name, form)))
        else {
            return Ok(None);
        };
        match form["type"].as_str() {
            Some("text") => Ok(None),
            Some("json_object") => Ok(Some(r#"{"type":"object"}"#.to_owned())),
            Some("json_schema") => {
                // A chat completion has it one member deeper than a response.
                let (param, schema) = match form.get("json_schema") {
                    Some(inner) => (format!("{name}.json_schema.schema"), &inner["schema"]),
                    None => (format!("{name}.schema"), &form["schema"]),
                };
                let checked = answer_schema::check(schema.to_string().as_bytes());
                checked.map(Some).map_err(|why| {
                    let message = format!("the schema of the answer {why}");
                    ClientError::invalid(&param, "invalid_json_schema", message)
                })
            }
            _ => {
                let message = "an answer is `text`, `json_object` or `json_schema`";
                let param = format!("{name}.type");
                Err(ClientError::unsupported(&param, message))
            }
        }
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

    #[test]
    fn a_length_is_the_least_that_is_named() {
        let least = |more: Value| read(&more).expect("a request").output_tokens_max();
        assert_eq!(least(json!({})).expect("none"), None);
        let two =
            json!({ "max_tokens": 90, "max_completion_tokens": 30, "max_output_tokens": null });
        assert_eq!(least(two).expect("a number"), Some(30));
        assert_eq!(
            least(json!({ "max_tokens": 1u64 << 40 })).expect("a number"),
            Some(u32::MAX)
        );
        for wrong in [json!(0), json!(-1), json!(1.5), json!("9")] {
            let error = least(json!({ "max_output_tokens": wrong })).expect_err("an error");
            assert_eq!(error.param.as_deref(), Some("max_output_tokens"));
        }
    }

    #[test]
    fn a_form_of_the_answer_is_a_schema() {
        let schema = |more: Value| read(&more).expect("a request").output_schema();
        let object = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
        let completion = json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": object } } });
        let response = json!({ "text": { "format": { "type": "json_schema", "name": "n", "schema": object } } });
        for asked in [completion, response] {
            assert_eq!(schema(asked).expect("a schema"), Some(object.to_string()));
        }
        let any = json!({ "response_format": { "type": "json_object" } });
        assert_eq!(
            schema(any).expect("a schema").as_deref(),
            Some(r#"{"type":"object"}"#)
        );
        let plain =
            json!({ "response_format": { "type": "text" }, "text": { "verbosity": "low" } });
        assert_eq!(schema(plain).expect("none"), None);
        let elsewhere = json!({ "$ref": "https://evil.test/s.json" });
        for (wrong, param) in [
            (
                json!({ "response_format": { "type": "grammar" } }),
                "response_format.type",
            ),
            (
                json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n" } } }),
                "response_format.json_schema.schema",
            ),
            (
                json!({ "text": { "format": { "type": "json_schema", "schema": elsewhere } } }),
                "text.format.schema",
            ),
        ] {
            let error = schema(wrong).expect_err("an error");
            assert_eq!(error.param.as_deref(), Some(param));
        }
    }
}
