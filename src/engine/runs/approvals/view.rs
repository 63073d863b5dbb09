//! Text of a question: recipients first, then the mail or the call, then the reason. Nothing of it is folded before the
//! recipients, and no character can hide another.

use crate::domain::{Address, Timestamp, Trigger, sha256_hex};
use crate::mime::LetterFooter;
use crate::policy::{PolicyDecision, PolicyEffect};
use crate::runs::tool_calls::context::ToolCallContext;
use crate::text::visible;
use crate::tools::{MailDraft, MailPolicy, RecipientPlace};
use serde_json::Value;
use std::fmt::Write;

/// Most bytes of a body that are shown; of a longer one, its beginning and its end.
const BODY_BYTES_MAX: usize = 4096;
/// Most bytes of the body of a draft: it is shown to be read, not only to be recognised.
const DRAFT_BYTES_MAX: usize = 64 * 1024;
const TAIL_BYTES: usize = 1024;
/// Most characters of a subject or a file name in a view.
const FIELD_CHARS_MAX: usize = 300;

/// Returns the view of a mail.
pub fn of_mail(
    draft: &MailDraft,
    subject: &str,
    footer: &LetterFooter,
    mail: &MailPolicy,
) -> String {
    let head = head(draft, subject, mail);
    format!(
        "{head}\n{}",
        body(&footer.shown(&draft.body), BODY_BYTES_MAX)
    )
}

/// Returns the view of a draft.
pub fn of_draft(
    draft: &MailDraft,
    subject: &str,
    footer: &LetterFooter,
    mail: &MailPolicy,
) -> String {
    let head = head(draft, subject, mail);
    format!(
        "{head}\n{}",
        body(&footer.shown(&draft.body), DRAFT_BYTES_MAX)
    )
}

/// Returns the view of an edited draft: recipients, attachments and reason of the earlier view, with another subject and text.
pub fn of_edited(
    earlier: &str,
    subject: &str,
    text: &str,
    at: Option<Timestamp>,
    footer: &LetterFooter,
) -> String {
    let (head, rest) = earlier.split_once("\n\n").unwrap_or((earlier, ""));
    let mut view = String::new();
    for known in head.lines() {
        match known.starts_with(SUBJECT) {
            true => line(&mut view, &format!("{SUBJECT}{}", field(subject))),
            false if at.is_some() && known.starts_with(LEAVES) => {}
            false => line(&mut view, known),
        }
    }
    if let Some(at) = at {
        line(&mut view, &format!("{LEAVES}{at}"));
    }
    let reason = rest.rfind(REASON).map_or("", |at| &rest[at..]);
    format!(
        "{view}\n{}{reason}",
        body(&footer.shown(text), DRAFT_BYTES_MAX)
    )
}

/// Beginning of the line of the subject, and of the reason.
const SUBJECT: &str = "Subject: ";
/// Beginning of the line of the instant at which it leaves.
const LEAVES: &str = "Leaves: ";
const REASON: &str = "\n\n--\n";

fn head(draft: &MailDraft, subject: &str, mail: &MailPolicy) -> String {
    let mut text = String::new();
    for (field, people) in [("To", &draft.to), ("Cc", &draft.cc), ("Bcc", &draft.bcc)] {
        for address in people {
            line(
                &mut text,
                &format!(
                    "{field}: {}  ({})",
                    visible(&address.to_string()),
                    mark(address, mail)
                ),
            );
        }
    }
    line(&mut text, &format!("{SUBJECT}{}", field(subject)));
    if let Some(at) = draft.at {
        line(&mut text, &format!("{LEAVES}{at}"));
    }
    for attachment in &draft.attachments {
        let (name, size) = (field(&attachment.filename), attachment.bytes.len());
        let digest = sha256_hex(&[&attachment.bytes]);
        let kind = field(&attachment.content_type);
        line(
            &mut text,
            &format!(
                "Attachment: {name}  ({kind}, {size} bytes, sha256 {})",
                &digest[..16]
            ),
        );
    }
    if let Some(calendar) = &draft.calendar {
        let digest = sha256_hex(&[calendar.text.as_bytes()]);
        line(
            &mut text,
            &format!("Calendar: {}  (sha256 {})", calendar.method, &digest[..16]),
        );
    }
    text
}

