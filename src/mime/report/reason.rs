//! Classifies the refusal of a mail: first by the enhanced status where it is precise (RFC 3463 and
//! IANA's registry), then by words that mail systems use, then by the vaguer statuses, then by the
//! reply code.
//!
//! Words come before vague statuses because systems write `5.7.1` or `5.0.0` for nearly everything.
//! The table names the systems that use each text; nothing here depends on the reporter.

use super::codes::Status;
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

/// Words and their meanings; the first line that matches decides, so the more specific stand first.
static WORDS: &[(BounceReason, &[&str])] = &[
    (
        R::AuthFailure,
        &[
            "dmarc",
            "sender policy framework",
            "spf check",
            "spf validation",
            "spf fail",
            "dkim",
        ],
    ),
    (
        R::RequirePtr,
        &[
            "reverse dns",
            "ptr record",
            "no reverse",
            "reverse lookup",
            "cannot find your hostname",
        ],
    ),
    (
        R::Blocked,
        &[
            "client host rejected",
            "blocked using",
            "spamhaus",
            "spamcop",
            "dnsbl",
            "rbl ",
            "blacklist",
            "blocklist",
            "block list",
            "bad ip",
            "ip address has been blocked",
            "connection refused by policy",
            "refused to talk to me",
        ],
    ),
    (R::BadReputation, &["reputation", "low sender score"]),
    (R::VirusDetected, &["virus", "malware", "infected"]),
    (
        R::SpamDetected,
        &[
            "spam",
            "rejected, ube",
            "unsolicited",
            "junk mail",
            "bulk mail",
            "bulk email",
            "looks like advertis",
        ],
    ),
    (
        R::MailboxFull,
        &[
            "mailbox full",
            "mailbox is full",
            "mailbox was full",
            "over quota",
            "overquota",
            "over the quota",
            "quota exceeded",
            "exceeded storage",
            "exceeded the quota",
            "out of storage",
            "quota violation",
            "mailbox size limit",
            "insufficient storage space in mailbox",
            "maildir over",
        ],
    ),
    (
        R::MesgTooBig,
        &[
            "message too large",
            "message too big",
            "message size exceeds",
            "size limit exceeded",
            "exceeds maximum message size",
            "exceeds size limit",
            "line limit exceeded",
            "line too long",
            "exceeded maximum inbound message size",
        ],
    ),
    (
        R::RateLimited,
        &[
            "too many messages",
            "too many connections",
            "too many recipients",
            "too many concurrent",
            "rate limit",
            "ratelimit",
            "rate that prevents",
            "greylist",
            "throttl",
            "sending rate",
        ],
    ),
    (
        R::NoRelaying,
        &[
            "relaying denied",
            "relay access denied",
            "relay not permitted",
            "unable to relay",
            "to relay mail",
            "not permitted to relay",
            "relaying not allowed",
        ],
    ),
    (
        R::NotAccept,
        &[
            "no smtp service",
            "no mx found",
            "null mx",
            "does not accept mail",
            "not accepting network messages",
            "nullmx",
        ],
    ),
    (
        R::Suspend,
        &[
            "account is locked",
            "account disabled",
            "account is disabled",
            "account has been disabled",
            "account inactive",
            "account is inactive",
            "mailbox disabled",
            "mailbox is disabled",
            "mailbox is inactive",
            "user disabled",
            "user suspended",
            "account suspended",
            "is suspended",
            "temporarily deactivated",
            "discontinued",
        ],
    ),
    (
        R::HasMoved,
        &[
            "has moved",
            "user moved",
            "changed address",
            "address changed to",
        ],
    ),
    (
        R::Rejected,
        &[
            "sender address rejected",
            "sender rejected",
            "sender denied",
            "sender domain must",
            "domain of sender address",
            "permission to post", // Google Groups, and next in French
            "autorisé à lui envoyer",
            "not allowed to send to",
            "restricted to members",
            "only subscribers",
        ],
    ),
    (
        R::SecurityError,
        &[
            "unauthenticated sender",
            "authentication required",
            "authentication is required",
            "must authenticate",
            "must issue a starttls",
            "encryption required",
            "authentication failed",
        ],
    ),
    (
        R::PolicyViolation,
        &[
            "policy reason",
            "policy violation",
            "due to policy",
            "by policy",
            "against our policy",
        ],
    ),
    (
        R::ContentError,
        &[
            "attachment type",
            "prohibited attachment",
            "content rejected",
            "media error",
            "message content",
        ],
    ),
    (
        R::NotCompliantRfc,
        &[
            "not rfc compliant",
            "rfc 5322",
            "rfc5322",
            "rfc 822",
            "multiple from header",
        ],
    ),
    (
        // Before the network's: these are about an expired retry time.
        R::Expired,
        &[
            "message expired",
            "envelope expired",
            "retry time", // Exim: `retry timeout exceeded`, `retry time not reached`
            "timed out",
            "delivery time expired",
            "did not accept our requests to connect", // Gmail
            "has been in queue too long",
        ],
    ),
    (
        R::NetworkError,
        &[
            "no route to host",
            "network is unreachable",
            "establish an smtp connection", // qmail
            "connection refused",
            "connection reset",
            "lost connection",
            "broken pipe",
            "too many hops",
            "hop count exceeded",
            "mail loop",
            "loops back to myself",
            "mail forwarding loop",
        ],
    ),
    (
        R::Expired,
        &[
            "in the queue too long",
            "not be delivered for",
            "gave up after",
            "giving up after",
        ],
    ),
    (
        R::SystemFull,
        &[
            "no space left",
            "disk full",
            "insufficient system storage",
            "out of disk",
        ],
    ),
    (
        R::SystemError,
        &[
            "queue file write error",
            "internal error",
            "local error in processing",
            "server error",
            "temporary failure",
        ],
    ),
    (
        R::MailerError,
        &[
            "unknown mailer error",
            "command died",
            "command failed",
            "pipe to |",
            "procmail",
        ],
    ),
    (
        R::SyntaxError,
        &[
            "syntax error",
            "command not recognized",
            "command unrecognized",
            "bad sequence of commands",
        ],
    ),
];

