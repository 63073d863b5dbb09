//! The table of failures: every row that concerns Anthropic, OpenAI and the servers that speak like it.

use attache::domain::ErrorClass::{self, *};
use attache::harness::providers::classify::Family::{self, Anthropic, OpenAi};
use attache::harness::providers::classify::{http_failure, stream_failure};
use attache::harness::providers::{
    Patience, Phase, ProviderError, RetryDecision, Size, Tried, retry_decision,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
}

fn error(kind: &str, code: &str, message: &str) -> String {
    let mut error = json!({"message": message});
    for (key, value) in [("type", kind), ("code", code)] {
        if !value.is_empty() {
            error[key] = Value::String(value.to_owned());
        }
    }
    json!({"type": "error", "error": error}).to_string()
}

#[test]
fn every_status_has_its_class() {
    let table: &[(Family, u16, String, ErrorClass)] = &[
        (OpenAi, 202, "{}".into(), Protocol),
        (Anthropic, 204, String::new(), Protocol),
        (Anthropic, 400, error("invalid_request_error", "", "messages: roles must alternate"), BadRequest),
        (Anthropic, 400, error("invalid_request_error", "", "Your credit balance is too low to"), Billing),
        (Anthropic, 400, error("", "", "You have reached your specified API usage limits."), Billing),
        (Anthropic, 400, String::new(), BadRequest),
        (
            OpenAi,
            400,
            error("invalid_request_error", "unsupported_parameter", "no `temperature`"),
            BadRequest,
        ),
        (OpenAi, 400, error("", "", "Incorrect API key provided"), Auth),
        (OpenAi, 400, error("invalid_request_error", "content_policy_violation", "no"), ContentFilter),
        (OpenAi, 400, error("", "content_filter", "no"), ContentFilter),
        (OpenAi, 400, error("", "model_not_found", "no such model"), ModelNotFound),
        (OpenAi, 400, String::new(), ContextOverflow),
        (Anthropic, 401, error("authentication_error", "", "invalid x-api-key"), Auth),
        (OpenAi, 401, error("", "invalid_api_key", "Incorrect API key"), Auth),
        (Anthropic, 402, error("billing_error", "", "pay"), Billing),
        (OpenAi, 402, r#"{"error":{"message":"Insufficient credits","code":402}}"#.into(), Billing),
        (Anthropic, 403, error("permission_error", "", "no"), Permission),
        (OpenAi, 403, error("", "unsupported_country_region_territory", "no"), Permission),
        (OpenAi, 403, r#"{"error":{"message":"x","metadata":{"reasons":["hate"]}}}"#.into(), ContentFilter),
        (OpenAi, 403, r#"{"error":{"message":"x","metadata":{"reasons":[]}}}"#.into(), Permission),
        (Anthropic, 404, error("not_found_error", "", "model: x"), ModelNotFound),
        (OpenAi, 404, error("", "model_not_found", "x"), ModelNotFound),
        (OpenAi, 408, String::new(), Timeout),
        (Anthropic, 409, String::new(), Transient),
        (Anthropic, 413, error("request_too_large", "", "Request exceeds the maximum size"), RequestTooLarge),
        (OpenAi, 413, "<html><title>413 Request Entity Too Large</title></html>".into(), RequestTooLarge),
        (OpenAi, 413, " ".into(), ContextOverflow),
        (OpenAi, 415, String::new(), BadRequest),
        (OpenAi, 422, r#"{"detail":"field required"}"#.into(), BadRequest),
        (OpenAi, 418, String::new(), BadRequest),
        (Anthropic, 429, error("rate_limit_error", "", "slow"), RateLimited),
        (OpenAi, 429, error("requests", "rate_limit_exceeded", "slow"), RateLimited),
        (OpenAi, 429, error("", "", "Request too large for gpt-x on tokens per min (TPM)"), RateLimited),
        (OpenAi, 429, error("insufficient_quota", "insufficient_quota", "pay"), Billing),
        (OpenAi, 429, error("", "credit_balance_exhausted", "pay"), Billing),
        (OpenAi, 429, error("", "organization_spend_limit_exceeded", "pay"), Billing),
        (OpenAi, 429, error("", "project_spend_limit_exceeded", "pay"), Billing),
        (OpenAi, 429, error("", "organization_usage_limit_exceeded", "pay"), Billing),
        (OpenAi, 498, String::new(), Transient),
        (OpenAi, 499, String::new(), Transient),
        (Anthropic, 500, error("api_error", "", "Internal server error"), Transient),
        (OpenAi, 500, error("server_error", "", "oops"), Transient),
        (OpenAi, 502, "<html><title>Bad gateway</title></html>".into(), Transient),
        (OpenAi, 503, error("", "slow_down", "slow"), Overloaded),
        (Anthropic, 504, error("timeout_error", "", "late"), Timeout),
        (Anthropic, 520, String::new(), Transient),
        (Anthropic, 524, String::new(), Transient),
        (Anthropic, 529, error("overloaded_error", "", "Overloaded"), Overloaded),
        (Anthropic, 530, String::new(), Transient),
        (OpenAi, 599, String::new(), Transient),
    ];
    for (family, status, body, class) in table {
        let failure = http_failure(*family, *status, &HeaderMap::new(), body);
        assert_eq!(failure.class, *class, "{family:?} {status} {body}");
        assert_eq!((failure.http_status, failure.phase), (Some(*status), Phase::BeforeFirstByte));
    }
}

#[test]
fn an_overflow_is_recognised_in_every_vendors_words() {
    let sentences = [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "input length and max_tokens exceed context limit: 9 + 9 > 10",
        "Your input exceeds the context window of this model",
        "This model's maximum context length is 8192 tokens. However, you requested",
        "the model's context length is only 4096 tokens",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
        "This model's maximum prompt length is 131072",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 200 exceeds the limit of 100",
        "the request exceeds the available context size",
        "tokens to keep from the initial prompt is greater than the context length",
        "Prompt contains 99 tokens, too large for model with 10 maximum context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 8",
        "Input is too long for requested model.",
    ];
    for sentence in sentences {
        for status in [400, 422, 500] {
            let failure = http_failure(OpenAi, status, &HeaderMap::new(), &error("", "", sentence));
            assert_eq!(failure.class, ContextOverflow, "{status} {sentence}");
        }
    }
    let coded = error("invalid_request_error", "context_length_exceeded", "x");
    assert_eq!(http_failure(OpenAi, 400, &HeaderMap::new(), &coded).class, ContextOverflow);
    let limited = error("", "", "Request too large: maximum context length per rate limit, tokens per min");
    assert_eq!(http_failure(OpenAi, 400, &HeaderMap::new(), &limited).class, BadRequest);
}

#[test]
fn an_error_inside_a_stream_is_classified_by_its_name() {
    let table = [
        ("invalid_request_error", BadRequest),
        ("authentication_error", Auth),
        ("billing_error", Billing),
        ("permission_error", Permission),
        ("not_found_error", ModelNotFound),
        ("request_too_large", RequestTooLarge),
        ("rate_limit_error", RateLimited),
        ("rate_limit_exceeded", RateLimited),
        ("insufficient_quota", Billing),
        ("context_length_exceeded", ContextOverflow),
        ("api_error", Transient),
        ("server_error", Transient),
        ("overloaded_error", Overloaded),
        ("server_is_overloaded", Overloaded),
        ("timeout_error", Timeout),
        ("never_heard_of", Transient),
    ];
    for (name, class) in table {
        let failure = stream_failure(Anthropic, &json!({"type": name, "message": "x"}));
        assert_eq!((failure.class, failure.phase), (class, Phase::MidStream), "{name}");
        assert_eq!(failure.provider_code.as_deref(), Some(name));
    }
}

#[test]
fn a_spend_limit_without_a_date_is_a_matter_of_money() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    assert_eq!(http_failure(Anthropic, 429, &HeaderMap::new(), body).class, Billing);
    let dated = http_failure(Anthropic, 429, &headers(&[("retry-after", "60")]), body);
    assert_eq!(dated.class, RateLimited);
}

/// After the first of three calls, with time enough and the shortest jitter.
fn decide(error: &ProviderError) -> RetryDecision {
    let minute = Duration::from_secs(60);
    let patience = Patience {
        attempts_max: 3,
        inline_wait_max: minute,
        left: minute * 10,
        fallback_on_refusal: false,
        jitter_seed: 0,
    };
    retry_decision(error, Tried { calls: 1, ..Tried::default() }, patience, Size::default())
}

#[test]
fn the_providers_wait_and_word_arrive() {
    let asked =
        |pairs: &[(&'static str, &'static str)], body: &str| http_failure(OpenAi, 429, &headers(pairs), body);
    let delay = r#"[{"error":{"code":429,"message":"x","details":[{"@type":"t"},{"retryDelay":"34.07s"}]}}]"#;
    assert_eq!(asked(&[], delay).retry_after, Some(Duration::from_millis(34070)));
    assert_eq!(asked(&[("retry-after-ms", "20")], delay).retry_after, Some(Duration::from_millis(20)));
    let vetoed = asked(&[("x-should-retry", "false")], "{}");
    let decision = decide(&vetoed);
    assert_eq!(decision, RetryDecision::Reschedule(Duration::from_secs(30)));
    let forced = http_failure(OpenAi, 400, &headers(&[("x-should-retry", "true")]), "{\"error\":\"x\"}");
    let decision = decide(&forced);
    assert_eq!(decision, RetryDecision::RetryNow(Duration::ZERO));
}

#[test]
fn a_message_is_one_short_line() {
    let body = error("", "", &format!("a\n\n b {}", "ü".repeat(5000)));
    let message = http_failure(OpenAi, 400, &HeaderMap::new(), &body).message;
    assert!(message.starts_with("HTTP 400: a b üü") && message.chars().count() <= 500, "{message}");
    assert_eq!(http_failure(OpenAi, 503, &HeaderMap::new(), "").message, "HTTP 503");
}
