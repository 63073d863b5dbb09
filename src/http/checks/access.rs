//! Who a request comes from: the session of a cookie, or the key of a program.

use super::browser::Called;
use crate::http::call::BrowserSession;
use crate::http::context::WebContext;
use crate::http::failure::PageError;
use crate::http::route::RouteAccess;
use crate::store::{KeyRight, WebToken};
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
        RouteAccess::Anyone | RouteAccess::Session | RouteAccess::Signed => Vec::new(),
    };
    if !rights.is_empty() && headers.contains_key(header::AUTHORIZATION) {
        let Some(token) = program(context, headers).await? else {
            context.attempts.note(called.client);
            return Err(PageError::Unauthorized);
        };
        return match rights.iter().any(|right| token.may(*right)) {
            true => Ok(KnownCaller::Program(token)),
            false => Err(PageError::Forbidden("this key has another scope")),
        };
    }
    if matches!(access, RouteAccess::Key(_) | RouteAccess::Agent) {
        return Err(PageError::Unauthorized);
    }
    let Some(secret) = cookie(headers, &context.cookie(&called.origin)) else {
        return Ok(KnownCaller::Nobody);
    };
    match context.store.web_session(&secret).await? {
        Some(session) if context.uses(&session) => {
            Ok(KnownCaller::Browser(BrowserSession { session, secret }))
        }
        _ => Ok(KnownCaller::Nobody),
    }
}

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
    let token = token.filter(|token| token.is_good(now));
    if let Some(token) = &token
        && token.is_unnoted(now)
    {
        context.store.note_web_token_use(&token.id).await?;
    }
    Ok(token)
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
