//! Answers: pages, redirects, records, and the header fields that every answer has.

use super::call::Call;
use super::context::{OpenWork, WebContext};
use super::failure::{PageError, Shape};
use super::templates::{self, AssetNames};
use crate::domain::{Timestamp, sha256_hex};
use crate::store::WebSession;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use std::sync::OnceLock;

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
        session_page(&self.context, &self.path, session, template, values).await
    }
}

/// Renders a page for a session, or for nobody: `values` beside what every page shows.
pub(super) async fn session_page(
    context: &WebContext,
    path: &str,
    session: Option<&WebSession>,
    template: &str,
    values: &impl Serialize,
) -> Result<Response, PageError> {
    let page = PageValues {
        values,
        path,
        form_token: session.map(|session| session.form_token.as_str()),
        asked_by: session.map(|session| session.asked_by.as_str()),
        waiting: match session {
            Some(_) => Some(context.waiting().await?),
            None => None,
        },
        assets: templates::assets(),
        now: context.now(),
        zone: context.config.zone().name(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let mut response = html(StatusCode::OK, context.render(template, page)?);
    // A browser goes back to a page that it has kept without asking whether its session is good still.
    let kept = HeaderValue::from_static("private, no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, kept);
    Ok(response)
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
    /// Zone of all times but those of a schedule.
    zone: &'static str,
    version: &'static str,
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

/// Answers a request that calls us by a name that is not ours.
pub(super) fn wrong_name() -> Response {
    refused_head(
        "this is not a name of these pages: `origins` of the listener in configs/gateway.json says which are; a proxy in \
         front sends the name that the browser used (nginx: `proxy_set_header Host $http_host`)\n",
    )
}

/// A request without a name, or with several.
pub(super) fn not_one_name() -> Response {
    refused_head(
        "a request needs exactly one `Host` field; a proxy in front sends the one of the browser (nginx: `proxy_set_header \
         Host $http_host`)\n",
    )
}

/// A request in a version that the pages do not speak.
pub(super) fn wrong_version() -> Response {
    refused_head(
        "these pages speak HTTP/1.1 and HTTP/1.0; a proxy in front says which (nginx: `proxy_http_version 1.1`)\n",
    )
}

fn refused_head(text: &'static str) -> Response {
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
pub(super) fn protected(mut response: Response) -> Response {
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
