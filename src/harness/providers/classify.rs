//! What a vendor's failure means: status, headers and body in, [`ProviderError`] out. Pure.
//!
//! Codes and types decide where the vendor has them; its sentences only where it has nothing else.

use super::contract::{Phase, ProviderError};
use super::{redact, wait};
use crate::domain::ErrorClass;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Whose habits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Anthropic,
    /// OpenAI and every server that speaks its chat completions.
    OpenAi,
}

/// Sentences by which vendors say that the input is too long; lower case.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "maximum context length",
    "context length is only",
    "exceeds the model's context length",
    "input token count",
    "maximum prompt length is",
    "reduce the length of the messages",
    "exceeds the limit of",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "model_context_window_exceeded",
    "input is too long for requested model",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
    "request entity too large",
];
/// Groq and OpenAI word a rate limit as something too large.
const NOT_OVERFLOW: &[&str] = &["tokens per min", "tpm", "rate limit"];
const BAD_KEY: &[&str] =
    &["incorrect api key", "invalid api key", "api key not valid", "api_key_invalid", "invalid x-api-key"];
const NO_CREDIT: &[&str] =
    &["credit balance is too low", "spend limit", "api usage limits", "insufficient credits"];
const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
];
const SENTENCE_LEN_MAX: usize = 300;

/// A response whose status is not 200, as an error of phase `BeforeFirstByte`.
pub fn http_failure(family: Family, status: u16, headers: &HeaderMap, body: &str) -> ProviderError {
    let vendor = Vendor::of_body(body);
    let limited = matches!(status, 429 | 503 | 529);
    let retry_after = wait::asked_wait(headers, &vendor.message, limited);
    let retry_after = retry_after.or_else(|| vendor.retry_delay.as_deref().and_then(wait::span));
    let mut class = by_status(family, status, &vendor);
    if vendor.detail_code.as_deref() == Some("enforced_spend_limit_reached") && retry_after.is_none() {
        class = ErrorClass::Billing;
    }
    let should_retry = match headers.get("x-should-retry").map(reqwest::header::HeaderValue::as_bytes) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    let message = vendor.sentence(&format!("HTTP {status}"));
    ProviderError {
        http_status: Some(status),
        provider_code: vendor.code.or(vendor.kind),
        retry_after,
        should_retry,
        ..ProviderError::new(class, Phase::BeforeFirstByte, message)
    }
}

/// An error object inside a response of status 200, as an error of phase `MidStream`.
pub fn stream_failure(family: Family, error: &Value) -> ProviderError {
    let vendor = Vendor::of_error(error);
    let names = || vendor.code.iter().chain(&vendor.kind).find_map(|name| status_of_name(name));
    let status = vendor.status.or_else(names);
    let class = status.map_or(ErrorClass::Transient, |status| by_status(family, status, &vendor));
    let message = vendor.sentence("the provider reported an error");
    let retry_after = wait::asked_wait(&HeaderMap::new(), &vendor.message, false);
    ProviderError {
        retry_after,
        provider_code: vendor.code.or(vendor.kind),
        ..ProviderError::new(class, Phase::MidStream, message)
    }
}

/// The status with which the same failure comes when it comes before the stream.
fn status_of_name(name: &str) -> Option<u16> {
    match name {
        "invalid_request_error" | "context_length_exceeded" | "content_filter" => Some(400),
        "authentication_error" | "invalid_api_key" => Some(401),
        "billing_error" => Some(402),
        "permission_error" => Some(403),
        "not_found_error" | "model_not_found" => Some(404),
        "request_too_large" => Some(413),
        "rate_limit_error" | "rate_limit_exceeded" => Some(429),
        name if QUOTA_CODES.contains(&name) => Some(429),
        "overloaded_error" | "server_is_overloaded" | "slow_down" => Some(503),
        "timeout_error" => Some(504),
        _ => None,
    }
}

fn by_status(family: Family, status: u16, vendor: &Vendor) -> ErrorClass {
    match status {
        400 | 422 => bad_request(family, status, vendor),
        401 => ErrorClass::Auth,
        402 => ErrorClass::Billing,
        // A moderation verdict lists its reasons; anything else is about the account.
        403 if vendor.has_reasons => ErrorClass::ContentFilter,
        403 if vendor.says(NO_CREDIT) => ErrorClass::Billing,
        403 => ErrorClass::Permission,
        404 => ErrorClass::ModelNotFound,
        408 | 504 => ErrorClass::Timeout,
        409 | 498 | 499 => ErrorClass::Transient,
        413 if vendor.is_silent && family == Family::OpenAi => ErrorClass::ContextOverflow,
        413 => ErrorClass::RequestTooLarge,
        429 if vendor.is_named(QUOTA_CODES) => ErrorClass::Billing,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        500 if vendor.overflows() => ErrorClass::ContextOverflow,
        500..=599 => ErrorClass::Transient,
        // We follow no redirect, because that would hand the key to another host.
        300..=399 => ErrorClass::Config,
        100..=299 => ErrorClass::Protocol,
        _ => ErrorClass::BadRequest,
    }
}

