//! Bodies of forms: bounded in size and time, and with the token of their session.

use crate::http::call::BrowserSession;
use crate::http::failure::PageError;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::time::timeout;

/// Most bytes of a form or of an object; the longest field is a file of a persona, in escapes.
pub(super) const FORM_BYTES_MAX: usize = 1024 * 1024;
/// Time for the whole body.
const FORM_MAX: Duration = Duration::from_secs(10);
/// Name of the field that proves that one of our pages made the form.
pub(in crate::http) const TOKEN_FIELD: &str = "form_token";
/// Header field of the same, for a request of a page that is no form.
const TOKEN_HEADER: &str = "x-form-token";

/// Reads a form.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<(String, String)>, PageError> {
    if kind(headers).as_deref() != Some("application/x-www-form-urlencoded") {
        return Err(PageError::Refused(
            "a form is `application/x-www-form-urlencoded`".to_owned(),
        ));
    }
    let bytes = read_within(body, FORM_BYTES_MAX, FORM_MAX).await?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| PageError::Refused("this form is no text".to_owned()))?;
    Ok(pairs(text))
}

/// Reads an object of JSON as the fields of a form: texts, numbers and booleans.
pub(super) fn members(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Vec<(String, String)>, PageError> {
    if kind(headers).as_deref() != Some("application/json") {
        return Err(PageError::Refused(
            "the body is `application/json`".to_owned(),
        ));
    }
    let refused = |error: &dyn std::fmt::Display| PageError::Refused(format!("no JSON: {error}"));
    let read: serde_json::Map<String, Value> = match body.is_empty() {
        true => serde_json::Map::new(),
        false => serde_json::from_slice(body).map_err(|error| refused(&error))?,
    };
    let field = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Bool(is_so) => Ok((name, if is_so { "yes" } else { "" }.to_owned())),
        Value::Number(number) => Ok((name, number.to_string())),
        _ => Err(PageError::Refused(format!(
            "`{}` is to be a text, a number or a boolean",
            crate::text::visible(&crate::text::truncated(&name, 40))
        ))),
    };
    read.into_iter().map(field).collect()
}

async fn read_within(body: Body, most: usize, time: Duration) -> Result<Bytes, PageError> {
    match timeout(time, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(PageError::TooLarge(most)),
        Err(_) => Err(PageError::TooSlow),
    }
}

/// Refuses a word of a query, or a member of a body, that the route does not know.
pub(super) fn knows_only(sent: &[(String, String)], known: &[&str]) -> Result<(), PageError> {
    let Some((name, _)) = sent
        .iter()
        .find(|(name, _)| !known.contains(&name.as_str()))
    else {
        return Ok(());
    };
    let name = crate::text::visible(&crate::text::truncated(name, 40));
    Err(PageError::Refused(match known {
        [] => format!("no word `{name}` here; there is none"),
        known => format!("no word `{name}` here; there are: {}", known.join(", ")),
    }))
}

/// Refuses a value of a query that its word cannot have.
pub(super) fn is_as_known(
    query: &[(String, String)],
    name: &str,
    noun: &str,
    is_good: &dyn Fn(&str) -> bool,
) -> Result<(), PageError> {
    let sent = query.iter().filter(|(word, _)| word == name);
    let mut sent = sent.map(|(_, value)| value.trim());
    match sent.find(|value| !value.is_empty() && !is_good(value)) {
        None => Ok(()),
        Some(value) => {
            let value = crate::text::visible(&crate::text::truncated(value, 40));
            Err(PageError::Refused(format!("`{value}` is no {noun}")))
        }
    }
}

/// Returns the media type of a body, in lower case and without its parameters.
pub(in crate::http) fn kind(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next()?;
    Some(kind.trim().to_ascii_lowercase())
}

/// Reads the fields of a form or of a query; bytes that are no UTF-8 become the replacement character.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

/// Checks that a page of this session sent the request: by its token, which another site cannot know. A form has it as a
/// field, JSON in a header field.
pub(super) fn check_token(
    form: &[(String, String)],
    headers: Option<&HeaderMap>,
    session: &BrowserSession,
) -> Result<(), PageError> {
    let tokens: Vec<&[u8]> = match headers {
        None => {
            let tokens = form.iter().filter(|(name, _)| name == TOKEN_FIELD);
            tokens.map(|(_, token)| token.as_bytes()).collect()
        }
        Some(headers) => {
            let tokens = headers.get_all(TOKEN_HEADER).iter();
            tokens.map(HeaderValue::as_bytes).collect()
        }
    };
    let own = session.session.form_token.as_bytes();
    let is_own = match tokens.as_slice() {
        [token] => bool::from(token.ct_eq(own)),
        _ => false,
    };
    match is_own {
        true => Ok(()),
        false => Err(PageError::Forbidden(
            "this form is of another session: go back, load the page again and send it once more",
        )),
    }
}
