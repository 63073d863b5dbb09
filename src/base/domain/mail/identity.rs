//! Outcome of the gateway's verification of a letter's sender.

use super::email::Trust;
use crate::domain::time::Timestamp;

/// The outcome of verification; stored with the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub trust: Trust,
    /// Reason of the trust, for the operator: a short phrase that quotes nothing of the letter.
    pub basis: String,
    /// `true`: a name server did not answer; a retry may have another outcome.
    pub is_temporary: bool,
    /// DMARC policy of the alleged sender's domain, when that domain says that the letter is not
    /// from there.
    pub disowned: Option<DomainPolicy>,
    /// Fields of the letter that are known to be as the sender wrote them.
    pub coverage: Coverage,
    /// `true`: the sender or the sender's own server handed the letter to us, without a forwarder
    /// between.
    pub is_direct: bool,
    /// Instant at which the sender is known to have sent the letter, at the latest: the earliest that an aligned signature
    /// bears, or the arrival where the sender logged in. `None` without such proof.
    pub sent_at: Option<Timestamp>,
    /// The rule that lowered the trust below the proven or requested one; written to `audit_log`.
    pub lowered_by: Option<&'static str>,
    /// The results in the format of RFC 8601, without the field's name; empty when nothing was
    /// checked.
    pub results: String,
}

/// Fields of a letter that its authenticated sender wrote and that no forwarder added to.
///
/// A signature that proves a name proves no more than the fields in its `h=`: a third party that
/// has the letter can write other fields around it and send it on (RFC 6376 section 8.15). A field
/// that is not covered is shown and has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    pub to: bool,
    pub cc: bool,
    pub reply_to: bool,
    /// `Message-ID`, `In-Reply-To` and `References` together.
    pub threading: bool,
    /// The words are the sender's: the fields that say how the body is read are covered, or no others make other words of it.
    pub content: bool,
}

impl Coverage {
    pub const WHOLE: Self = Self {
        to: true,
        cc: true,
        reply_to: true,
        threading: true,
        content: true,
    };

    /// Returns the union of two coverages.
    pub fn or(self, other: Self) -> Self {
        Self {
            to: self.to || other.to,
            cc: self.cc || other.cc,
            reply_to: self.reply_to || other.reply_to,
            threading: self.threading || other.threading,
            content: self.content || other.content,
        }
    }

    /// Returns the names of the covered fields.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("content", self.content),
            ("to", self.to),
            ("cc", self.cc),
            ("reply-to", self.reply_to),
            ("references", self.threading),
        ];
        all.into_iter()
            .filter(|(_, is_covered)| *is_covered)
            .map(|(name, _)| name)
    }
}

/// Handling that a domain asks for mail that only claims to be from it (RFC 9989 section 4.7, tag
/// `p`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DomainPolicy {
    None,
    Quarantine,
    Reject,
}

impl DomainPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Quarantine => "quarantine",
            Self::Reject => "reject",
        }
    }
}

impl Identity {
    /// Returns the identity of a sender of which only its own claims are known.
    pub fn unverified(basis: &str) -> Self {
        Self {
            trust: Trust::Unauthenticated,
            basis: basis.to_owned(),
            is_temporary: false,
            disowned: None,
            coverage: Coverage::default(),
            is_direct: false,
            sent_at: None,
            lowered_by: None,
            results: String::new(),
        }
    }

    /// Reports whether decisions may rely on the name in `From`: it is authenticated, or the
    /// operator's `allow` names it (`is_allowed`) and its domain neither disowns the letter nor
    /// failed to answer.
    pub fn is_believable(&self, is_allowed: bool) -> bool {
        self.trust > Trust::Unauthenticated
            || (is_allowed && self.disowned.is_none() && !self.is_temporary)
    }
}
