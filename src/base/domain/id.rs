//! Identities. Each is a newtype over its text, so that a run can never be handed where a thread is
//! meant.

use std::fmt;

macro_rules! id_type {
    ($(#[$doc:meta] $name:ident),+ $(,)?) => {$(
        #[$doc]
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema,
        )]
        pub struct $name(String);

        impl $name {
            /// Wraps text that the store or the clock's id source produced.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

id_type!(
    /// A conversation: everything the Message-ID graph ties together.
    ConversationId,
    /// A thread: the part of a conversation that all its participants may see.
    ThreadId,
    /// A row of `messages`; the RFC 5322 Message-ID is plain text and called `rfc_message_id`.
    MessageId,
    /// A row of `raw_letters`.
    RawLetterId,
    /// A row of `attachments`.
    AttachmentId,
    /// One inference for one trigger.
    RunId,
    /// One outbound email with frozen bytes.
    DeliveryId,
    /// A responsibility: scheduled work of a persona.
    ResponsibilityId,
    /// One notice to the owner.
    NoticeId,
);

/// A persona's id: its folder name under `personas/`.
///
/// Invariant: 1 to 64 characters of `a-z`, `0-9`, `-`, `_`, starting with a letter or digit, so
/// that it is a safe file name and a safe local part.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub struct PersonaId(String);

/// Error with the text that is not a persona id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a persona id: use 1 to 64 of a-z, 0-9, `-` and `_`, starting with a letter or a digit"
)]
pub struct BadPersonaId(pub String);

impl PersonaId {
    pub fn parse(text: &str) -> Result<Self, BadPersonaId> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if starts_well && text.len() <= 64 && text.chars().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadPersonaId(text.to_owned()))
        }
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PersonaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persona_id_is_a_safe_file_name() {
        for good in ["ada", "digest-writer", "p2_x", "7"] {
            assert_eq!(
                PersonaId::parse(good).map(|p| p.as_str().to_owned()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "-a", "Ada", "a/b", "..", "a b", "é", &"x".repeat(65)] {
            assert_eq!(PersonaId::parse(bad), Err(BadPersonaId(bad.to_owned())));
        }
    }
}
