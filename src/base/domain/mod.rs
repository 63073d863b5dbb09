//! Values and nothing else: the nouns of the engine, with the rules that make a value legal.
//!
//! - `id`, `time`, `digest`: identities, instants, hashes
//! - `mail`: addresses, letters, senders, reports
//! - `run`, `usage`, `budget`: runs, what they use, and their bounds
//! - `schedule`: options of responsibilities
//! - `approval`: questions to an owner; `notice`: kinds of events for an owner; `hook`: programs that are asked
//! - `feed`: kinds of what happens; `trace`: ids of a run in traces
//! - `memory`: entries of a persona's memory, and for whom they are; its lines, and who sees them
//! - `breaker`, `network`: circuit breakers, ranges of addresses
//!
//! Absent on purpose: I/O, clocks, async, rows. Wire bodies and configuration files have structs of
//! their own in the modules that own those formats.

pub mod mail;
pub mod approval;
pub mod breaker;
pub mod budget;
pub mod digest;
pub mod feed;
pub mod hook;
pub mod schedule;
pub mod id;
pub mod notice;
pub mod memory;
pub mod network;
pub mod run;
pub mod time;
mod trace;
pub mod usage;

pub use approval::{
    AnswerTo, ApprovalKind, ApprovalState, PlanMode, QuoteMode, ReplyMode, approval_address,
    approval_token,
};
pub use breaker::{Breaker, BreakerState, Tolerance};
pub use budget::{
    Allowance, Bound, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope, OnBudget, Origin,
    ThreadBudget, day_of, end_of, first_day, midnight, month_of,
};
pub use digest::{hex, sha256_hex, stable_seed};
pub use feed::{FeedKind, WebhookEvent};
pub use hook::{HookDecision, HookEvent};
pub use id::{
    AttachmentId, ConversationId, DeliveryId, MessageId, NoticeId, PersonaId, RawLetterId,
    ResponsibilityId, RunId, ThreadId,
};
pub use mail::address::{Address, Mailbox, is_listed};
pub use mail::command::{CommandLine, CommandRefusal, MailCommand};
pub use mail::email::{
    Arrival, Attachment, AutomaticSigns, Email, Envelope, Letter, LetterRange, MailboxUid,
    Quotation, TransferEncoding, Trust, Via,
};
pub use mail::identity::{Coverage, DomainPolicy, Identity};
pub use mail::label::{Readers, TextLabel};
pub use mail::loop_token::{LoopKey, LoopToken, OwnMail};
pub use mail::mail_providers::is_mail_provider;
pub use mail::report::{
    BounceReason, DIAGNOSTIC_CHARS_MAX, Report, ReportAction, ReportKind, ReportedRecipient,
    bounce_address, bounce_token,
};
pub use memory::lines::{MemoryAudience, VisibleMemory, may_replace, visible_to};
pub use memory::{
    ContactAliases, MEMORY_OF_RUN_MAX, MEMORY_RESTORABLE, MEMORY_TEXT_CHARS_MAX, MEMORY_UNUSED_MAX,
    MemoryCircle, MemoryKind, MemoryProposal, MemoryScope, MemoryStatus,
};
pub use network::{BadNetwork, Network, network_of, peer_network};
pub use notice::{NoticeKind, NoticeSubject};
pub use run::{
    ErrorClass, PdfFiles, RunState, RunWait, StopReason, ThreadOutcome, Trigger, Withheld,
};
pub use schedule::{
    CatchUp, DeliverTo, OWNER_SCHEDULE_TOOLS, Overlap, PausedBy, RunOptions, RunSettings,
    SlotOptions, Temperature,
};
pub use time::Timestamp;
pub use trace::{span_id, trace_id, traceparent};
pub use usage::{CostSource, Rates, TokenUsage, UsageLine};
