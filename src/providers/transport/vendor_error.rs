//! Content of a vendor's error, in any envelope: the body of a failed response, or an error inside
//! a stream. Pure.
//!
//! Every envelope is read for every vendor, because gateways use their own for the vendors behind
//! them.

use crate::text::redact;
use serde_json::Value;

const SENTENCE_LEN_MAX: usize = 300;

/// One error, its parts gathered from every place where a vendor puts them.
#[derive(Debug, Default)]
pub struct VendorError {
    /// Vendor's `type`, or Gemini's `status`.
    pub kind: Option<String>,
    pub code: Option<String>,
    /// Part of the request that the error is about, for example `stream_options` or
    /// `tools[0].function.strict`.
    pub param: Option<String>,
    /// Numeric code that is an HTTP status, as OpenRouter, Gemini and vLLM send it inside a stream.
    pub status: Option<u16>,
    /// Anthropic's `details.error_code`, or the `reason` of Gemini's error info.
    pub detail_code: Option<String>,
    /// Gemini's `RetryInfo`.
    pub retry_delay: Option<String>,
    /// `true`: a quota of Gemini's that is counted by the day.
    pub is_daily: bool,
    /// `true`: OpenRouter's moderation gave reasons.
    pub has_reasons: bool,
    /// `true`: there was no body at all.
    pub is_silent: bool,
    /// Window in tokens, which llama.cpp sends in a field.
    pub window_tokens: Option<u64>,
    pub message: String,
    /// Error of the vendor behind a gateway.
    pub upstream: String,
}

impl VendorError {
    /// Reads the body of a failed response: JSON of any vendor, a page of a proxy, or nothing.
    pub fn from_body(body: &str) -> Self {
        let trimmed = body.trim();
        if trimmed.is_empty() {
            return Self {
                is_silent: true,
                ..Self::default()
            };
        }
        match serde_json::from_str::<Value>(trimmed) {
            // Gemini's stream without `alt=sse` is one array.
            Ok(Value::Array(items)) => items.first().map(Self::from_envelope).unwrap_or_default(),
            Ok(value) => Self::from_envelope(&value),
            Err(_) => Self {
                message: html_title(trimmed).unwrap_or(trimmed).to_owned(),
                ..Self::default()
            },
        }
    }

    /// Reads `{"error": {…}}` of most vendors, xAI's `{"code", "error": "text"}`, FastAPI's
    /// `{"detail": …}`, or the bare object.
    fn from_envelope(value: &Value) -> Self {
        match value.get("error") {
            Some(Value::String(message)) if document(message).is_some() => {
                Self::from_error(&Value::String(message.clone()))
            }
            Some(Value::String(message)) => Self {
                message: message.clone(),
                ..Self::from_error(value)
            },
            Some(error) if !error.is_null() => Self::from_error(error),
            _ => Self::from_error(value),
        }
    }

    /// Reads an error object, or its message alone.
    pub fn from_error(error: &Value) -> Self {
        if let Some(message) = error.as_str() {
            if let Some(inner) = document(message) {
                return Self::from_envelope(&inner);
            }
            return Self {
                message: message.to_owned(),
                ..Self::default()
            };
        }
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| error.get(key).and_then(whole_number);
        let status = number("code").and_then(|code| u16::try_from(code).ok());
        let mut read = Self {
            kind: text("type").or_else(|| text("status")),
            code: text("code").filter(|code| code.parse::<u64>().is_err()),
            param: text("param"),
            status: status.filter(|code| (400..600).contains(code)),
            window_tokens: number("n_ctx"),
            message: text("message")
                .or_else(|| text("detail"))
                .unwrap_or_default(),
            ..Self::default()
        };
        read.add_details(error.get("details").unwrap_or(&Value::Null));
        read.add_metadata(error.get("metadata").unwrap_or(&Value::Null));
        read.add_complaints(error.get("detail").unwrap_or(&Value::Null));
        read
    }

