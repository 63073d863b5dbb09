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
    /// The results as RFC 8601 writes them, without the field's name; empty when nothing was checked.
    pub results: String,
}

impl Identity {
    /// Somebody of whom nothing is known but what they say themselves.
    pub fn unverified(basis: &str) -> Self {
        Self {
            trust: Trust::Unauthenticated,
            basis: basis.to_owned(),
            is_temporary: false,
            results: String::new(),
        }
    }
}
