//! Questions as people read them: lists, pages, and those whose mail to the owners is to be written.

use super::record::kind_of;
use crate::domain::{
    ApprovalKind, ApprovalState, MessageId, PersonaId, RunId, ThreadId, Timestamp, Trigger,
};
use crate::store::db::Row;
use crate::store::list_page::known;
use crate::store::sql::{instant, optional_timestamp};
use crate::store::{ListPage, Result, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A question, as the command line and other faces show it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ApprovalView {
    pub id: String,
    pub persona: PersonaId,
    pub run: RunId,
    pub call: String,
    pub kind: ApprovalKind,
    pub tool: String,
    pub state: ApprovalState,
    /// Digest of what is asked for: an approval of another is none.
    pub sha256: String,
    /// Text that the owner reads.
    pub view: String,
    /// Why it was asked: `{effect, rule, code, why}`.
    pub reason: Value,
    /// What the run had read: `{sender, floor, readers}`.
    pub label: Value,
    /// `true`: the run waits for the decision.
    pub parks: bool,
    pub requested_at: Timestamp,
    pub expires_at: Timestamp,
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<String>,
    /// Door of the decision: `cli`, `mail`, `command`, `web`, `clock`, `run`.
    pub via: Option<String>,
    /// The owner's own words.
    pub words: Option<String>,
    /// Message that shows the draft in its thread; `None`: it is no draft.
    pub draft: Option<MessageId>,
    /// Number of edits of the draft.
    pub edits: u32,
}

/// A question whose mail to the owners is to be written, or the reminder of it.
#[derive(Debug, Clone)]
pub struct PendingApproval {
    pub view: ApprovalView,
    pub thread: ThreadId,
    /// `true`: it was asked before.
    pub is_reminder: bool,
}

/// The letter that a run is about, as an owner reads it beside a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetterOfRun {
    pub id: MessageId,
    pub thread: ThreadId,
    /// `email`, or `chat`: a question of `attache ask` or of an agent.
    pub trigger: Trigger,
    pub sender: String,
    pub subject: String,
    pub received_at: Timestamp,
    /// The beginning of what is new in it.
    pub text: String,
    /// `true`: there is more of it.
    pub is_cut: bool,
}

/// The first 1500 characters: what a person reads beside a question. A task of a schedule is no letter.
const LETTER_OF_RUN: &str = "
    SELECT m.id, m.thread_id, r.trigger, m.sender, m.subject, m.received_at,
      substr(coalesce(nullif(m.fresh_text, ''), m.text_body), 1, 1500) AS text,
      length(coalesce(nullif(m.fresh_text, ''), m.text_body)) > 1500 AS is_cut
    FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE r.id = $1 AND r.trigger IN ('email', 'chat')";
const APPROVALS: &str = "
    SELECT * FROM approvals WHERE ($1 IS NULL OR state = $1) AND ($2 IS NULL OR persona_id = $2)
      AND seq < $4 ORDER BY seq DESC LIMIT $3";
const OPEN_APPROVALS: &str = "
    SELECT * FROM approvals WHERE state = 'open' AND ($1 IS NULL OR persona_id = $1)
      AND (expires_at, seq) > ($3, $4) ORDER BY expires_at, seq LIMIT $2";
const PLACE_OF_APPROVAL: &str = "SELECT seq, expires_at FROM approvals WHERE id = $1";
const QUESTIONS_OF_RUN: &str = "SELECT * FROM approvals WHERE run_id = $1 ORDER BY seq";
pub const APPROVAL: &str = "SELECT * FROM approvals WHERE id = $1";
const APPROVALS_ENDING: &str = "SELECT id FROM approvals WHERE lower(substr(id, length(id) - length($1) + 1)) = lower($1) ORDER BY id DESC LIMIT $2";

impl Store {
    /// Returns questions in a state, the newest first; open ones, those that end first.
    pub async fn approvals(
        &self,
        state: Option<ApprovalState>,
        persona: Option<&PersonaId>,
        page: ListPage<'_>,
    ) -> Result<Vec<ApprovalView>> {
        let persona = persona.map(PersonaId::as_str);
        let place = self.maybe_row(PLACE_OF_APPROVAL, page.after).await?;
        let place = known(page.after, place)?
            .map(|row| (row.get::<i64>("seq"), row.get::<String>("expires_at")));
        let rows = match state {
            Some(ApprovalState::Open) => {
                let (seq, expires_at) = place.unwrap_or_default();

                self.rows(OPEN_APPROVALS, (persona, page.limit, expires_at, seq))
                    .await?
            }
            state => {
                let before = place.map_or(i64::MAX, |(seq, _)| seq);

                self.rows(APPROVALS, (state, persona, page.limit, before))
                    .await?
            }
        };
        rows.iter().map(Row::to).collect()
    }

