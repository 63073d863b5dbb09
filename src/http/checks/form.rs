//! Bodies of forms: bounded in size and time, and with the token of their session.

use crate::http::call::BrowserSession;
use crate::http::failure::PageError;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, header};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::time::timeout;

/// Most bytes of a form; the longest field is a text that an owner writes.
const FORM_BYTES_MAX: usize = 256 * 1024;
/// Time for the whole body.
const FORM_MAX: Duration = Duration::from_secs(10);
/// Time for bytes of other kinds: their most bytes at 64 KiB a second, and this besides.
const BODY_MAX: Duration = Duration::from_secs(20);
const BODY_BYTES_PER_SECOND_MIN: usize = 64 * 1024;
/// Name of the field that proves that one of our pages made the form.
pub(in crate::http) const TOKEN_FIELD: &str = "form_token";

/// Reads a form.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<(String, String)>, PageError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .and_then(|kind| kind.split(';').next())
        .map(|kind| kind.trim().to_ascii_lowercase());
    if kind.as_deref() != Some("application/x-www-form-urlencoded") {
        return Err(PageError::Refused(
            "a form is `application/x-www-form-urlencoded`".to_owned(),
        ));
    }
    let bytes = read_within(body, FORM_BYTES_MAX, FORM_MAX).await?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| PageError::Refused("this form is no text".to_owned()))?;
    Ok(pairs(text))
}

/// Reads a body of at most `most` bytes.
pub(super) async fn bytes(body: Body, most: usize) -> Result<Bytes, PageError> {
    let seconds = u64::try_from(most / BODY_BYTES_PER_SECOND_MIN).unwrap_or(u64::MAX);
    let time = BODY_MAX.saturating_add(Duration::from_secs(seconds));
    read_within(body, most, time).await
}

async fn read_within(body: Body, most: usize, time: Duration) -> Result<Bytes, PageError> {
    match timeout(time, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(PageError::TooLarge),
        Err(_) => Err(PageError::TooSlow),
    }
}

/// Reads the fields of a form or of a query; bytes that are no UTF-8 become the replacement character.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}

/// Checks that a form of this session was sent: its token, which another site cannot know.
pub(super) fn check_token(
    form: &[(String, String)],
    session: &BrowserSession,
) -> Result<(), PageError> {
    let mut tokens = form.iter().filter(|(name, _)| name == TOKEN_FIELD);
    let is_own = match (tokens.next(), tokens.next()) {
        (Some((_, token)), None) => {
            let own = session.session.form_token.as_bytes();
            bool::from(token.as_bytes().ct_eq(own))
        }
        _ => false,
    };
    match is_own {
        true => Ok(()),
        false => Err(PageError::Forbidden(
            "this form is of another session: go back, load the page again and send it once more",
        )),
    }
}
