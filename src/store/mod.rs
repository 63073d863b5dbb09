//! The only module with SQL. One file per table family; every public method is one named
//! transaction or one read.
//!
//! Rows of a persona are reached through [`PersonaStore`], a handle bound to one persona, so that
//! no query can forget the filter. [`Store`] itself offers the engine's queries across personas:
//! claims, sweeps, listings for the operator.
//!
//! - `sql`: conversions between values and columns. `list_page`: a part of a list. `catalogue`: every table, with what is done with it.
//! - `migrations`: the schema of both databases, embedded.
//! - `db`: connections, statements and rows, whichever database it is.
//! - `writes`: writes, as a queue holds them, and what tells of commits. `place`: where a database is. `opened`, `handle`: the store, whichever database it has.
//! - `sqlite`: opening, the one writer, the log, backups. `postgres`: opening, transactions, locks. `nodes`: engines on one
//!   database.
//! - `mail`: letters and messages. `threads`: their place, and what may be written there.
//! - `packing`: bytes of a column, compressed with texts of ours.
//! - `runs`: the queue of runs. `journal`: their turns, steps, mails and end.
//! - `search`: the lexical index, and what a search finds.
//! - `mailboxes`, `deliveries`: mail that is fetched, mail that is sent.
//! - `budgets`: reservations and the ledger.
//! - `knowledge`: indexed files of a persona.
//! - `schedules`: responsibilities and slots.
//! - `memory`: entries about correspondents, threads and for everybody.
//! - `calendar`: events, and invitations in mail.
//! - `files`: files that agents may change, and those that they may not.
//! - `mcp_tools`: tools of MCP servers that are off.
//! - `notices`: events for the owner. `approvals`: questions to the owner.
//! - `commands`: commands of owners by mail, and what the engine writes into threads itself.
//! - `feed`: what happens, in the order of commits, for whoever watches.
//! - `web_access`: sessions of browsers, keys of programs. `webhooks`: programs that are told what happens.
//! - `views`: read models for lists, pages and exports.
//! - `audit`, `gc`: checks of all tables, and pruning. `maintenance`: upgrades and copies.
//! - `transfer`: all rows of a database go to one of the other kind. `archive`: databases in which no engine works.
//! - `erasure`: what a person wrote goes from every row.
//!
//! In each room values stand below transactions: a file with row types imports no transaction.
//! Not here: SMTP, model providers, tables on a screen. The text of an event is stored with its row:
//! the wording of those that the store detects stands beside their statements.

#[macro_use]
mod db;
mod sql;
mod list_page;
pub mod catalogue;
pub mod migrations;
mod writes;
pub mod sqlite;
mod postgres;
mod place;
mod opened;
mod handle;
mod nodes;
pub mod runs;
pub mod packing;
mod journal;
mod threads;
mod mail;
mod search;
mod mailboxes;
mod budgets;
mod knowledge;
mod deliveries;
mod notices;
mod approvals;
mod commands;
mod calendar;
mod memory;
mod mcp_tools;
mod schedules;
mod feed;
mod web_access;
mod webhooks;
mod maintenance;
mod archive;
mod transfer;
mod erasure;
pub mod files;
pub mod views;
pub mod audit;
pub mod gc;

