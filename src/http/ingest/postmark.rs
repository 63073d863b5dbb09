//! `POST /ingest/postmark`: a letter by an inbound stream of Postmark's, with "Include raw email content in JSON payload".

use super::handed_in::{HandedInLetter, LetterRecipients, hand_in};
use super::outcome::IngestSource;
use crate::config::PostmarkIngest;
use crate::domain::Address;
use crate::http::call::Call;
use crate::http::failure::PageError;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret;
use serde::Deserialize;
use subtle::ConstantTimeEq;

/// The members of Postmark's record that are read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PostmarkLetter {
    raw_email: Option<String>,
    original_recipient: Option<String>,
}

pub(in crate::http) async fn by_postmark(call: Call) -> Result<Response, PageError> {
    let Some(postmark) = call.context.config.gateway.ingest.postmark.clone() else {
        return Err(PageError::Unauthorized);
    };
    if !is_known(&postmark, &call.headers) {
        call.context.keys_failed.note(call.client);
        return Err(PageError::Unauthorized);
    }
    let letter = serde_json::from_slice::<PostmarkLetter>(&call.body);
    let letter = letter.map_err(|_| PageError::Refused("this is no letter in JSON".to_owned()))?;
    let Some(raw) = letter.raw_email.filter(|raw| !raw.is_empty()) else {
        // Postmark tries again for hours, within which its owner may set the box.
        let message = "no `RawEmail`: set \"Include raw email content in JSON payload\" in the stream's settings";
        tracing::warn!("Postmark hands in letters without their raw bytes: {message}");
        return Err(PageError::Refused(message.to_owned()));
    };
    let recipient = letter.original_recipient.as_deref().map(str::trim);
    let recipient = recipient.and_then(|typed| Address::parse(typed).ok());
    let letter = HandedInLetter {
        bytes: raw.into_bytes(),
        // Postmark does not tell it, but by the `Return-Path` that it writes into the letter.
        mail_from: None,
        recipients: LetterRecipients::Envelope(recipient.into_iter().collect()),
        authserv_id: postmark.authserv_id,
    };
    Ok(hand_in(&call, IngestSource::Postmark, letter).await)
}

/// Checks user and password (RFC 7617), without telling by time how much of them was right.
fn is_known(postmark: &PostmarkIngest, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let sent = value
        .to_str()
        .ok()
        .and_then(|value| value.strip_prefix("Basic "))
        .and_then(|sent| STANDARD.decode(sent.trim()).ok());
    let right = format!("{}:{}", postmark.user, postmark.password.expose_secret());
    sent.is_some_and(|sent| bool::from(sent.ct_eq(right.as_bytes())))
}
