//! Questions, reminders and explanations as mails to owners: each is queued in the commit that marks it as sent.

use super::list::{ApprovalView, PendingApproval};
use crate::domain::MessageId;
use crate::store::db::Scope;
use crate::store::notices::causes::{NoticeMail, insert_mail};
use crate::store::{Result, Store, StoreError};

/// Most questions of one pass.
const PASS_MAX: i64 = 50;
/// Most explanations to one owner about one question: an answer that is never understood gets no endless mail.
const EXPLANATIONS_MAX: i64 = 3;

const UNASKED: &str = "
    SELECT a.*, r.thread_id FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE a.state = 'open' AND a.asked_at IS NULL ORDER BY a.seq LIMIT $1";
const TO_REMIND: &str = "
    SELECT a.*, r.thread_id FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE a.state = 'open' AND a.reminded_at IS NULL AND a.remind_at <= $1 AND a.asked_at IS NOT NULL
    ORDER BY a.remind_at LIMIT $2";
const TOKENS: &str = "SELECT owner, token FROM answer_tokens WHERE approval_id = $1 AND coalesce(call_sha256, $2) = $2";
const INSERT_TOKEN: &str = "INSERT INTO answer_tokens (token, approval_id, owner, created_at, call_sha256) VALUES ($1, $2, $3, $4, $5)";
/// Fenced: an engine that is gone asks nobody.
const MARK_ASKED: &str = "
    UPDATE approvals SET asked_at = $2 WHERE id = $1 AND asked_at IS NULL AND call_sha256 = $4
      AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $3)";
const MARK_REMINDED: &str = "
    UPDATE approvals SET reminded_at = $2 WHERE id = $1 AND reminded_at IS NULL AND call_sha256 = $4
      AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $3)";
const TO_EXPLAIN: &str = "
    SELECT x.message_id, x.owner, x.outcome, m.message_id AS rfc_message_id, m.references_json, m.subject, a.*,
      r.thread_id,
      (SELECT count(*) FROM approval_answers o WHERE o.approval_id = x.approval_id AND o.owner = x.owner
        AND o.explained_at IS NOT NULL) >= $2 AS is_enough
    FROM approval_answers x JOIN approvals a ON a.id = x.approval_id JOIN messages m ON m.id = x.message_id
      JOIN runs r ON r.id = a.run_id
    WHERE x.explain = 1 AND x.explained_at IS NULL ORDER BY x.created_at LIMIT $1";
const MARK_EXPLAINED: &str = "
    UPDATE approval_answers SET explained_at = $2
    WHERE message_id = $1 AND explained_at IS NULL AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $3)";

/// A question as a mail to one owner.
#[derive(Debug, Clone)]
pub struct QuestionMail {
    pub mail: NoticeMail,
    /// Key of the owner's address, and the token of the address that they answer to.
    pub owner: String,
    pub token: String,
}

/// An answer that decided nothing, whose owner is told why.
#[derive(Debug, Clone)]
pub struct PendingExplanation {
    /// The answer.
    pub message: MessageId,
    pub owner: String,
    /// `not_understood`, `not_dated`, `not_by_mail`, `expired`, `already_<state>`.
    pub outcome: String,
    pub rfc_message_id: String,
    /// References of the answer, oldest first.
    pub references: Vec<String>,
    pub subject: String,
    pub view: ApprovalView,
    /// `true`: the owner has had enough explanations of this question.
    pub is_enough: bool,
}

impl Store {
    /// Returns the questions that no owner has been asked by mail, then those that owners are to be reminded of.
    pub async fn pending_approvals(&self) -> Result<Vec<PendingApproval>> {
        let now = self.clock().now();
        let mut pending = Vec::new();
        let unasked = self.rows(UNASKED, PASS_MAX).await?;
        let to_remind = self.rows(TO_REMIND, (now, PASS_MAX)).await?;
        for (rows, is_reminder) in [(unasked, false), (to_remind, true)] {
            for row in rows {
                pending.push(PendingApproval {
                    view: row.to()?,
                    thread: row.get("thread_id"),
                    is_reminder,
                });
            }
        }
        Ok(pending)
    }

    /// Returns the tokens of a question with this digest, by the owners' keys.
    pub async fn approval_tokens(
        &self,
        approval: &str,
        sha256: &str,
    ) -> Result<Vec<(String, String)>> {
        self.all(TOKENS, (approval, sha256)).await
    }

    /// Queues the mails of a question with this digest, or of the reminder of it; all or nothing.
    ///
    /// Errors: [`StoreError::WrongState`] when another engine has asked, or the draft was edited meanwhile.
    pub async fn ask_owners(
        &self,
        (approval, sha256): (&str, &str),
        mails: Vec<QuestionMail>,
        is_reminder: bool,
    ) -> Result<()> {
        let (epoch, now, id) = (self.epoch(), self.clock().now(), approval.to_owned());
        let sha256 = sha256.to_owned();
        transact!(self, Scope::persona_of("approvals", &id), |conn| {
            for question in &mails {
                insert_mail(conn, &question.mail, now).await?;
                if !is_reminder {
                    conn.exec(
                        INSERT_TOKEN,
                        (&question.token, &id, &question.owner, now, &sha256),
                    )
                    .await?;
                }
            }
            let sql = if is_reminder {
                MARK_REMINDED
            } else {
                MARK_ASKED
            };
            asked_now(conn.exec(sql, (&id, now, epoch, &sha256)).await?, &id)
        })
        .await
    }

    /// Returns the answers whose owners are to be told why they decided nothing.
    pub async fn pending_explanations(&self) -> Result<Vec<PendingExplanation>> {
        let rows = self.rows(TO_EXPLAIN, (PASS_MAX, EXPLANATIONS_MAX)).await?;
        rows.iter()
            .map(|row| {
                let references: &str = row.get("references_json");
                Ok(PendingExplanation {
                    message: row.get("message_id"),
                    owner: row.get::<Option<String>>("owner").unwrap_or_default(),
                    outcome: row.get("outcome"),
                    rfc_message_id: row.get("rfc_message_id"),
                    references: serde_json::from_str(references).unwrap_or_default(),
                    subject: row.get("subject"),
                    view: row.to()?,
                    is_enough: row.get("is_enough"),
                })
            })
            .collect()
    }

    /// Queues the mail of an explanation, if there is one, and marks it as sent.
    pub async fn explain_answer(
        &self,
        message: &MessageId,
        mail: Option<NoticeMail>,
    ) -> Result<()> {
        let (epoch, now, id) = (self.epoch(), self.clock().now(), message.to_string());
        // The answer came to one persona, and the mail is of that whose question it answers.
        transact!(self, Scope::Engine, |conn| {
            if let Some(mail) = &mail {
                insert_mail(conn, mail, now).await?;
            }
            let marked = conn.exec(MARK_EXPLAINED, (&id, now, epoch)).await?;
            asked_now(marked, &id)
        })
        .await
    }
}

fn asked_now(marked: u64, id: &str) -> Result<()> {
    match marked {
        0 => Err(StoreError::WrongState {
            kind: "approval",
            id: id.to_owned(),
            state: "asked already".to_owned(),
            hint: "another engine asks",
        }),
        _ => Ok(()),
    }
}
