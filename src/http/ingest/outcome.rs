//! Answers to those who hand in letters.

use crate::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use crate::http::refusal::{self, ApiFailure};
use crate::http::reply;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use std::time::Duration;

/// Time after which a caller is asked to come again.
const COME_AGAIN: Duration = Duration::from_secs(60);

/// Callers, by what their callers take for a final no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IngestSource {
    Key,
    /// Only 406 ends Mailgun's retries.
    Mailgun,
    /// Only 403 ends Postmark's retries.
    Postmark,
}

impl IngestSource {
    /// Returns the status of a refusal that a retry cannot change.
    fn for_good(self, usual: StatusCode) -> StatusCode {
        match self {
            Self::Key => usual,
            Self::Mailgun => StatusCode::NOT_ACCEPTABLE,
            Self::Postmark => StatusCode::FORBIDDEN,
        }
    }
}

/// A letter that was stored.
#[derive(Serialize)]
struct StoredLetter<'a> {
    copies: Vec<StoredLetterCopy<'a>>,
}

#[derive(Serialize)]
struct StoredLetterCopy<'a> {
    persona: &'a str,
    message: &'a str,
    /// `run`, `filed`, `duplicate`, `held`.
    outcome: &'static str,
    run: Option<&'a str>,
    /// Rule that filed it.
    rule: Option<&'a str>,
}

/// Answers after the commit.
pub(super) fn stored(accepted: &Accepted) -> Response {
    let copies = accepted.copies.iter().map(|copy| {
        let (outcome, run, rule) = match &copy.outcome {
            CopyOutcome::Run(run) => ("run", Some(run.as_str()), None),
            CopyOutcome::Filed(rule) => ("filed", None, Some(rule.as_str())),
            CopyOutcome::Duplicate => ("duplicate", None, None),
            CopyOutcome::Held => ("held", None, None),
        };
        StoredLetterCopy {
            persona: copy.persona.as_str(),
            message: copy.message.as_str(),
            outcome,
            run,
            rule,
        }
    });
    let stored = StoredLetter {
        copies: copies.collect(),
    };
    reply::json(serde_json::to_string(&stored).unwrap_or_default())
}

/// Answers a letter that was not stored. Sentences are those that any peer may read.
pub(super) fn refused(source: IngestSource, refusal: &Refusal) -> Response {
    let (status, code) = match refusal {
        Refusal::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Refusal::Hostile(_) => (StatusCode::UNPROCESSABLE_ENTITY, "not_acceptable"),
        Refusal::Denied | Refusal::Disowned => (StatusCode::FORBIDDEN, "sender_not_allowed"),
        Refusal::NobodyAddressed => (StatusCode::NOT_FOUND, "nobody_addressed"),
        Refusal::Unverifiable => return again("sender_not_verifiable", refusal.to_string()),
        Refusal::OutOfService => return again("out_of_service", refusal.to_string()),
        Refusal::NotStored(_) => return again("not_stored", refusal.to_string()),
    };
    final_no(source.for_good(status), code, refusal.to_string())
}

/// Answers while there is no room for a letter.
pub(super) fn no_room() -> Response {
    again("no_room", "there is no room for a letter now".to_owned())
}

/// Answers a request that no retry makes right.
pub(super) fn unusable(source: IngestSource, message: &str) -> Response {
    let status = source.for_good(StatusCode::BAD_REQUEST);
    final_no(status, "invalid_request", message.to_owned())
}

fn final_no(status: StatusCode, code: &'static str, message: String) -> Response {
    refusal::failure(&ApiFailure {
        status,
        code,
        message,
        hint: String::new(),
        retry_after: None,
    })
}

fn again(code: &'static str, message: String) -> Response {
    refusal::failure(&ApiFailure {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code,
        message,
        hint: String::new(),
        retry_after: Some(COME_AGAIN),
    })
}