pub use approvals::drafts::{DraftEdit, DraftRecord, DraftVersion, EDITS_MAX};
pub use approvals::list::{ApprovalStats, ApprovalView, LetterOfRun, PendingApproval};
pub use approvals::mails::{PendingExplanation, QuestionMail};
pub use approvals::record::{
    ApprovalOfRun, ApprovalVerdict, DecisionOutcome, NewApproval, NewApprovalAnswer, NewDecision,
};
pub use approvals::sweep::SweptApprovals;
pub use archive::archive_refusal;
pub use budgets::account_lines::{AccountLine, BudgetRecord};
pub use budgets::embedding_calls::{EmbeddingPurpose, NewEmbeddingCall};
pub use budgets::exhausted_notice::budget_reached;
pub use budgets::money::{Billing, BudgetExhausted, CallReservation};
pub use calendar::read::StoredEvent;
pub use calendar::record::{CalendarEventNote, CalendarNote, EventWrite, NewCalendarPart};
pub use commands::act::CLOCK_SKEW_MAX;
pub use commands::answer::EngineMail;
pub use commands::record::{CommandOutcome, NewMailCommand, OpenCommand};
pub use commands::resets::ThreadReset;
pub use commands::sender_notes::{NewSenderNote, NoteCandidate, SenderNoteKind};
pub use db::text_of_postgres;
pub use deliveries::delivery_state::{DeliveryKind, DeliveryState, RecipientState};
pub use deliveries::outbox::{Delivery, DeliveryFilter, DeliveryRecipient, FrozenDelivery};
pub use deliveries::outcomes::{DeliveryOutcome, RecipientOutcome};
pub use deliveries::queue::{ClaimedDelivery, NewDelivery, RecoveredDeliveries, SEND_LATER_MAX};
pub use deliveries::transport::{TransportHealth, TransportNote, TransportState};
pub use erasure::progress::OpenErasure;
pub use erasure::scope::{ErasureScope, QuotingMessage};
pub use feed::{ConfigurationEvent, FEED_PAGE_MAX, FeedEvent, FeedFilter, FeedPage};
pub use handle::Store;
pub use journal::contents::{Assembly, NewSources, StoredText};
pub use journal::outbound::{MessageOutcome, NewOutbound};
pub use journal::outputs::{NewOutput, StoredOutput};
pub use journal::packed::DigestedText;
pub use journal::resume::JournalSoFar;
pub use journal::step::{Executor, INTERRUPTED, NewCall, Step, StepKind, Unanswered};
pub use journal::writer::{JournalEntry, RunFinished};
pub use knowledge::{KnowledgeChunk, KnowledgeContents, KnowledgeFile, KnowledgeHit};
pub use list_page::ListPage;
pub use mail::filed::FiledLetter;
pub use mail::held::{HeldLetter, NewHeld};
pub use mail::imports::ArchivedWay;
pub use mail::inbound::{NewInbound, StoredInbound};
pub use mail::inbox::{INBOX_MAX, InboxItem};
pub use mail::letters::RawLetter;
pub use mail::messages::{Content, NewAttachment};
pub use mail::reports::{DeliveryReport, NewReport};
pub use mail::synthetic::{LastQuestion, NewSynthetic};
pub use mailboxes::cursors::{
    FailureCause, MailboxContact, MailboxCursor, MailboxFailure, MailboxHealth, MailboxOutcome,
    RefusedLetter,
};
pub use mailboxes::quarantine::Quarantined;
pub use maintenance::backups::{BackupEnd, LastScheduled};
pub use maintenance::before_upgrade::{
    SPARE_BYTES, copies_before_upgrades, folder_of as folder_of_copies,
};
pub use maintenance::migrate::{PendingMigration, UpgradeBackup};
pub use maintenance::retention::{RetentionPass, RetentionStep};
pub use maintenance::upgrade_check::UpgradeForecast;
pub use maintenance::verify::{DatabaseVerdict, VerifyError, verify_database};
pub use maintenance::versions::{ProgramVersion, THIS_VERSION};
pub use mcp_tools::{McpToolOff, NewMcpToolOff};
pub use memory::aliases::ContactAlias;
pub use memory::audience::{AudienceMemory, ReachableMemory};
pub use memory::change::{EntryVerdict, MemoryAct};
pub use memory::digest::{DigestEntry, DigestExplanation, DueDigest};
pub use memory::erase::{ErasableEntry, ErasedMemory, RemainingText};
pub use memory::listing::{MemoryDossier, MemoryEvent, MemoryFilter};
pub use memory::proposals::{ProposalState, WholeMemory};
pub use memory::ranked::entries_about;
pub use memory::record::{MemoryEntry, MemorySource, MemoryWrite, NewMemory};
pub use migrations::newest_known as newest_known_migration;

