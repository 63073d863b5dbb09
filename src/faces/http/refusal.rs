//! Answers in place of a handler's: the login page, errors in every shape, paths and methods that no route has.
//!
//! With a session, the page of an error has the navigation of every page and a link back to where its form or link was.

use super::context::WebContext;
use super::failure::{PageError, Shape};
use super::reply::{answer, protected, session_page};
use crate::store::WebSession;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

const PLAIN: &str = "text/plain; charset=utf-8";
/// Fields of forms that hold what somebody typed.
const TYPED_FIELDS: [&str; 3] = ["text", "words", "reason"];
const LOGIN_PATH: &str = "/login";
/// Time after which a place may be free again.
const BUSY_SECONDS: u64 = 30;

/// A refused request, as far as it was read.
#[derive(Default)]
pub(super) struct RefusedRequest {
    pub path: String,
    pub session: Option<WebSession>,
    /// `true`: it brought a cookie or a form of a session.
    pub had_session: bool,
    /// Fields of its form.
    pub fields: Vec<(String, String)>,
    /// Page of its form, to go back to.
    pub back: String,
    /// Path to go on to after a login.
    pub next: String,
}

impl RefusedRequest {
    /// Returns what was typed into its form, which would be lost.
    fn texts(&self) -> Vec<&str> {
        let typed = |(name, text): &&(String, String)| {
            TYPED_FIELDS.contains(&name.as_str()) && !text.trim().is_empty()
        };
        let fields = self.fields.iter().filter(typed);
        fields.map(|(_, text)| text.as_str()).collect()
    }
}

/// Values of the login page.
#[derive(Default, Serialize)]
pub(super) struct LoginPage<'a> {
    /// Path to go on to.
    next: &'a str,
    /// `true`: a link of another site led here.
    crossed: bool,
    /// `true`: the session of the request had ended.
    ended: bool,
    /// `true`: the request was a form, which changed nothing.
    is_form: bool,
    /// Reason why a code was not taken.
    problem: String,
    texts: Vec<&'a str>,
}

/// An error, as every path of the API answers it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct ApiError {
    error: RefusalFields,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ErrorDetail")]
struct RefusalFields {
    /// Stable word: `not_found`, `conflict`, `invalid_request`.
    code: &'static str,
    message: String,
    /// What to do; may be empty.
    hint: String,
    /// `true`: the same request may succeed later.
    retryable: bool,
}

/// Error in the form of OpenAI's API.
#[derive(Serialize)]
pub(super) struct OpenAiError<'a> {
    pub message: &'a str,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub param: Option<&'a str>,
    pub code: &'a str,
}

/// Formats an error as OpenAI's API does.
pub(super) fn openai_error(error: &OpenAiError<'_>) -> String {
    // Texts always have a JSON form.
    serde_json::to_string(&json!({ "error": error })).unwrap_or_default()
}

fn openai_error_of(error: &PageError) -> String {
    let (kind, code) = match error {
        PageError::LogIn { .. } | PageError::Unauthorized => {
            ("invalid_request_error", "invalid_api_key")
        }
        PageError::TooManyAttempts(_) => ("rate_limit_error", "rate_limit_exceeded"),
        PageError::Internal(_) => ("server_error", "internal"),
        _ => ("invalid_request_error", error.code()),
    };
    let hint = error.hint();
    let message = match hint.is_empty() {
        true => error.to_string(),
        false => format!("{error}: {hint}"),
    };
    openai_error(&OpenAiError {
        message: &message,
        kind,
        param: None,
        code,
    })
}

impl<'a> LoginPage<'a> {
    /// The page that goes on to `next`, with nothing else to say.
    pub(super) fn to(next: &'a str) -> Self {
        Self {
            next,
            ..Self::default()
        }
    }
}

/// Renders the login page.
pub(super) async fn login_page(
    context: &WebContext,
    status: StatusCode,
    values: &LoginPage<'_>,
) -> Result<Response, PageError> {
    let mut response = session_page(context, LOGIN_PATH, None, "login.html", values).await?;
    *response.status_mut() = status;
    Ok(response)
}

