//! The letter that is answered, as it is quoted below its answer by `quote`.
//!
//! Absent on purpose: marks of quoting, which each alternative of a mail writes in its own way (`mime::text::dialect`).

use crate::domain::{Address, Mailbox, QuoteMode, Trigger};
use crate::mime::QuotedOriginal;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::text::{one_line, shortened, visible};
use crate::tools::MailDraft;

/// Most bytes of a letter that are quoted.
const QUOTED_BYTES_MAX: usize = 16 * 1024;
/// Most characters of its sender in the line above.
const SENDER_CHARS_MAX: usize = 200;

/// Returns the letter of the run, if the persona quotes, and everybody who gets the mail has had the letter: an answer to somebody
/// else must not hand it on.
pub fn quoted(ctx: &ToolCallContext<'_>, draft: &MailDraft) -> Option<QuotedOriginal> {
    let message = &ctx.subject.message;
    if ctx.persona.mail.quote == QuoteMode::None || ctx.run.trigger != Trigger::Email {
        return None;
    }
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let (metadata, recipients) = (json(&message.metadata_json), json(&message.recipients_json));
    let lists = ["to", "cc"].map(|field| recipients[field].as_array());
    let named = lists.into_iter().flatten().flatten();
    let named = named.filter_map(|one| Mailbox::address_in(one.as_str()?));
    let writers = ["sender", "reply_to"].map(|key| metadata[key].as_str().map(Address::parse));
    let writers = writers.into_iter().flatten().flatten();
    let has_it: Vec<String> = named.chain(writers).map(|one| one.key()).collect();
    let mut everybody = draft.to.iter().chain(&draft.cc).chain(&draft.bcc);
    if !everybody.all(|address| has_it.contains(&address.key())) {
        return None;
    }
    let text = message.fresh_text.as_ref().unwrap_or(&message.text_body);
    // What it quotes itself below its own words stands in the thread.
    let is_own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('>');
    let own = text.lines().rev().find(is_own);
    let end = own.map_or(text.len(), |line| {
        line.as_ptr() as usize - text.as_ptr() as usize + line.len()
    });
    let text = text[..end].trim();
    if text.is_empty() {
        return None;
    }
    let kept = &text[..text.floor_char_boundary(QUOTED_BYTES_MAX)];
    let mut quoted: String = kept
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    if kept.len() < text.len() {
        quoted.push_str("\n[…]");
    }
    let at = message.received_at.to_utc();
    let at = at.with_timezone(&ctx.persona.timezone);
    let sender = shortened(&visible(&one_line(&message.sender)), SENDER_CHARS_MAX);
    Some(QuotedOriginal {
        attribution: format!("On {}, {sender} wrote:", at.format("%a, %d %b %Y at %H:%M")),
        text: quoted,
    })
}
