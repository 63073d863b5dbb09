//! What a browser says about a request: the name it was sent to (`Host`), which site sent it and how (Fetch Metadata), the
//! origin of the page that did (RFC 6454).
//!
//! `Sec-Fetch-*` is sent to loopback and over TLS alone. Where it is absent, `Host` and `Origin` stand by themselves; a
//! program that is no browser sends neither `Origin` nor cookies that a page could make it send.

use crate::config::WebOrigin;
use crate::http::connections::WebPeer;
use crate::http::context::WebContext;
use crate::http::failure::PageError;
use crate::http::reply;
use axum::http::{HeaderMap, HeaderValue, Request, Version, header};
use axum::response::Response;

/// The name by which a request called us, and who sent it.
#[derive(Debug, Clone)]
pub(in crate::http) struct Called {
    pub origin: WebOrigin,
    /// The peer, or the client for which a trusted proxy speaks.
    pub client: WebPeer,
}

/// Way in which a request came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentFrom {
    /// By our own page, by the user, or by a program.
    ByOurselves,
    /// A page of another site led the user here.
    ByLinkFromElsewhere,
}

/// Checks the name by which a request calls us: exactly one `Host`, exactly one of ours, and the same in an absolute target.
/// HTTP/1.0 is what nginx speaks to us unless it is told otherwise.
pub(in crate::http) fn name<B>(
    context: &WebContext,
    request: &Request<B>,
    peer: WebPeer,
) -> Result<Called, Box<Response>> {
    let refused = || Box::new(reply::wrong_name());
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(Box::new(reply::not_one_name()));
    };
    let host = host.to_str().map_err(|_| refused())?;
    let origin = context.origin_of(host).ok_or_else(refused)?;
    let is_other =
        |authority: &axum::http::uri::Authority| !authority.as_str().eq_ignore_ascii_case(host);
    if !matches!(request.version(), Version::HTTP_10 | Version::HTTP_11) {
        return Err(Box::new(reply::wrong_version()));
    }
    if request.uri().authority().is_some_and(is_other) || !request.uri().path().starts_with('/') {
        return Err(refused());
    }
    Ok(Called {
        origin: origin.clone(),
        client: client(context, headers, peer),
    })
}

/// Returns the client for which a trusted proxy speaks: the address that the proxy itself has added.
fn client(context: &WebContext, headers: &HeaderMap, peer: WebPeer) -> WebPeer {
    if !context.is_proxy(peer) {
        return peer;
    }
    let added = headers
        .get_all("x-forwarded-for")
        .iter()
        .next_back()
        .and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    added.map_or(peer, WebPeer::Address)
}

/// Checks which site sent a request, as browsers say it (W3C Fetch Metadata).
pub(super) fn fetch_metadata(headers: &HeaderMap, is_read: bool) -> Result<SentFrom, PageError> {
    let said = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    match said("sec-fetch-site") {
        None | Some(b"same-origin" | b"none") => Ok(SentFrom::ByOurselves),
        Some(_)
            if is_read
                && said("sec-fetch-mode") == Some(b"navigate")
                && said("sec-fetch-dest") == Some(b"document") =>
        {
            Ok(SentFrom::ByLinkFromElsewhere)
        }
        Some(_) => Err(PageError::Forbidden("another site sent this request")),
    }
}

/// Checks the origin of the page that sent a request: ours exactly, or none at all. `null` is another one.
pub(super) fn origin(headers: &HeaderMap, own: &WebOrigin, is_read: bool) -> Result<(), PageError> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_own = match (origins.next(), origins.next()) {
        (None, _) => true,
        (Some(origin), None) => origin.as_bytes() == own.to_string().as_bytes(),
        _ => false,
    };
    match is_own {
        true => Ok(()),
        false if is_read => Err(PageError::Forbidden("another site reads this page")),
        false => Err(PageError::Forbidden("another site sent this form")),
    }
}
