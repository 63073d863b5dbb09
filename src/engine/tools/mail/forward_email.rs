//! `forward_email`: drafts a mail with the text and the files of a message. The run loop queues it with the call's result.
//!
//! The outcome carries the label of the message, and the policy judges the draft by it: whoever may not read the message is
//! no recipient that the run may forward it to without its owner.

use super::read_email::{ReadableMessage, open};
use super::send_email::{OneOrMany, described, may_send, read_recipients};
use super::visibility::{addresses, plain_line};
use crate::domain::{TextLabel, Trust};
use crate::store::OpenedMessage;
use crate::text::truncated;
use crate::tools::contract::*;

const SUBJECT_CHARS_MAX: usize = 200;
const TEXT_BYTES_MAX: usize = 200 * 1024;
const NOTE_BYTES_MAX: usize = 16 * 1024;

/// Forwards a mail with its files. If a recipient may not be allowed to have it, your owner is asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForwardEmail {
    /// Id from search_email. Default: the letter that you answer.
    id: Option<String>,
    /// Addresses such as `carol@partner.test`.
    to: OneOrMany,
    cc: Option<OneOrMany>,
    /// Your own words above the mail.
    note: Option<String>,
    /// false: leave the files of the mail out. Default: true.
    attachments: Option<bool>,
}

impl TypedTool for ForwardEmail {
    const NAME: &str = "forward_email";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects {
        reads_private: true,
        sends_out: true,
        ..Effects::NONE
    };
    const RESULT_WORDS: ResultWords = ResultWords::Letters;
    const USES: ToolCapabilities = uses!(mail, letters);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders, ToolNeed::Search];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let mail = call.env.mail()?;
        may_send(mail)?;
        let recipients = read_recipients(&self.to, self.cc.as_ref(), None, mail)?;
        let note = checked_note(self.note.as_deref().unwrap_or_default())?;
        let opened = open(call.env.letters()?, mail, self.id.as_deref()).await?;
        let attachments = match self.attachments {
            Some(false) => Vec::new(),
            _ => attached(call, &opened.message).await?,
        };
        let draft = MailDraft {
            to: recipients.to,
            cc: recipients.cc,
            bcc: Vec::new(),
            subject: subject(&opened.message.subject),
            body: body(note, &opened.message),
            attachments,
            ..MailDraft::default()
        };
        Ok(ToolOutcome {
            result: described(&draft),
            label: label_of(&opened, &draft),
            mail: Some(Box::new(draft)),
            ..ToolOutcome::default()
        })
    }
}

/// Returns the label of what is forwarded: nobody knows who wrote a file, whoever sent it.
fn label_of(opened: &ReadableMessage, draft: &MailDraft) -> TextLabel {
    let lowest = opened.label.lowest;
    TextLabel {
        lowest: match draft.attachments.is_empty() {
            true => lowest,
            false => Some(lowest.unwrap_or(Trust::Unknown).min(Trust::Unknown)),
        },
        readers: opened.label.readers.clone(),
    }
}

fn checked_note(note: &str) -> Result<&str, ToolError> {
    if note.len() > NOTE_BYTES_MAX {
        return refuse(
            "note_too_large",
            format!("the note is longer than {NOTE_BYTES_MAX} bytes; say it shorter"),
        );
    }
    match is_plain(note) {
        true => Ok(note.trim()),
        false => refuse(
            "bad_note",
            "the note has control characters; write plain Markdown",
        ),
    }
}

fn subject(of_message: &str) -> String {
    let plain = plain_line(of_message);
    let subject = truncated(&plain, SUBJECT_CHARS_MAX);
    match subject.to_ascii_lowercase().starts_with("fwd:") {
        true => subject,
        false => format!("Fwd: {subject}").trim_end().to_owned(),
    }
}

/// Returns the note, and below it the message as a quote: the head that people know, then its text. Two spaces end a line
/// in Markdown. The words of others may be marks; what these can do is bounded where mails are composed.
fn body(note: &str, message: &OpenedMessage) -> String {
    let recipients: Value = serde_json::from_str(&message.recipients_json).unwrap_or_default();
    let people = |field| plain_line(&addresses(&recipients, field).collect::<Vec<_>>().join(", "));
    let mut quoted = String::from("Forwarded message\n\n");
    let fields = [
        ("From", plain_line(&message.sender)),
        ("Date", message.received_at.to_utc().to_rfc2822()),
        ("Subject", plain_line(&message.subject)),
        ("To", people("to")),
        ("Cc", people("cc")),
    ];
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        quoted.push_str(&format!("{name}: {value}  \n"));
    }
    let text = &message.text_body;
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    quoted.push('\n');
    for line in text[..end].lines() {
        let plain: String = line.chars().filter(|c| !c.is_control()).collect();
        quoted.push_str(&format!("{plain}  \n"));
    }
    if end < text.len() {
        quoted.push_str("\n(The rest is left out.)\n");
    }
    let mut body = match note.is_empty() {
        true => String::new(),
        false => format!("{note}\n\n"),
    };
    for line in quoted.lines() {
        body.push_str(if line.is_empty() { ">" } else { "> " });
        body.push_str(line);
        body.push('\n');
    }
    body
}

/// Returns the files of a message. Errors: their bytes were deleted, or they are too large for one mail.
async fn attached(
    call: &ToolCall<'_>,
    message: &OpenedMessage,
) -> Result<Vec<DraftAttachment>, ToolError> {
    let max = call.limits.attachments_bytes_max;
    let total: u64 = message.attachments.iter().map(|a| a.size_bytes).sum();
    if total > max as u64 {
        return refuse(
            "attachments_too_large",
            format!(
                "its files have {total} bytes together, and a mail may have {max}; forward it with `attachments` false"
            ),
        );
    }
    let mut files = Vec::with_capacity(message.attachments.len());
    for attachment in &message.attachments {
        let name = plain_line(&attachment.filename);
        let bytes = match attachment.is_pruned {
            0 => call.env.letters()?.attachment_bytes(&attachment.id).await?,
            _ => None,
        };
        let Some(bytes) = bytes else {
            return refuse(
                "attachment_pruned",
                format!("`{name}` was deleted with old mail; forward it with `attachments` false"),
            );
        };
        files.push(DraftAttachment {
            filename: name,
            content_type: attachment.content_type.clone(),
            bytes,
        });
    }
    Ok(files)
}
