//! Classifies the refusal of a mail: first by the enhanced status where it is precise (RFC 3463 and
//! IANA's registry), then by words that mail systems use, then by the vaguer statuses, then by the
//! reply code.
//!
//! Words come before vague statuses because systems write `5.7.1` or `5.0.0` for nearly everything.
//! The table names the systems that use each text; nothing here depends on the reporter.

use super::codes::Status;
use super::phrases::{DNS, NOBODY, RECIPIENT_REFUSED, WORDS};
use crate::domain::{BounceReason, ReportAction};
use BounceReason as R;

/// Facts of one refusal. Texts are lower case, on one line.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) action: ReportAction,
    pub(super) status: Option<Status>,
    pub(super) code: Option<u16>,
    /// Text of the refusing system; may be empty.
    pub(super) diagnostic: &'a str,
    /// Text of the reporter around it, for a person.
    pub(super) context: &'a str,
}

/// Classifies a refusal.
pub(super) fn classify(evidence: &Evidence<'_>) -> BounceReason {
    match evidence.action {
        ReportAction::Delivered | ReportAction::Relayed | ReportAction::Expanded => {
            return R::Delivered;
        }
        ReportAction::None => return R::Feedback,
        ReportAction::Failed | ReportAction::Delayed => {}
    }
    let precise = evidence.status.and_then(precise);
    let worded = || by_words(evidence.diagnostic, evidence);
    let said_nothing = evidence.diagnostic.is_empty();
    let guessed = || {
        let is_vague = evidence.status.and_then(vague).is_none();
        if said_nothing || is_vague {
            by_words(evidence.context, evidence)
        } else {
            None
        }
    };
    // A delay without a reason is a queue that waits.
    let waits = || (evidence.action == ReportAction::Delayed && said_nothing).then_some(R::Expired);
    // 421 closes the whole connection: a status beside it is not about the mailbox (RFC 5321
    // section 3.8).
    let hinted = || {
        evidence
            .status
            .filter(|_| evidence.code != Some(421))
            .and_then(vague)
    };
    let found = precise
        .or_else(worded)
        .or_else(guessed)
        .or_else(waits)
        .or_else(hinted);
    found
        .or_else(|| evidence.code.and_then(by_code))
        .unwrap_or(R::Undefined)
}

/// Returns the reason of a status that means one thing only.
fn precise(status: Status) -> Option<BounceReason> {
    Some(match (status.subject, status.detail) {
        (1, 1 | 3) => R::UserUnknown,
        (1, 2) => R::HostUnknown,
        (1, 6) => R::HasMoved,
        (1, 7 | 8) => R::Rejected,
        (3, 2) => R::NotAccept,
        (2, 2) => R::MailboxFull,
        (2, 3) | (3, 4) => R::MesgTooBig,
        (3, 1) => R::SystemFull,
        // A routing loop.
        (4, 6) => R::NetworkError,
        (6, _) => R::ContentError,
        // RFC 7372: DKIM, SPF, several; 7.25 is reverse DNS.
        (7, 20..=24 | 26) => R::AuthFailure,
        (7, 25) => R::RequirePtr,
        (7, 28) => R::RateLimited,
        // RFC 7505: the sender's domain has a null MX.
        (7, 27) => R::Rejected,
        _ => return None,
    })
}

/// Returns the reason of an ambiguous status, for a refusal whose words say no more.
fn vague(status: Status) -> Option<BounceReason> {
    Some(match (status.subject, status.detail) {
        (1, 4 | 5) => R::UserUnknown,
        // Microsoft and others number their own details from 100 on.
        (1, 100..) => R::UserUnknown,
        (1, 9) => R::NotCompliantRfc,
        // RFC 7505: the domain has a null MX. Exchange uses it for unknown mailboxes, and then says
        // so.
        (1, 10) => R::NotAccept,
        (2, 1) => R::Suspend,
        (2, 4) => R::MailerError,
        (3, 0 | 5) => R::SystemError,
        (4, 4) => R::HostUnknown,
        (4, 7 | 316) => R::Expired,
        (4, _) => R::NetworkError,
        (5, 3) => R::PolicyViolation,
        (5, 2 | 4) => R::SyntaxError,
        (7, _) => R::SecurityError,
        _ => return None,
    })
}

