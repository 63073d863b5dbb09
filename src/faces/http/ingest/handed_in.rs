//! From a route to the intake.

use super::outcome::{no_room, refused, stored};
use crate::domain::{Address, Letter, PersonaId, Via};
use crate::gateway::ingress::folder::{envelope_for_file, letters_of_mbox, with_crlf};
use crate::gateway::intake_contract::{RecipientVerdict, Refusal, SenderVerdict};
use crate::http::call::Call;
use axum::response::Response;

/// A letter as its caller hands it in.
pub(super) struct HandedInLetter {
    pub bytes: Vec<u8>,
    /// Envelope sender; `None`: the caller does not tell, and the letter's own header says it.
    pub mail_from: Option<EnvelopeSender>,
    pub recipients: LetterRecipients,
    /// Server whose results are believed.
    pub authserv_id: Option<String>,
}

/// Envelope sender; `None` is the null reverse-path.
pub(super) struct EnvelopeSender(pub Option<Address>);

/// Recipients of a letter.
pub(super) enum LetterRecipients {
    /// Those of the envelope; addresses that are not ours are left out.
    Envelope(Vec<Address>),
    /// Those in the letter's header that belong to the persona, or else its own address.
    Of(PersonaId, Address),
}

/// Judges and stores a letter. The answer comes after the commit.
///
/// Acceptance is never confirmed ([`crate::gateway::intake_contract::LetterIntake::confirm`]): nothing of HTTP shows that the
/// caller has read the answer, so the same letter without a Message-ID stays a duplicate, and a retry is harmless.
pub(super) async fn hand_in(call: &Call, letter: HandedInLetter) -> Response {
    let intake = call.context.intake.as_ref();
    let max_bytes = call.context.config.limits.letter_bytes_max;
    let bytes = with_crlf(letter.bytes);
    if bytes.len() > max_bytes {
        return refused(&Refusal::TooLarge { max_bytes });
    }
    if letters_of_mbox(&bytes) > 1 {
        let many = "an mbox of several letters; hand in each by itself";
        return refused(&Refusal::Hostile(many));
    }
    let fallback = match &letter.recipients {
        LetterRecipients::Envelope(addresses) => addresses.first(),
        LetterRecipients::Of(_, address) => Some(address),
    };
    let Some(mut envelope) = envelope_for_file(&bytes, intake, fallback, Via::Http) else {
        return refused(&Refusal::NobodyAddressed);
    };
    match letter.recipients {
        LetterRecipients::Envelope(addresses) => {
            envelope.rcpt_to = addresses;
            let is_ours = |address: &Address| intake.recipient(address).is_ours();
            envelope.rcpt_to.retain(is_ours);
        }
        LetterRecipients::Of(persona, address) => {
            let of_persona = RecipientVerdict::Persona(persona);
            envelope
                .rcpt_to
                .retain(|address| intake.recipient(address) == of_persona);
            if envelope.rcpt_to.is_empty() {
                envelope.rcpt_to.push(address);
                // The caller names the persona, whatever the letter says.
                envelope.arrival.names_recipients = true;
            }
        }
    }
    if let Some(EnvelopeSender(mail_from)) = letter.mail_from {
        envelope.mail_from = mail_from;
    }
    envelope.arrival.encrypted = call.origin.is_https;
    envelope.arrival.authserv_id = letter.authserv_id;
    if intake.sender(envelope.mail_from.as_ref()) == SenderVerdict::Denied {
        return refused(&Refusal::Denied);
    }
    if !intake.has_room() {
        return no_room();
    }
    match intake.accept(Letter { envelope, bytes }).await {
        Ok(accepted) => stored(&accepted),
        Err(refusal) => refused(&refusal),
    }
}
