//! Turns: a provider call is stored with its maximum cost before it is made, and with its actual
//! cost when it is over.
//!
//! One text each, because every text that is sent to SQLite costs a thread switch (decision D-01),
//! and every run has at least one turn.

use crate::config::Snapshot;
use crate::domain::{ErrorClass, PersonaId, TokenUsage, UsageLine};
use crate::store::Result;
use crate::store::budgets::engine_parts::part_of;
use crate::store::budgets::money::{self, Billing, CallReservation};
use crate::store::budgets::usage_row::UsageRow;
use crate::store::db::{self, ArgumentList, Connection, Sql};
use crate::store::journal::contents::NewSources;
use crate::store::journal::packed::{DigestedText, PackedTurn, PlainTurn, SharedPart, SharedParts};
use crate::store::journal::packed_context::PackedContext;
use crate::store::runs::fence::{Frame, fenced};
use crate::store::sql::to_ms;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// A provider call that is about to be made.
#[derive(Debug, Clone)]
pub struct TurnStarted {
    pub turn_index: u32,
    /// Attempt of this turn, counted from 1 over the whole run.
    pub attempt: u32,
    /// The exact body of the request.
    pub request_json: Arc<str>,
    pub request_sha256: String,
    /// Request of the turn before, which this one mostly repeats; `None`: not known.
    pub earlier: Option<DigestedText>,
    pub provider: String,
    pub model: String,
    /// First turn of a run: the assembled context and its report.
    pub context: Option<AssembledContext>,
    /// Reservation for the call; `None`: the call is not charged to any account.
    pub reservation: Option<CallReservation>,
    /// Configuration of the call, where no context of this turn includes it.
    pub config: Option<Arc<Snapshot>>,
    /// Begin of the call, as the run loop records it.
    pub begun_json: Option<String>,
}

/// Context that a resumed run starts from without assembling again.
#[derive(Debug, Clone)]
pub struct AssembledContext {
    /// The normalised first request.
    pub request_json: String,
    pub report_json: String,
    /// What the records of the persona's other runs have, too.
    pub shared: SharedPart,
    /// The bounds on tokens and money, each with its origin.
    pub limits_json: String,
    pub sources: NewSources,
    /// Ids of the entries of memory in it, which count as used.
    pub memory: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct TurnAnswered {
    pub turn_index: u32,
    pub attempt: u32,
    /// The normalised response.
    pub response_json: String,
    /// Usage of all models.
    pub usage: TokenUsage,
    /// Usage by model, each model once.
    pub lines: Vec<UsageLine>,
    /// Working time of the run so far.
    pub worked: Duration,
    /// End of the call, as the run loop records it.
    pub ended_json: Option<String>,
}

#[derive(Debug, Clone)]
pub struct TurnFailed {
    pub turn_index: u32,
    pub attempt: u32,
    pub class: ErrorClass,
    pub message: String,
    /// Usage before the failure, where it is known: the total, and by model.
    pub used: Option<(TokenUsage, Vec<UsageLine>)>,
    /// Billing where the usage is not known.
    pub billing: Billing,
    /// Working time of the run so far.
    pub worked: Duration,
    /// End of the call, as the run loop records it.
    pub ended_json: Option<String>,
}

impl TurnStarted {
    /// Returns its texts as they are stored.
    pub(in crate::store) fn packed(&self, parts: &SharedParts, persona: &PersonaId) -> PackedTurn {
        let packed = PackedTurn::of(parts, &self.plain(persona));
        let none = BTreeSet::new();
        let known = packed.shared.as_ref().map_or(&none, |shared| &shared.names);
        let context = self.context.as_ref().map(|context| {
            let texts = (
                context.report_json.as_str(),
                context.limits_json.as_str(),
                context.sources.json.as_str(),
            );
            PackedContext::of(texts, known)
        });
        PackedTurn { context, ..packed }
    }