fn by_code(code: u16) -> Option<BounceReason> {
    Some(match code {
        421 | 450 | 451 => R::Expired,
        452 => R::SystemFull,
        // RFC 5321 section 4.2.3 gives 552 to the size of the mail as well; the mailbox is by far
        // the usual cause.
        552 => R::MailboxFull,
        556 | 521 => R::NotAccept,
        550 | 551 | 553 => R::UserUnknown,
        500..=504 => R::SyntaxError,
        530 | 535 => R::SecurityError,
        _ => return None,
    })
}

fn by_words(text: &str, evidence: &Evidence<'_>) -> Option<BounceReason> {
    if text.is_empty() {
        return None;
    }
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    // `Sender address rejected: Domain not found` is about us.
    if says(DNS) && !text.contains("sender address") {
        let is_temporary = evidence
            .status
            .map_or(evidence.code.is_some_and(|c| c < 500), Status::is_temporary);
        return Some(if is_temporary {
            R::NetworkError
        } else {
            R::HostUnknown
        });
    }
    // Before the others: the name of a host or a link may have `spam` in it.
    if says(NOBODY) {
        return Some(nobody(evidence));
    }
    let worded = WORDS
        .iter()
        .find(|(_, words)| says(words))
        .map(|(reason, _)| *reason);
    worded.or_else(|| says(&RECIPIENT_REFUSED).then_some(R::UserUnknown))
}

/// Classifies an unknown mailbox: a mailbox that is refused as unknown after the whole mail was
/// read, or for reasons of security, exists and filters; providers of mobile mail answer so.
fn nobody(evidence: &Evidence<'_>) -> BounceReason {
    let is_policy = evidence.status.is_some_and(|status| status.subject == 7);
    let after_data =
        refused_after_data(evidence.diagnostic) || refused_after_data(evidence.context);
    if is_policy || after_data {
        R::Filtered
    } else {
        R::UserUnknown
    }
}

/// Reports whether a text says that the refusal was the answer to the data: Exim, Postfix,
/// DragonFly, Oracle, and the transcripts of Sendmail, in which the first refusal counts.
fn refused_after_data(text: &str) -> bool {
    const SAID: [&str; 4] = [
        "end of data",
        "our final data",
        "in reply to data",
        "smtp transmission failure has occurred",
    ];
    let transcript = || {
        let refusal = [text.find("<<< 5"), text.find("<<< 4")]
            .into_iter()
            .flatten()
            .min()?;
        let asked = &text[text[..refusal].rfind(">>> ")? + 4..refusal];
        Some(asked.starts_with("data") || asked.starts_with('.'))
    };
    SAID.iter().any(|words| text.contains(words)) || transcript().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(status: &str, code: Option<u16>, diagnostic: &str) -> BounceReason {
        let (action, context) = (ReportAction::Failed, "");
        classify(&Evidence {
            action,
            status: Status::parse(status),
            code,
            diagnostic,
            context,
        })
    }

    #[test]
    fn a_precise_status_wins_over_words_and_words_over_a_vague_one() {
        assert_eq!(reason("5.1.1", Some(550), "mailbox full"), R::UserUnknown);
        assert_eq!(
            reason("5.7.1", Some(550), "relay access denied"),
            R::NoRelaying
        );
        assert_eq!(reason("5.7.1", Some(550), "go away"), R::SecurityError);
        assert_eq!(reason("5.0.0", Some(550), "no idea"), R::UserUnknown);
        assert_eq!(reason("5.0.0", None, "no idea"), R::Undefined);
    }

    #[test]
    fn a_name_server_that_does_not_answer_now_is_no_unknown_host() {
        assert_eq!(
            reason(
                "4.4.3",
                None,
                "name server: b.test: host name lookup failure"
            ),
            R::NetworkError
        );
        assert_eq!(
            reason("5.4.4", None, "host or domain name not found"),
            R::HostUnknown
        );
    }

    #[test]
    fn a_user_who_is_unknown_only_after_the_data_filters() {
        assert_eq!(
            reason("5.0.0", Some(550), "after end of data: 550 user unknown"),
            R::Filtered
        );
        assert_eq!(
            reason("5.0.0", Some(550), "after rcpt to: 550 user unknown"),
            R::UserUnknown
        );
        let transcript = ">>> rcpt to:<a@b.test> <<< 550 user unknown >>> data <<< 503 need rcpt";
        assert_eq!(reason("5.0.0", Some(550), transcript), R::UserUnknown);
        assert_eq!(
            reason("5.0.0", Some(550), ">>> data <<< 550 user unknown"),
            R::Filtered
        );
    }
}