fn bad_request(family: Family, status: u16, vendor: &Vendor) -> ErrorClass {
    if vendor.is_named(&["context_length_exceeded"]) || vendor.overflows() {
        return ErrorClass::ContextOverflow;
    }
    if vendor.is_named(&["content_filter", "content_policy_violation"]) {
        return ErrorClass::ContentFilter;
    }
    if vendor.is_named(&["model_not_found"]) {
        return ErrorClass::ModelNotFound;
    }
    if vendor.is_named(&["invalid_api_key"]) || vendor.says(BAD_KEY) {
        return ErrorClass::Auth;
    }
    if vendor.is_named(QUOTA_CODES) || vendor.says(NO_CREDIT) {
        return ErrorClass::Billing;
    }
    // Cerebras refuses an input that is too long with a 400 that has no body.
    if status == 400 && vendor.is_silent && family == Family::OpenAi {
        return ErrorClass::ContextOverflow;
    }
    ErrorClass::BadRequest
}

/// What a vendor's error says, wherever it says it.
#[derive(Debug, Default)]
struct Vendor {
    kind: Option<String>,
    code: Option<String>,
    /// A numeric code that is an HTTP status, as OpenRouter and vLLM send it inside a stream.
    status: Option<u16>,
    detail_code: Option<String>,
    retry_delay: Option<String>,
    has_reasons: bool,
    /// There was no body at all.
    is_silent: bool,
    message: String,
}

impl Vendor {
    fn of_body(body: &str) -> Self {
        let trimmed = body.trim();
        if trimmed.is_empty() {
            return Self { is_silent: true, ..Self::default() };
        }
        match serde_json::from_str::<Value>(trimmed) {
            Ok(Value::Array(items)) => items.first().map(Self::of_envelope).unwrap_or_default(),
            Ok(value) => Self::of_envelope(&value),
            Err(_) => Self { message: html_title(trimmed).unwrap_or(trimmed).to_owned(), ..Self::default() },
        }
    }

    fn of_envelope(value: &Value) -> Self {
        match value.get("error") {
            Some(error) if !error.is_null() => Self::of_error(error),
            _ => Self::of_error(value),
        }
    }

    fn of_error(error: &Value) -> Self {
        if let Some(message) = error.as_str() {
            return Self { message: message.to_owned(), ..Self::default() };
        }
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let details = error.get("details");
        let delays = details.and_then(Value::as_array).into_iter().flatten();
        let delay = |item: &Value| item.get("retryDelay").and_then(Value::as_str).map(str::to_owned);
        let detail_code = details.and_then(|d| d.get("error_code")).and_then(Value::as_str);
        let reasons = error.get("metadata").and_then(|m| m.get("reasons")).and_then(Value::as_array);
        Self {
            kind: text("type"),
            code: text("code"),
            status: number.filter(|code| (400..600).contains(code)),
            detail_code: detail_code.map(str::to_owned),
            retry_delay: delays.into_iter().find_map(delay),
            has_reasons: reasons.is_some_and(|reasons| !reasons.is_empty()),
            is_silent: false,
            message: text("message").or_else(|| text("detail")).unwrap_or_default(),
        }
    }

    fn is_named(&self, names: &[&str]) -> bool {
        self.code.iter().chain(&self.kind).any(|name| names.contains(&name.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let lower = self.message.to_lowercase();
        phrases.iter().any(|phrase| lower.contains(phrase))
    }

    fn overflows(&self) -> bool {
        self.says(OVERFLOW) && !self.says(NOT_OVERFLOW)
    }

    /// One line for the operator: where, which code, and the vendor's sentence without keys.
    fn sentence(&self, place: &str) -> String {
        let name = self.code.as_ref().or(self.kind.as_ref());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        let words: String = self.message.split_whitespace().collect::<Vec<_>>().join(" ");
        // Masked before it is cut, so that no cut hides a key from the mask.
        let words: String = redact::key_shapes(&words).chars().take(SENTENCE_LEN_MAX).collect();
        if words.is_empty() { format!("{place}{name}") } else { format!("{place}{name}: {words}") }
    }
}

/// The title of an HTML page; proxies answer with pages.
fn html_title(text: &str) -> Option<&str> {
    if !text.starts_with('<') {
        return None;
    }
    let open = text.to_ascii_lowercase().find("<title>")?;
    let (title, _) = text.get(open + "<title>".len()..)?.split_once('<')?;
    Some(title.trim())
}