/// Answers a request that gets no answer of its handler.
pub(super) async fn answer_refused(
    context: &WebContext,
    shape: Shape,
    is_form: bool,
    refusal: &PageError,
    request: &RefusedRequest,
) -> Response {
    if shape != Shape::Page {
        return error(shape, refusal);
    }
    let page = match refusal {
        PageError::LogIn { crossed } => {
            let values = LoginPage {
                next: &request.next,
                crossed: *crossed,
                ended: request.had_session && !crossed,
                is_form,
                texts: request.texts(),
                problem: String::new(),
            };
            login_page(context, refusal.status(), &values).await
        }
        PageError::Refused(_) | PageError::TooManyAttempts(_) if request.path == LOGIN_PATH => {
            let hint = refusal.hint();
            let values = LoginPage {
                next: &request.next,
                problem: match hint.is_empty() {
                    true => refusal.to_string(),
                    false => format!("{refusal}: {hint}"),
                },
                ..LoginPage::default()
            };
            login_page(context, refusal.status(), &values).await
        }
        _ => error_page(context, refusal, request).await,
    };
    let failed = || answer(refusal.status(), PLAIN, refusal.to_string());
    with_fields(page.unwrap_or_else(|_| failed()), refusal)
}

/// Answers a program with an error.
fn error(shape: Shape, error: &PageError) -> Response {
    let response = match shape {
        Shape::OpenAi => answer(error.status(), "application/json", openai_error_of(error)),
        Shape::Page | Shape::Json => {
            let is_retryable = matches!(
                error,
                PageError::TooSlow
                    | PageError::TooManyAttempts(_)
                    | PageError::Busy
                    | PageError::NoRoom(_)
                    | PageError::Internal(_)
            );
            let body = error_record(RefusalFields {
                code: error.code(),
                message: error.to_string(),
                hint: error.hint(),
                retryable: is_retryable,
            });
            answer(error.status(), "application/json", body)
        }
    };
    with_fields(response, error)
}

/// Adds the header fields that go with an error, and notes one of ours in the log.
fn with_fields(mut response: Response, error: &PageError) -> Response {
    if let PageError::Internal(cause) = error {
        tracing::error!(error = format!("{cause:#}"), "a page could not be made");
    }
    if matches!(error, PageError::Unauthorized) {
        let scheme = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    let wait = match error {
        PageError::NoRoom(wait) | PageError::TooManyAttempts(wait) => Some(wait.as_secs() + 1),
        PageError::Busy => Some(BUSY_SECONDS),
        _ => None,
    };
    if let Some(seconds) = wait {
        let seconds = HeaderValue::from(seconds);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

fn error_record(error: RefusalFields) -> String {
    // Texts always have a JSON form.
    serde_json::to_string(&ApiError { error }).unwrap_or_default()
}

/// Failure of a route for programs that chooses its own status.
pub(super) struct ApiFailure {
    pub status: StatusCode,
    /// Stable word for programs.
    pub code: &'static str,
    pub message: String,
    pub hint: String,
    /// Time after which the same request may succeed; `None`: it never does.
    pub retry_after: Option<Duration>,
}

/// Answers a program with a failure.
pub(super) fn failure(failure: &ApiFailure) -> Response {
    let body = error_record(RefusalFields {
        code: failure.code,
        message: failure.message.clone(),
        hint: failure.hint.clone(),
        retryable: failure.retry_after.is_some(),
    });
    let mut response = answer(failure.status, "application/json", body);
    if let Some(wait) = failure.retry_after {
        let seconds = HeaderValue::from(wait.as_secs());
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

async fn error_page(
    context: &WebContext,
    error: &PageError,
    request: &RefusedRequest,
) -> Result<Response, PageError> {
    let values = json!({
        "status": error.status().as_u16(),
        "message": error.to_string(),
        "hint": error.hint(),
        "back": request.back,
        "texts": match error {
            PageError::Internal(_) => Vec::new(),
            _ => request.texts(),
        },
    });
    let mut response = session_page(
        context,
        &request.path,
        request.session.as_ref(),
        "error.html",
        &values,
    )
    .await?;
    *response.status_mut() = error.status();
    Ok(response)
}

/// Answers a request for a path that no route has, or with a method that its path does not take.
pub(super) async fn unrouted(
    context: &WebContext,
    refusal: PageError,
    request: RefusedRequest,
) -> Response {
    let shape = match request.path.as_str() {
        path if ["/api/", "/ingest/"]
            .iter()
            .any(|api| path.starts_with(api)) =>
        {
            Shape::Json
        }
        "/mcp" | "/livez" | "/readyz" => Shape::Json,
        path if path.starts_with("/v1/") => Shape::OpenAi,
        _ => Shape::Page,
    };
    protected(answer_refused(context, shape, false, &refusal, &request).await)
}
