//! Requests that are to happen once: the answer of the first one is given to every later one with the same `Idempotency-Key`.
//!
//! The key and the change are two commits: a request that the engine did not live to answer is neither repeated nor
//! called done.

use crate::domain::sha256_hex;
use crate::http::call::{Call, WebCaller};
use crate::http::failure::PageError;
use crate::http::reply;
use crate::store::{ApiCall, ApiCallState, Store};
use axum::body::to_bytes;
use axum::response::Response;

/// Name of the header field.
const KEY_FIELD: &str = "idempotency-key";
/// Longest key.
const KEY_CHARS_MAX: usize = 200;
/// Most bytes of an answer; those of actions are single records.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Returns the request as one that is to happen once; `None`: it carries no key.
pub(in crate::http) fn wanted(call: &Call) -> Result<Option<ApiCall>, PageError> {
    let Some(key) = call.headers.get(KEY_FIELD) else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| !key.is_empty() && key.len() <= KEY_CHARS_MAX);
    let Some(key) = key else {
        return Err(PageError::Refused(format!(
            "an `Idempotency-Key` has 1 to {KEY_CHARS_MAX} ASCII characters"
        )));
    };
    let caller = match &call.caller {
        WebCaller::Browser(session) => session.session.id.clone(),
        WebCaller::Program(key) => key.id.clone(),
        WebCaller::Nobody => return Ok(None),
    };
    let (method, path) = (call.method.as_str(), call.path.as_str());
    Ok(Some(ApiCall {
        caller,
        key: key.to_owned(),
        request_sha256: sha256_hex(&[method.as_bytes(), b" ", path.as_bytes(), b"\n", &call.body]),
    }))
}

/// Returns the answer of an earlier request with the same key; `None`: this is the first one.
pub(super) async fn earlier(call: &Call, once: &ApiCall) -> Result<Option<Response>, PageError> {
    let conflict = |message: &str, hint: &str| {
        Err(PageError::Conflict {
            message: message.to_owned(),
            hint: hint.to_owned(),
        })
    };
    match call.context.store.begin_api_call(once).await? {
        ApiCallState::New => Ok(None),
        ApiCallState::Answered(answer) => Ok(Some(reply::json(answer))),
        ApiCallState::Unknown => conflict(
            "the outcome of the first request with this `Idempotency-Key` is not known",
            "it is at work, or the engine stopped meanwhile: read the record before you send it under another key",
        ),
        ApiCallState::Other => conflict(
            "another request had this `Idempotency-Key`",
            "give each request a key of its own",
        ),
    }
}

/// Keeps the answer of a request, or, after an error, frees its key.
pub(super) async fn keep(
    store: &Store,
    once: &ApiCall,
    answered: Result<Response, PageError>,
) -> Result<Response, PageError> {
    match answered {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            let read = to_bytes(body, ANSWER_BYTES_MAX).await;
            let bytes = read.map_err(|error| PageError::Internal(error.into()))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            store.end_api_call(once, Some(text)).await?;
            Ok(Response::from_parts(parts, bytes.into()))
        }
        Err(error) => {
            // An internal error may come from behind the change.
            if !matches!(error, PageError::Internal(_)) {
                store.end_api_call(once, None).await?;
            }
            Err(error)
        }
    }
}
