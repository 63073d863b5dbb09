//! A question to the owner and a decision, as values.

use crate::domain::{ApprovalKind, ApprovalState, MessageId, Timestamp};
use crate::store::Result;
use crate::store::db::Row;
use crate::store::journal::outbound::NewOutbound;
use crate::store::memory::change::EntryVerdict;
use std::time::Duration;

/// A question that a run asks.
#[derive(Debug, Clone)]
pub struct NewApproval {
    pub id: String,
    /// Id of the call in the journal.
    pub call_id: String,
    pub kind: ApprovalKind,
    pub tool: String,
    /// Canonical form of what is asked for.
    pub call_json: String,
    /// Digest of `call_json`.
    pub call_sha256: String,
    /// Digest without the run and the call, by which a repeated question is known.
    pub fold_sha256: String,
    /// Text that the owner reads.
    pub view_text: String,
    /// Rule or row of the table, its code and its sentence.
    pub reason_json: String,
    /// Label of the run.
    pub label_json: String,
    /// Result of the call, where its effect commits with the decision.
    pub result_json: Option<String>,
    /// Mail that is queued by an approval, with its frozen bytes.
    pub mail: Option<Box<NewOutbound>>,
    /// Message that shows the mail as a draft; `None`: it is none.
    pub draft: Option<MessageId>,
    /// `true`: the run waits for the decision.
    pub parks: bool,
    pub expires_at: Timestamp,
    /// Instant at which the owners are reminded.
    pub remind_at: Timestamp,
    /// Most open questions of the persona, and most questions of the run.
    pub open_max: u32,
    pub questions_per_run_max: u32,
    /// Working time of the run so far.
    pub worked: Duration,
}

/// Returns the kind of a question as its row has it: the kind of a draft's row is that of what wrote it.
pub fn kind_of(row: &Row) -> Result<ApprovalKind> {
    match row.get::<Option<&str>>("draft_id") {
        Some(_) => Ok(ApprovalKind::Draft),
        None => row.try_get("kind"),
    }
}

/// A question of a run, as a later attempt of it reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalOfRun {
    pub id: String,
    pub call_id: String,
    pub kind: ApprovalKind,
    pub call_sha256: String,
    pub fold_sha256: String,
    pub state: ApprovalState,
    /// Canonical form of what was asked for.
    pub call_json: String,
    /// Expected effects of an approved call that has begun; `Some("null")` for one without.
    pub begun_json: Option<String>,
}

/// Decision of an owner, or of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalVerdict {
    Approve,
    Reject,
    /// Rejected, with an instruction.
    Edit,
    /// Answer to a question.
    Answer,
    Expire,
    /// Closed without a decision, because the database was restored.
    Close,
}

/// A decision, with who made it and how.
#[derive(Debug, Clone)]
pub struct NewDecision {
    pub verdict: ApprovalVerdict,
    /// Address of an owner, or the name of a user of the machine.
    pub by: String,
    /// Door: `cli`, `mail`, `command`, `web`, `clock`.
    pub via: &'static str,
    /// The owner's own words; empty when there are none.
    pub words: String,
    /// Proof, such as the letter in which it came.
    pub evidence_json: String,
    /// Digest of the call that was shown, where the door knows it: another one decides nothing.
    pub sha256: Option<String>,
}

/// A letter to the address of a question.
#[derive(Debug, Clone)]
pub struct NewApprovalAnswer {
    /// Token of the address.
    pub token: String,
    /// Owner who is known to have written it to this address; `None`: nobody is.
    pub owner: Option<String>,
    /// `true`: it does not say when it was written, or was written too long ago, so it decides nothing.
    pub is_stale: bool,
    /// `true`: its signature leaves open how the body is read, so its words may not be its owner's.
    pub has_other_readings: bool,
    /// `true`: a program wrote it, or a list sent it.
    pub is_automatic: bool,
    /// Its verdict, if its first line is one.
    pub verdict: Option<ApprovalVerdict>,
    /// Reason or instruction behind the verdict.
    pub words: String,
    /// Decisions on entries of a digest, if its lines are some.
    pub entries: Option<Vec<EntryVerdict>>,
    /// Its whole new text, which answers a question that wants words.
    pub text: String,
    /// Proof of the sender.
    pub evidence_json: String,
    /// Id of the row of the call's result.
    pub step: String,
    /// Tools whose questions no letter decides, as patterns.
    pub not_by_mail: Vec<String>,
}

/// Outcome of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecisionOutcome {
    Decided(ApprovalState),
    /// It was decided before.
    Already {
        state: ApprovalState,
        by: String,
        at: String,
    },
    /// The question is not about the bytes that were shown.
    OtherBytes,
    /// A question takes an answer, a call takes yes or no.
    NotFitting,
}
