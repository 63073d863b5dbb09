//! Reports of mail systems on our mail: bounces, delays, complaints, read receipts; and the address
//! they are sent to.

use super::address::Address;
use crate::domain::run::word_enum;

/// A letter that reports on another letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub kind: ReportKind,
    /// `true`: the report has the fields of RFC 3464, 5965 or 8098; `false`: it was classified by
    /// its prose.
    pub is_standard: bool,
    /// Recipients in the order of the letter, each address once; empty only for complaints without
    /// a recipient.
    pub recipients: Vec<ReportedRecipient>,
    /// Message-ID of the mail that the report is about, without angle brackets.
    pub original_message_id: Option<String>,
    /// Name that the reporter gives itself: a host name, as a rule.
    pub reporter: Option<String>,
    /// ARF: the kind of complaint, lower case (`abuse`, `fraud`, `opt-out`); disposition
    /// notifications: the disposition type (`displayed`, `deleted`).
    pub detail: Option<String>,
}

word_enum!(
    /// Kind of a report.
    ReportKind {
        /// A delivery status notification (RFC 3464), or a bounce in a form of its own.
        DeliveryStatus = "delivery_status",
        /// A complaint (RFC 5965) or a request to be left alone.
        Feedback = "feedback",
        /// A message disposition notification (RFC 8098).
        Disposition = "disposition",
    }
);

/// Status of one recipient in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedRecipient {
    /// As reported, without angle brackets and address type; a forwarder may have changed it.
    pub address: String,
    /// The address as we gave it (`Original-Recipient`), when the reporter has it.
    pub original: Option<String>,
    pub action: ReportAction,
    /// Enhanced status code such as `5.1.1` (RFC 3463): the most specific that was found.
    pub status: Option<String>,
    /// SMTP reply code, 400 to 599.
    pub code: Option<u16>,
    /// Text of the refusing system on one line, at most [`DIAGNOSTIC_CHARS_MAX`] characters; empty
    /// when it gave none.
    pub diagnostic: String,
    pub reason: BounceReason,
    /// `true`: a retry cannot help, because the address itself is wrong for good.
    pub is_hard: bool,
}

/// Characters of a diagnostic that are kept.
pub const DIAGNOSTIC_CHARS_MAX: usize = 500;

word_enum!(
    /// Values of `Action` (RFC 3464 section 2.3.3), in its spelling.
    ReportAction {
        Failed = "failed",
        Delayed = "delayed",
        Delivered = "delivered",
        /// Relayed to a system that sends no notifications.
        Relayed = "relayed",
        /// Delivered to a list or an alias, which sends it on.
        Expanded = "expanded",
        /// Nothing about delivery: complaints and disposition notifications.
        None = "none",
    }
);

word_enum!(
    /// Reason why a mail did not arrive. The names are those that the field's bounce parsers use.
    BounceReason {
        /// SPF, DKIM or DMARC failed.
        AuthFailure = "authfailure",
        /// Our address or domain has a bad reputation.
        BadReputation = "badreputation",
        /// The client's address is on a block list, or its connection was refused.
        Blocked = "blocked",
        ContentError = "contenterror",
        /// The mail arrived: not a bounce.
        Delivered = "delivered",
        /// The mail was in a queue for too long, or still is.
        Expired = "expired",
        /// A complaint by the recipient or their provider.
        Feedback = "feedback",
        /// The mailbox exists, as far as the refusal shows, and refused this mail after it had seen
        /// it.
        Filtered = "filtered",
        HasMoved = "hasmoved",
        HostUnknown = "hostunknown",
        MailboxFull = "mailboxfull",
        /// The program that delivers to the mailbox failed.
        MailerError = "mailererror",
        MesgTooBig = "mesgtoobig",
        NetworkError = "networkerror",
        NoRelaying = "norelaying",
        /// The host takes no mail at all.
        NotAccept = "notaccept",
        /// The mail breaks a rule of the standards, or the refusing system says so.
        NotCompliantRfc = "notcompliantrfc",
        PolicyViolation = "policyviolation",
        RateLimited = "ratelimited",
        /// The sender's address was refused.
        Rejected = "rejected",
        /// The client's address has no reverse name.
        RequirePtr = "requireptr",
        SecurityError = "securityerror",
        SpamDetected = "spamdetected",
        Suspend = "suspend",
        SyntaxError = "syntaxerror",
        SystemError = "systemerror",
        SystemFull = "systemfull",
        Undefined = "undefined",
        UserUnknown = "userunknown",
        VirusDetected = "virusdetected",
    }
);

impl BounceReason {
    /// Reports whether the address itself is wrong, so that no later mail to it can arrive either.
    pub fn is_about_the_address(self) -> bool {
        matches!(
            self,
            Self::UserUnknown | Self::HostUnknown | Self::HasMoved | Self::NotAccept
        )
    }
}

/// Separator between a persona's local part and the token of a delivery.
const TAG: &str = "+b.";

/// Returns the envelope sender of one delivery: the persona's address with a token by which bounces
/// are matched. The plain address when the local part has no room for the token (RFC 5321 section
/// 4.5.3.1.1: 64 octets).
pub fn bounce_address(persona: &Address, token: &str) -> Address {
    let base = persona.local().split('+').next().unwrap_or_default();
    let tagged = format!("{base}{TAG}{token}@{}", persona.domain());
    Address::parse(&tagged).unwrap_or_else(|_| persona.clone())
}

/// Returns the token of an envelope sender that [`bounce_address`] made, in lower case. The token
/// is not verified: an address of the same shape gives one too.
pub fn bounce_token(address: &Address) -> Option<String> {
    let at = address.local().find('+')?;
    let tag = address.local()[at..].to_ascii_lowercase();
    tag.strip_prefix(TAG).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).expect("an address")
    }

    #[test]
    fn a_token_comes_back_however_the_address_is_written() {
        let tagged = bounce_address(&address("Ada@engine.test"), "0f3c");
        assert_eq!(tagged.to_string(), "Ada+b.0f3c@engine.test");
        assert_eq!(
            bounce_token(&address("ADA+B.0F3C@ENGINE.TEST")).as_deref(),
            Some("0f3c")
        );
        assert_eq!(tagged.base_local(), "ada");
        assert_eq!(
            bounce_token(&bounce_address(&address("ada+lists@engine.test"), "9")).as_deref(),
            Some("9")
        );
        for plain in [
            "ada@engine.test",
            "ada+bob.x@engine.test",
            "b.0f3c@engine.test",
            "ada+c+b.0f@engine.test",
        ] {
            assert_eq!(bounce_token(&address(plain)), None, "{plain}");
        }
    }

    #[test]
    fn a_name_without_room_for_a_token_stays_as_it_is() {
        let token = "0123456789abcdef0123";
        let longest = address(&format!(
            "{}@engine.test",
            "a".repeat(64 - TAG.len() - token.len())
        ));
        assert_eq!(bounce_address(&longest, token).local().len(), 64);
        let too_long = address(&format!("{}@engine.test", "a".repeat(64)));
        assert_eq!(bounce_address(&too_long, token), too_long);
    }

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> =
            BounceReason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(names.len(), BounceReason::ALL.len());
    }
}
