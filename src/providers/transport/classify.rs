//! Classes of vendors' failures: status, headers and body in, [`ProviderError`] out. Pure.
//!
//! Codes and types decide where the vendor has them; phrases only where it has nothing else.

use crate::domain::ErrorClass;
use crate::providers::contract::traits::{Parameter, Phase, ProviderError};
use crate::providers::transport::overflow;
use crate::providers::transport::refusal;
use crate::providers::transport::vendor_error::VendorError;
use crate::providers::transport::wait;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::Value;

/// Vendor family whose error format applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Anthropic,
    /// OpenAI and every server of the chat completions API.
    OpenAi,
    Grok,
    OpenRouter,
    Gemini,
    Ollama,
}

impl Family {
    /// Returns the name of the family in `ProviderState`: only its own adapter sends such a block
    /// back.
    pub const fn as_str(self) -> &'static str {
        match self {
            Family::Anthropic => "anthropic",
            Family::OpenAi => "openai",
            Family::Grok => "grok",
            Family::OpenRouter => "openrouter",
            Family::Gemini => "gemini",
            Family::Ollama => "ollama",
        }
    }
}

const BAD_KEY: &[&str] = &[
    "incorrect api key",
    "invalid api key",
    "api key not valid",
    "api key expired",
    "api_key_invalid",
    "invalid x-api-key",
];
const BAD_KEY_CODES: &[&str] = &["invalid_api_key", "authentication_error", "API_KEY_INVALID"];
const NO_CREDIT: &[&str] = &[
    "credit balance is too low",
    "spend limit",
    "api usage limits",
    "insufficient credits",
    "insufficient balance",
    "enable billing",
    "billing to be enabled",
    "billing hard limit",
    "doesn't have any credits",
    "does not have any credits",
];
/// Phrases that come with the status of a rate limit and yet concern the account: z.ai's sentence,
/// and Gemini's for a plan without any quota of the requested kind.
const NOTHING_LEFT: &[&str] = &["insufficient balance", "insufficient credits", "limit: 0,"];
const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    // Moonshot's code.
    "exceeded_current_quota_error",
];
/// Codes of a missing or retired model that come with status 400.
const NO_MODEL_CODES: &[&str] = &["model_not_found", "invalid_model", "model_decommissioned"];
/// Phrases of a missing or retired model: OpenRouter, LiteLLM, DeepSeek, Mistral; lower case.
const NO_MODEL: &[&str] = &[
    "is not a valid model id",
    "invalid model id",
    "invalid model name",
    "supported api model names are",
    "invalid model:",
    // xAI's Responses API.
    "model not found:",
    "has been decommissioned",
];
/// Phrases for what this server cannot do as it was started: Ollama's for a model that its machine
/// cannot hold, llama.cpp's for tools, newer and older.
const UNABLE: &[&str] = &[
    "requires more system memory",
    "requires --jinja",
    "unsupported param: tools",
];
/// Ollama's phrase.
const QUEUE_FULL: &[&str] = &["server busy"];
const FILTER_CODES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    // OpenAI's for a prompt that its monitor stopped, and by kind.
    "invalid_prompt",
    "bio_policy",
    "cyber_policy",
    "image_content_policy_violation",
];

/// Returns the error of a response whose status is not 200; phase `BeforeFirstByte`.
pub fn http_failure(family: Family, status: u16, headers: &HeaderMap, body: &str) -> ProviderError {
    let vendor = VendorError::from_body(body);
    let limited = matches!(status, 429 | 503 | 529);
    let mut retry_after = wait::asked_wait(headers, &vendor, limited);
    let mut class = by_status(family, status, &vendor);
    if vendor.is_named(&["enforced_spend_limit_reached"]) {
        // A spend limit with a date is one of a period, which passes.
        class = if retry_after.is_none() {
            ErrorClass::Billing
        } else {
            class
        };
    }
    if class == ErrorClass::RateLimited && vendor.is_daily {
        retry_after = Some(retry_after.unwrap_or_default().max(wait::DAILY_QUOTA_MIN));
    }
    let should_retry = match headers.get("x-should-retry").map(HeaderValue::as_bytes) {
        Some(b"true") => Some(true),
        Some(b"false") => Some(false),
        _ => None,
    };
    let error = ProviderError::new(
        class,
        Phase::BeforeFirstByte,
        vendor.sentence(&format!("HTTP {status}")),
    );
    with_particulars(
        ProviderError {
            http_status: Some(status),
            retry_after,
            should_retry,
            ..error
        },
        &vendor,
    )
}

/// Returns the error of an error object inside a response of status 200; phase `MidStream`.
pub fn stream_failure(family: Family, error: &Value) -> ProviderError {
    let vendor = VendorError::from_error(error);
    let names = || {
        vendor
            .code
            .iter()
            .chain(&vendor.kind)
            .find_map(|name| status_of_name(name))
    };
    let class = match vendor.status.or_else(names) {
        Some(status) => by_status(family, status, &vendor),
        None if overflow::is_overflow(&vendor) => ErrorClass::ContextOverflow,
        None if vendor.says(QUEUE_FULL) => ErrorClass::Overloaded,
        None => ErrorClass::Transient,
    };
    let message = vendor.sentence("the provider reported an error");
    let retry_after = wait::asked_wait(&HeaderMap::new(), &vendor, false);
    with_particulars(
        ProviderError {
            retry_after,
            ..ProviderError::new(class, Phase::MidStream, message)
        },
        &vendor,
    )
}

