//! Questions, reminders and explanations as mails to owners: each is queued in the commit that marks it as sent.

use super::list::{ApprovalView, PendingApproval, view};
use crate::domain::{MessageId, ThreadId, Timestamp};
use crate::store::db::{self, Connection, Scope};
use crate::store::notices::causes::{NoticeMail, insert_mail};
use crate::store::{Result, Store, StoreError};

/// Most questions of one pass.
const PASS_MAX: i64 = 50;
/// Most explanations to one owner about one question: an answer that is never understood gets no endless mail.
const EXPLANATIONS_MAX: i64 = 3;

pub(in crate::store) const UNASKED: &str = "
    SELECT a.*, r.thread_id FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE a.state = 'open' AND a.asked_at IS NULL ORDER BY a.seq LIMIT $1";
pub(in crate::store) const TO_REMIND: &str = "
    SELECT a.*, r.thread_id FROM approvals a JOIN runs r ON r.id = a.run_id
    WHERE a.state = 'open' AND a.reminded_at IS NULL AND a.remind_at <= $1 AND a.asked_at IS NOT NULL
    ORDER BY a.remind_at LIMIT $2";
pub(in crate::store) const TOKENS: &str = "SELECT owner, token FROM approval_tokens WHERE approval_id = $1 AND coalesce(call_sha256, $2) = $2";
pub(in crate::store) const INSERT_TOKEN: &str = "INSERT INTO approval_tokens (token, approval_id, owner, created_at, call_sha256) VALUES ($1, $2, $3, $4, $5)";
/// Fenced: an engine that is gone asks nobody.
pub(in crate::store) const MARK_ASKED: &str = "
    UPDATE approvals SET asked_at = $2 WHERE id = $1 AND asked_at IS NULL AND call_sha256 = $4
      AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $3)";
pub(in crate::store) const MARK_REMINDED: &str = "
    UPDATE approvals SET reminded_at = $2 WHERE id = $1 AND reminded_at IS NULL AND call_sha256 = $4
      AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $3)";
pub(in crate::store) const TO_EXPLAIN: &str = "
    SELECT x.message_id, x.owner, x.outcome, m.message_id AS rfc_message_id, m.references_json, m.subject, a.*,
      r.thread_id,
      (SELECT count(*) FROM approval_answers o WHERE o.approval_id = x.approval_id AND o.owner = x.owner
        AND o.explained_at IS NOT NULL) >= $2 AS is_enough
    FROM approval_answers x JOIN approvals a ON a.id = x.approval_id JOIN messages m ON m.id = x.message_id
      JOIN runs r ON r.id = a.run_id
    WHERE x.explain = 1 AND x.explained_at IS NULL ORDER BY x.created_at LIMIT $1";
pub(in crate::store) const MARK_EXPLAINED: &str = "
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
        let now = self.clock().now().to_string();
        let mut pending = Vec::new();
        let unasked = db::query(UNASKED).bind(PASS_MAX);
        let to_remind = db::query(TO_REMIND).bind(now).bind(PASS_MAX);
        for (query, is_reminder) in [(unasked, false), (to_remind, true)] {
            for row in query.fetch_all(self.readers()).await? {
                pending.push(PendingApproval {
                    view: view(&row)?,
                    thread: ThreadId::new(row.get::<String>("thread_id")),
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
        let rows = db::query(TOKENS)
            .bind(approval)
            .bind(sha256)
            .fetch_all(self.readers())
            .await?;
        Ok(rows
            .iter()
            .map(|row| (row.get("owner"), row.get("token")))
            .collect())
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
        self.write(Scope::persona_of("approvals", &id), move |conn| {
            Box::pin(async move {
                for question in &mails {
                    insert_mail(conn, &question.mail, now).await?;
                    if !is_reminder {
                        let token = db::query(INSERT_TOKEN).bind(&question.token).bind(&id);
                        let token = token.bind(&question.owner).bind(now.to_string());
                        let token = token.bind(&sha256);
                        token.execute(&mut *conn).await?;
                    }
                }
                let sql = if is_reminder {
                    MARK_REMINDED
                } else {
                    MARK_ASKED
                };
                mark(conn, (sql, &id), (now, epoch), Some(&sha256)).await
            })
        })
        .await
    }

    /// Returns the answers whose owners are to be told why they decided nothing.
    pub async fn pending_explanations(&self) -> Result<Vec<PendingExplanation>> {
        let rows = db::query(TO_EXPLAIN)
            .bind(PASS_MAX)
            .bind(EXPLANATIONS_MAX)
            .fetch_all(self.readers())
            .await?;
        rows.iter()
            .map(|row| {
                let references: &str = row.get("references_json");
                Ok(PendingExplanation {
                    message: MessageId::new(row.get::<String>("message_id")),
                    owner: row.get::<Option<String>>("owner").unwrap_or_default(),
                    outcome: row.get("outcome"),
                    rfc_message_id: row.get("rfc_message_id"),
                    references: serde_json::from_str(references).unwrap_or_default(),
                    subject: row.get("subject"),
                    view: view(row)?,
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
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                if let Some(mail) = &mail {
                    insert_mail(conn, mail, now).await?;
                }
                mark(conn, (MARK_EXPLAINED, &id), (now, epoch), None).await
            })
        })
        .await
    }
}

async fn mark(
    conn: &mut Connection,
    (sql, id): (&'static str, &str),
    (now, epoch): (Timestamp, i64),
    sha256: Option<&str>,
) -> Result<()> {
    let mark = db::query(sql).bind(id).bind(now.to_string()).bind(epoch);
    let mark = match sha256 {
        Some(sha256) => mark.bind(sha256),
        None => mark,
    };
    match mark.execute(conn).await?.rows_affected() {
        0 => Err(StoreError::WrongState {
            kind: "approval",
            id: id.to_owned(),
            state: "asked already".to_owned(),
            hint: "another engine asks",
        }),
        _ => Ok(()),
    }
}
