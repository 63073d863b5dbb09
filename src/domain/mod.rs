//! Values and nothing else: the nouns of the engine, with the rules that make a value legal.
//!
//! Absent on purpose: I/O, clocks, async, serde. Rows, wire bodies and configuration files have
//! structs of their own in the modules that own those formats.

pub mod address;
pub mod breaker;
pub mod budget;
pub mod digest;
pub mod schedule;
pub mod email;
pub mod filed;
pub mod id;
pub mod identity;
pub mod loop_token;
pub mod notice;
pub mod report;
pub mod network;
pub mod run;
pub mod time;
pub mod usage;

pub use address::{Address, Mailbox};
pub use breaker::{Breaker, BreakerState, Tolerance};
pub use budget::{
    Allowance, Bound, BudgetAccount, BudgetAccountId, BudgetBalance, BudgetScope, OnBudget, Origin,
    ThreadBudget, day_of, end_of, month_of,
};
pub use digest::{sha256_hex, stable_seed};
pub use email::{
    Arrival, Attachment, AutomaticSigns, Email, Envelope, Letter, MailboxUid, Trust, Via,
};
pub use id::{
    AttachmentId, ConversationId, DeliveryId, MessageId, NoticeId, PersonaId, RawLetterId,
    ResponsibilityId, RunId, ThreadId,
};
pub use identity::{Coverage, DomainPolicy, Identity};
pub use loop_token::{LoopKey, LoopToken, OwnMail};
pub use network::{BadNetwork, Network};
pub use notice::{NoticeKind, NoticeSubject};
pub use report::{
    BounceReason, DIAGNOSTIC_CHARS_MAX, Report, ReportAction, ReportKind, ReportedRecipient,
    bounce_address, bounce_token,
};
pub use run::{ErrorClass, RunState, StopReason, Trigger, Withheld};
pub use schedule::{CatchUp, DeliverTo, Overlap, PausedBy, RunOptions, SlotOptions};
pub use time::Timestamp;
pub use usage::{CostSource, Rates, TokenUsage, UsageLine};
