//! Answers: pages, redirects, errors, and the header fields that every answer has.

use super::call::Call;
use super::context::{OpenWork, WebContext};
use super::failure::{PageError, Shape};
use super::templates::{self, AssetNames};
use crate::domain::{Timestamp, sha256_hex};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use serde::Serialize;
use std::sync::OnceLock;
use std::time::Duration;

/// Policy of our own pages: nothing inline, nothing from elsewhere, in nobody's frame.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'";

impl Call {
    /// Renders a page: `values` beside what every page shows.
    pub async fn page(
        &self,
        template: &str,
        values: &impl Serialize,
    ) -> Result<Response, PageError> {
        let session = self.session().map(|session| &session.session);
        let page = PageValues {
            values,
            path: &self.path,
            form_token: session.map(|session| session.form_token.as_str()),
            asked_by: session.map(|session| session.asked_by.as_str()),
            waiting: match session {
                Some(_) => Some(self.context.waiting().await?),
                None => None,
            },
            assets: templates::assets(),
            now: self.context.now(),
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok(html(StatusCode::OK, self.context.render(template, page)?))
    }
}

impl Call {
    /// Answers an action: a browser reads `page` next, so that loading it again sends nothing; a program gets the record.
    pub fn done(&self, page: &str, changed: &impl Serialize) -> Result<Response, PageError> {
        match self.shape {
            Shape::Page => Ok(see_other(page)),
            Shape::Json | Shape::OpenAi => record(changed),
        }
    }
}

/// Answers with a record, as `--json` prints it.
pub(super) fn record(value: &impl Serialize) -> Result<Response, PageError> {
    let text = serde_json::to_string_pretty(value);
    let mut text = text.map_err(|error| PageError::Internal(error.into()))?;
    text.push('\n');
    Ok(json(text))
}

/// Values of a page, with those that every page shows.
#[derive(Serialize)]
struct PageValues<'a, T: Serialize> {
    #[serde(flatten)]
    values: &'a T,
    path: &'a str,
    form_token: Option<&'a str>,
    asked_by: Option<&'a str>,
    waiting: Option<OpenWork>,
    assets: AssetNames,
    now: Timestamp,
    version: &'static str,
}

/// Values of the login page.
#[derive(Serialize)]
pub(super) struct LoginPage<'a> {
    /// Path to go on to.
    pub next: &'a str,
    /// `true`: a link of another site led here.
    pub crossed: bool,
    pub assets: AssetNames,
}

/// Values of the page of an error.
#[derive(Serialize)]
struct ErrorPage {
    status: u16,
    message: String,
    hint: String,
    assets: AssetNames,
}

/// Error for programs.
#[derive(Serialize)]
struct ApiError {
    error: ErrorDetail,
}

#[derive(Serialize)]
struct ErrorDetail {
    code: &'static str,
    message: String,
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

#[derive(Serialize)]
struct OpenAiErrorBody<'a> {
    error: &'a OpenAiError<'a>,
}