pub use nodes::burial::TakenOver;
pub use nodes::list::NodeRecord;
pub use notices::causes::{
    EarlierMail, Notice, NoticeAbout, NoticeFold, NoticeMail, Notified, PendingNotices,
};
pub use notices::emit::NewNotice;
pub use notices::wording::quoted;
pub use place::DatabasePlace;
pub use postgres::heartbeat::NodesSeen;
pub use postgres::hints::{HintedQueue, QueueHints};
pub use postgres::refusal::server_remedy;
pub use runs::crashes::RecoveredRuns;
pub use runs::fence::RunKey;
pub use runs::forks::{ForkMoney, NewFork, StoredFork};
pub use runs::halts::PersonaHalt;
pub use runs::hook_calls::HookCall;
pub use runs::providers::ProviderCalls;
pub use runs::queue::{ClaimedRun, NewRun, RunFailure};
pub use runs::run_control::{Cancellation, FailedRuns};
pub use schedules::file_changes::{FileChange, FileState, UsableFile};
pub use schedules::responsibility::{MissedSlots, NextSlot, Paused, StoredResponsibility, Version};
pub use schedules::run_options::{RunOptionsInForce, SlotOfRun};
pub use schedules::slot::{DueSlot, FAILURES_MAX, Fired, Firing, ScheduledPrompt, SlotWork};
pub use schedules::slots::{Overslept, ServedBy, StoredSlot};
pub use search::embedded::{EmbeddedCount, LetterSpan, LetterText, NewLetterVector, VectorSwitch};
pub use search::found::FoundMessage;
pub use search::ranking::{Ranking, SHARE_MIN};
pub use search::replies::ReplyWithParent;
pub use search::scope::MessageSearch;
pub use search::vectors::QuestionVector;
pub use sqlite::leftovers::refuse_leftovers;
pub use sqlite::locks::{EngineAtWork, engine_at_work, opening_process, working_engine};
pub use sqlite::open_error::OpenError;
pub use sqlite::spare::{give_up_spare_room, keep_spare_room};
pub use threads::history::{AttachmentInfo, StoredMessage, TriggerMessage};
pub use threads::instructions::{
    INSTRUCTIONS_MAX, InstructionScope, ShownInstruction, StoredInstruction,
};
pub use threads::links::LinkedLetter;
pub use threads::opened::{AttachmentRef, MessageFile, OpenedMessage, ReadersRule};
pub use threads::past_rows::{PastMessage, PastStep};
pub use threads::place::{Company, Place};
pub use threads::reply_limits::{
    Account, DomainLimit, MailBounds, MailReservation, ReplyLimits, Sent,
};
pub use threads::sessions::{KnownSession, SessionKey, ThreadSession};
pub use threads::summaries::{
    NewThreadSummary, SUMMARISED_CHARS_MAX, StoredThreadSummary, SummaryInputs, SummarySoFar,
    ThreadSummaryText,
};
pub use transfer::{BegunTransfer, ReplacedNul, TableDigest, Transfer, TransferError};
pub use views::backups::{BackupRow, LastBackup};
pub use views::bundles::BundleThing;
pub use views::calls::JudgedCallRow;
pub use views::event_sizes::SizedEvent;
pub use views::feed_lines::{FeedLine, FeedRecipient};
pub use views::ids::ID_PIECE_CHARS_MIN;
pub use views::overview::{LastRun, OverviewFilter, OverviewPage, ThreadOverview};
pub use views::record::StoredTurn;
pub use views::runs::{RunFilter, RunSummary, UsageRecord};
pub use views::status::{
    FailedWork, InstallRecords, NewestBackup, PersonaRecords, ROW_AHEAD_MAX, WaitingWork,
};
pub use views::strips::{CallStrip, MailStrip, RunStrip, TurnStrip};
pub use views::threads::{ThreadFilter, ThreadMessage, ThreadSummary};
pub use web_access::calls::{ApiCall, ApiCallState};
pub use web_access::sessions::{
    LOGIN_CODE_MAX, NewWebSession, SESSION_AGE_MAX, SESSION_IDLE_MAX, WebSession,
};
pub use web_access::tokens::{KeyRight, NewWebToken, WebScope, WebToken};
pub use webhooks::attempts::{WebhookNext, WebhookOutcome};
pub use webhooks::change::WebhookDeliveryFilter;
pub use webhooks::follow::WebhookPage;
pub use webhooks::record::{
    NewWebhookDelivery, WebhookDelivery, WebhookDeliveryState, WebhookStatus,
};

pub use budgets::usage::{UsageBy, UsageSince, UsageSum};
pub use journal::packed::SharedPart;
pub use journal::turns::{AssembledContext, TurnAnswered, TurnFailed, TurnStarted};
pub use schedules::waiting::{CATCHING_UP_MAX, WaitingSlot, WaitingTurn, WaitingTurns};
pub use writes::commit_signal::{CommitReceiver, next_commit};
pub use writes::piggyback::PiggybackClaim;
pub use writes::power_cut::PowerCut;

