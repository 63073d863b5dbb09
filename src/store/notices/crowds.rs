//! Notices about too much at once: messages that wait for a free run, and a day on which unusually many people write for the
//! first time.
//!
//! Looked for by the gateway once a minute, told once a day for each persona.

use crate::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId};
use crate::store::db::{self, Row, Scope};
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::sql::{json_list, persona_id};
use crate::store::{Result, Store};
use std::time::Duration;

/// Time after which a message waits for a free run for long.
const WAITS_LONG: Duration = Duration::from_secs(10 * 60);
/// New correspondents in a day from which on it is unusual.
const UNUSUAL_FROM: i64 = 100;

/// Runs that could begin and have waited since before `$1`, by persona, while `$2` runs are worked on, or `$3` of the persona.
const WAITING_RUNS: &str = "
    SELECT r.persona_id, count(*) AS runs, min(r.created_at) AS since FROM runs r
    WHERE r.behind = 0 AND r.state IN ('queued', 'waiting_retry') AND r.state = 'queued'
      AND coalesce(r.next_attempt_at, r.created_at) < $1
      AND ((SELECT count(*) FROM runs w WHERE w.state = 'running') >= $2
        OR (SELECT count(*) FROM runs w WHERE w.persona_id = r.persona_id AND w.state = 'running') >= $3)
      AND NOT EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', r.persona_id))
    GROUP BY r.persona_id";
/// Senders below `contact` whose letters came to the personas of `$1` since `$2` and got a run, or would have got one.
const NEW_CORRESPONDENTS: &str = "
    SELECT p.value AS persona_id, (SELECT count(DISTINCT m.sender) FROM messages m
      WHERE m.persona_id = p.value AND m.received_at >= $2 AND m.direction = 'inbound'
        AND m.disposition IN ('run', 'filed:domain_limited') AND m.trust IN ('unauthenticated', 'unknown')) AS people
    FROM jsonb_each($1) p";

impl Store {
    /// Emits a notice for each persona with messages that have waited for a free run for long; returns the number of notices.
    pub async fn emit_waiting_runs(&self, runs_max: usize, per_persona_max: usize) -> Result<u64> {
        let found = self
            .rows(
                WAITING_RUNS,
                (
                    self.clock().now().minus(WAITS_LONG).to_string(),
                    runs_max,
                    per_persona_max,
                ),
            )
            .await?;
        let wording = |row: &Row| {
            let (persona, since): (&str, &str) = (row.get("persona_id"), row.get("since"));
            let summary = format!(
                "{} messages to {persona} are waiting for a free run, the oldest since {since}",
                row.get::<i64>("runs")
            );
            let hint = format!(
                "`concurrency.runs_max` ({runs_max}) and `concurrency.runs_per_persona_max` ({per_persona_max}) in \
                 `configs/inference.json` bound the runs at once: raise them if the provider allows more; `attache runs list` \
                 shows what is worked on"
            );
            (summary, hint)
        };
        self.emit_daily(NoticeKind::RunsWaiting, &found, wording)
            .await
    }

    /// Emits a notice for each of these personas to which unusually many people wrote for the first time today; returns the
    /// number of notices.
    pub async fn emit_unusual_days(&self, personas: &[&PersonaId]) -> Result<u64> {
        let today = self.clock().now().to_string()[..10].to_owned();
        let found = db::query(NEW_CORRESPONDENTS).bind((
            json_list(personas.iter().map(|persona| persona.as_str())),
            today,
        ));
        let mut found = found.rows(self.readers()).await?;
        found.retain(|row| row.get::<i64>("people") >= UNUSUAL_FROM);
        let wording = |row: &Row| {
            let (persona, people): (&str, i64) = (row.get("persona_id"), row.get("people"));
            let summary = format!(
                "{people} new correspondents of {persona} today, people that `access.allow` does not name"
            );
            let hint = format!(
                "look at them with `attache threads list`; `/pause` as the first line of a mail to {persona} stops the answers, \
                 `limits.domain_runs_per_day_max` in `configs/gateway.json` bounds those of one domain, `budget` in \
                 `configs/inference.json` what a day may cost"
            );
            (summary, hint)
        };
        self.emit_daily(NoticeKind::UnusualDay, &found, wording)
            .await
    }

    /// Emits a notice about the persona of each row, unless there is one of today.
    async fn emit_daily(
        &self,
        kind: NoticeKind,
        found: &[Row],
        wording: impl Fn(&Row) -> (String, String),
    ) -> Result<u64> {
        let (clock, now) = (self.clock().clone(), self.clock().now());
        let mut notices = Vec::with_capacity(found.len());
        for row in found {
            let persona = persona_id(row)?;
            let (summary, hint) = wording(row);
            notices.push(NewNotice {
                id: NoticeId::new(clock.new_id()),
                kind,
                detail: String::new(),
                subject: NoticeSubject::Persona,
                subject_id: persona.to_string(),
                occurrence: now.to_string()[..10].to_owned(),
                summary,
                hint,
                persona: Some(persona),
            });
        }
        if notices.is_empty() {
            return Ok(0);
        }
        transact!(self, Scope::Engine, |conn| {
            let mut emitted = 0;
            for notice in &notices {
                emitted += u64::from(emit(conn, notice, now).await?);
            }
            Ok(emitted)
        })
        .await
    }
}
