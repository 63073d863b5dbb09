//! Letters of owners that answer a question, or a digest of entries of memory: they decide in the commit that stores them.

use super::decide::decide;
use super::record::{ApprovalVerdict, DecisionOutcome, NewApprovalAnswer, NewDecision, kind_of};
use crate::domain::{ApprovalKind, ApprovalState, MessageId, Timestamp};
use crate::store::Result;
use crate::store::db::Connection;
use crate::store::memory::digest;
use crate::text::glob_matches;

const TOKEN: &str = "
    SELECT t.approval_id, t.owner, t.call_sha256, a.kind, a.draft_id, a.tool
    FROM answer_tokens t JOIN approvals a ON a.id = t.approval_id
    WHERE t.token = $1";
const INSERT_ANSWER: &str = "
    INSERT INTO approval_answers (message_id, approval_id, owner, outcome, created_at, explain, digest_id, report)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
/// An answer of the same owner with the same Message-ID, that came before. One that anybody could have made of the genuine
/// letter, by fields that nobody signed, doesn't count.
const SEEN_BEFORE: &str = "
    SELECT a.message_id FROM messages m JOIN messages o ON o.persona_id = m.persona_id AND o.message_id = m.message_id
    JOIN approval_answers a ON a.message_id = o.id
    WHERE m.id = $1 AND a.message_id <> m.id AND a.owner = $2
      AND a.outcome NOT IN ('unsigned_content', 'automatic') LIMIT 1";

/// Outcome of an answer: a word for the record, and whether its owner is to be told.
struct AnswerOutcome {
    word: String,
    explain: bool,
    /// What became of single entries of a digest, a line each.
    report: String,
}

/// Subject of an address that only owners have.
enum AskedAbout {
    Question {
        approval: String,
        kind: ApprovalKind,
        /// Digest of what was shown.
        sha256: Option<String>,
    },
    Digest {
        digest: String,
        is_closed: bool,
    },
}

/// An owner's address for answers.
struct AnswerAddress {
    owner: String,
    /// Tool by whose name the policy may close the door.
    tool: String,
    about: AskedAbout,
}

fn silent(word: &str) -> AnswerOutcome {
    AnswerOutcome {
        word: word.to_owned(),
        explain: false,
        report: String::new(),
    }
}

fn explained(word: impl Into<String>) -> AnswerOutcome {
    AnswerOutcome {
        word: word.into(),
        explain: true,
        report: String::new(),
    }
}

/// Applies an answer inside the transaction that stores its letter.
pub async fn apply(
    conn: &mut Connection,
    message: &MessageId,
    answer: &NewApprovalAnswer,
    now: Timestamp,
) -> Result<()> {
    let found = address(conn, &answer.token).await?;
    let outcome = match &found {
        None => silent("unknown_token"),
        Some(found) => match refusal(conn, message, answer, found).await? {
            Some(refused) => refused,
            None => match &found.about {
                AskedAbout::Question {
                    approval,
                    kind,
                    sha256,
                } => decided(conn, (approval, *kind, sha256.clone()), answer, now).await?,
                AskedAbout::Digest {
                    is_closed: true, ..
                } => explained("digest_closed"),
                AskedAbout::Digest { digest, .. } => reviewed(conn, digest, answer, now).await?,
            },
        },
    };
    let (approval, digest) = match found.map(|found| found.about) {
        Some(AskedAbout::Question { approval, .. }) => (Some(approval), None),
        Some(AskedAbout::Digest { digest, .. }) => (None, Some(digest)),
        None => (None, None),
    };

    conn.exec(
        INSERT_ANSWER,
        (
            message,
            approval,
            &answer.owner,
            outcome.word,
            now,
            outcome.explain,
            digest,
            outcome.report,
        ),
    )
    .await?;
    Ok(())
}

/// Returns the address with that token; `None`: there is none.
async fn address(conn: &mut Connection, token: &str) -> Result<Option<AnswerAddress>> {
    if let Some(row) = conn.maybe_row(TOKEN, token).await? {
        return Ok(Some(AnswerAddress {
            owner: row.get("owner"),
            tool: row.get("tool"),
            about: AskedAbout::Question {
                approval: row.get("approval_id"),
                kind: kind_of(&row)?,
                sha256: row.get("call_sha256"),
            },
        }));
    }
    let found = digest::of_token(conn, token).await?;
    Ok(found.map(|found| AnswerAddress {
        owner: found.owner,
        tool: "remember".to_owned(),
        about: AskedAbout::Digest {
            digest: found.digest,
            is_closed: found.is_closed,
        },
    }))
}

/// Returns why an answer may decide nothing at this address, whatever it says; `None`: it may.
async fn refusal(
    conn: &mut Connection,
    message: &MessageId,
    answer: &NewApprovalAnswer,
    found: &AnswerAddress,
) -> Result<Option<AnswerOutcome>> {
    let mut not_by_mail = answer.not_by_mail.iter();
    Ok(if answer.owner.as_ref() != Some(&found.owner) {
        Some(silent("not_proven"))
    } else if answer.is_automatic {
        Some(silent("automatic"))
    } else if answer.has_other_readings {
        Some(explained("unsigned_content"))
    } else if is_seen(conn, message, answer).await? {
        Some(silent("seen_before"))
    } else if answer.is_stale {
        Some(explained("not_dated"))
    } else if not_by_mail.any(|tools| glob_matches(tools, &found.tool)) {
        Some(explained("not_by_mail"))
    } else {
        None
    })
}

/// Carries out the decisions on entries of a digest.
async fn reviewed(
    conn: &mut Connection,
    id: &str,
    answer: &NewApprovalAnswer,
    now: Timestamp,
) -> Result<AnswerOutcome> {
    let Some(verdicts) = &answer.entries else {
        return Ok(explained("not_understood"));
    };
    let by = answer.owner.as_deref().unwrap_or_default();
    let outcome = digest::decide(conn, id, (verdicts, by), now).await?;
    Ok(AnswerOutcome {
        word: outcome.word.to_owned(),
        explain: !outcome.report.is_empty(),
        report: outcome.report.join("\n"),
    })
}

/// Reports whether its owner has answered with this Message-ID before: no program uses one twice, so one of the two letters
/// is not what it seems.
async fn is_seen(
    conn: &mut Connection,
    message: &MessageId,
    answer: &NewApprovalAnswer,
) -> Result<bool> {
    Ok(conn
        .maybe_row(SEEN_BEFORE, (message, &answer.owner))
        .await?
        .is_some())
}

async fn decided(
    conn: &mut Connection,
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
