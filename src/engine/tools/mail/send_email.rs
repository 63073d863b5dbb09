//! `send_email`: drafts a mail to recipients that this run may write to. The run loop queues it with
//! the call's result.
//!
//! Absent on purpose: sockets, headers, Message-IDs, MIME. A draft is a value.

mod attachments;
mod recipients;

use crate::domain::Timestamp;
use crate::mutants::is_off;
use crate::store::SEND_LATER_MAX;
use crate::tools::contract::*;
use crate::tools::files::folder::on_disk;
use attachments::read_attachments;
use recipients::Recipients;
pub(in crate::tools) use recipients::read_recipients;
pub use recipients::{RecipientPlace, recipient_no_reader, recipient_not_allowed};

/// Error code of a mail beyond its run's limit.
pub const MAIL_LIMIT_REACHED: &str = "mail_limit_reached";
const SUBJECT_CHARS_MAX: usize = 300;
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Sends a mail to somebody else, or with files or copies: to people of this thread, your owner, and addresses that the
/// settings allow. The sender of the letter needs no tool: just answer. If you write to the sender with it, your final
/// text is not mailed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendEmail {
    /// Addresses such as `carol@partner.test`.
    to: OneOrMany,
    cc: Option<OneOrMany>,
    bcc: Option<OneOrMany>,
    /// Only for a new mail.
    subject: Option<String>,
    body: String,
    /// Files in your folder, e.g. `knowledge/menu.pdf`.
    attachments: Option<OneOrMany>,
    /// true: into this thread; false: a new one. Default: true only to the sender.
    reply: Option<bool>,
    /// Send it later: `2026-12-24T09:00:00+01:00`, at most 30 days ahead.
    at: Option<String>,
    /// true: leave it as a draft for your owner.
    draft: Option<bool>,
}

/// One text or several, as models write lists.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(description = "")]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn texts(&self) -> &[String] {
        match self {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts,
        }
    }
}

impl TypedTool for SendEmail {
    const NAME: &str = "send_email";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::SENDS_OUT;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files, mail);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        may_send(call.env.mail()?)?;
        let recipients = read_recipients(
            &self.to,
            self.cc.as_ref(),
            self.bcc.as_ref(),
            call.env.mail()?,
        )?;
        let is_reply = is_reply(self.reply, &recipients, call.env.mail()?)?;
        let subject = checked_subject(self.subject.as_deref(), is_reply)?;
        check_body(&self.body)?;
        let at = self
            .at
            .as_deref()
            .map(|typed| send_time(typed, call.clock.now()));
        let attachments = match self.attachments {
            None => Vec::new(),
            Some(paths) => {
                let limits = call.limits.clone();
                let owners = &call.env.mail()?.owners;
                let reader = recipients.readers_of_files(call.reader, owners);
                on_disk(call.env.files()?, move |folder| {
                    read_attachments(folder, paths.texts(), &limits, reader)
                })
                .await?
            }
        };
        let Recipients { to, cc, bcc } = recipients;
        let draft = MailDraft {
            to,
            cc,
            bcc,
            subject,
            body: self.body,
            attachments,
            is_reply,
            calendar: None,
            at: at.transpose()?,
            waits: self.draft == Some(true),
        };
        Ok(ToolOutcome::mailing(described(&draft), draft))
    }
}

/// Returns the message to the model in place of a mail beyond the limit.
pub fn no_more_mails(max: usize) -> String {
    format!("a run may send at most {max} mails, and this one has; finish without another one")
}

/// Reports whether the run may send another mail.
pub(in crate::tools) fn may_send(mail: &MailPolicy) -> Result<(), ToolError> {
    if !mail.outbound_configured {
        return Err(ToolError::OutboundNotConfigured);
    }
    if mail.mails_sent >= mail.mails_per_run_max {
        return refuse(MAIL_LIMIT_REACHED, no_more_mails(mail.mails_per_run_max));
    }
    Ok(())
}

