//! A draft with another subject and text: recipients, threading and attachments stay, and the bytes are frozen anew.

use super::canonical::canonical;
use super::view;
use crate::config::Config;
use crate::domain::{Address, LoopToken, Timestamp, Trigger, sha256_hex};
use crate::mime::{self, Automatic, Outgoing, OutgoingAttachment};
use crate::store::{DraftEdit, DraftRecord, MessageOutcome, Store};
use serde_json::{Value, json};

/// Longest text of a draft, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;
const SUBJECT_CHARS_MAX: usize = 300;

/// Reason why a draft cannot be edited, for its owner.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EditError {
    #[error("the text is empty")]
    Empty,
    #[error("the text has {0} bytes, and a mail may have {TEXT_BYTES_MAX}")]
    TooLong(usize),
    #[error(
        "the subject must be one line of at most {SUBJECT_CHARS_MAX} characters, without control characters"
    )]
    Subject,
    #[error(
        "it carries an invitation or an answer to one, which its text repeats; send it or discard it"
    )]
    Calendar,
    #[error("its persona `{0}` is gone or out of service")]
    Persona(String),
    #[error("its mail cannot be read")]
    Unreadable,
    #[error("it cannot be made a mail: {0}")]
    Unmailable(String),
}

/// Another subject and text.
pub struct NewText<'a> {
    pub subject: &'a str,
    /// Markdown.
    pub text: &'a str,
    /// Instant at which it is to leave, once it is sent; `None`: as it was.
    pub at: Option<Timestamp>,
}

/// Returns the edit of a draft that gives it this subject and text. Errors: a text that is none, or a mail that cannot be
/// made.
pub fn edit(
    config: &Config,
    store: &Store,
    record: &DraftRecord,
    trigger: Trigger,
    new: &NewText<'_>,
    by: String,
    via: &'static str,
) -> Result<DraftEdit, EditError> {
    check(new)?;
    if record.mail.event.is_some() {
        return Err(EditError::Calendar);
    }
    let outgoing = outgoing(config, store, record, trigger, new)?;
    let unmailable = |error: &dyn std::fmt::Display| EditError::Unmailable(error.to_string());
    let bytes = mime::compose(&outgoing).map_err(|error| unmailable(&error))?;
    let signers = &config.gateway.signers;
    let sealed = signers.seal(bytes, &outgoing.from, outgoing.date);
    let bytes = sealed.map_err(|error| unmailable(&error))?;
    let mut mail = record.mail.clone();
    mail.content.subject.clone_from(&outgoing.subject);
    mail.content.text_body.clone_from(&outgoing.body_markdown);
    let MessageOutcome::Send { delivery, .. } = &mut mail.outcome else {
        return Err(EditError::Unreadable);
    };
    let call = json!({
        "persona": record.view.persona,
        "run": record.view.run,
        "call": record.view.call,
        "tool": record.view.tool,
        "edited_by": by,
        "edit": record.view.edits + 1,
        "mail": {
            "sender": delivery.envelope_from,
            "recipients": delivery.recipients,
            "sha256": sha256_hex(&[&bytes]),
        },
    });
    delivery.bytes = bytes;
    delivery.not_before = new.at.or(delivery.not_before);
    let call_json = canonical(&call);
    Ok(DraftEdit {
        call_sha256: sha256_hex(&[call_json.as_bytes()]),
        call_json,
        view_text: view::of_edited(
            &record.view.view,
            &outgoing.subject,
            &outgoing.body_markdown,
            new.at,
            &outgoing.footer,
        ),
        mail: Box::new(mail),
        edited_sha256: record.view.sha256.clone(),
        by,
        via,
    })
}

fn check(new: &NewText<'_>) -> Result<(), EditError> {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let subject = new.subject.trim();
    match () {
        () if new.text.trim().is_empty() => Err(EditError::Empty),
        () if new.text.len() > TEXT_BYTES_MAX => Err(EditError::TooLong(new.text.len())),
        () if new.text.contains(is_bad) => Err(EditError::Unmailable(
            "it has control characters".to_owned(),
        )),
        // RFC 5322 section 2.2: a line end in a header body starts another header.
        () if subject.is_empty()
            || subject.contains(char::is_control)
            || subject.chars().count() > SUBJECT_CHARS_MAX =>
        {
            Err(EditError::Subject)
        }
        () => Ok(()),
    }
}

/// Returns the mail before it is composed: the frozen one, with another subject, text and date.
fn outgoing(
    config: &Config,
    store: &Store,
    record: &DraftRecord,
    trigger: Trigger,
    new: &NewText<'_>,
) -> Result<Outgoing, EditError> {
    let id = &record.view.persona;
    let persona = config.personas.get(id);
    let persona = persona.ok_or_else(|| EditError::Persona(id.to_string()))?;
    let parsed = mime::parse(record.bytes(), &config.limits.parse_limits())
        .map_err(|_| EditError::Unreadable)?;
    let content = &record.mail.content;
    let recipients: Value =
        serde_json::from_str(&content.recipients_json).map_err(|_| EditError::Unreadable)?;
    let people = |field: &str| -> Vec<Address> {
        let listed = recipients[field].as_array().into_iter().flatten();
        let texts = listed.filter_map(Value::as_str);
        texts.filter_map(|text| Address::parse(text).ok()).collect()
    };
    let key = config.loop_key.as_ref().unwrap_or(store.loop_key());
    let attachments = parsed
        .attachments
        .into_iter()
        .map(|found| OutgoingAttachment {
            filename: found.filename,
            content_type: found.content_type,
            bytes: found.bytes,
        });
    let MessageOutcome::Send { delivery, .. } = &record.mail.outcome else {
        return Err(EditError::Unreadable);
    };
    let later = new.at.or(delivery.not_before);
    let date = later.unwrap_or_else(|| store.clock().now());
    Ok(Outgoing {
        loop_token: Some(key.seal(&LoopToken {
            hops: record.mail.hops,
            message_id: content.rfc_message_id.clone(),
        })),
        message_id: content.rfc_message_id.clone(),
        date,
        from_name: persona.name.clone(),
        from: persona.address.clone(),
        to: people("to"),
        cc: people("cc"),
        subject: new.subject.trim().to_owned(),
        in_reply_to: content.in_reply_to.clone(),
        references: content.references.clone(),
        automatic: match trigger {
            Trigger::Email => Automatic::Replied,
            Trigger::Schedule | Trigger::Chat | Trigger::Manual | Trigger::Summary => {
                Automatic::Generated
            }
        },
        body_markdown: new.text.trim().to_owned(),
        footer: record.mail.footer.clone(),
        calendar: None,
        attachments: attachments.collect(),
    })
}
