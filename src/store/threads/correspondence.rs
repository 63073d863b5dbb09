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
use crate::store::threads::reply_limits::{
    DAY, DomainLimit, HOUR, MailReservation, OF_PERSONA, Sent, day_of, minute_of, since,
};
use crate::store::{PersonaStore, Result, RunKey, Store, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// Increases the counters, deletes expired buckets, and returns the new counts: the highest of any
/// address in an hour and in a day, and the answers of the thread.
pub const RESERVE: &str = "
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
const GIVE_BACK: &str = "
    UPDATE correspondence SET mails = mails - 1 WHERE persona_id = $1 AND minute = $3 AND counterparty IN (
      SELECT value FROM jsonb_each($2)
      UNION SELECT $6 || coalesce($5, (SELECT thread_id FROM runs WHERE id = $4)))";
/// The counts that [`RESERVE`] returns, without increasing them.
const SENT: &str = "
    SELECT
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $3) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_hour,
      coalesce((SELECT max(n) FROM (SELECT (SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND counterparty = value AND minute >= $4) AS n FROM jsonb_each($2)) AS each_of), 0) AS in_day,
      coalesce((SELECT sum(mails) FROM correspondence
        WHERE persona_id = $1 AND minute >= $4 AND counterparty = $6 || $5), 0) AS in_thread";
const OWN_MAIL: &str = "
    SELECT m.persona_id, m.hops, (SELECT json_group_array(r.recipient) FROM deliveries d
      JOIN delivery_recipients r ON r.delivery_id = d.id WHERE d.message_id = m.id) AS recipients_json
    FROM messages m WHERE m.persona_id IN (SELECT value FROM jsonb_each($1)) AND m.message_id = $2
      AND m.direction = 'outbound' AND m.disposition = 'sent' ORDER BY m.seq LIMIT 1";
const OF_DAY: &str = "
    SELECT coalesce(sum(mails), 0) FROM correspondence WHERE persona_id = $1 AND counterparty = $2 AND minute = $3";
/// Counts a mail of a day and deletes the counts of earlier days.
const COUNT_OF_DAY: &str = "
    DELETE FROM correspondence WHERE persona_id = $1 AND counterparty = $2 AND minute < $3;
    INSERT INTO correspondence (persona_id, counterparty, minute, mails) VALUES ($1, $2, $3, 1)
    ON CONFLICT (persona_id, counterparty, minute) DO UPDATE SET mails = correspondence.mails + 1";
/// Letters of the pairs of persona and counter key in `$1` since `$2` that were answered.
const DOMAIN_RUNS: &str = "
    SELECT a.value ->> 'persona' AS persona, a.value ->> 'domain' AS domain, coalesce((SELECT sum(mails) FROM correspondence
      WHERE persona_id = a.value ->> 'persona' AND counterparty = a.value ->> 'domain' AND minute >= $2), 0) AS runs
    FROM jsonb_each($1) a";
/// Increases the counters and deletes their buckets from before `$3`.
const COUNT_DOMAIN_RUNS: &str = "
    DELETE FROM correspondence WHERE minute < $3 AND (persona_id, counterparty) IN (
      SELECT value ->> 'persona', value ->> 'domain' FROM jsonb_each($1));
    INSERT INTO correspondence (persona_id, counterparty, minute, mails)
      SELECT value ->> 'persona', value ->> 'domain', $2, CAST(value ->> 'runs' AS BIGINT) FROM jsonb_each($1) WHERE true
      ON CONFLICT (persona_id, counterparty, minute) DO UPDATE SET mails = correspondence.mails + excluded.mails";
/// Whether any of these Message-IDs is a mail of ours, and whether any thread of theirs has a letter that was answered.
const MENTIONED_MAIL: &str = "
    SELECT EXISTS (SELECT 1 FROM messages m WHERE m.persona_id IN (SELECT value FROM jsonb_each($1))
        AND m.message_id IN (SELECT value FROM jsonb_each($2)) AND m.direction = 'outbound' AND m.disposition = 'sent') AS is_ours,
      EXISTS (SELECT 1 FROM messages m JOIN messages w ON w.thread_id = m.thread_id
        WHERE m.persona_id IN (SELECT value FROM jsonb_each($1)) AND m.message_id IN (SELECT value FROM jsonb_each($2))
        AND w.direction = 'inbound' AND w.disposition = 'run') AS has_words";
