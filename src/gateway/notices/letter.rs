//! Subject and text of a mail with the notices of one cause. Pure.
//!
//! Notices come with untrusted text already quoted (see [`crate::store::quoted`]); the text around
//! it is the engine's own.

use crate::domain::{ErrorClass, NoticeKind, NoticeSubject, Withheld};
use crate::store::{PendingNotices, quoted};
use chrono_tz::Tz;

/// Maximum number of the newest notices that one mail lists; the others are counted.
pub const LISTED_MAX: u32 = 10;

/// The subject of the mail.
pub fn subject(pending: &PendingNotices) -> String {
    let headline = headline(pending);
    format!("[attache] {headline}")
}

/// The text of the mail, in the dialect of letters: what happened, what to do, then every fact. `page` gives the public address
/// of a page, where there is one.
pub fn body(pending: &PendingNotices, zone: Tz, page: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = format!("**{}.**\n\n", capitalised(&headline(pending)));
    if let Some(newest) = pending.newest.first().filter(|fact| !fact.hint.is_empty()) {
        let one_for_all = pending.newest.iter().all(|fact| fact.hint == newest.hint);
        let about = if one_for_all {
            ""
        } else {
            ", for the newest of them"
        };
        text.push_str(&format!("What to do{about}: {}.\n\n", newest.hint));
    }
    for fact in &pending.newest {
        let at = fact.emitted_at.minute_in(zone);
        let subject = &fact.subject;
        // Whose words an erasure takes from the mail is known by these ids.
        let more = match page(&subject.kind.page(&subject.id)) {
            Some(page) => format!(". Its page: {page}"),
            None => match subject.kind {
                NoticeSubject::Run | NoticeSubject::Delivery | NoticeSubject::Letter => {
                    format!(" ({} `{}`)", subject.kind, subject.id)
                }
                _ => String::new(),
            },
        };
        let mark = if pending.newest.len() > 1 { "- " } else { "" };
        text.push_str(&format!("{mark}{at}: {}{more}\n", fact.summary));
    }
    let formatted = pending.newest.len() as u64;
    if pending.count > formatted {
        let more = pending.count - formatted;
        text.push_str(&format!(
            "\nAnd {more} more of the same cause, the oldest of {}.\n",
            pending.since.minute_in(zone)
        ));
    }
    let all = quoted(&format!("attache notices show {}", pending.cause));
    text.push_str(&format!(
        "\n{all} lists every fact of this cause. It has at most one mail an interval; what happens until the next one \
         is shown there. Nobody but the owners gets these mails.\n"
    ));
    text
}

