//! Body of a response: its framing, its pieces, and the limits of its size.

use crate::domain::ErrorClass;
use crate::providers::contract::capture::Capture;
use crate::providers::contract::traits::{Phase, ProviderError};
use crate::providers::transport::decode::{Framing, Pieces};
use crate::providers::transport::guard::Guard;
use crate::text::root_cause;
use futures_util::StreamExt;
use futures_util::stream;
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use std::sync::Arc;

/// Longest answer in bytes; far above what `max_output_tokens` lets a model write.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that are read of an error page.
const ERROR_BYTES_MAX: usize = 64 * 1024;
const WEB_PAGE: &str = "the provider answered with a web page: is `base_url` right?";

/// Returns the framing by the content type. Servers that ignore `stream` name JSON; proxies that
/// answer instead of the model name HTML, or compress (we send no Accept-Encoding). `None`: the
/// header is missing, or names no framing known here.
pub fn framing(headers: &HeaderMap) -> Result<Option<Framing>, ProviderError> {
    let word = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let broken = |message| {
        Err(ProviderError::new(
            ErrorClass::Protocol,
            Phase::BeforeFirstByte,
            message,
        ))
    };
    if !matches!(word(CONTENT_ENCODING), "" | "identity") {
        return broken("the provider answered in a compressed form that was not asked for");
    }
    let media = word(CONTENT_TYPE)
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    Ok(match media.as_str() {
        "text/html" => return broken(WEB_PAGE),
        "text/event-stream" => Some(Framing::ServerSent),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Framing::Lines),
        media if media.ends_with("/json") || media.ends_with("+json") => Some(Framing::Whole),
        _ => None,
    })
}

/// Reads a body up to the byte that shows its framing, where the header names none, or that shows
/// an HTML page in any case; returns the whole body.
pub async fn begun(
    said: Option<Framing>,
    mut body: Pieces<'_>,
) -> Result<(Framing, Pieces<'_>), ProviderError> {
    let (mut first, mut seen) = (Vec::new(), None);
    while seen.is_none() {
        let Some(piece) = body.next().await else {
            break;
        };
        first.extend_from_slice(&piece?);
        seen = Framing::from_first_byte(&first);
    }
    if first.trim_ascii_start().starts_with(b"<") {
        return Err(ProviderError::new(
            ErrorClass::Protocol,
            Phase::MidStream,
            WEB_PAGE,
        ));
    }
    let whole = stream::iter([Ok(first)]).chain(body).boxed();
    Ok((said.or(seen).unwrap_or(Framing::ServerSent), whole))
}

/// Returns the body, watched by its guard and cut at the size limit.
pub fn pieces<'a>(response: Response, guard: Guard, capture: Option<Arc<Capture>>) -> Pieces<'a> {
    let state = Some((response, guard, capture, 0_usize));
    let next = |state: Option<(Response, Guard, Option<Arc<Capture>>, usize)>| async move {
        let (mut response, mut guard, capture, seen) = state?;
        let failed =
            |class, message: String| Err(ProviderError::new(class, Phase::MidStream, message));
        match guard.wait(Phase::MidStream, response.chunk()).await {
            Err(ended) => Some((Err(ended), None)),
            Ok(Err(error)) => {
                let message = format!("the answer broke off: {}", root_cause(&error));
                Some((failed(ErrorClass::Transient, message), None))
            }
            Ok(Ok(None)) => None,
            Ok(Ok(Some(piece))) => {
                let seen = seen.saturating_add(piece.len());
                if seen > ANSWER_BYTES_MAX {
                    let message = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
                    return Some((failed(ErrorClass::Protocol, message), None));
                }
                if let Some(capture) = &capture {
                    capture.received(&piece);
                }
                Some((Ok(piece.to_vec()), Some((response, guard, capture, seen))))
            }
        }
    };
    stream::unfold(state, next).fuse().boxed()
}

/// Reads the beginning of an error's body; a body that breaks off is used as well.
pub async fn error_body(
    mut response: Response,
    guard: &mut Guard,
) -> Result<String, ProviderError> {
    let mut body = Vec::new();
    while body.len() < ERROR_BYTES_MAX {
        match guard.wait(Phase::BeforeFirstByte, response.chunk()).await? {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(ERROR_BYTES_MAX);
    Ok(String::from_utf8_lossy(&body).into_owned())
}