/// Words of a failed DNS lookup: the name servers know nothing of the domain, or do not answer.
static DNS: &[&str] = &[
    "host unknown",
    "unknown host",
    "dns error",
    "dns lookup failure",
    "dns type 'mx' lookup",
    "name server:",
    "host name lookup failure",
    "host or domain name not found",
    "name or service not known",
    "domain not found",
    "domain is not reachable",
    "domain couldn't be found",
    "domain does not exist",
    "no such domain",
    "nxdomain",
    "unrouteable mail domain",
    "unrouteable address",
    "couldn't find any host",
    "cannot find host",
    "name service error",
    "bad destination host",
];

/// Words for a mailbox that does not exist.
static NOBODY: &[&str] = &[
    "user unknown",
    "unknown user",
    "unknown or illegal user",
    "unknown recipient",
    "recipient unknown",
    "unknown local part",
    "unknown mailbox",
    "user not found",
    "recipient not found",
    "mailbox not found",
    "account not found",
    "no such user",
    "no such recipient",
    "no such mailbox",
    "no such person",
    "no such account",
    "no such address",
    "no mailbox here by that name", // qmail
    "no mailbox found",
    "mailbox unavailable",
    "mailbox does not exist",
    "does not exist",
    "doesn't exist",
    "doesn't have a yahoo", // Yahoo: `This user doesn't have a yahoo.com account`
    "doesn't have an account",
    "not a valid user",
    "not a valid mailbox",
    "invalid recipient",
    "invalid mailbox",
    "invalid user",
    "not our customer",
    "address couldn't be found", // Gmail
    "account that you tried to reach",
    "name is not recognized", // Exchange
    "recipientnotfound",
    "not listed in domino directory",
    "not listed in public name",
    "ディレクトリには見つかりません", // Domino in Japanese: not found in the directory
    "no account by that name",
    "is not a known user",
    "undeliverable address",
];

/// Text that Postfix writes before any reason to refuse a recipient, and that is no reason itself.
const RECIPIENT_REFUSED: [&str; 3] = [
    "recipient address rejected",
    "recipient rejected",
    "address rejected",
];

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
