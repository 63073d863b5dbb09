//! Letters of owners that answer a question: they decide in the commit that stores them.

use super::decide::decide;
use super::record::{ApprovalVerdict, DecisionOutcome, NewApprovalAnswer, NewDecision, kind_of};
use crate::domain::{ApprovalKind, ApprovalState, MessageId, Timestamp};
use crate::store::Result;
use crate::text::glob_matches;
use sqlx::{Row, SqliteConnection};

pub(in crate::store) const TOKEN: &str = "
    SELECT t.approval_id, t.owner, t.call_sha256, a.kind, a.draft_id, a.tool
    FROM approval_tokens t JOIN approvals a ON a.id = t.approval_id
    WHERE t.token = $1";
pub(in crate::store) const INSERT_ANSWER: &str = "
    INSERT INTO approval_answers (message_id, approval_id, owner, outcome, created_at, explain)
    VALUES ($1, $2, $3, $4, $5, $6)";
/// An answer of the same owner with the same Message-ID, that came before.
pub(in crate::store) const SEEN_BEFORE: &str = "
    SELECT a.message_id FROM messages m JOIN messages o ON o.persona_id = m.persona_id AND o.message_id = m.message_id
    JOIN approval_answers a ON a.message_id = o.id
    WHERE m.id = $1 AND a.message_id <> m.id AND a.owner = $2 LIMIT 1";

/// Outcome of an answer: a word for the record, and whether its owner is to be told.
struct AnswerOutcome {
    word: String,
    explain: bool,
}

fn silent(word: &str) -> AnswerOutcome {
    AnswerOutcome {
        word: word.to_owned(),
        explain: false,
    }
}

fn explained(word: impl Into<String>) -> AnswerOutcome {
    AnswerOutcome {
        word: word.into(),
        explain: true,
    }
}

/// Applies an answer inside the transaction that stores its letter.
pub(in crate::store) async fn apply(
    conn: &mut SqliteConnection,
    message: &MessageId,
    answer: &NewApprovalAnswer,
    now: Timestamp,
) -> Result<()> {
    let found = sqlx::query(TOKEN)
        .bind(&answer.token)
        .fetch_optional(&mut *conn)
        .await?;
    let (approval, outcome) = match &found {
        None => (None, silent("unknown_token")),
        Some(row) => {
            let approval: String = row.get("approval_id");
            let tool: &str = row.get("tool");
            let is_theirs = answer.owner.as_deref() == Some(row.get("owner"));
            let outcome = if !is_theirs {
                silent("not_proven")
            } else if answer.is_automatic {
                silent("automatic")
            } else if is_seen(conn, message, answer).await? {
                silent("seen_before")
            } else if answer.is_stale {
                explained("not_dated")
            } else if answer
                .not_by_mail
                .iter()
                .any(|tools| glob_matches(tools, tool))
            {
                explained("not_by_mail")
            } else {
                let shown = row.get::<Option<String>, _>("call_sha256");
                let question = (approval.as_str(), kind_of(row)?, shown);
                decided(conn, question, answer, now).await?
            };
            (Some(approval), outcome)
        }
    };
    let insert = sqlx::query(INSERT_ANSWER)
        .bind(message.as_str())
        .bind(approval)
        .bind(&answer.owner);
    let insert = insert
        .bind(outcome.word)
        .bind(now.to_string())
        .bind(outcome.explain);
    insert.execute(conn).await?;
    Ok(())
}

/// Reports whether its owner has answered with this Message-ID before: no program uses one twice, so one of the two letters
/// is not what it seems.
async fn is_seen(
    conn: &mut SqliteConnection,
    message: &MessageId,
    answer: &NewApprovalAnswer,
) -> Result<bool> {
    let before = sqlx::query(SEEN_BEFORE)
        .bind(message.as_str())
        .bind(&answer.owner);
    Ok(before.fetch_optional(conn).await?.is_some())
}

async fn decided(
    conn: &mut SqliteConnection,
    (approval, kind, sha256): (&str, ApprovalKind, Option<String>),
    answer: &NewApprovalAnswer,
    now: Timestamp,
) -> Result<AnswerOutcome> {
    let (verdict, words) = match (kind, answer.verdict) {
        (ApprovalKind::Question, _) if answer.text.trim().is_empty() => {
            return Ok(explained("not_understood"));
        }
        (ApprovalKind::Question, _) => (ApprovalVerdict::Answer, &answer.text),
        (_, Some(verdict)) => (verdict, &answer.words),
        (_, None) => return Ok(explained("not_understood")),
    };
    let decision = NewDecision {
        verdict,
        by: answer.owner.clone().unwrap_or_default(),
        via: "mail",
        words: words.clone(),
        evidence_json: answer.evidence_json.clone(),
        // A yes to a draft that was edited since is none to what it is now.
        sha256,
    };
    let outcome = decide(conn, approval, &decision, (now, &answer.step)).await?;
    Ok(match outcome {
        DecisionOutcome::Decided(ApprovalState::Expired) => explained("expired"),
        DecisionOutcome::Decided(state) => silent(state.as_str()),
        DecisionOutcome::Already { state, .. } => explained(format!("already_{state}")),
        DecisionOutcome::OtherBytes => explained("edited_since"),
        DecisionOutcome::NotFitting => explained("not_understood"),
    })
}
