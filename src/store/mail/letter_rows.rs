//! Rows of incoming letters: one statement text stores a letter with its conversation, its thread and
//! its run.

use crate::domain::{Timestamp, Withheld};
use crate::store::Result;
use crate::store::mail::audit_log::audit;
use crate::store::mail::bulk::{Bulk, ROWS_MAX};
use crate::store::mail::filed;
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::messages::insert_attachment;
use crate::store::runs::queue::NewRun;
use crate::store::sql::{Statement, json_list};
use crate::store::threads::placement::{FoundThread, Placing, placing};
use crate::store::threads::reply_limits::Sent;
use sqlx::SqliteConnection;
use std::sync::LazyLock;

/// Inserts a letter with its conversation, links, thread, participants and run. Repeated by
/// [`Bulk`].
pub(in crate::store) const STORE_LETTER: &str = "
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at)
      SELECT * FROM (VALUES ($25, $3, $9, $27, $13)) WHERE column1 IS NOT NULL ON CONFLICT (id) DO NOTHING;
    INSERT OR IGNORE INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT v.column1, j.value, v.column3 FROM (VALUES ($3, $26, $25)) v, json_each(v.column2) j;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      SELECT * FROM (VALUES ($2, $25, $3, $9, $13, $13)) WHERE column1 IS NOT NULL
      ON CONFLICT (id) DO UPDATE SET updated_at = max(updated_at, excluded.updated_at);
    INSERT OR IGNORE INTO thread_participants (thread_id, address, joined_after)
      SELECT v.column1, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = v.column1) END
      FROM (VALUES ($2, $28)) v, json_each(v.column2) j
        LEFT JOIN thread_participants u ON u.thread_id = v.column1 AND u.address = 'unverified:' || j.value;
    DELETE FROM thread_participants WHERE (thread_id, address) IN (VALUES ($2, $29));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (VALUES ($3, $30));
    DELETE FROM correspondence WHERE (persona_id, counterparty) IN (
      SELECT column1, 'unverified:' || column2 FROM (VALUES ($3, $30)));
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace)
      SELECT * FROM (VALUES ($15, $3, $21, $22, $23, $24)) WHERE column1 IS NOT NULL;
    INSERT INTO messages (id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
        recipients_json, subject, text_body, fresh_text, html_body, received_at, trust, raw_id, dedup_key, ack_confirmed,
        disposition, metadata_json, hops, readers_json)
      SELECT column1, column2, column3, 'inbound', column4, column5, column6, column7, column8, column9, column10, column11,
        column12, column13, column14, column15, column16, column17, column18, column19, column20, column21
      FROM (VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $36))
      WHERE column1 IS NOT NULL;
    INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at, budget_micros)
      SELECT column1, column2, column3, column4, column5, column6, 'queued', column7, column8
      FROM (VALUES ($31, $3, $2, $32, $1, $33, $34, $35)) WHERE column1 IS NOT NULL";

pub(in crate::store) static STORE_LETTERS: LazyLock<Bulk> =
    LazyLock::new(|| Bulk::of(STORE_LETTER));

pub(in crate::store) fn placing_of<'a>(
    copy: &'a NewInbound,
    times: (&'a str, &'a str),
) -> Placing<'a> {
    placing(&copy.persona, &copy.place, &copy.content, times)
}

/// A copy to be stored, and its place.
pub(in crate::store) struct NewRow<'a> {
    copy: &'a NewInbound,
    found: FoundThread,
    run: Option<&'a NewRun>,
    /// The limit by which the copy is filed.
    over: Option<Withheld>,
    /// `run` or `filed:<rule>`.
    disposition: String,
    now: Timestamp,
}

impl<'a> NewRow<'a> {
    /// Decides the disposition: a letter whose sender has reached a limit of answers is filed.
    pub fn new(copy: &'a NewInbound, sent: Sent, found: FoundThread, now: Timestamp) -> Self {
        let answers = found
            .thread
            .as_ref()
            .filter(|_| !copy.from_owner)
            .map_or(0, |(_, answers)| *answers);
        let sent = Sent {
            in_thread: answers,
            ..sent
        };
        let over = copy
            .reply_limits
            .as_ref()
            .and_then(|reply_limits| reply_limits.bounds.exceeded_by(sent.one_more()));
        let disposition =
            over.map_or_else(|| copy.disposition.clone(), |rule| format!("filed:{rule}"));
        Self {
            copy,
            found,
            run: copy.run.as_ref().filter(|_| over.is_none()),
            over,
            disposition,
            now,
        }
    }

