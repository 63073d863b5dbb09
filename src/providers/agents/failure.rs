//! Error classes of an agent's messages, where it reports nothing but text. Pure.
//!
//! Phrases are matched as whole words: the `auth` of `author` is no refused login.

use crate::domain::{ErrorClass, Timestamp};
use crate::providers::child::process::Ending;
use crate::providers::contract::traits::{Phase, ProviderError};
use std::time::Duration;

/// Phrases by class; the first match decides. Lower case.
const PHRASES: &[(ErrorClass, &[&str])] = &[
    (
        ErrorClass::SessionMissing,
        &[
            "no conversation found",
            "no session found",
            "session not found",
            "no rollout found",
            "thread not found",
        ],
    ),
    (ErrorClass::SessionBusy, &["already in use"]),
    (
        ErrorClass::ContextOverflow,
        &[
            "prompt is too long",
            "context window",
            "context_length_exceeded",
            "maximum context length",
            "input is too long",
        ],
    ),
    // Codex: "Incomplete response returned, reason: max_output_tokens".
    (ErrorClass::OutputLimit, &["reason: max_output_tokens"]),
    (
        ErrorClass::Billing,
        &[
            "credit balance is too low",
            "insufficient_quota",
            "billing",
            "exceeded your current quota",
            "payment required",
            "402",
        ],
    ),
    (
        ErrorClass::RateLimited,
        &[
            "usage limit",
            "rate limit",
            "rate_limit",
            "429",
            "too many requests",
            "hit your limit",
        ],
    ),
    (
        ErrorClass::Overloaded,
        &[
            "overloaded",
            "overloaded_error",
            "529",
            "503",
            "at capacity",
        ],
    ),
    (
        ErrorClass::Auth,
        &[
            "not logged in",
            "please run /login",
            "run codex login",
            "invalid api key",
            "invalid x-api-key",
            "no api key found",
            "authentication",
            "authentication_error",
            "unauthorized",
            "401",
        ],
    ),
    (ErrorClass::Permission, &["403", "forbidden"]),
    (
        ErrorClass::ModelNotFound,
        &[
            "model not found",
            "issue with the selected model",
            "model_not_found",
            "not_found_error",
            "unknown model",
            "no models available",
            "404",
        ],
    ),
    (
        ErrorClass::ContentFilter,
        &["usage policy", "content_filter"],
    ),
    (
        ErrorClass::Timeout,
        &["deadline exceeded", "timed out", "timeout"],
    ),
    (
        ErrorClass::Config,
        &[
            "unexpected argument",
            "unknown option",
            "invalid value",
            "error loading config",
            "unrecognized",
        ],
    ),
    (
        ErrorClass::Transient,
        &[
            "500",
            "502",
            "504",
            "service unavailable",
            "internal server error",
            "internal error",
            "bad gateway",
            "econnrefused",
            "enotfound",
            "econnreset",
            "connection error",
            "connection refused",
            "stream disconnected",
            "error sending request",
            "fetch failed",
            "network",
            "dns",
            "tls",
            "certificate",
        ],
    ),
];

/// Returns the class that a text names; `None` if it names none.
pub fn class_of(text: &str) -> Option<ErrorClass> {
    let lower = text.to_lowercase();
    PHRASES
        .iter()
        .find(|(_, phrases)| phrases.iter().any(|phrase| stands_in(&lower, phrase)))
        .map(|(class, _)| *class)
}

/// Returns the class of an HTTP status that an agent reports from its own vendor.
pub fn class_of_status(status: u16) -> Option<ErrorClass> {
    Some(match status {
        401 => ErrorClass::Auth,
        402 => ErrorClass::Billing,
        403 => ErrorClass::Permission,
        404 => ErrorClass::ModelNotFound,
        408 | 504 => ErrorClass::Timeout,
        413 => ErrorClass::RequestTooLarge,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        500..=599 => ErrorClass::Transient,
        _ => return None,
    })
}