use crate::domain::PersonaId;
use futures_util::future::BoxFuture;

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The transaction did not commit: disk full, I/O error. Nothing of it is stored; a retry may
    /// succeed.
    #[error("the database did not commit")]
    NotCommitted(#[source] std::sync::Arc<db::Error>),
    /// The commit failed and it is unknown whether the transaction is on disk; the store refuses
    /// every later write.
    #[error("the disk failed at a commit, and what is stored is unknown")]
    CommitFailed(#[source] std::sync::Arc<db::Error>),
    /// Reads fail, and have failed for a while; the engine ends.
    #[error(
        "the disk fails at reads, and has for {} s",
        sqlite::read_health::FAILING_SECONDS
    )]
    ReadsFail(#[source] std::sync::Arc<db::Error>),
    /// The connection was lost while the transaction committed, and it is unknown whether it is stored; later writes are
    /// tried.
    #[error("the database did not answer a commit, and whether it is stored is unknown")]
    CommitUnanswered(#[source] std::sync::Arc<db::Error>),
    /// The database file was moved, replaced or removed, and a commit would be lost; the store
    /// refuses every later write.
    #[error("the database was moved, replaced or removed while an engine had it open")]
    Moved(#[source] std::sync::Arc<std::io::Error>),
    /// Another engine has raised the epoch; this engine has stored nothing since, and the store
    /// refuses every later write.
    #[error("another engine has taken this workspace over (it is in its epoch {epoch})")]
    Fenced { epoch: i64 },
    /// The lease of this node expired, and another node has taken its work over; this one has stored nothing since, and the
    /// store refuses every later write.
    #[error("the lease of this node expired, and another node has taken its work over")]
    Buried,
    /// The lease of this node has expired and was not extended yet; a later try may succeed.
    #[error("the lease of this node has expired and is not extended yet")]
    NoLease,
    /// The clock of this machine differs from the server's, so that nothing is stored by it.
    #[error("the clock of this machine is {} ms {} that of the database server", off_ms.abs(), if *off_ms < 0 { "behind" } else { "ahead of" })]
    ClockOff { off_ms: i64 },
    /// The engine is stopping.
    #[error("the database is closed")]
    Closed,
    /// A row that the caller named does not exist (or belongs to another persona).
    #[error("no {kind} `{id}`")]
    Missing { kind: &'static str, id: String },
    /// Several rows have an id that begins, or ends, with the piece.
    #[error("`{piece}` stands for several {kind} ids: {}", found.join(", "))]
    Ambiguous {
        kind: &'static str,
        piece: String,
        found: Vec<String>,
    },
    /// The row is in a state that does not allow the change.
    #[error("{kind} `{id}` is {state}: {hint}")]
    WrongState {
        kind: &'static str,
        id: String,
        state: String,
        hint: &'static str,
    },
    /// A call would cost more than a budget account has; nothing of its transaction is stored.
    #[error(transparent)]
    BudgetExhausted(Box<BudgetExhausted>),
    /// The run has reached its limit of mails; nothing of the transaction is stored.
    #[error("this run has sent all {max} mails that it may send")]
    MailsUsedUp { max: u32 },
    /// The persona has as many open questions as it may, or the run has asked as many; nothing of the transaction is stored.
    #[error("there are as many open questions to the owner as there may be")]
    ApprovalsUsedUp,
    /// Another run has filled the memory of a scope meanwhile; nothing of the transaction is stored, and the call is made anew.
    #[error("the memory has as many entries as it may have")]
    MemoryFull,
    /// A stored value cannot be parsed: the file was changed by another program.
    #[error("unreadable {what} in the database")]
    Unreadable { what: &'static str },
    /// Any other failure of a statement.
    #[error("the database refused")]
    Sql(#[from] db::Error),
}

impl From<StoreError> for db::Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Sql(error) => error,
            other => db::Error::Decode(Box::new(other)),
        }
    }
}

impl StoreError {
    pub(in crate::store) fn missing(kind: &'static str, id: impl ToString) -> Self {
        let id = id.to_string();
        StoreError::Missing { kind, id }
    }

    /// Reports whether one row is invalid and the others can still be read, so that a listing
    /// continues with the next.
    pub fn is_of_one_row(&self) -> bool {
        matches!(
            self,
            StoreError::Unreadable { .. } | StoreError::Missing { .. }
        )
    }

    /// Reports whether the file itself is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, StoreError::Sql(error) if sqlite::open_error::is_damage(error))
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// The store as seen by one persona.
#[derive(Clone)]
pub struct PersonaStore {
    store: Store,
    persona: PersonaId,
}

impl Store {
    /// Binds a handle to one persona; every row it reads or writes belongs to that persona.
    pub fn persona(&self, persona: &PersonaId) -> PersonaStore {
        PersonaStore {
            store: self.clone(),
            persona: persona.clone(),
        }
    }
}

statements!(PersonaStore, (&'c self), self.store.readers());

impl PersonaStore {
    pub fn persona_id(&self) -> &PersonaId {
        &self.persona
    }

    /// Runs one named transaction on rows of the persona; resolves after it is on disk.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut db::Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        let scope = db::Scope::persona(&self.persona);
        self.store.write(scope, work).await
    }
}