/// Formats an error as OpenAI's API does.
pub(super) fn openai_error(error: &OpenAiError<'_>) -> String {
    // Texts always have a JSON form.
    serde_json::to_string(&OpenAiErrorBody { error }).unwrap_or_default()
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

pub(super) fn answer(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(super) fn html(status: StatusCode, page: String) -> Response {
    answer(status, "text/html; charset=utf-8", page)
}

/// Answers a form: the browser reads a page next, so that loading it again sends nothing.
pub(super) fn see_other(path: &str) -> Response {
    let mut response = answer(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

/// Answers with a record for programs.
pub(super) fn json(text: String) -> Response {
    let body = text.clone().into_bytes();
    tagged(answer(StatusCode::OK, "application/json", text), &body)
}

/// Answers with a stream of events, which no cache and no proxy is to hold back.
pub(super) fn events(stream: Body) -> Response {
    let mut response = answer(StatusCode::OK, "text/event-stream", stream);
    let headers = response.headers_mut();
    for (name, value) in [("cache-control", "no-store"), ("x-accel-buffering", "no")] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers with bytes that no browser shows as a page.
pub(super) fn bytes(kind: &'static str, bytes: Vec<u8>) -> Response {
    answer(StatusCode::OK, kind, bytes)
}

/// Answers with bytes of others that a browser shows as text, whatever is in them.
pub(super) fn plain(text: Vec<u8>) -> Response {
    let mut response = answer(StatusCode::OK, "text/plain; charset=utf-8", text);
    let headers = response.headers_mut();
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; sandbox; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        ("cache-control", "private, no-store"),
        ("referrer-policy", "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers with a file that a browser saves and never shows.
pub(super) fn download(name: &str, file: Vec<u8>) -> Response {
    let mut response = plain(file);
    // The names of files are safe already (`mime::safe_filename`); what is not ASCII stands in the form of RFC 5987.
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes())
        .map(|piece| piece.replace('+', "%20"))
        .collect();
    let disposition = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

/// Answers with the HTML of a letter, for a frame of ours: it may load nothing, run nothing, send nothing and lead nowhere.
pub(super) fn framed(page: Vec<u8>) -> Response {
    let mut response = plain(page);
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        (
            "content-security-policy",
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; \
             frame-ancestors 'self'",
        ),
        ("x-frame-options", "SAMEORIGIN"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Sets the cookie that a handler has made.
pub(super) fn with_cookie(mut response: Response, cookie: &OnceLock<String>) -> Response {
    if let Some(cookie) = cookie.get()
        && let Ok(cookie) = HeaderValue::from_str(cookie)
    {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The login page in place of a page that needs a session.
pub(super) fn log_in(context: &WebContext, uri: &Uri, crossed: bool) -> Response {
    let next = uri.path_and_query().map_or("/", |path| path.as_str());
    let values = LoginPage {
        next,
        crossed,
        assets: templates::assets(),
    };
    match context.render("login.html", values) {
        Ok(page) => html(StatusCode::UNAUTHORIZED, page),
        Err(error) => error_page(context, &error),
    }
}

pub(super) fn error(context: &WebContext, shape: Shape, error: &PageError) -> Response {
    if let PageError::Internal(cause) = error {
        tracing::error!(error = format!("{cause:#}"), "a page could not be made");
    }
    let mut response = match shape {
        Shape::Page => error_page(context, error),
        Shape::Json => {
            let is_retryable = matches!(
                error,
                PageError::TooSlow
                    | PageError::TooManyAttempts(_)
                    | PageError::Busy
                    | PageError::NoRoom(_)
                    | PageError::Internal(_)
            );
            let body = error_record(ErrorDetail {
                code: error.code(),
                message: error.to_string(),
                hint: error.hint(),
                retryable: is_retryable,
            });
            answer(error.status(), "application/json", body)
        }
        Shape::OpenAi => answer(error.status(), "application/json", openai_error_of(error)),
    };
    if matches!(error, PageError::Unauthorized) {
        let scheme = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    if let PageError::NoRoom(wait) | PageError::TooManyAttempts(wait) = error {
        let seconds = HeaderValue::from(wait.as_secs() + 1);
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

fn error_record(error: ErrorDetail) -> String {
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
    let body = error_record(ErrorDetail {
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

fn error_page(context: &WebContext, error: &PageError) -> Response {
    let values = ErrorPage {
        status: error.status().as_u16(),
        message: error.to_string(),
        hint: error.hint(),
        assets: templates::assets(),
    };
    match context.render("error.html", values) {
        Ok(page) => html(error.status(), page),
        Err(_) => answer(
            error.status(),
            "text/plain; charset=utf-8",
            error.to_string(),
        ),
    }
}

/// Answers a request for a path that no route has.
pub(super) fn missing_page(context: &WebContext, path: &str) -> Response {
    let shape = match path {
        path if path.starts_with("/api/") => Shape::Json,
        path if path.starts_with("/v1/") => Shape::OpenAi,
        _ => Shape::Page,
    };
    let missing = error(context, shape, &PageError::Missing("page".to_owned()));
    protected(missing)
}

/// Answers a request whose method its path does not have.
pub(super) async fn wrong_method() -> Response {
    let text = "this page has no such method";
    protected(answer(
        StatusCode::METHOD_NOT_ALLOWED,
        "text/plain; charset=utf-8",
        text,
    ))
}

/// Answers a request that calls us by a name that is not ours.
pub(super) fn wrong_name() -> Response {
    let text = "this is not a name of these pages: `origins` of the listener in configs/gateway.json says which are\n";
    protected(answer(
        StatusCode::FORBIDDEN,
        "text/plain; charset=utf-8",
        text,
    ))
}

/// Completes an answer: its header fields, and its tag where a browser may keep it.
pub(super) fn finished(response: Response, parts: &Parts) -> Response {
    let mut response = protected(response);
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return response;
    }
    let tag = response.headers().get(header::ETAG).cloned();
    let seen = parts.headers.get(header::IF_NONE_MATCH);
    if response.status() == StatusCode::OK && tag.is_some() && tag.as_ref() == seen {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

/// Gives a text the tag by which a browser asks whether it has changed.
fn tagged(mut response: Response, body: &[u8]) -> Response {
    let tag = format!("\"{:.32}\"", sha256_hex(&[body]));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Adds the header fields that every answer has, where its handler has set no others.
fn protected(mut response: Response) -> Response {
    let fields = [
        ("content-security-policy", PAGE_POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // Not `no-referrer`: with that, browsers send `Origin: null` with our own forms.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-dns-prefetch-control", "off"),
        ("cache-control", "private, no-cache"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fields {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}
