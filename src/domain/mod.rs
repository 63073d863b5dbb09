//! Values and nothing else: what the engine talks about, with the rules that make a value legal.
//!
//! Absent on purpose: I/O, clocks, async, serde. Rows, wire bodies and configuration files have structs of
//! their own in the modules that own those formats.

pub mod address;
pub mod breaker;
pub mod budget;
pub mod digest;
pub mod duty;
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
pub use breaker::{Breaker, Gate, Tolerance};
pub use budget::{
    Allowance, Bound, OnBudget, Origin, Purse, PurseId, PurseScope, PurseState, ThreadBudget, day_of, end_of,
    month_of,
};
pub use digest::{sha256_hex, stable_seed};
pub use duty::{CatchUp, DeliverTo, Overlap, PausedBy, RunTerms, SlotTerms};
pub use email::{Arrival, Attachment, AutomaticSigns, Email, Envelope, Letter, MailboxUid, Trust, Via};
pub use id::{
    AttachmentId, ConversationId, DeliveryId, MessageId, NoticeId, PersonaId, RawLetterId, ResponsibilityId,
    RunId, ThreadId,
};
pub use identity::{Coverage, DomainPolicy, Identity};
pub use loop_token::{LoopKey, LoopToken, OwnMail};
pub use network::{BadNetwork, Network};
pub use notice::{NoticeKind, NoticeSubject};
pub use report::{
    BounceReason, DIAGNOSTIC_CHARS_MAX, Report, ReportAction, ReportKind, ReportedRecipient, bounce_address,
    bounce_token,
};
pub use run::{ErrorClass, RunState, StopReason, Trigger, Withheld};
pub use time::Timestamp;
pub use usage::{CostSource, Rates, Usage, UsageLine};