/// Adds the details of some classes: the refused parameter, the window of the model.
fn with_particulars(error: ProviderError, vendor: &VendorError) -> ProviderError {
    let (mut refused, mut window_tokens) = (None, None);
    match error.class {
        // OpenRouter has no vendor (404), DeepInfra no method (405), llama.cpp an error of its own (500).
        ErrorClass::BadRequest | ErrorClass::ModelNotFound | ErrorClass::Unsupported
            if refusal::refuses_tools(vendor) =>
        {
            refused = Some(Parameter::Tools);
        }
        ErrorClass::BadRequest => refused = refusal::refused(vendor),
        ErrorClass::ContextOverflow => window_tokens = overflow::window_tokens(vendor),
        _ => {}
    }
    ProviderError {
        refused,
        window_tokens,
        provider_code: vendor.name(),
        ..error
    }
}

/// Returns the status that this failure has before the stream begins.
fn status_of_name(name: &str) -> Option<u16> {
    match name {
        "invalid_request_error" | "context_length_exceeded" => Some(400),
        name if NO_MODEL_CODES.contains(&name) && name != "model_not_found" => Some(400),
        name if FILTER_CODES.contains(&name) || refusal::IMAGE_CODES.contains(&name) => Some(400),
        "INVALID_ARGUMENT" | "FAILED_PRECONDITION" => Some(400),
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => Some(401),
        "billing_error" => Some(402),
        "permission_error" | "PERMISSION_DENIED" => Some(403),
        "not_found_error" | "model_not_found" | "NOT_FOUND" => Some(404),
        "ABORTED" => Some(409),
        "request_too_large" => Some(413),
        "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => Some(429),
        name if QUOTA_CODES.contains(&name) => Some(429),
        "CANCELLED" => Some(499),
        "overloaded_error" | "server_is_overloaded" | "slow_down" | "UNAVAILABLE" => Some(503),
        "timeout_error" | "DEADLINE_EXCEEDED" => Some(504),
        _ => None,
    }
}

fn by_status(family: Family, status: u16, vendor: &VendorError) -> ErrorClass {
    match status {
        400 | 422 => bad_request(family, status, vendor),
        401 => ErrorClass::Auth,
        402 => ErrorClass::Billing,
        // A moderation verdict lists its reasons; any other 403 concerns the account.
        403 if vendor.has_reasons => ErrorClass::ContentFilter,
        403 if vendor.says(NO_CREDIT) => ErrorClass::Billing,
        403 => ErrorClass::Permission,
        404 => ErrorClass::ModelNotFound,
        408 | 504 => ErrorClass::Timeout,
        409 | 498 | 499 => ErrorClass::Transient,
        413 if vendor.is_silent && family == Family::OpenAi => ErrorClass::ContextOverflow,
        413 | 429 if overflow::is_above_rate_limit(vendor) => ErrorClass::ContextOverflow,
        413 => ErrorClass::RequestTooLarge,
        429 if vendor.is_named(QUOTA_CODES) || vendor.says(NOTHING_LEFT) => ErrorClass::Billing,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        500 if overflow::is_overflow(vendor) => ErrorClass::ContextOverflow,
        500 if vendor.says(UNABLE) => ErrorClass::Unsupported,
        500..=599 => ErrorClass::Transient,
        // We follow no redirect, because that would hand the key to another host.
        300..=399 => ErrorClass::Config,
        // xAI's 202 is an answer to be fetched later, which we never request.
        100..=299 => ErrorClass::Protocol,
        _ => ErrorClass::BadRequest,
    }
}

fn bad_request(family: Family, status: u16, vendor: &VendorError) -> ErrorClass {
    if overflow::is_overflow(vendor) {
        return ErrorClass::ContextOverflow;
    }
    // OpenRouter's moderation comes with 403, its vendors' with any status.
    if vendor.is_named(FILTER_CODES) || vendor.has_reasons {
        return ErrorClass::ContentFilter;
    }
    if vendor.is_named(NO_MODEL_CODES) || vendor.says(NO_MODEL) {
        return ErrorClass::ModelNotFound;
    }
    // xAI and Gemini refuse a wrong key with 400.
    let speaks_of_key = family == Family::Grok && vendor.says(&["api key"]);
    if vendor.is_named(BAD_KEY_CODES) || vendor.says(BAD_KEY) || speaks_of_key {
        return ErrorClass::Auth;
    }
    if vendor.is_named(QUOTA_CODES) || vendor.says(NO_CREDIT) {
        return ErrorClass::Billing;
    }
    // Gemini: the country, or no free tier in that country.
    if vendor.is_named(&["FAILED_PRECONDITION"]) {
        return ErrorClass::Permission;
    }
    // Cerebras refuses an input that is too long with a 400 that has no body.
    if status == 400 && vendor.is_silent && family == Family::OpenAi {
        return ErrorClass::ContextOverflow;
    }
    ErrorClass::BadRequest
}
