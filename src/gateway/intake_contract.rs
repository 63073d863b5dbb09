//! The interface that every ingress calls. `accept` answers after the commit.

use crate::domain::{Address, Letter, MessageId, PersonaId};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Interface for incoming letters. [`crate::gateway`]'s intake is the only implementation outside
/// tests.
pub trait LetterIntake: Send + Sync {
    /// Judges one recipient, cheaply and without I/O.
    fn recipient(&self, address: &Address) -> RecipientVerdict;
    /// Judges one sender (envelope or header), cheaply and without I/O.
    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict;
    /// Judges and stores a letter with a queued run per addressed persona; resolves after the
    /// commit.
    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>>;
    /// Records that the peer has read our acceptance; after that, the same letter without a
    /// Message-ID is a new one.
    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()>;
    /// Reports whether there is room for another letter: free disk space, and fewer open runs than
    /// the maximum.
    fn has_room(&self) -> bool;
    /// Records a refusal for lack of room, cheaply: the owner gets one notice for many refusals.
    fn short_of(&self, what: Shortage);
    /// Returns the intake as it is now, which later changes of the configuration leave alone; `None`: nothing changes it.
    fn current_intake(&self) -> Option<Arc<dyn LetterIntake>> {
        None
    }
}

/// Returns the intake for one letter, from its first recipient to its end: a persona that is removed meanwhile still takes it.
pub fn for_one_letter(intake: &Arc<dyn LetterIntake>) -> Arc<dyn LetterIntake> {
    intake.current_intake().unwrap_or_else(|| intake.clone())
}

/// Resource that is short for another letter or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// Free disk space: `free_disk_bytes_min`.
    Disk,
    /// Runs that may still be queued: `open_runs_max`.
    OpenRuns,
    /// Memory for letters that are being received.
    LetterMemory,
    /// Permits for connections: `connections_max`, or file descriptors.
    Connections,
    /// Answers of name servers, without which a sender cannot be verified.
    NameServers,
    /// Bytes that a network may bring within an hour without an answer.
    Unanswered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientVerdict {
    Persona(PersonaId),
    /// Possibly a persona with a faulty configuration: 450 4.2.1, so that its mail is retried.
    OutOfService,
    /// One of our domains, but no persona: 550 5.1.1.
    Unknown,
    /// Not our domain, and no relaying: 550 5.7.1.
    NotOurs,
}

impl RecipientVerdict {
    /// Reports whether letters to it belong to a persona, in service or not.
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::Persona(_) | Self::OutOfService)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderVerdict {
    Welcome,
    /// 550 5.7.1 with a neutral sentence.
    Denied,
}

/// A stored letter: one message per addressed persona.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The only address of its From, authenticated or not.
    pub sender: Option<Address>,
    pub copies: Vec<Copy>,
    /// `true`: call [`LetterIntake::confirm`] once the peer has read the answer.
    pub needs_confirmation: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    pub persona: PersonaId,
    pub message: MessageId,
    pub outcome: CopyOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyOutcome {
    /// A run is queued.
    Run(crate::domain::RunId),
    /// Stored without a run; the rule that withheld it.
    Filed(String),
    /// The letter was stored before; nothing changed.
    Duplicate,
    /// Stored; a message and a run follow once its sender can be verified.
    Held,
}

/// Reason of a refused letter. No part of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// 552 5.3.4
    #[error("larger than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
    /// 554 5.6.0: too deep, too many parts, too many hops, several letters in one file.
    #[error("{0}")]
    Hostile(&'static str),
    /// 550 5.7.1
    #[error("sender not allowed")]
    Denied,
    /// 550 5.7.1: the policy of the alleged sender's domain requests a refusal of such mail.
    #[error("not from the domain that it claims to be from")]
    Disowned,
    /// 451 4.7.0: the sender cannot be verified now.
    #[error("the sender cannot be verified now")]
    Unverifiable,
    /// 550 5.1.1, for ingresses without an envelope: no persona is addressed.
    #[error("no persona is addressed")]
    NobodyAddressed,
    /// 450 4.2.1: an addressed persona is out of service.
    #[error("a persona that is addressed is out of service; `attache config check` says why")]
    OutOfService,
    /// 452 4.3.1: so much without an answer came from this network within an hour.
    #[error("too much mail that is not answered came from this network within an hour")]
    TooMuch,
    /// 451 4.3.0
    #[error("could not be stored")]
    NotStored(#[from] crate::store::StoreError),
}

impl Refusal {
    /// Remedy for the operator.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refusal::TooLarge { .. } => {
                "`limits.letter_bytes_max` in `configs/gateway.json` bounds letters"
            }
            Refusal::Hostile(_) => {
                "nothing has to be done: what cannot be read safely is not taken"
            }
            Refusal::Denied => {
                "see `deny`, `allow` and `default_decision` under `access` in `configs/security.json`"
            }
            Refusal::Disowned => {
                "the domain in From publishes that mail like this is to be refused; its senders must sign it"
            }
            Refusal::Unverifiable => "its sender tries again; see whether the name servers answer",
            Refusal::OutOfService => {
                "its sender tries again; `attache config check` names what is wrong with the persona"
            }
            Refusal::NobodyAddressed => {
                "`attache persona list` shows the addresses of the personas"
            }
            Refusal::TooMuch => {
                "its sender tries again; letters that are answered are taken all the while"
            }
            Refusal::NotStored(_) => {
                "its sender tries again; `attache doctor` looks the database over"
            }
        }
    }
}
