//! Who the gateway found the sender of a letter to be.

use super::email::Trust;

/// The outcome of verification; stored with the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub trust: Trust,
    /// By what the trust was given or why it was not, for the operator: a short phrase without anything of the letter's
    /// own words in it.
    pub basis: String,
    /// Nobody could tell, because a name server did not answer; asked again later, the outcome may be another.
    pub is_temporary: bool,
    /// The domain of the alleged sender says that the letter is not from there, and what it wants done with such mail.
    pub disowned: Option<DomainPolicy>,
    /// Which fields of the letter are known to be as the sender wrote them.
    pub coverage: Coverage,
    /// The sender, or the sender's own server, handed the letter to us: nobody can have sent it on.
    pub is_direct: bool,
    /// The rule by which the letter counts for less than was proven or asked for; written to `audit_log`.
    pub lowered_by: Option<&'static str>,
    /// The results as RFC 8601 writes them, without the field's name; empty when nothing was checked.
    pub results: String,
}

/// Fields of a letter that whoever proved to be its sender wrote, and nobody added to.
///
/// A signature that proves a name proves no more than the fields in its `h=`: anybody who has the letter can write other
/// fields around it and send it on (RFC 6376 section 8.15). What is not covered is shown, and moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    pub to: bool,
    pub cc: bool,
    pub reply_to: bool,
    /// `Message-ID`, `In-Reply-To` and `References`, all of them.
    pub threading: bool,
}

impl Coverage {
    pub const WHOLE: Self = Self { to: true, cc: true, reply_to: true, threading: true };

    /// What this or the other covers.
    pub fn or(self, other: Self) -> Self {
        Self {
            to: self.to || other.to,
            cc: self.cc || other.cc,
            reply_to: self.reply_to || other.reply_to,
            threading: self.threading || other.threading,
        }
    }

    /// The names of the fields that are covered.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let all =
            [("to", self.to), ("cc", self.cc), ("reply-to", self.reply_to), ("references", self.threading)];
        all.into_iter().filter(|(_, is_covered)| *is_covered).map(|(name, _)| name)
    }
}

/// What a domain asks to be done with mail that only claims to be from it (RFC 9989 section 4.7, tag `p`).
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
    /// Somebody of whom nothing is known but what they say themselves.
    pub fn unverified(basis: &str) -> Self {
        Self {
            trust: Trust::Unauthenticated,
            basis: basis.to_owned(),
            is_temporary: false,
            disowned: None,
            coverage: Coverage::default(),
            is_direct: false,
            lowered_by: None,
            results: String::new(),
        }
    }

    /// Whether the name in `From` may be acted upon: proven, or taken at its word because the operator's `allow`
    /// names it (`is_allowed`) and its domain does not say otherwise, or could not be asked.
    pub fn is_believable(&self, is_allowed: bool) -> bool {
        self.trust > Trust::Unauthenticated || (is_allowed && self.disowned.is_none() && !self.is_temporary)
    }
}
