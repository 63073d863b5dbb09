//! What every ingress knocks at. The answer to `accept` comes after the commit.

use crate::domain::{Address, Letter, MessageId, PersonaId};
use futures_util::future::BoxFuture;

/// The one door for letters. [`crate::gateway`]'s intake is the only implementation outside tests.
pub trait Door: Send + Sync {
    /// Judges one recipient, cheaply and without I/O.
    fn recipient(&self, address: &Address) -> RecipientVerdict;
    /// Judges one sender (envelope or header), cheaply and without I/O.
    fn sender(&self, mail_from: Option<&Address>) -> SenderVerdict;
    /// Judges and stores a letter with a queued run per addressed persona; resolves after the commit.
    fn accept(&self, letter: Letter) -> BoxFuture<'_, Result<Accepted, Refusal>>;
    /// The peer went on after our yes, so it knows of it; a letter without a Message-ID may come again on purpose.
    fn confirm<'a>(&'a self, accepted: &'a Accepted) -> BoxFuture<'a, ()>;
    /// Whether there is room for another letter: disk space, and fewer open runs than there may be.
    fn has_room(&self) -> bool;
    /// Notes that somebody was refused for want of it, cheaply: the owner is told, and not for each of them.
    fn short_of(&self, what: Shortage);
}

/// What there is too little of for another letter or connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// Free disk space: `free_disk_bytes_min`.
    Disk,
    /// Runs that may still be queued: `open_runs_max`.
    OpenRuns,
    /// Memory for letters that are coming in.
    LetterMemory,
    /// Places for connections: `connections_max`, or file descriptors.
    Connections,
    /// Answers of name servers, without which nobody knows who sent a letter.
    NameServers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientVerdict {
    Persona(PersonaId),
    /// Perhaps a persona whose configuration is wrong: 450 4.2.1, so that its mail comes again.
    OutOfService,
    /// One of our domains, nobody there: 550 5.1.1.
    Unknown,
    /// Not our domain, and we relay for nobody: 550 5.7.1.
    NotOurs,
}

impl RecipientVerdict {
    /// Whether letters to it are a persona's, be it in service or not.
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
    /// The one address of its From, proven or not.
    pub sender: Option<Address>,
    pub copies: Vec<Copy>,
    /// Call [`Door::confirm`] once the peer has seen the answer.
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
    /// Stored without a run, by this rule.
    Filed(String),
    /// The same letter was stored before; nothing new happened.
    Duplicate,
    /// Stored, and neither a message nor a run until a name server says who sent it.
    Held,
}

/// Why a letter was not taken. Nothing of it is stored.
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
    /// 550 5.7.1: the domain of the alleged sender asks for mail like this to be refused.
    #[error("not from the domain that it claims to be from")]
    Disowned,
    /// 451 4.7.0: who sent it cannot be found out now.
    #[error("the sender cannot be verified now")]
    Unverifiable,
    /// 550 5.1.1, for ingresses without an envelope: nobody here is addressed.
    #[error("no persona is addressed")]
    NobodyAddressed,
    /// 450 4.2.1: a persona that is addressed cannot work now.
    #[error("a persona that is addressed is out of service; `attache config check` says why")]
    OutOfService,
    /// 451 4.3.0
    #[error("could not be stored")]
    NotStored(#[from] crate::store::StoreError),
}

impl Refusal {
    /// What the operator can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refusal::TooLarge { .. } => "`limits.letter_bytes_max` in `configs/gateway.json` bounds letters",
            Refusal::Hostile(_) => "nothing has to be done: what cannot be read safely is not taken",
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
            Refusal::NobodyAddressed => "`attache persona list` shows the addresses of the personas",
            Refusal::NotStored(_) => "its sender tries again; `attache doctor` looks the database over",
        }
    }
}
