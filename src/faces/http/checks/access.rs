//! Who a request comes from: the session of a cookie, or the key of a program.

use super::browser::Called;
use crate::http::call::BrowserSession;
use crate::http::context::WebContext;
use crate::http::failure::PageError;
use crate::http::route::RouteAccess;
use crate::store::{KeyRight, WebToken};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

/// Beginning of every key of a program.
pub(in crate::http) const TOKEN_PREFIX: &str = "att_";

/// Sender of a request, as far as it is known.
pub(super) enum KnownCaller {
    Browser(BrowserSession),
    Program(WebToken),
    Nobody,
}

/// Finds out who a request comes from. A key counts at routes for programs alone, and then no cookie is looked at.
pub(super) async fn known(
    context: &WebContext,
    called: &Called,
    headers: &HeaderMap,
    access: RouteAccess,
) -> Result<KnownCaller, PageError> {
    let rights = match access {
        RouteAccess::Read => vec![KeyRight::Read],
        RouteAccess::Operate => vec![KeyRight::Admin],
        RouteAccess::Key(right) => vec![right],
        RouteAccess::Agent => vec![KeyRight::Read, KeyRight::Send],
        RouteAccess::Anyone | RouteAccess::Session => Vec::new(),
    };
    if !rights.is_empty() && headers.contains_key(header::AUTHORIZATION) {
        // A good key is never refused for the failures of others: nobody guesses 256 bits.
        let Some(token) = program(context, headers).await? else {
            return Err(failed(context, called));
        };
        if token.is_unnoted(context.now()) {
            context.store.note_web_token_use(&token.id).await?;
        }
        return match rights.iter().any(|right| token.may(*right)) {
            true => Ok(KnownCaller::Program(token)),
            false => Err(PageError::Forbidden("this key has another scope")),
        };
    }
    if matches!(access, RouteAccess::Key(_) | RouteAccess::Agent) {
        return Err(PageError::Unauthorized);
    }
    if let Some(secret) = cookie(headers, &context.cookie(&called.origin))
        && let Some(session) = context.store.web_session(&secret).await?
        && context.uses(&session)
    {
        return Ok(KnownCaller::Browser(BrowserSession { session, secret }));
    }
    match access == RouteAccess::Session && has_key(headers) {
        false => Ok(KnownCaller::Nobody),
        true => match program(context, headers).await? {
            Some(_) => Err(PageError::Forbidden(
                "this takes the session of a browser, and no key: a program reads and acts below /api/v1",
            )),
            None => Err(failed(context, called)),
        },
    }
}

/// Counts a key that is not good, and refuses its sender.
fn failed(context: &WebContext, called: &Called) -> PageError {
    match context.keys_failed.wait(called.client) {
        Some(wait) => PageError::TooManyAttempts(wait),
        None => {
            context.keys_failed.note(called.client);
            PageError::Unauthorized
        }
    }
}

/// Reports whether a request brings a key of ours, not what a proxy in front wants to know.
fn has_key(headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION);
    let text = value.and_then(|value| value.to_str().ok());
    let secret = text.and_then(|text| text.strip_prefix("Bearer "));
    secret.is_some_and(|secret| secret.starts_with(TOKEN_PREFIX))
}

/// Reports whether a request brings the cookie of a session, good or not.
pub(super) fn has_cookie(context: &WebContext, parts: &Parts) -> bool {
    let called = parts.extensions.get::<Called>();
    called.is_some_and(|called| cookie(&parts.headers, &context.cookie(&called.origin)).is_some())
}

/// Finds the key that a request brings, if it is good.
async fn program(context: &WebContext, headers: &HeaderMap) -> Result<Option<WebToken>, PageError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Ok(None);
    };
    let secret = value
        .to_str()
        .ok()
        .and_then(|value| value.strip_prefix("Bearer "))
        .filter(|secret| secret.starts_with(TOKEN_PREFIX));
    let Some(secret) = secret else {
        return Ok(None);
    };
    let now = context.now();
    let token = context.store.web_token(secret).await?;
    Ok(token.filter(|token| token.is_good(now)))
}

/// Returns the only cookie of that name: of two, another site may have set one.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let pairs = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let mut own = pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name);
    match (own.next(), own.next()) {
        (Some((_, secret)), None) if secret.len() == 64 => Some(secret.to_owned()),
        _ => None,
    }
}