    /// Reads Anthropic's object, or Gemini's list of `google.rpc` messages.
    fn add_details(&mut self, details: &Value) {
        let text =
            |item: &Value, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        self.detail_code = text(details, "error_code");
        for item in details.as_array().into_iter().flatten() {
            self.detail_code = self.detail_code.take().or_else(|| text(item, "reason"));
            self.retry_delay = self.retry_delay.take().or_else(|| text(item, "retryDelay"));
            let violations = item
                .get("violations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let quotas = violations.filter_map(|violation| text(violation, "quotaId"));
            self.is_daily |= quotas
                .into_iter()
                .any(|send_limits| send_limits.contains("PerDay"));
        }
    }

    /// Reads OpenRouter's metadata: the reasons of its moderation, and the error of the vendor
    /// behind it.
    fn add_metadata(&mut self, metadata: &Value) {
        let reasons = metadata.get("reasons").and_then(Value::as_array);
        self.has_reasons = reasons.is_some_and(|reasons| !reasons.is_empty());
        self.upstream = match metadata.get("raw") {
            Some(Value::String(raw)) => {
                let inner = serde_json::from_str::<Value>(raw)
                    .ok()
                    .map(|raw| Self::from_envelope(&raw).message);
                inner
                    .filter(|message| !message.is_empty())
                    .unwrap_or_else(|| raw.clone())
            }
            Some(raw @ Value::Object(_)) => Self::from_envelope(raw).message,
            _ => String::new(),
        };
    }

    /// Reads FastAPI's list, as vLLM and Mistral send it:
    /// `[{"type", "loc": ["body", "x"], "msg"}]`.
    fn add_complaints(&mut self, detail: &Value) {
        let Some(first) = detail.as_array().and_then(|complaints| complaints.first()) else {
            return;
        };
        let text = |key: &str| first.get(key).and_then(Value::as_str).map(str::to_owned);
        self.message = text("msg").unwrap_or_default();
        self.code = text("type");
        let place = first
            .get("loc")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let place: Vec<_> = place
            .filter_map(Value::as_str)
            .filter(|part| *part != "body")
            .collect();
        self.param = (!place.is_empty()).then(|| place.join("."));
    }

    /// Reports whether its code, its type or its detail is one of these.
    pub fn is_named(&self, names: &[&str]) -> bool {
        let own = self.code.iter().chain(&self.kind).chain(&self.detail_code);
        own.into_iter().any(|name| names.contains(&name.as_str()))
    }

    /// Returns all its texts, in lower case.
    pub fn words(&self) -> String {
        format!("{} {}", self.message, self.upstream).to_lowercase()
    }

    /// Reports whether it contains one of these phrases; lower case.
    pub fn says(&self, phrases: &[&str]) -> bool {
        let words = self.words();
        phrases.iter().any(|phrase| words.contains(phrase))
    }

    /// Returns the vendor's own name of the error.
    pub fn name(&self) -> Option<String> {
        let number = || self.status.map(|status| status.to_string());
        self.code
            .clone()
            .or_else(|| self.kind.clone())
            .or_else(number)
    }

    /// Formats one line for the operator: place, code, and the vendor's message without keys.
    pub fn sentence(&self, place: &str) -> String {
        let name = self.code.as_ref().or(self.kind.as_ref());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        let all = [self.message.as_str(), self.upstream.as_str()];
        let words: Vec<_> = all.into_iter().flat_map(str::split_whitespace).collect();
        // Masked before it is shortened, so that no cut hides a key from the mask.
        let words: String = redact::key_shapes(&words.join(" "))
            .chars()
            .take(SENTENCE_LEN_MAX)
            .collect();
        if words.is_empty() {
            format!("{place}{name}")
        } else {
            format!("{place}{name}: {words}")
        }
    }
}

/// Parses a message that is a whole JSON document: Ollama forwards its runner's errors so.
fn document(message: &str) -> Option<Value> {
    serde_json::from_str(message).ok().filter(Value::is_object)
}

/// Reads a number, or a text that is one: some gateways quote their codes.
fn whole_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns the title of an HTML page; proxies answer with pages.
fn html_title(text: &str) -> Option<&str> {
    if !text.starts_with('<') {
        return None;
    }
    let open = text.to_ascii_lowercase().find("<title>")?;
    let (title, _) = text.get(open + "<title>".len()..)?.split_once('<')?;
    Some(title.trim())
}