    pub fn stored(&self) -> StoredInbound {
        StoredInbound::New {
            message: self.copy.id.clone(),
            run: self.run.map(|run| run.id.clone()),
            disposition: self.disposition.clone(),
        }
    }

    /// Binds all parameters of [`STORE_LETTER`], in order.
    fn bind<'q>(&'q self, query: Statement<'q>) -> Statement<'q> {
        let (copy, content) = (self.copy, &self.copy.content);
        let stamp = copy.received_at.to_string();
        let placing = placing_of(copy, ("", ""));
        let thread = self
            .found
            .thread
            .as_ref()
            .map_or(copy.place.new_thread.as_str(), |(thread, _)| thread);
        let query = query
            .bind(copy.id.as_str())
            .bind(thread.to_owned())
            .bind(copy.persona.as_str());
        let query = query
            .bind(&content.rfc_message_id)
            .bind(content.in_reply_to.as_deref());
        let query = query.bind(json_list(content.references.iter().map(String::as_str)));
        let query = query
            .bind(&content.sender)
            .bind(&content.recipients_json)
            .bind(&content.subject);
        let query = query
            .bind(&content.text_body)
            .bind(content.fresh_text.as_deref());
        let query = query
            .bind(content.html_body.as_deref())
            .bind(stamp)
            .bind(content.trust);
        let query = query
            .bind(copy.raw_id.as_str())
            .bind(&copy.dedup_key)
            .bind(copy.ack_confirmed);
        let query = query
            .bind(&self.disposition)
            .bind(&content.metadata_json)
            .bind(copy.hops);
        let query = query
            .bind(&copy.sha256)
            .bind(&copy.envelope_json)
            .bind(&copy.bytes[..])
            .bind(&copy.trace);
        let query = query
            .bind(&self.found.conversation)
            .bind(placing.ids())
            .bind(placing.root().to_owned());
        let query = query
            .bind(placing.joining(self.found.thread.is_some()))
            .bind(copy.place.replaces.as_deref());
        let query = query.bind(copy.from_owner.then(|| format!("thread:{thread}")));
        let query = query
            .bind(self.run.map(|run| run.id.as_str()))
            .bind(self.run.map(|run| run.trigger.as_str()));
        let query = query
            .bind(self.run.map(|run| run.profile.as_str()))
            .bind(self.now.to_string());
        let readers = copy.readers.as_ref();
        let readers = readers.map(|readers| json_list(readers.iter().map(String::as_str)));
        query
            .bind(self.run.and_then(|run| run.budget_micros))
            .bind(readers)
    }
}

pub(in crate::store) async fn insert(
    conn: &mut SqliteConnection,
    rows: &[NewRow<'_>],
) -> Result<()> {
    for rows in rows.chunks(ROWS_MAX) {
        let insert = sqlx::query(STORE_LETTERS.text(rows.len()));
        rows.iter()
            .fold(insert, |insert, row| row.bind(insert))
            .execute(&mut *conn)
            .await?;
    }
    for row in rows {
        let copy = row.copy;
        for attachment in &copy.attachments {
            insert_attachment(conn, &copy.persona, &copy.id, attachment).await?;
        }
        if let (Some(rule), Some(reply_limits)) = (row.over, &copy.reply_limits) {
            let who = (reply_limits.counterparty.as_str(), rule);
            filed::limit_reached(conn, &copy.persona, who, &copy.id, row.now).await?;
        }
        let held = row.run.is_none().then_some(&row.disposition);
        for decision in held.into_iter().chain(&copy.decisions) {
            audit(
                conn,
                Some(&copy.persona),
                ("message", copy.id.as_str()),
                decision,
                row.now,
            )
            .await?;
        }
    }
    Ok(())
}
