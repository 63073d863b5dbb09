//! Counts of automatic mails per recipient: increased with the queued mail, read before a run is
//! queued.
//!
//! Counts stand in buckets of a minute, so that a day is at most 1,440 rows whatever the number of
//! mails. A bucket counts as long as any instant of it does, which may be a minute too long and
//! never too short.

use crate::domain::{
    OwnMail, PersonaId, RunId, RunState, StopReason, ThreadId, Timestamp, Withheld,
};
use crate::store::db::{self, Connection};
use crate::store::mail::audit_log::audit;
use crate::store::mail::filed;
use crate::store::runs::fence::fenced;
use crate::store::sql::json_list;
use crate::store::threads::reply_limits::{DAY, HOUR, MailReservation, Sent, minute_of, since};
use crate::store::{PersonaStore, Result, RunKey, Store, StoreError};

/// Increases the counters, deletes expired buckets, and returns the new counts: the highest of any
/// address in an hour and in a day, and the answers of the thread.
pub(in crate::store) const RESERVE: &str = "
    DELETE FROM correspondence WHERE persona_id = $1 AND minute < $5 AND counterparty IN (
      SELECT value FROM jsonb_each($2)
      UNION ALL SELECT $8 || coalesce($7, (SELECT thread_id FROM runs WHERE id = $6)));
    INSERT INTO correspondence (persona_id, counterparty, minute, mails)
      SELECT $1, who, $3, 1 FROM (SELECT value AS who FROM jsonb_each($2)
        UNION SELECT $8 || coalesce($7, (SELECT thread_id FROM runs WHERE id = $6))) AS people
      WHERE who IS NOT NULL
      ON CONFLICT (persona_id, counterparty, minute) DO UPDATE SET mails = correspondence.mails + 1;
    SELECT
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $4) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_hour,
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $5) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_day,
      coalesce((SELECT sum(mails) FROM correspondence WHERE persona_id = $1 AND minute >= $5
        AND counterparty = $8 || coalesce($7, (SELECT thread_id FROM runs WHERE id = $6))), 0) AS in_thread";
pub(in crate::store) const GIVE_BACK: &str = "
    UPDATE correspondence SET mails = mails - 1 WHERE persona_id = $1 AND minute = $3 AND counterparty IN (
      SELECT value FROM jsonb_each($2)
      UNION SELECT $6 || coalesce($5, (SELECT thread_id FROM runs WHERE id = $4)))";
/// The counts that [`RESERVE`] returns, without increasing them.
pub(in crate::store) const SENT: &str = "
    SELECT
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $3) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_hour,
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $4) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_day,
      coalesce((SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND minute >= $4 AND counterparty = $6 || $5), 0) AS in_thread";
pub(in crate::store) const OWN_MAIL: &str = "
    SELECT m.persona_id, m.hops, (SELECT json_group_array(r.recipient) FROM deliveries d
      JOIN delivery_recipients r ON r.delivery_id = d.id WHERE d.message_id = m.id) AS recipients_json
    FROM messages m WHERE m.persona_id IN (SELECT value FROM jsonb_each($1)) AND m.message_id = $2
      AND m.direction = 'outbound' AND m.disposition = 'sent' ORDER BY m.seq LIMIT 1";
/// Counter key of a letter's sender, as the gateway recorded it.
pub(in crate::store) const COUNTERPARTY: &str = "
    SELECT metadata_json ->> 'counterparty' FROM messages WHERE id = $1";
pub(in crate::store) const FILE_TRIGGER: &str = "
    UPDATE messages SET disposition = $3 WHERE id = $1 AND persona_id = $2";
pub(in crate::store) const END_UNASKED: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, finished_at = $5 WHERE id = $1 AND epoch = $2 AND state = 'running'";

