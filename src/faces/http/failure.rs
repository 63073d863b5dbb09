//! Reasons why a request gets no answer of its handler.

use super::words::size;
use crate::store::StoreError;
use axum::http::StatusCode;
use std::time::Duration;

/// Shape of the errors of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Page,
    Json,
    /// As OpenAI's API words them.
    OpenAi,
}

/// Reason why a request gets no answer of its handler.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    /// Nobody is known to have sent it. `crossed`: a link of another site led here.
    #[error("log in first")]
    LogIn { crossed: bool },
    #[error("this key is not good")]
    Unauthorized,
    #[error("{0}")]
    Forbidden(&'static str),
    #[error("there is no such {0}")]
    Missing(String),
    #[error("{0}")]
    Refused(String),
    #[error("{message}")]
    Conflict { message: String, hint: String },
    /// A body or a text of more than so many bytes.
    #[error("this is too large: {} is the most", size(*.0 as u64))]
    TooLarge(usize),
    /// The methods that the path takes.
    #[error("this address takes no such method: it takes {0}")]
    WrongMethod(String),
    #[error("this body took too long")]
    TooSlow,
    #[error("too many streams are open")]
    Busy,
    #[error("too many letters are being handed in now")]
    NoRoom(Duration),
    #[error("too many failed attempts")]
    TooManyAttempts(Duration),
    #[error("something went wrong here")]
    Internal(#[source] anyhow::Error),
}

impl PageError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::LogIn { .. } | Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::WrongMethod(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyAttempts(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Stable word for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::LogIn { .. } | Self::Unauthorized => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::Missing(_) => "not_found",
            Self::Refused(_) => "invalid_request",
            Self::Conflict { .. } => "conflict",
            Self::TooLarge(_) => "too_large",
            Self::WrongMethod(_) => "wrong_method",
            Self::TooSlow => "timeout",
            Self::NoRoom(_) => "no_room",
            Self::TooManyAttempts(_) => "too_many_attempts",
            Self::Busy => "busy",
            Self::Internal(_) => "internal",
        }
    }

    pub(super) fn hint(&self) -> String {
        match self {
            Self::LogIn { .. } => "`attache web login` makes a code".to_owned(),
            Self::Unauthorized => "`attache web tokens list` shows which keys are good".to_owned(),
            Self::Conflict { hint, .. } => hint.clone(),
            Self::Busy => "close some, or try again later".to_owned(),
            Self::NoRoom(wait) | Self::TooManyAttempts(wait) => {
                format!("wait {} seconds", wait.as_secs() + 1)
            }
            Self::Internal(_) => "the log of the engine has the cause".to_owned(),
            _ => String::new(),
        }
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Missing { kind, .. } => Self::Missing(kind.to_owned()),
            StoreError::Ambiguous { .. } => Self::Refused(error.to_string()),
            StoreError::WrongState { hint, .. } => Self::Conflict {
                message: error.to_string(),
                hint: hint.to_owned(),
            },
            error => Self::Internal(error.into()),
        }
    }
}
