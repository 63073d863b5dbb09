//! The only place with SQL. One file per table family; every public method is one named transaction or one read.
//!
//! Rows of a persona are reached through [`PersonaStore`], a handle bound to one persona, so that no query can
//! forget the filter. [`Store`] itself offers what the engine does across personas: claims, sweeps, listings for
//! the operator.

mod open;
mod leftovers;
mod read_only;
mod writer;
mod refusal;
pub mod agent_files;
mod anchor;
mod log;
mod imports;
mod mailboxes;
mod aside;
mod messages;
mod bulk;
mod batch;
mod arrivals;
mod held;
mod threads;
mod correspondence;
mod runs;
mod suspects;
mod crashes;
mod journal;
mod turns;
mod steps;
mod sessions;
mod money;
mod usage;
mod history;
mod search;
mod knowledge;
mod deliveries;
mod outcomes;
mod delivery_state;
mod clock_steps;
mod transport;
mod outbox;
mod notices;
mod facts;
mod filed;
mod schedules;
mod terms;
mod firing;
mod waiting;
mod pauses;
mod slot_facts;
mod slots;
mod browse;
mod record;
mod contents;
mod letters;
mod inbox;
mod reports;
mod steer;
mod providers;
mod outputs;
mod parcels;
mod forks;
pub mod audit;
pub mod backup;
pub mod export;
pub mod gc;

pub use aside::SetAside;
pub use browse::{ID_PIECE_CHARS_MIN, RunFilter, RunSummary, ThreadFilter, ThreadMessage, ThreadSummary};
pub use contents::{Assembly, NewSources, StoredText};
pub use correspondence::{Account, Bounds, Quota, Reservation, Sent};
pub use crashes::RecoveredRuns;
pub use deliveries::{ClaimedDelivery, NewDelivery, RecoveredDeliveries};
pub use delivery_state::{DeliveryKind, DeliveryState, RecipientState};
pub use filed::FiledLetter;
pub use firing::{DueSlot, FAILURES_MAX, Fired, Firing, ScheduledPrompt, SlotWork};
pub use forks::{ForkMoney, NewFork, StoredFork};
pub use held::{HeldLetter, NewHeld};
pub use history::{AttachmentInfo, PastMessage, PastStep, StoredMessage, TriggerMessage};
pub use imports::ArchivedWay;
pub use inbox::{INBOX_MAX, InboxItem};
pub use journal::{Entry, Fate, Finished, JournalSoFar, NewOutbound, RunKey};
pub use knowledge::{KnowledgeChunk, KnowledgeFile, KnowledgeHit};
pub use letters::RawLetter;
pub use mailboxes::{
    MailboxContact, MailboxCursor, MailboxFate, MailboxHealth, MailboxTrouble, RefusedLetter, TroubleCause,
};
pub use messages::{Company, Content, NewAttachment, NewInbound, NewSynthetic, Place, StoredInbound};
pub use money::{Advance, Billing, EmptyPurse, budget_reached};
pub use notices::{EarlierMail, NewNotice, Notice, NoticeFold, NoticeMail, Told, Untold, quoted};
pub use open::{OpenError, Store, working_engine};
pub use outbox::{Delivery, DeliveryFilter, DeliveryRecipient, FrozenDelivery};
pub use outcomes::{DeliveryOutcome, RecipientOutcome};
pub use outputs::{NewOutput, StoredOutput};
pub use parcels::ParcelRow;
pub use providers::ProviderCalls;
pub use record::StoredTurn;
pub use reports::{DeliveryReport, NewReport};
pub use runs::{ClaimedRun, NewRun, RunFailure};
pub use schedules::{
    Duty, FileChange, FileState, MissedSlots, NextSlot, Paused, StoredResponsibility, Version,
};
pub use search::{FoundMessage, MessageSearch};
pub use sessions::{KnownSession, SessionKey, ThreadSession};
pub use slots::{Overslept, ServedBy, StoredSlot};
pub use steer::{Cancellation, FailedRuns};
pub use steps::{Executor, INTERRUPTED, NewCall, Step, StepKind, Unanswered};
pub use terms::{HeldTo, SlotOfRun};
pub use transport::{TransportHealth, TransportNote, TransportState};

pub use turns::{AssembledContext, TurnAnswered, TurnFailed, TurnStarted};
pub use usage::{UsageBy, UsageSum};
pub use waiting::{CATCHING_UP_MAX, Turn, Turns, WaitingSlot};
pub use writer::PowerCut;

use crate::domain::PersonaId;

/// What a caller of the store tells apart.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction did not commit: disk full, I/O error. Nothing of it is stored; the work may be tried again.
    #[error("the database did not commit")]
    NotCommitted(#[source] std::sync::Arc<sqlx::Error>),
    /// Whether the transaction is on disk is unknown; the store takes nothing more.
    #[error("the disk failed at a commit, and what is stored is unknown")]
    CommitFailed(#[source] std::sync::Arc<sqlx::Error>),
    /// What would be stored would not be found again; the store takes nothing more.
    #[error("the database was moved, replaced or removed while an engine had it open")]
    Moved(#[source] std::sync::Arc<std::io::Error>),
    /// Another engine has raised the epoch; this one has stored nothing since, and the store takes nothing more.
    #[error("another engine has taken this workspace over (it is in its epoch {epoch})")]
    Fenced { epoch: i64 },
    /// The engine is stopping.
    #[error("the database is closed")]
    Closed,
    /// A row that the caller named does not exist (or belongs to another persona).
    #[error("no {kind} `{id}`")]
    Missing { kind: &'static str, id: String },
    /// Several rows have an id that begins, or ends, so.
    #[error("`{piece}` stands for several {kind} ids: {}", found.join(", "))]
    Ambiguous { kind: &'static str, piece: String, found: Vec<String> },
    /// The row is in a state that does not allow the change.
    #[error("{kind} `{id}` is {state}: {hint}")]
    WrongState { kind: &'static str, id: String, state: String, hint: &'static str },
    /// A call would cost more than a purse has; nothing of its transaction is stored.
    #[error(transparent)]
    EmptyPurse(Box<EmptyPurse>),
    /// The run has sent as many mails as it may; nothing of the transaction is stored.
    #[error("this run has sent all {max} mails that it may send")]
    MailsUsedUp { max: u32 },
    /// A stored value cannot be read back: the file was changed by something else.
    #[error("unreadable {what} in the database")]
    Unreadable { what: &'static str },
    /// Any other failure of a statement.
    #[error("the database refused")]
    Sql(#[from] sqlx::Error),
}

impl StoreError {
    /// Whether one row is wrong and the others can still be read, so that a look at many goes on with the next.
    pub fn is_of_one_row(&self) -> bool {
        matches!(self, StoreError::Unreadable { .. } | StoreError::Missing { .. })
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// The store as one persona may see it.
#[derive(Clone)]
pub struct PersonaStore {
    store: Store,
    persona: PersonaId,
}

impl Store {
    /// Binds a handle to one persona; every row it reads or writes belongs to that persona.
    pub fn persona(&self, persona: &PersonaId) -> PersonaStore {
        PersonaStore { store: self.clone(), persona: persona.clone() }
    }
}

impl PersonaStore {
    pub fn persona_id(&self) -> &PersonaId {
        &self.persona
    }
}