    fn plain<'a>(&'a self, persona: &'a PersonaId) -> PlainTurn<'a> {
        let context = self.context.as_ref();
        let key = |context: &'a AssembledContext| {
            let config = context.sources.config.sha256();
            [persona.as_str(), &self.provider, &self.model, config]
        };
        PlainTurn {
            request: &self.request_json,
            context: context.map(|context| context.request_json.as_str()),
            sources: context.map(|context| context.sources.json.as_str()),
            earlier: self.earlier.as_ref(),
            shared: context.map(|context| (key(context), &context.shared)),
        }
    }
}

/// A returned row means that the run is this engine's, and names the missing contents.
const START_TURN: &str = "
    INSERT INTO run_turns (run_id, turn_index, attempt, persona_id, request_json, request_sha256, provider, model,
      state, started_at, context_json, begun_json, sources_json, packed, packed_with, named_json)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'started', $9, $10, $14, $15, $17, $18, $19);
    UPDATE runs SET provider = $7, model = $8, context_report_json = coalesce($11, context_report_json),
      limits_json = coalesce($13, limits_json), context_tokens = coalesce($20, context_tokens),
      context_budget_tokens = coalesce($21, context_budget_tokens), history_is_cut = coalesce($22, history_is_cut)
    WHERE id = $1 AND ($11 IS NOT NULL OR provider <> $7 OR model <> $8);
    SELECT CASE WHEN $16 IS NOT NULL THEN (SELECT json_group_array(value) FROM jsonb_each($16) AS named
      WHERE NOT EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = named.value)) END AS missing
    FROM runs WHERE id = $1 AND epoch = $12 AND state = 'running' AND persona_id = $4";
/// End of a call: its row and the sums of the run.
const END_TURN: &str = "
    UPDATE run_turns SET state = $4, response_json = $5, error_class = $6, error_message = $7, finished_at = $8,
      input_tokens = $9, cache_read_tokens = $10, cache_write_tokens = $11, output_tokens = $12,
      reasoning_tokens = $13, cost_micros = $14, ended_json = $16
    WHERE run_id = $1 AND turn_index = $2 AND attempt = $3;
    UPDATE runs SET worked_ms = $15, input_tokens = input_tokens + $9, cache_read_tokens = cache_read_tokens + $10,
      cache_write_tokens = cache_write_tokens + $11, output_tokens = output_tokens + $12,
      reasoning_tokens = reasoning_tokens + $13,
      cost_micros = CASE WHEN $14 IS NULL THEN cost_micros ELSE coalesce(cost_micros, 0) + $14 END
    WHERE id = $1";
/// End of a call whose usage is unknown.
const LOSE_TURN: &str = "
    UPDATE run_turns SET state = 'failed', error_class = $4, error_message = $5, finished_at = $6, ended_json = $7
    WHERE run_id = $1 AND turn_index = $2 AND attempt = $3;
    UPDATE runs SET worked_ms = $8 WHERE id = $1";

static START_PAID_TURN: LazyLock<Sql> = LazyLock::new(|| Sql::chained(START_TURN, money::RESERVE));
static END_BILLED_TURN: LazyLock<Sql> =
    LazyLock::new(|| Sql::chained(END_TURN, &money::FINISH_LOCKED));