    /// Returns the questions of a run, the oldest first.
    pub async fn questions_of_run(&self, run: &RunId) -> Result<Vec<ApprovalView>> {
        self.all(QUESTIONS_OF_RUN, run).await
    }

    /// Returns the beginning of the letter that a run is about; `None`: it is about none.
    pub async fn letter_of_run(&self, run: &RunId) -> Result<Option<LetterOfRun>> {
        let row = self.maybe_row(LETTER_OF_RUN, run).await?;
        row.map(|row| {
            let unreadable = StoreError::Unreadable {
                what: "trigger of a run",
            };
            Ok(LetterOfRun {
                id: row.get("id"),
                thread: row.get("thread_id"),
                trigger: Trigger::parse(row.get("trigger")).ok_or(unreadable)?,
                sender: row.get("sender"),
                subject: row.get("subject"),
                received_at: instant(row.get("received_at"))?,
                text: row.get("text"),
                is_cut: row.get("is_cut"),
            })
        })
        .transpose()
    }

    /// Returns a question. Errors: [`StoreError::Missing`].
    pub async fn approval(&self, id: &str) -> Result<ApprovalView> {
        match self.maybe_row(APPROVAL, id).await? {
            Some(row) => row.to(),
            None => Err(StoreError::missing("approval", id)),
        }
    }

    /// Returns the ids that end like this, in capitals or not, up to two.
    pub async fn approvals_ending(&self, piece: &str) -> Result<Vec<String>> {
        self.all(APPROVALS_ENDING, (piece, 2)).await
    }
}

from_row!(|row| ApprovalView {
    id,
    persona: "persona_id",
    run: "run_id",
    call: "call_id",
    kind: { kind_of(row)? },
    tool,
    state,
    sha256: "call_sha256",
    view: "view_text",
    reason: { row.json("reason_json", "approval")? },
    label: { row.json("label_json", "approval")? },
    parks,
    requested_at,
    expires_at,
    decided_at,
    decided_by,
    via,
    words,
    draft: "draft_id",
    edits
});

/// Questions of a span of time, and how owners decided.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ApprovalStats {
    pub questions: u64,
    /// Runs that were queued in the same span.
    pub runs: u64,
    pub per_100_runs: f64,
    pub open: u64,
    pub approved: u64,
    pub rejected: u64,
    pub edited: u64,
    pub expired: u64,
    /// Answered, superseded or cancelled.
    pub other: u64,
    /// Median of the seconds between question and decision, of those that an owner decided.
    pub median_seconds: Option<f64>,
    /// Decisions within three seconds: nobody reads that fast.
    pub hasty: u64,
}

/// Most questions that are counted.
const COUNTED_MAX: i64 = 100_000;

const APPROVALS_SINCE: &str = "
    SELECT state, decided_by, requested_at, decided_at FROM approvals WHERE requested_at >= $1 AND draft_id IS NULL
    ORDER BY seq DESC LIMIT $2";
const RUNS_SINCE: &str = "SELECT count(*) FROM runs WHERE created_at >= $1";

impl Store {
    /// Counts the questions since an instant.
    pub async fn approval_stats(&self, since: Timestamp) -> Result<ApprovalStats> {
        let runs: i64 = self.one(RUNS_SINCE, since).await?;
        let rows = self.rows(APPROVALS_SINCE, (since, COUNTED_MAX)).await?;
        let mut stats = ApprovalStats {
            questions: rows.len() as u64,
            runs: runs.unsigned_abs(),
            ..ApprovalStats::default()
        };
        let mut took = Vec::new();
        for row in &rows {
            let count = match ApprovalState::parse(row.get("state")) {
                Some(ApprovalState::Open) => &mut stats.open,
                Some(ApprovalState::Approved) => &mut stats.approved,
                Some(ApprovalState::Rejected) => &mut stats.rejected,
                Some(ApprovalState::Edited) => &mut stats.edited,
                Some(ApprovalState::Expired) => &mut stats.expired,
                _ => &mut stats.other,
            };
            *count += 1;
            let by: Option<String> = row.get("decided_by");
            if let (Some(at), Some(_)) = (
                optional_timestamp(row, "decided_at")?,
                by.filter(|by| !by.is_empty()),
            ) {
                took.push(at.since(instant(row.get("requested_at"))?).as_secs_f64());
            }
        }
        stats.hasty = took.iter().filter(|seconds| **seconds < 3.0).count() as u64;
        took.sort_by(f64::total_cmp);
        stats.median_seconds = took.get(took.len() / 2).copied();
        if stats.runs > 0 {
            stats.per_100_runs = 100.0 * stats.questions as f64 / stats.runs as f64;
        }
        Ok(stats)
    }
}
