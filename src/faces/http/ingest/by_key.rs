//! `POST /ingest/PERSONA`: a letter of a program with a key, Cloudflare's workers among them.

use super::handed_in::{EnvelopeSender, HandedInLetter, LetterRecipients, hand_in};
use super::outcome::refused;
use crate::domain::{Address, PersonaId};
use crate::gateway::intake_contract::{RecipientVerdict, Refusal};
use crate::http::call::Call;
use crate::http::checks;
use crate::http::failure::PageError;
use crate::store::KeyRight;
use axum::response::Response;

pub(in crate::http) async fn by_key(call: Call) -> Result<Response, PageError> {
    let id = PersonaId::parse(call.param("persona"));
    let id = id.map_err(|_| PageError::Missing("persona".to_owned()))?;
    let is_allowed = call
        .key()
        .is_some_and(|key| key.may_for(KeyRight::Ingest, &id));
    if !is_allowed {
        return Err(PageError::Forbidden("this key is for another persona"));
    }
    let personas = &call.context.config.personas;
    let Some(persona) = personas.get(&id) else {
        let is_out = personas
            .out_of_service()
            .iter()
            .any(|out| out.name == id.as_str());
        return match is_out {
            true => Ok(refused(&Refusal::OutOfService)),
            false => Err(PageError::Missing("persona".to_owned())),
        };
    };
    if checks::kind(&call.headers).as_deref() != Some("message/rfc822") {
        let message = "a letter is `Content-Type: message/rfc822`, with its raw bytes as the body";
        return Err(PageError::Refused(message.to_owned()));
    }
    let recipients = match envelope_recipients(&call, &id)? {
        addresses if addresses.is_empty() => LetterRecipients::Of(id, persona.address.clone()),
        addresses => LetterRecipients::Envelope(addresses),
    };
    let letter = HandedInLetter {
        bytes: call.body.to_vec(),
        mail_from: envelope_sender(&call)?,
        recipients,
        authserv_id: call.context.config.gateway.ingest.authserv_id.clone(),
    };
    Ok(hand_in(&call, letter).await)
}

/// Reads `X-Rcpt-To`, once for each recipient: all of them addresses of the persona that the key is for.
fn envelope_recipients(call: &Call, id: &PersonaId) -> Result<Vec<Address>, PageError> {
    let most = call.context.config.limits.recipients_max;
    let mut addresses = Vec::new();
    for value in call.headers.get_all("x-rcpt-to") {
        let typed = bare(value.to_str().unwrap_or_default());
        let address = Address::parse(typed)
            .map_err(|_| PageError::Refused("`X-Rcpt-To` is no address".to_owned()))?;
        match call.context.intake.recipient(&address) {
            RecipientVerdict::Persona(found) if found == *id => addresses.push(address),
            _ => return Err(PageError::Forbidden("`X-Rcpt-To` is of another persona")),
        }
        if addresses.len() > most {
            return Err(PageError::Refused(format!("more than {most} recipients")));
        }
    }
    Ok(addresses)
}

/// Reads `X-Mail-From`; `<>` or nothing in it is the null reverse-path.
fn envelope_sender(call: &Call) -> Result<Option<EnvelopeSender>, PageError> {
    let Some(value) = call.headers.get("x-mail-from") else {
        return Ok(None);
    };
    match bare(value.to_str().unwrap_or("?")) {
        "" => Ok(Some(EnvelopeSender(None))),
        typed => match Address::parse(typed) {
            Ok(address) => Ok(Some(EnvelopeSender(Some(address)))),
            Err(_) => Err(PageError::Refused("`X-Mail-From` is no address".to_owned())),
        },
    }
}

/// Returns an address without the angle brackets of an envelope.
fn bare(typed: &str) -> &str {
    let typed = typed.trim();
    let inside = typed
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    inside.unwrap_or(typed)
}