/// Begins a turn. Errors: [`super::StoreError::BudgetExhausted`], or the run is not this engine's;
/// then the whole transaction must be rolled back.
pub async fn start(
    conn: &mut Connection,
    frame: &Frame<'_>,
    turn: &TurnStarted,
    packed: &PackedTurn,
) -> Result<()> {
    let (run, context) = (frame.key.run.as_str(), turn.context.as_ref());
    let bare = turn
        .config
        .as_ref()
        .filter(|_| context.is_none())
        .map(NewSources::bare);
    let sources = context.map(|context| &context.sources).or(bare.as_ref());
    let text = if turn.reservation.is_some() {
        Sql::from(&START_PAID_TURN)
    } else {
        START_TURN.into()
    };
    let is_plain = packed.is_plain();
    let own = packed.context.as_ref();
    let plain_context = context.filter(|_| is_plain);
    let start = db::query(text).bind((
        run,
        turn.turn_index,
        turn.attempt,
        frame.persona,
        if is_plain { &*turn.request_json } else { "" },
        &turn.request_sha256,
        &turn.provider,
        &turn.model,
        frame.now,
        plain_context.map(|context| context.request_json.as_str()),
        own.map(|own| own.report.as_slice()),
        frame.epoch,
        own.map(|own| own.limits.as_slice()),
        &turn.begun_json,
        plain_context.map(|context| context.sources.json.as_str()),
        sources.map(|sources| sources.digests(packed.shared.as_deref())),
    ));
    let start = start.bind((
        &packed.bytes,
        packed.shared.as_ref().map(|shared| &shared.text.sha256),
        own.map(|own| own.named_json.as_str()),
        own.and_then(|own| own.facts.used_tokens),
        own.and_then(|own| own.facts.budget_tokens),
        own.map(|own| i64::from(own.facts.history_is_cut)),
    ));
    let start = match &turn.reservation {
        Some(reservation) => start.bind(money::reservation_values(
            run,
            turn.turn_index,
            turn.attempt,
            reservation,
            part_of(conn, run),
        )),
        None => start,
    };
    let rows = start.rows(&mut *conn).await?;
    let (ours, overdrawn): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.has("missing"));
    let Some(ours) = ours.first() else {
        return fenced(0, run);
    };
    if let Some(reservation) = &turn.reservation {
        money::is_paid(overdrawn.first().copied(), reservation)?;
    }
    let missing = ours
        .get::<Option<&str>>("missing")
        .filter(|missing| *missing != "[]");
    match sources.zip(missing) {
        Some((sources, missing)) => {
            sources
                .insert(conn, missing, packed.shared.as_deref())
                .await
        }
        None => Ok(()),
    }
}

pub async fn answered(conn: &mut Connection, frame: &Frame<'_>, turn: &TurnAnswered) -> Result<()> {
    end_billed(
        conn,
        frame,
        turn.turn_index,
        turn.attempt,
        (
            "answered",
            &turn.response_json,
            None::<ErrorClass>,
            None::<&str>,
        ),
        charge(turn.usage, turn.worked),
        &turn.ended_json,
        &turn.lines,
    )
    .await
}

pub async fn failed(conn: &mut Connection, frame: &Frame<'_>, turn: &TurnFailed) -> Result<()> {
    let (turn_index, attempt) = (turn.turn_index, turn.attempt);
    let Some((usage, lines)) = &turn.used else {
        let (run, now) = (frame.key.run.as_str(), frame.now);
        let values = (
            run,
            turn_index,
            attempt,
            turn.class,
            &turn.message,
            now,
            &turn.ended_json,
            to_ms(turn.worked),
        );
        conn.exec(LOSE_TURN, values).await?;
        return money::lose(conn, run, turn_index, attempt, turn.billing, now).await;
    };
    end_billed(
        conn,
        frame,
        turn_index,
        attempt,
        ("failed", None::<&str>, turn.class, &turn.message),
        charge(*usage, turn.worked),
        &turn.ended_json,
        lines,
    )
    .await
}

/// Ends a call whose usage is known. `end`: its state, response, error class and message.
async fn end_billed(
    conn: &mut Connection,
    frame: &Frame<'_>,
    turn_index: u32,
    attempt: u32,
    end: impl ArgumentList,
    used: impl ArgumentList,
    ended_json: &Option<String>,
    lines: &[UsageLine],
) -> Result<()> {
    let run = frame.key.run.as_str();
    let values = (
        (run, turn_index, attempt),
        end,
        frame.now,
        used,
        ended_json,
        money::line_values(run, turn_index, attempt, lines, frame.now),
    );
    conn.exec(&END_BILLED_TURN, values).await?;
    Ok(())
}

/// The usage of a call, and the working time of the run.
fn charge(used: TokenUsage, worked: Duration) -> impl ArgumentList {
    let used = UsageRow::from(used);
    (
        used.input,
        used.cache_read,
        used.cache_write,
        used.output,
        used.reasoning,
        used.cost,
        to_ms(worked),
    )
}
