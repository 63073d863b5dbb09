//! Errors in the form of OpenAI's API, by which its clients choose their exception and whether they try again.

use crate::http::refusal::{self, OpenAiError};
use crate::http::reply;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use std::time::Duration;

/// Reason why a client gets no answer.
#[derive(Debug)]
pub(super) struct ClientError {
    pub status: StatusCode,
    pub kind: &'static str,
    pub message: String,
    pub param: Option<String>,
    pub code: &'static str,
    /// Time after which the client may ask again.
    pub retry_after: Option<Duration>,
    /// `true`: a run is stored, so that a second request would be a second run.
    pub is_stored: bool,
}

/// Errors of a client's own making.
pub(super) const INVALID: &str = "invalid_request_error";

impl ClientError {
    pub fn invalid(param: &str, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            kind: INVALID,
            message: message.into(),
            param: (!param.is_empty()).then(|| param.to_owned()),
            code,
            retry_after: None,
            is_stored: false,
        }
    }

    pub fn unsupported(param: &str, message: impl Into<String>) -> Self {
        Self::invalid(param, "unsupported_parameter", message)
    }

    pub fn server(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: "server_error",
            ..Self::invalid("", code, message)
        }
    }

    /// Returns the JSON of the error.
    pub fn body(&self) -> String {
        refusal::openai_error(&OpenAiError {
            message: &self.message,
            kind: self.kind,
            param: self.param.as_deref(),
            code: self.code,
        })
    }

    pub fn response(&self) -> Response {
        let mut response = reply::answer(self.status, "application/json", self.body());
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            headers.insert(header::RETRY_AFTER, seconds);
        }
        if self.is_stored {
            // OpenAI's clients try again by themselves, and obey this field.
            let no = HeaderValue::from_static("false");
            headers.insert("x-should-retry", no);
        }
        response
    }
}

impl From<crate::store::StoreError> for ClientError {
    fn from(error: crate::store::StoreError) -> Self {
        tracing::error!(
            error = format!("{:#}", anyhow::Error::from(error)),
            "a program got no answer"
        );
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::server(
            status,
            "internal",
            "something went wrong here; the log of the engine has the cause",
        )
    }
}
