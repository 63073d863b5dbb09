//! How a notice reads: subject and text of the mail that tells facts of one cause. Pure.
//!
//! Facts come with foreign words already quoted (see [`crate::store::quoted`]); what is put around them here is the
//! engine's own.

use crate::domain::{NoticeKind, PersonaId};
use crate::store::{Untold, quoted};

/// The newest facts that one mail spells out; the others are counted.
pub const SPELLED_OUT: u32 = 10;

/// The subject of the mail.
pub fn subject(untold: &Untold) -> String {
    let headline = headline(untold);
    format!("[attache] {headline}")
}

/// The text of the mail, as Markdown.
pub fn body(untold: &Untold) -> String {
    let mut text = format!("{}.\n\n", headline(untold));
    for fact in &untold.newest {
        text.push_str(&format!("- {}: {}\n", fact.raised_at, fact.summary));
    }
    let spelled = untold.newest.len() as u64;
    if untold.count > spelled {
        let more = untold.count - spelled;
        text.push_str(&format!("\nAnd {more} more of the same cause, the oldest of {}.\n", untold.since));
    }
    if let Some(newest) = untold.newest.first().filter(|fact| !fact.hint.is_empty()) {
        let one_for_all = untold.newest.iter().all(|fact| fact.hint == newest.hint);
        let about = if one_for_all { "" } else { ", for the newest of them" };
        text.push_str(&format!("\nWhat to do{about}: {}.\n", newest.hint));
    }
    let all = quoted(&format!("attache notices show {}", untold.cause));
    text.push_str(&format!(
        "\n{all} lists every fact of this cause. It has at most one mail an interval; what happens until the next one \
         is told there. Nobody but the owners gets these mails.\n"
    ));
    text
}

/// What happened how often, without anybody's words but the configuration's.
fn headline(untold: &Untold) -> String {
    // An `Untold` is never empty; without a fact there is nothing to say either.
    let Some(newest) = untold.newest.first() else { return String::new() };
    let of = newest.persona.as_ref().map(|persona: &PersonaId| format!(" of {persona}")).unwrap_or_default();
    let subject = &newest.subject_id;
    let count = |one: &str, many: &str| match untold.count {
        1 => format!("a {one}{of}"),
        n => format!("{n} {many}{of}"),
    };
    match newest.kind {
        NoticeKind::RunFailed => {
            format!("{} failed: {}", count("run", "runs"), newest.detail())
        }
        NoticeKind::OutcomeUnknown => {
            format!("{} of {} may or may not have happened", count("call", "calls"), quoted(newest.detail()))
        }
        NoticeKind::BudgetReached => format!("the budget of {subject} is used up"),
        NoticeKind::DeliveryFailed => format!("{} could not be delivered", count("mail", "mails")),
        NoticeKind::DeliveryDelayed if untold.count == 1 => format!("a mail{of} is still waiting to be sent"),
        NoticeKind::DeliveryDelayed => {
            format!("{} are still waiting to be sent", count("mail", "mails"))
        }
        NoticeKind::DeliveryHeld => format!("{} may have been sent and is held", count("mail", "mails")),
        NoticeKind::Bounced => format!("{} came back", count("mail", "mails")),
        NoticeKind::TransportRefused => format!("the mail server {subject} refuses our login"),
        NoticeKind::TransportDown => format!("the mail server {subject} cannot be reached"),
        NoticeKind::MailboxRefused => format!("the mailbox {subject} refuses our login"),
        NoticeKind::MailboxDown => format!("the mailbox {subject} cannot be read"),
        NoticeKind::PersonaOutOfService => format!("persona {} is out of service", quoted(subject)),
        NoticeKind::AgentChangedFiles => format!("an agent{of} changed files that no agent may change"),
        NoticeKind::LetterSetAside => {
            format!("{} of {} set aside, which ends engines", count("letter", "letters"), quoted(subject))
        }
        NoticeKind::LettersRefused => format!("letters are refused for want of {}", newest.detail()),
        NoticeKind::LetterFiled => format!("letters{of} were filed and not answered"),
        NoticeKind::LimitReached if untold.count == 1 => {
            format!("{} has had as many answers{of} as they may have", quoted(subject))
        }
        NoticeKind::LimitReached => {
            format!("{} correspondents have had as many answers{of} as they may have", untold.count)
        }
        NoticeKind::ResponsibilityBroken => {
            format!("{} cannot be used", count("responsibility", "responsibilities"))
        }
        NoticeKind::ResponsibilityPaused if untold.count == 1 => format!("a responsibility{of} is paused"),
        NoticeKind::ResponsibilityPaused => format!("{} responsibilities{of} are paused", untold.count),
        NoticeKind::SlotsMissed if untold.count == 1 => format!("a responsibility{of} did not fire"),
        NoticeKind::SlotsMissed => format!("responsibilities{of} did not fire, {} times", untold.count),
        NoticeKind::SlotOverdue => format!("{} not done in time", count("scheduled run", "scheduled runs")),
        NoticeKind::ResponsibilityProposed => {
            format!(
                "{} to be enabled or removed",
                count("proposed responsibility", "proposed responsibilities")
            )
        }
    }
}
