//! `invocation-metadata`: subject, date, people and attachments, at the head of the input.
//!
//! The sender controls these fields, so they stand in the user's message and never in the system
//! text.

use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, calendar_facts};
use crate::domain::Trigger;
use crate::store::StoredMessage;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;

/// Number of attachments listed by name; the others are counted.
const ATTACHMENTS_LISTED_MAX: usize = 50;
/// Longest value in characters; a longer header is cut: a subject is a line, not a letter.
const VALUE_CHARS_MAX: usize = 1000;

pub struct InvocationMetadata;

/// Shape of `messages.recipients_json`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct RecipientsJson {
    to: Vec<String>,
    cc: Vec<String>,
    reply_to: Vec<String>,
}

impl Resolver for InvocationMetadata {
    fn name(&self) -> &'static str {
        "invocation-metadata"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let source = call.subject.message.id.to_string();
            Ok(Contribution::one(source, Piece::Metadata(describe(&call))))
        })
    }
}

/// Says who wrote by what is proven; empty for messages without a sender, and for letters from before it was recorded which of
/// their fields are authenticated.
fn trust_line(message: &StoredMessage) -> String {
    let metadata: Value = serde_json::from_str(&message.metadata_json).unwrap_or_default();
    let identity = &metadata["identity"];
    if identity["basis"].is_null() || identity["covers"].is_null() {
        return String::new();
    }
    let proof = match message.trust.as_str() {
        "unauthenticated" => "anybody can write that name",
        _ => "proven",
    };
    format!("{} ({proof})", message.trust)
}

fn describe(call: &ResolverCall<'_>) -> String {
    let message = &call.subject.message;
    let people: RecipientsJson = serde_json::from_str(&message.recipients_json).unwrap_or_default();
    let local = message
        .received_at
        .to_utc()
        .with_timezone(&call.persona.timezone);
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let one_line: String = value
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let value: String = one_line.chars().take(VALUE_CHARS_MAX).collect();
        if !value.trim().is_empty() {
            // Writing to a String cannot fail.
            let _infallible = writeln!(text, "{name}: {}", value.trim());
        }
    };
    // Of letters the frame says it.
    if call.subject.trigger != Trigger::Email {
        line("trigger", call.subject.trigger.as_str());
    }
    line("subject", &message.subject);
    line("date", &local.format("%a, %d %b %Y %H:%M %z").to_string());
    let today = call.now.to_utc().with_timezone(&call.persona.timezone);
    if today.date_naive() != local.date_naive() {
        line("today", &today.format("%a, %d %b %Y").to_string());
    }
    line("from", &message.sender);
    line("sender", &trust_line(message));
    line("to", &people.to.join(", "));
    line("cc", &people.cc.join(", "));
    line("reply-to", &people.reply_to.join(", "));
    for attachment in call.subject.attachments.iter().take(ATTACHMENTS_LISTED_MAX) {
        let described = format!(
            "{} ({}, {} bytes)",
            attachment.filename, attachment.content_type, attachment.size_bytes
        );
        line("attachment", &described);
    }
    let unlisted = call
        .subject
        .attachments
        .len()
        .saturating_sub(ATTACHMENTS_LISTED_MAX);
    if unlisted > 0 {
        line("attachment", &format!("and {unlisted} more"));
    }
    for fact in calendar_facts::head_lines(call.subject, call.persona) {
        line("calendar", &fact);
    }
    text
}
