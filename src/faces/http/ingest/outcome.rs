//! Answers to those who hand in letters.

use crate::gateway::intake_contract::{Accepted, CopyOutcome, Refusal};
use crate::http::refusal::{self, ApiFailure};
use crate::http::reply;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::time::Duration;

/// Time after which a caller is asked to come again.
const COME_AGAIN: Duration = Duration::from_secs(60);

/// Answers after the commit.
pub(super) fn stored(accepted: &Accepted) -> Response {
    let copies = accepted.copies.iter().map(|copy| {
        let (outcome, run, rule) = match &copy.outcome {
            CopyOutcome::Run(run) => ("run", Some(run.as_str()), None),
            CopyOutcome::Filed(rule) => ("filed", None, Some(rule.as_str())),
            CopyOutcome::Duplicate => ("duplicate", None, None),
            CopyOutcome::Held => ("held", None, None),
        };
        json!({
            "persona": copy.persona.as_str(),
            "message": copy.message.as_str(),
            "outcome": outcome,
            "run": run,
            "rule": rule,
        })
    });
    let stored = json!({
        "copies": copies.collect::<Vec<_>>(),
    });
    reply::json(serde_json::to_string(&stored).unwrap_or_default())
}

/// Answers a letter that was not stored. Sentences are those that any peer may read.
pub(super) fn refused(refusal: &Refusal) -> Response {
    let (status, code) = match refusal {
        Refusal::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Refusal::Hostile(_) => (StatusCode::UNPROCESSABLE_ENTITY, "not_acceptable"),
        Refusal::Denied | Refusal::Disowned => (StatusCode::FORBIDDEN, "sender_not_allowed"),
        Refusal::NobodyAddressed => (StatusCode::NOT_FOUND, "nobody_addressed"),
        Refusal::Unverifiable => return again("sender_not_verifiable", refusal.to_string()),
        Refusal::OutOfService => return again("out_of_service", refusal.to_string()),
        Refusal::TooMuch => return no_room(),
        Refusal::NotStored(_) => return again("not_stored", refusal.to_string()),
    };
    refusal::failure(&ApiFailure {
        status,
        code,
        message: refusal.to_string(),
        hint: String::new(),
        retry_after: None,
    })
}

/// Answers while there is no room for a letter.
pub(super) fn no_room() -> Response {
    again("no_room", "there is no room for a letter now".to_owned())
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