/// Counter key of a letter's sender, as the gateway recorded it.
const COUNTERPARTY: &str = "
    SELECT metadata_json ->> 'counterparty' FROM messages WHERE id = $1";
const FILE_TRIGGER: &str = "
    UPDATE messages SET disposition = $3 WHERE id = $1 AND persona_id = $2";
const END_UNASKED: &str = "
    UPDATE runs SET state = $3, stop_reason = $4, finished_at = $5 WHERE id = $1 AND epoch = $2 AND state = 'running'";

/// Letters of organisations that were answered in a day, by persona and counter key.
#[derive(Default)]
pub struct DomainRuns {
    counts: HashMap<(PersonaId, String), i64>,
    /// Letters of this batch.
    new: HashMap<(PersonaId, String), i64>,
}

impl DomainRuns {
    /// Reads the counts of these domains; nothing is asked where there are none.
    pub async fn read(
        conn: &mut Connection,
        domains: &[(&PersonaId, &DomainLimit)],
        now: Timestamp,
    ) -> Result<Self> {
        let asked: BTreeSet<(&PersonaId, String)> = domains
            .iter()
            .map(|(persona, limit)| (*persona, limit.key()))
            .collect();
        if asked.is_empty() {
            return Ok(Self::default());
        }
        let asked = asked
            .into_iter()
            .map(|(persona, domain)| json!({ "persona": persona, "domain": domain }));
        let mut found = Self::default();
        for row in conn
            .rows(
                DOMAIN_RUNS,
                (Value::from_iter(asked).to_string(), since(now, DAY)),
            )
            .await?
        {
            let persona = PersonaId::parse(row.get("persona"));
            let persona = persona.map_err(|_| StoreError::Unreadable { what: "persona id" })?;
            found
                .counts
                .insert((persona, row.get("domain")), row.get("runs"));
        }
        Ok(found)
    }

    pub fn of(&self, persona: &PersonaId, limit: Option<&DomainLimit>) -> i64 {
        let counted = limit.and_then(|limit| self.counts.get(&(persona.clone(), limit.key())));
        counted.copied().unwrap_or(0)
    }

    /// Counts a letter that is answered.
    pub fn add(&mut self, persona: &PersonaId, limit: &DomainLimit) {
        for counts in [&mut self.counts, &mut self.new] {
            *counts.entry((persona.clone(), limit.key())).or_insert(0) += 1;
        }
    }

    /// Stores what was counted.
    pub async fn store(self, conn: &mut Connection, now: Timestamp) -> Result<()> {
        if self.new.is_empty() {
            return Ok(());
        }
        let new = self.new.into_iter().map(
            |((persona, domain), runs)| json!({ "persona": persona, "domain": domain, "runs": runs }),
        );

        conn.exec(
            COUNT_DOMAIN_RUNS,
            (
                Value::from_iter(new).to_string(),
                minute_of(now),
                since(now, DAY),
            ),
        )
        .await?;
        Ok(())
    }
}

