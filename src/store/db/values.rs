//! Values of the domain as columns and parameters.

use super::{At, FromColumn, Row};
use crate::domain::{
    ApprovalKind, ApprovalState, AttachmentId, BounceReason, BudgetScope, CatchUp, CommandRefusal,
    ConversationId, CostSource, DeliveryId, ErrorClass, FeedKind, HookDecision, HookEvent,
    MailCommand, MemoryKind, MemoryProposal, MemoryStatus, MessageId, NoticeId, NoticeKind,
    NoticeSubject, Overlap, PausedBy, PersonaId, RawLetterId, ReportAction, ReportKind,
    ResponsibilityId, RunId, RunState, RunWait, StopReason, ThreadId, Timestamp, Trigger, Trust,
    WebhookEvent, Withheld,
};
use crate::store::{Result, StoreError};
use std::time::Duration;

macro_rules! ids {
    ($($id:ty)+) => { text_column! { $($id: "id" by |text: &str| Some(<$id>::new(text));)+ } };
}

ids!(AttachmentId ConversationId DeliveryId MessageId NoticeId RawLetterId ResponsibilityId RunId ThreadId);

text_column! {
    PersonaId: "persona id" by |text: &str| PersonaId::parse(text).ok();
    ApprovalKind: "approval";
    ApprovalState: "approval";
    BounceReason: "reason of a report";
    BudgetScope: "scope of a budget account";
    CatchUp;
    CommandRefusal: "refusal of a command";
    CostSource;
    ErrorClass: "error class";
    FeedKind: "kind of an event";
    HookDecision: "hook call";
    HookEvent: "hook call";
    MailCommand: "command";
    MemoryKind: "memory";
    MemoryProposal: "memory";
    MemoryStatus: "memory";
    NoticeKind: "kind of a notice";
    NoticeSubject: "subject of a notice";
    Overlap;
    PausedBy: "terms of a responsibility";
    ReportAction: "action of a report";
    ReportKind: "kind of a report";
    RunState: "state of a run";
    RunWait: "state of a run";
    StopReason: "state of a run";
    Trigger: "trigger of a run";
    Trust;
    WebhookEvent;
    Withheld;
}

impl<'r> FromColumn<'r> for Timestamp {
    fn from_column(row: &'r Row, at: At<'_>) -> Result<Self> {
        let text = <&str>::from_column(row, at)?;
        Timestamp::parse(text).ok_or(StoreError::Unreadable { what: "time" })
    }
}

/// Reads a place in a text; one that cannot be is 0.
impl<'r> FromColumn<'r> for usize {
    fn from_column(row: &'r Row, at: At<'_>) -> Result<Self> {
        Ok(Self::try_from(i64::from_column(row, at)?).unwrap_or_default())
    }
}

/// Reads milliseconds.
impl<'r> FromColumn<'r> for Duration {
    fn from_column(row: &'r Row, at: At<'_>) -> Result<Self> {
        Ok(Self::from_millis(i64::from_column(row, at)?.unsigned_abs()))
    }
}