/// Counts a mail inside the transaction that queues it: for its recipients, and in `thread`, which
/// is the run's own when it is `None`. `Some`: a limit is exceeded, nothing is counted, and the
/// mail must not be queued.
pub(in crate::store) async fn reserve(
    conn: &mut Connection,
    persona: &PersonaId,
    (run, thread): (&RunId, Option<&ThreadId>),
    wanted: &MailReservation,
    now: Timestamp,
) -> Result<Option<Withheld>> {
    if wanted.counterparties.is_empty() && !wanted.counts_in_thread {
        return Ok(None);
    }
    let who = json_list(wanted.counterparties.iter().map(String::as_str));
    let run = wanted.counts_in_thread.then(|| run.as_str());
    let thread = thread
        .filter(|_| wanted.counts_in_thread)
        .map(ThreadId::as_str);
    let taken = db::query(RESERVE)
        .bind(persona.as_str())
        .bind(&who)
        .bind(minute_of(now));
    let taken = taken
        .bind(since(now, HOUR))
        .bind(since(now, DAY))
        .bind(run)
        .bind(thread);
    let taken = taken.bind(wanted.account.thread_prefix());
    let taken = taken.fetch_one(&mut *conn).await?;
    let sent = Sent {
        in_hour: taken.get("in_hour"),
        in_day: taken.get("in_day"),
        in_thread: taken.get("in_thread"),
    };
    let over = wanted.bounds.exceeded_by(sent);
    if over.is_some() {
        let back = db::query(GIVE_BACK)
            .bind(persona.as_str())
            .bind(&who)
            .bind(minute_of(now));
        back.bind(run)
            .bind(thread)
            .bind(wanted.account.thread_prefix())
            .execute(conn)
            .await?;
    }
    Ok(over)
}

impl Store {
    /// Returns the mail of that Message-ID, when one of these personas sent it.
    pub async fn own_mail(
        &self,
        personas: &[&PersonaId],
        rfc_message_id: &str,
    ) -> Result<Option<OwnMail>> {
        let personas = json_list(personas.iter().map(|id| id.as_str()));
        let row = db::query(OWN_MAIL).bind(personas).bind(rfc_message_id);
        let Some(row) = row.fetch_optional(self.readers()).await? else {
            return Ok(None);
        };
        let unreadable = || StoreError::Unreadable {
            what: "recipients of a mail",
        };
        Ok(Some(OwnMail {
            persona: crate::store::sql::persona_id(&row)?,
            hops: row.get("hops"),
            recipients: serde_json::from_str(row.get("recipients_json"))
                .map_err(|_| unreadable())?,
        }))
    }
}

impl PersonaStore {
    /// Returns the recent automatic mails in the counters of a reservation: the highest of any of
    /// its addresses, and the answers in the thread.
    pub async fn sent_of_late(&self, wanted: &MailReservation, thread: &ThreadId) -> Result<Sent> {
        let now = self.store.clock().now();
        let who = json_list(wanted.counterparties.iter().map(String::as_str));
        let sent = db::query(SENT)
            .bind(self.persona.as_str())
            .bind(who)
            .bind(since(now, HOUR));
        let sent = sent
            .bind(since(now, DAY))
            .bind(thread.as_str())
            .bind(wanted.account.thread_prefix());
        let sent = sent.fetch_one(self.store.readers()).await?;
        Ok(Sent {
            in_hour: sent.get("in_hour"),
            in_day: sent.get("in_day"),
            in_thread: sent.get("in_thread"),
        })
    }

    /// Files the letter of a run by a rule and ends the run before the model is asked, in one
    /// commit.
    ///
    /// Errors: [`StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn file_unasked(&self, key: &RunKey, rule: Withheld) -> Result<()> {
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let now = self.store.clock().now();
        self.write(move |conn| {
            Box::pin(async move {
                let end = db::query(END_UNASKED).bind(key.run.as_str()).bind(epoch);
                let end = end
                    .bind(RunState::Cancelled.as_str())
                    .bind(StopReason::RateLimited.as_str());
                let end = end.bind(now.to_string()).execute(&mut *conn).await?;
                fenced(end.rows_affected(), key.run.as_str())?;
                let (message, disposition) =
                    (key.trigger_message.as_str(), format!("filed:{rule}"));
                let file = db::query(FILE_TRIGGER).bind(message).bind(persona.as_str());
                file.bind(&disposition).execute(&mut *conn).await?;
                let who = db::query_scalar(COUNTERPARTY)
                    .bind(message)
                    .fetch_optional(&mut *conn)
                    .await?;
                if let Some(who) = who.flatten() {
                    let who: String = who;
                    filed::limit_reached(conn, &persona, (&who, rule), &key.trigger_message, now)
                        .await?;
                }
                audit(
                    conn,
                    Some(&persona),
                    ("message", message),
                    &disposition,
                    now,
                )
                .await
            })
        })
        .await
    }
}