/// Builds the error of an agent's message; class `otherwise` where it names none.
pub fn failure(
    text: &str,
    status: Option<u16>,
    otherwise: ErrorClass,
    now: Timestamp,
) -> ProviderError {
    let by_status = status.and_then(class_of_status);
    let class = by_status.or_else(|| class_of(text)).unwrap_or(otherwise);
    // The text decides where several failures share a status.
    let class = match (class, class_of(text)) {
        (ErrorClass::RateLimited, Some(ErrorClass::Billing)) => ErrorClass::Billing,
        (class, _) => class,
    };
    let limited = matches!(class, ErrorClass::RateLimited | ErrorClass::Overloaded);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    ProviderError {
        http_status: status,
        retry_after: if limited {
            reset_after(text, now)
        } else {
            None
        },
        ..ProviderError::new(class, Phase::MidStream, words)
    }
}

/// Builds the error of a program that ended without an answer: by its standard error, or by its
/// exit code.
pub fn no_answer(name: &str, ending: &Ending, now: Timestamp) -> ProviderError {
    let otherwise = if ending.code == Some(0) {
        ErrorClass::Protocol
    } else {
        ErrorClass::Transient
    };
    let class = if ending.code == Some(0) {
        None
    } else {
        class_of(&ending.complaints)
    };
    let error = failure(&ending.complaints, None, otherwise, now);
    let message = format!("`{name}` ended without an answer: {ending}");
    ProviderError {
        class: class.unwrap_or(otherwise),
        message,
        ..error
    }
}

/// Returns the time from now to an instant in Unix seconds; `None` for a past one or one over a
/// year away.
pub fn until(seconds: i64, now: Timestamp) -> Option<Duration> {
    const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
    let wait = Timestamp::from_millis(seconds.checked_mul(1000)?).since(now);
    (!wait.is_zero() && wait < YEAR).then_some(wait)
}

/// Returns the time until a plan is reset: Claude Code ends its sentence about a used-up plan with
/// `|` and the Unix time of the reset.
fn reset_after(text: &str, now: Timestamp) -> Option<Duration> {
    let (_, after) = text.rsplit_once('|')?;
    let digits: String = after
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    until(digits.parse().ok()?, now)
}

/// Reports whether the phrase stands in the text with no letter or digit next to it.
fn stands_in(text: &str, phrase: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(in_word) && !after.is_some_and(in_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_words() {
        let cases = [
            (
                "Invalid API key · Please run /login",
                Some(ErrorClass::Auth),
            ),
            ("the author of authenticationless text", None),
            ("Credit balance is too low", Some(ErrorClass::Billing)),
            (
                "Claude AI usage limit reached|1900000060",
                Some(ErrorClass::RateLimited),
            ),
            (
                "API Error: 529 {\"type\":\"overloaded_error\"}",
                Some(ErrorClass::Overloaded),
            ),
            ("line 15290", None),
            (
                "Incomplete response returned, reason: max_output_tokens",
                Some(ErrorClass::OutputLimit),
            ),
            (
                "Incomplete response returned, reason: content_filter",
                Some(ErrorClass::ContentFilter),
            ),
            (
                "No conversation found with session ID: x",
                Some(ErrorClass::SessionMissing),
            ),
            (
                "Error: Session ID 1 is already in use.",
                Some(ErrorClass::SessionBusy),
            ),
            (
                "connect ECONNREFUSED 127.0.0.1:9",
                Some(ErrorClass::Transient),
            ),
            ("networked", None),
        ];
        for (text, class) in cases {
            assert_eq!(class_of(text), class, "{text}");
        }
        let now = Timestamp::from_millis(1_900_000_000_000);
        let limit = failure(
            "usage limit reached|1900000060",
            None,
            ErrorClass::Protocol,
            now,
        );
        assert_eq!(limit.retry_after, Some(Duration::from_secs(60)));
        assert_eq!(
            failure(
                "credit balance is too low",
                Some(429),
                ErrorClass::Protocol,
                now
            )
            .class,
            ErrorClass::Billing
        );
        assert_eq!(until(1_900_000_000, now), None);
        assert_eq!(until(i64::MAX, now), None);
    }
}