/// Returns the view of a call of a tool.
pub fn of_call(tool: &str, args: &Value) -> String {
    let args = serde_json::to_string_pretty(args).unwrap_or_default();
    format!("Tool: {}\n\n{}", visible(tool), body(&args, BODY_BYTES_MAX))
}

/// Returns the view of a question or a plan of the model.
pub fn of_question(text: &str) -> String {
    body(text, BODY_BYTES_MAX)
}

/// Adds why the owner is asked, and what the run has read.
pub fn with_reason(
    mut view: String,
    ctx: &ToolCallContext<'_>,
    decision: &PolicyDecision,
) -> String {
    let label = &ctx.label;
    let message = &ctx.subject.message;
    view.push_str(REASON);
    let rule = decision
        .rule
        .as_ref()
        .map(|rule| format!(" (rule {})", visible(rule)))
        .unwrap_or_default();
    line(
        &mut view,
        &match decision.effect {
            PolicyEffect::Draft => format!("It is a draft: {}{rule}.", visible(&decision.why)),
            _ => format!("You are asked because {}{rule}.", visible(&decision.why)),
        },
    );
    line(
        &mut view,
        &format!(
            "The run is about \"{}\" from {}, whose sender is {}.",
            field(&message.subject),
            field(&message.sender),
            label.sender.as_str()
        ),
    );
    if ctx.run.trigger == Trigger::Chat {
        let thread = &message.thread;
        line(
            &mut view,
            &format!(
                "It answers a question of `attache ask` or of another agent: the answer is mailed to nobody, and `attache threads show {thread}` shows it."
            ),
        );
    }
    if label.floor < label.sender {
        line(
            &mut view,
            &format!(
                "It has also read words of somebody {}.",
                label.floor.as_str()
            ),
        );
    }
    if !label.readers.is_everyone() {
        line(&mut view, "It has read what not everybody may read.");
    }
    view
}

fn line(text: &mut String, line: &str) {
    // Writing to a `String` cannot fail.
    let _infallible = writeln!(text, "{line}");
}

fn field(text: &str) -> String {
    crate::text::shortened(&visible(&crate::text::one_line(text)), FIELD_CHARS_MAX)
}

fn mark(address: &Address, mail: &MailPolicy) -> &'static str {
    match RecipientPlace::of(address, mail) {
        RecipientPlace::Owner => "an owner",
        RecipientPlace::InThread => "in this thread",
        RecipientPlace::Allowed => "in send_allow",
        RecipientPlace::Outside => "NEW: neither in this thread nor in send_allow",
    }
}

/// Returns a body with every character visible; of a long one, its beginning and its end with its digest.
fn body(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return visible(text);
    }
    let head = &text[..text.floor_char_boundary(bytes_max - TAIL_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len() - TAIL_BYTES)..];
    let left_out = text.len() - head.len() - tail.len();
    let digest = sha256_hex(&[text.as_bytes()]);
    format!(
        "{}\n\n[… {left_out} bytes are left out here; `attache approvals show` has all of it; sha256 {} …]\n\n{}",
        visible(head),
        &digest[..16],
        visible(tail)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::EventWrite;
    use crate::tools::DraftCalendar;

    #[test]
    fn the_view_of_a_mail_names_its_calendar_part() {
        let address = |text| Address::parse(text).expect("an address");
        let mail = MailPolicy {
            outbound_configured: true,
            persona_address: address("ada@engine.test"),
            participants: Vec::new(),
            owners: Vec::new(),
            allow: Vec::new(),
            mails_per_run_max: 1,
            mails_sent: 0,
            answers: None,
            closed: None,
        };
        let answer = |text: &str| MailDraft {
            to: vec![address("carol@partner.test")],
            calendar: Some(DraftCalendar {
                method: "REPLY",
                text: text.to_owned(),
                event: EventWrite::Answer {
                    uid: "u".to_owned(),
                    organizer: "carol@partner.test".to_owned(),
                    recurrence_id: String::new(),
                    answer: "ACCEPTED".to_owned(),
                },
            }),
            ..MailDraft::default()
        };
        let footer = LetterFooter::default();
        let view = of_mail(&answer("BEGIN:VCALENDAR"), "Tasting", &footer, &mail);
        assert!(view.contains("\nCalendar: REPLY  (sha256 "), "{view}");
        assert_ne!(
            view,
            of_mail(&answer("BEGIN:VTODO"), "Tasting", &footer, &mail)
        );
    }
}
