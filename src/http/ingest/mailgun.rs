//! `POST /ingest/mailgun`: a letter by a route of Mailgun's whose address ends in `mime`.
//!
//! Its signature covers a time and a token, and not the letter. So a request is two minutes old at most, and a token brings one
//! letter, however often it comes.

use super::form_fields::fields;
use super::handed_in::{EnvelopeSender, HandedInLetter, LetterRecipients, hand_in};
use super::outcome::{IngestSource, unusable};
use crate::config::MailgunIngest;
use crate::domain::{Address, Timestamp};
use crate::http::call::Call;
use crate::http::failure::PageError;
use axum::response::Response;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::ExposeSecret;
use sha2::Sha256;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Age of a request, and by how much its clock may be ahead of ours.
const AGE_MAX: Duration = Duration::from_secs(120);
/// Longest token.
const TOKEN_BYTES_MAX: usize = 256;

pub(in crate::http) async fn by_mailgun(call: Call) -> Result<Response, PageError> {
    let Some(mailgun) = call.context.config.gateway.ingest.mailgun.clone() else {
        return Err(PageError::Unauthorized);
    };
    let Some(form) = fields(&call.headers, &call.body) else {
        return Ok(unusable(IngestSource::Mailgun, "this body is no form"));
    };
    let field = |name: &str| form.iter().find(|(key, _)| key == name);
    let bytes = |name: &str| field(name).map_or(&[][..], |(_, value)| value.as_slice());
    let text = |name: &str| std::str::from_utf8(bytes(name)).unwrap_or_default();
    let (timestamp, token) = (text("timestamp"), text("token"));
    let now = call.context.now();
    if !is_signed(&mailgun, (timestamp, token), text("signature"))
        || !is_fresh(timestamp, now)
        || token.len() > TOKEN_BYTES_MAX
    {
        call.context.keys_failed.note(call.client);
        return Err(PageError::Unauthorized);
    }
    let letter = bytes("body-mime");
    if letter.is_empty() {
        let message = "no field `body-mime`: the address of the route has to end in `mime`";
        tracing::warn!("Mailgun hands in letters without their raw bytes: {message}");
        return Ok(unusable(IngestSource::Mailgun, message));
    }
    // A request with this time is too old from then on.
    let ends_at = now.plus(AGE_MAX * 3);
    let is_first = call
        .context
        .store
        .claim_ingest_token(token, letter, ends_at);
    if !is_first.await? {
        call.context.keys_failed.note(call.client);
        return Err(PageError::Unauthorized);
    }
    let recipients = text("recipient").split(',');
    let recipients: Vec<Address> = recipients
        .filter_map(|typed| Address::parse(typed.trim()).ok())
        .take(call.context.config.limits.recipients_max)
        .collect();
    let sender = Address::parse(text("sender").trim()).ok();
    let letter = HandedInLetter {
        bytes: letter.to_vec(),
        mail_from: field("sender").map(|_| EnvelopeSender(sender)),
        recipients: LetterRecipients::Envelope(recipients),
        authserv_id: mailgun.authserv_id,
    };
    Ok(hand_in(&call, IngestSource::Mailgun, letter).await)
}

fn is_signed(mailgun: &MailgunIngest, (timestamp, token): (&str, &str), signature: &str) -> bool {
    let key = mailgun.signing_key.expose_secret().as_bytes();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return false;
    };
    mac.update(timestamp.as_bytes());
    mac.update(token.as_bytes());
    let right: String = mac
        .finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    !token.is_empty() && bool::from(signature.as_bytes().ct_eq(right.as_bytes()))
}

fn is_fresh(timestamp: &str, now: Timestamp) -> bool {
    let Ok(seconds) = timestamp.parse::<i64>() else {
        return false;
    };
    let age = now.as_millis().div_euclid(1000).abs_diff(seconds);
    age <= AGE_MAX.as_secs()
}