fn capitalised(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    // The name of a file, or an address.
    if first.contains(['/', '.', '@', '`', '_']) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// Summary of the notices with their number, without text from letters.
fn headline(pending: &PendingNotices) -> String {
    // `PendingNotices` is never empty; without a notice the headline is empty.
    let Some(newest) = pending.newest.first() else {
        return String::new();
    };
    let persona = newest.persona.as_ref();
    let of = persona.map_or(String::new(), |persona| format!(" of {persona}"));
    let subject = &newest.subject.id;
    let count = |one: &str, many: &str| match pending.count {
        1 => format!("a {one}{of}"),
        n => format!("{n} {many}{of}"),
    };
    match newest.kind {
        NoticeKind::RunFailed => {
            let why = match ErrorClass::parse(newest.detail()) {
                Some(class) => class.words(),
                None => newest.detail(),
            };
            format!("{} failed: {why}", count("run", "runs"))
        }
        NoticeKind::OutcomeUnknown => {
            format!(
                "{} of {} may or may not have happened",
                count("call", "calls"),
                quoted(newest.detail())
            )
        }
        NoticeKind::BudgetReached => format!("the budget of {subject} is used up"),
        NoticeKind::DeliveryFailed => format!("{} could not be delivered", count("mail", "mails")),
        NoticeKind::DeliveryDelayed if pending.count == 1 => {
            format!("a mail{of} is still waiting to be sent")
        }
        NoticeKind::DeliveryDelayed => {
            format!("{} are still waiting to be sent", count("mail", "mails"))
        }
        NoticeKind::DeliveryHeld if pending.count == 1 => {
            format!("a mail{of} is on hold: it may have arrived")
        }
        NoticeKind::DeliveryHeld => {
            let mails = count("mail", "mails");
            format!("{mails} are on hold: they may have arrived")
        }
        NoticeKind::Bounced => format!("{} came back", count("mail", "mails")),
        NoticeKind::TransportRefused => format!("the mail server {subject} refuses our login"),
        NoticeKind::TransportDown => format!("the mail server {subject} cannot be reached"),
        NoticeKind::MailboxRefused => format!("the mailbox {subject} refuses our login"),
        NoticeKind::MailboxDown => format!("the mailbox {subject} cannot be read"),
        NoticeKind::PersonaOutOfService => format!("persona {} is out of service", quoted(subject)),
        NoticeKind::AgentChangedFiles => {
            format!("an agent{of} changed files that no agent may change")
        }
        NoticeKind::LetterQuarantined => {
            format!(
                "{} of {} quarantined, which ends engines",
                count("letter", "letters"),
                quoted(subject)
            )
        }
        NoticeKind::LettersRefused => refused(newest.detail()),
        NoticeKind::LimitReached if newest.detail() == Withheld::DayMails.as_str() => {
            format!("no more mails{of} today")
        }
        NoticeKind::LimitReached if pending.count == 1 => {
            format!(
                "{} has had as many answers{of} as they may have",
                quoted(subject)
            )
        }
        NoticeKind::LimitReached => {
            format!(
                "{} correspondents have had as many answers{of} as they may have",
                pending.count
            )
        }
        NoticeKind::RunsWaiting => format!("messages{of} are waiting for a free run"),
        NoticeKind::UnusualDay => format!("unusually many new correspondents{of} today"),
        NoticeKind::HookFailed => format!("the hook {} failed{of}", quoted(subject)),
        NoticeKind::ConfigFaulty => format!("{subject} was edited and is faulty"),
        NoticeKind::LetterFiled => format!("letters{of} were filed and not answered"),
        kind => further_headline(kind, pending.count, &of, subject),
    }
}

fn waiting(runs: u64) -> String {
    match runs {
        1 => "a run waits".to_owned(),
        n => format!("{n} runs wait"),
    }
}

fn tools_off(count: u64, server: &str) -> String {
    let tools = match count {
        1 => "a tool".to_owned(),
        n => format!("{n} tools"),
    };
    format!(
        "{tools} of the MCP server {}: not as approved, so off",
        quoted(server)
    )
}

fn refused(want: &str) -> String {
    format!("letters are refused for want of {want}")
}

/// Summary of the notices of MCP servers and of the scheduler; `of` names their persona.
fn further_headline(kind: NoticeKind, count: u64, of: &str, subject: &str) -> String {
    let is_one = count == 1;
    match kind {
        NoticeKind::McpToolOff => tools_off(count, subject),
        NoticeKind::TextMissing => format!("{subject} is gone, and {} for it", waiting(count)),
        NoticeKind::McpServerFailed => format!("the MCP server {} failed", quoted(subject)),
        NoticeKind::WebhookDisabled => format!("the webhook {} is off", quoted(subject)),
        NoticeKind::ReplyToUnused if is_one => {
            format!(
                "an answer{of} went to {}, not to its Reply-To",
                quoted(subject)
            )
        }
        NoticeKind::ReplyToUnused => format!("answers{of} went past a Reply-To, {count} times"),
        NoticeKind::BackupFailed => "no good backup could be made".to_owned(),
        NoticeKind::WebhookFailed => {
            format!("events did not reach the webhook {}", quoted(subject))
        }
        NoticeKind::ResponsibilityBroken if is_one => {
            format!("a responsibility{of} cannot be used")
        }
        NoticeKind::ResponsibilityBroken => format!("{count} responsibilities{of} cannot be used"),
        NoticeKind::ResponsibilityPaused if is_one => format!("a responsibility{of} is paused"),
        NoticeKind::ResponsibilityPaused => format!("{count} responsibilities{of} are paused"),
        NoticeKind::SlotsMissed if is_one => format!("a responsibility{of} did not fire"),
        NoticeKind::SlotsMissed => format!("responsibilities{of} did not fire, {count} times"),
        NoticeKind::SlotOverdue if is_one => format!("a scheduled run{of} not done in time"),
        NoticeKind::SlotOverdue => format!("{count} scheduled runs{of} not done in time"),
        NoticeKind::ResponsibilityProposed if is_one => {
            format!("a proposed responsibility{of} to be enabled or removed")
        }
        NoticeKind::ResponsibilityProposed => {
            format!("{count} proposed responsibilities{of} to be enabled or removed")
        }
        // A kind without words of its own says its name: no other's words.
        other => format!("{}{of}, {count} times", other.as_str().replace('_', " ")),
    }
}
