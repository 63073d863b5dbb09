//! Reports for an agent that reads everything: what happened in a run and why, what its model was told, what is due by the clock, what
//! was used.

use super::agent_args::{ContextOfArgs, ExplainRunArgs, ListScheduleArgs, UsageArgs};
use super::agent_reader::{AgentReader, AnswerPage, Refusal, offset, text_answer, unread};
use super::mail_frame::framed_record;
use crate::domain::{PersonaId, RunId, first_day};
use crate::replay::{self, timeline};
use crate::store::{StoredResponsibility, UsageBy, UsageSince};
use serde_json::{Value, json};

/// Most sums that are read.
const SUMS_MAX: usize = 2_000;
/// Longest span of a report, in days, and its length where an agent names none.
const DAYS_MAX: u32 = 3_660;
const DAYS: u32 = 30;

impl AgentReader {
    pub async fn explain_run(&self, args: &ExplainRunArgs) -> Result<String, Refusal> {
        let run = self.run(&args.id).await?;
        let record = replay::load_run(&self.store, &run.id)
            .await
            .map_err(unread)?;
        let text = timeline::plain(&timeline::run(&record, args.full));
        text_answer(("run", run.id.as_str()), &text, args.cursor.as_deref())
    }

    pub async fn context_of(&self, args: &ContextOfArgs) -> Result<String, Refusal> {
        let run = self.run(&args.id).await?;
        let record = replay::load_run(&self.store, &run.id)
            .await
            .map_err(unread)?;
        let mut text = timeline::plain(&timeline::context(&record));
        text.push_str(&self.request_of(&run.persona, &run.id, args.turn).await?);
        text_answer(("run", run.id.as_str()), &text, args.cursor.as_deref())
    }

    /// Renders what the model was told in a turn: in the attempt that counted.
    async fn request_of(
        &self,
        persona: &PersonaId,
        run: &RunId,
        turn: u32,
    ) -> Result<String, Refusal> {
        let turns = self.store.persona(persona).turns_of_run(run).await;
        let turns = turns.map_err(unread)?;
        let of_turn = turns.iter().rfind(|one| one.turn_index == turn);
        let Some(found) = of_turn else {
            let count = turns.last().map_or(0, |last| last.turn_index + 1);
            return match (turn, count) {
                // Its context may stand all the same.
                (0, 0) => Ok("\nno model was asked yet\n".to_owned()),
                _ => Err(format!("no such `turn`; the run has {count}, from 0")),
            };
        };
        let request = found.context_json.as_deref().and_then(replay::request_text);
        let request = request.or_else(|| replay::body_text(&found.request_json));
        Ok(request.unwrap_or_else(|| "\nwhat the model was told is pruned or erased\n".to_owned()))
    }

    pub async fn list_schedule(&self, args: &ListScheduleArgs) -> Result<String, Refusal> {
        let only = match args.persona.as_deref() {
            None | Some("") => None,
            Some(name) => Some(&self.persona(&self.access.reads_of, name)?.id),
        };
        let rows = self.store.responsibilities().await.map_err(unread)?;
        let is_shown = |row: &&StoredResponsibility| {
            row.removed_at.is_none()
                && self.access.reads_of.contains(&row.persona)
                && only.is_none_or(|only| row.persona == *only)
        };
        let from = offset(args.cursor.as_deref())?;
        let shown = rows.iter().filter(is_shown);
        let lines = shown.map(|row| framed_record(&schedule_line(row)));
        AnswerPage::of("schedule", self.note()).filled(from, lines)
    }

    pub async fn usage(&self, args: &UsageArgs) -> Result<String, Refusal> {
        let days = args.days.unwrap_or(DAYS);
        if !(1..=DAYS_MAX).contains(&days) {
            return Err(format!("`days` is 1 to {DAYS_MAX}"));
        }
        let by = match args.by.as_deref() {
            None | Some("") => UsageBy::Persona,
            Some(word) => UsageBy::parse(word).ok_or_else(|| {
                let words: Vec<&str> = UsageBy::ALL.iter().map(|by| by.as_str()).collect();
                format!("`by` is one of: {}", words.join(", "))
            })?,
        };
        let reads_of = &self.access.reads_of;
        let mut configured = self.config.personas.iter();
        let reads_all = configured.all(|persona| reads_of.contains(&persona.id));
        if !reads_all && by != UsageBy::Persona {
            return Err("`by` is `persona` here: not all personas may be read".to_owned());
        }
        // As the page counts: today is one of the days.
        let (now, zone) = (
            self.store.clock().now(),
            &self.config.inference.budgets.zone,
        );
        let since = UsageSince::Day(first_day(days.into(), now, zone));
        let sums = self.store.usage_since(&since, Some(by), SUMS_MAX).await;
        let is_shown = |what: &str| reads_all || reads_of.iter().any(|id| id.as_str() == what);
        let sums = sums.map_err(unread)?;
        let from = offset(args.cursor.as_deref())?;
        let shown = sums.iter().filter(|sum| is_shown(&sum.what));
        AnswerPage::of("sums", None).filled(from, shown.map(framed_record))
    }
}

fn schedule_line(row: &StoredResponsibility) -> Value {
    let state = match (&row.error, row.enabled, row.paused) {
        (Some(_), ..) => "unusable",
        (None, false, _) => "off",
        (None, true, Some(_)) => "paused",
        (None, true, None) if row.next.is_done => "done",
        (None, true, None) => "on",
    };
    json!({
        "id": row.id.as_str(),
        "persona": row.persona,
        "name": row.name,
        "schedule": row.schedule,
        "timezone": row.timezone,
        "state": state,
        "next_at": row.next.at.filter(|_| state == "on"),
        "last_fired_at": row.last_fired_at,
        "last_succeeded_at": row.last_succeeded_at,
        "failures": row.failures,
        "error": row.error,
    })
}
