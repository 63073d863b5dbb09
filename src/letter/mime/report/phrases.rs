//! Phrases of mail servers, by the reason that they mean.

use crate::domain::BounceReason;
use BounceReason as R;

/// Words and their meanings; the first line that matches decides, so the more specific stand first.
pub(super) static WORDS: &[(BounceReason, &[&str])] = &[
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
pub(super) static DNS: &[&str] = &[
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
pub(super) static NOBODY: &[&str] = &[
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
pub(super) const RECIPIENT_REFUSED: [&str; 3] = [
    "recipient address rejected",
    "recipient rejected",
    "address rejected",
];