/// Counts a mail inside the transaction that queues it: for its recipients, and in `thread`, which
/// is the run's own when it is `None`. `Some`: a limit is exceeded, nothing is counted, and the
/// mail must not be queued.
pub async fn reserve(
    conn: &mut Connection,
    persona: &PersonaId,
    (run, thread): (&RunId, Option<&ThreadId>),
    wanted: &MailReservation,
    now: Timestamp,
) -> Result<Option<Withheld>> {
    if wanted.counterparties.is_empty() && !wanted.counts_in_thread {
        return Ok(None);
    }
    let of_persona = match wanted.bounds.persona_day_max {
        Some(_) if !wanted.counterparties.is_empty() => Some(of_day(conn, persona, now).await?),
        _ => None,
    };
    let who = json_list(wanted.counterparties.iter());
    let run = wanted.counts_in_thread.then(|| run.as_str());
    let thread = thread
        .filter(|_| wanted.counts_in_thread)
        .map(ThreadId::as_str);
    let taken = conn
        .row(
            RESERVE,
            (
                persona,
                &who,
                minute_of(now),
                since(now, HOUR),
                since(now, DAY),
                run,
                thread,
                wanted.account.thread_prefix(),
            ),
        )
        .await?;
    let sent = Sent {
        in_hour: taken.get("in_hour"),
        in_day: taken.get("in_day"),
        in_thread: taken.get("in_thread"),
        of_persona: of_persona.map_or(0, |mails| mails + 1),
    };
    let over = wanted.bounds.exceeded_by(sent);
    if over.is_some() {
        conn.exec(
            GIVE_BACK,
            (
                persona,
                &who,
                minute_of(now),
                run,
                thread,
                wanted.account.thread_prefix(),
            ),
        )
        .await?;
    } else if of_persona.is_some() {
        conn.exec(COUNT_OF_DAY, (persona, OF_PERSONA, day_of(now)))
            .await?;
    }
    Ok(over)
}

/// Returns the number of mails that a persona sent today.
async fn of_day(conn: &mut Connection, persona: &PersonaId, now: Timestamp) -> Result<i64> {
    conn.one(OF_DAY, (persona, OF_PERSONA, day_of(now))).await
}

impl Store {
    /// Returns the mail of that Message-ID, when one of these personas sent it.
    pub async fn own_mail(
        &self,
        personas: &[&PersonaId],
        rfc_message_id: &str,
    ) -> Result<Option<OwnMail>> {
        let personas = json_list(personas.iter().map(|id| id.as_str()));
        let row = db::query(OWN_MAIL).bind((personas, rfc_message_id));
        let Some(row) = row.maybe_row(self.readers()).await? else {
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

impl Store {
    /// Reports whether one of these Message-IDs is a mail of these personas, and whether a thread of theirs has a letter that
    /// was answered.
    pub async fn mentioned_mail(
        &self,
        personas: &[&PersonaId],
        rfc_message_ids: &[&str],
    ) -> Result<(bool, bool)> {
        let personas = json_list(personas.iter().map(|id| id.as_str()));
        let mentioned = json_list(rfc_message_ids.iter().copied());
        let row = self.row(MENTIONED_MAIL, (personas, mentioned)).await?;
        Ok((row.get("is_ours"), row.get("has_words")))
    }
}

impl PersonaStore {
    /// Returns the recent automatic mails in the counters of a reservation: the highest of any of
    /// its addresses, and the answers in the thread.
    pub async fn sent_of_late(&self, wanted: &MailReservation, thread: &ThreadId) -> Result<Sent> {
        let now = self.store.clock().now();
        let who = json_list(wanted.counterparties.iter());
        let sent = self
            .row(
                SENT,
                (
                    &self.persona,
                    who,
                    since(now, HOUR),
                    since(now, DAY),
                    thread,
                    wanted.account.thread_prefix(),
                ),
            )
            .await?;
        Ok(Sent {
            in_hour: sent.get("in_hour"),
            in_day: sent.get("in_day"),
            in_thread: sent.get("in_thread"),
            of_persona: 0,
        })
    }

    /// Files the letter of a run by a rule and ends the run before the model is asked, in one
    /// commit.
    ///
    /// Errors: [`StoreError::WrongState`] when the run is no longer this engine's.
    pub async fn file_unasked(&self, key: &RunKey, rule: Withheld) -> Result<()> {
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        let now = self.store.clock().now();
        transact!(self, |conn| {
            let end = conn
                .exec(
                    END_UNASKED,
                    (
                        &key.run,
                        epoch,
                        RunState::Cancelled.as_str(),
                        StopReason::RateLimited.as_str(),
                        now,
                    ),
                )
                .await?;
            fenced(end, key.run.as_str())?;
            let (message, disposition) = (key.trigger_message.as_str(), format!("filed:{rule}"));

            conn.exec(FILE_TRIGGER, (message, &persona, &disposition))
                .await?;
            let who = conn.maybe(COUNTERPARTY, message).await?;
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
        .await
    }
}