/// Reports whether the mail answers the letter. Recipients have been checked, so a Reply-To that is
/// not permitted is not among them (RFC 5322 section 3.6.2 lets the sender write anything there).
fn is_reply(
    asked: Option<bool>,
    recipients: &Recipients,
    mail: &MailPolicy,
) -> Result<bool, ToolError> {
    let Some(answered) = &mail.answers else {
        return match asked {
            Some(true) => refuse(
                "nothing_to_answer",
                "this run answers no letter; leave `reply` out and give a subject",
            ),
            _ => Ok(false),
        };
    };
    let writers: Vec<String> = answered
        .sender
        .iter()
        .chain(&answered.reply_to)
        .map(crate::domain::Address::key)
        .collect();
    let to_writer = recipients
        .to
        .iter()
        .any(|address| writers.contains(&address.key()));
    Ok(asked.unwrap_or(to_writer))
}

/// Returns the subject of a new mail; empty for a reply, which keeps the subject of its thread.
fn checked_subject(typed: Option<&str>, is_reply: bool) -> Result<String, ToolError> {
    let subject = typed.unwrap_or_default().trim_matches(' ');
    if subject.chars().any(char::is_control) && !is_off("G24") {
        // RFC 5322 section 2.2: a line end in a header body starts another header.
        return refuse(
            "bad_subject",
            "the subject must be one line without control characters",
        );
    }
    if subject.chars().count() > SUBJECT_CHARS_MAX {
        return refuse(
            "bad_subject",
            format!("the subject is longer than {SUBJECT_CHARS_MAX} characters"),
        );
    }
    match (is_reply, subject.is_empty()) {
        (true, _) => Ok(String::new()),
        (false, true) => refuse("subject_missing", "a new mail needs a subject"),
        (false, false) => Ok(subject.to_owned()),
    }
}

/// Returns the instant at which a mail is to leave.
fn send_time(typed: &str, now: Timestamp) -> Result<Timestamp, ToolError> {
    let bad = |hint: String| ToolError::mendable("bad_time", hint);
    let example = "write it with its offset, such as `2026-12-24T09:00:00+01:00`";
    let at = Timestamp::parse(typed.trim())
        .ok_or_else(|| bad(format!("`at` is no instant; {example}")))?;
    if at <= now {
        return Err(bad(format!(
            "`at` is past, it is {now}; leave it out to send the mail now"
        )));
    }
    if at > now.plus(SEND_LATER_MAX) {
        return Err(bad("`at` is more than 30 days ahead".to_owned()));
    }
    Ok(at)
}

fn check_body(body: &str) -> Result<(), ToolError> {
    if body.trim().is_empty() {
        return refuse(
            "body_missing",
            "the body is empty; write what the mail should say",
        );
    }
    if body.len() > BODY_BYTES_MAX {
        return refuse(
            "body_too_large",
            format!(
                "the body has {} bytes, and at most {BODY_BYTES_MAX} are allowed",
                body.len()
            ),
        );
    }
    if !is_plain(body) {
        return refuse(
            "bad_body",
            "the body has control characters; write plain Markdown",
        );
    }
    Ok(())
}

/// Returns the result of a queued draft.
pub(in crate::tools) fn described(draft: &MailDraft) -> Value {
    let addresses =
        |list: &[crate::domain::Address]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut result = json!({ "queued": true, "reply": draft.is_reply, "to": addresses(&draft.to) });
    for (field, list) in [("cc", &draft.cc), ("bcc", &draft.bcc)] {
        if !list.is_empty() {
            result[field] = json!(addresses(list));
        }
    }
    if let Some(at) = draft.at {
        result["at"] = json!(at);
    }
    if !draft.attachments.is_empty() {
        let attached = draft
            .attachments
            .iter()
            .map(|a| json!({"name": a.filename, "bytes": a.bytes.len()}));
        result["attachments"] = attached.collect();
    }
    result
}
