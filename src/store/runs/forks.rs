//! Forks: continuations of a run with a change, for an operator to compare. A fork is a document
//! outside the tables of real runs, and the only other rows that it writes are those of the
//! budget_accounts: its model calls cost money like any other.

use crate::domain::{PersonaId, RunId, Timestamp, UsageLine};
use crate::store::budgets::engine_grants;
use crate::store::budgets::money::{self, Billing, CallReservation};
use crate::store::budgets::usage_row::UsageRow;
use crate::store::db::{Connection, Row, Scope};
use crate::store::{Result, Store, StoreError};
use serde_json::Value;

/// First attempt number of forks within a turn of the run: forks count from a million, with a
/// thousand numbers each.
const TRIES_BEGIN: u32 = 1_000_000;
const TRIES_PER_FORK: u32 = 1_000;

/// A fork to store at its begin.
#[derive(Debug, Clone)]
pub struct NewFork {
    pub id: String,
    pub run: RunId,
    pub persona: PersonaId,
    pub at_turn: u32,
    /// Difference from the run.
    pub change_json: String,
    pub record_json: String,
}

#[derive(Debug, Clone)]
pub struct StoredFork {
    pub id: String,
    pub run: RunId,
    pub persona: String,
    pub at_turn: u32,
    pub change_json: String,
    pub state: String,
    pub created_at: Timestamp,
    pub finished_at: Option<String>,
}

/// Change of the budget_accounts by a step of a fork. Turn and attempt are those of the fork.
#[derive(Debug, Clone)]
pub enum ForkMoney {
    Begin {
        turn_index: u32,
        attempt: u32,
        reservation: Option<CallReservation>,
    },
    Finish {
        turn_index: u32,
        attempt: u32,
        provider: String,
        lines: Vec<UsageLine>,
    },
    Lose {
        turn_index: u32,
        attempt: u32,
        provider: String,
        model: String,
        billing: Billing,
    },
}

const INSERT_FORK: &str = "
    INSERT INTO forks (id, run_id, persona_id, at_turn, change_json, state, record_json, created_at)
    VALUES ($1, $2, $3, $4, $5, 'running', $6, $7)";
const WRITE_FORK: &str = "
    UPDATE forks SET record_json = $2, state = $3, finished_at = $4 WHERE id = $1 AND state = 'running'
    RETURNING rowid, run_id, persona_id, (SELECT thread_id FROM runs WHERE runs.id = forks.run_id) AS thread_id";
const FORK_RECORD: &str = "SELECT record_json FROM forks WHERE id = $1";
const RUN_OF_FORK: &str = "SELECT run_id FROM forks WHERE id = $1";
const FORKS_LIKE: &str = "SELECT id FROM forks WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const FORKS_ENDING: &str = "SELECT id FROM forks WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
const BUDGET_OF_RUN: &str = "SELECT budget_micros FROM runs WHERE id = $1";
const FORKS: &str = "
    SELECT id, run_id, persona_id, at_turn, change_json, state, created_at, finished_at FROM forks
    ORDER BY id DESC LIMIT $1";
/// Before the budget_accounts are settled, because the day on which they were opened is unknown
/// afterwards.
const FORK_ENV: &str = "
    INSERT INTO usage_ledger (run_id, turn_index, attempt, model, persona_id, provider, state, input_tokens,
      cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost_micros, cost_source,
      price_version, held_micros, day, created_at, fork_id)
    SELECT $1, $2, $3, l.value ->> 'model', $5, $6, $7, CAST(l.value ->> 'input' AS BIGINT), CAST(l.value ->> 'cache_read' AS BIGINT),
      CAST(l.value ->> 'cache_write' AS BIGINT), CAST(l.value ->> 'output' AS BIGINT), CAST(l.value ->> 'reasoning' AS BIGINT), CAST(l.value ->> 'estimated' AS BIGINT),
      CAST(l.value ->> 'cost' AS BIGINT), l.value ->> 'source', l.value ->> 'version',
      CASE WHEN l.value ->> 'cost' IS NULL THEN h.micros END, coalesce(h.day, substr($8, 1, 10)), $8, $9
    FROM jsonb_each($4) l
    LEFT JOIN budget_reservations h ON h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3";

impl Store {
    /// Stores a fork at its begin.
    pub async fn begin_fork(&self, fork: NewFork) -> Result<()> {
        let now = self.clock().now().to_string();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(
                INSERT_FORK,
                (
                    &fork.id,
                    &fork.run,
                    &fork.persona,
                    fork.at_turn,
                    &fork.change_json,
                    &fork.record_json,
                    &now,
                ),
            )
            .await?;
            Ok(())
        })
        .await
    }

    /// Stores the progress of a fork, with its change of the budget_accounts, in one commit.
    ///
    /// Errors: [`StoreError::BudgetExhausted`], and then nothing is stored;
    /// [`StoreError::WrongState`] when the fork has ended.
    pub async fn write_fork(
        &self,
        id: &str,
        record_json: String,
        state: &'static str,
        money: Vec<ForkMoney>,
    ) -> Result<()> {
        let (id, now) = (id.to_owned(), self.clock().now().to_string());
        transact!(self, Scope::Engine, |conn| {
            let ended = (state != "running").then(|| now.clone());
            let Some(row) = conn
                .maybe_row(WRITE_FORK, (&id, &record_json, state, ended))
                .await?
            else {
                let (state, hint) = ("ended".to_owned(), "a fork goes on once");
                return Err(StoreError::WrongState {
                    kind: "fork",
                    id,
                    state,
                    hint,
                });
            };
            let books = Books {
                id: &id,
                row,
                now: &now,
            };
            for step in &money {
                books.book(conn, step).await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the micro-dollars that a run's responsibility allows it.
    pub async fn budget_of_run(&self, run: &RunId) -> Result<Option<i64>> {
        let budget = self.maybe(BUDGET_OF_RUN, run);
        Ok(budget.await?.flatten())
    }

    /// Returns the record of a fork, as stored.
    ///
    /// Errors: [`StoreError::WrongState`] when it was pruned.
    pub async fn fork_record(&self, id: &str) -> Result<String> {
        let record = self.maybe(FORK_RECORD, id).await?;
        match record {
            None => Err(StoreError::missing("fork", id)),
            Some(record) if String::is_empty(&record) => {
                let (id, state) = (id.to_owned(), "pruned".to_owned());
                Err(StoreError::WrongState {
                    kind: "fork",
                    id,
                    state,
                    hint: "`attache gc` took what it did",
                })
            }
            Some(record) => Ok(record),
        }
    }

    /// Returns the run of a fork. Errors: [`StoreError::Missing`].
    pub async fn run_of_fork(&self, id: &str) -> Result<RunId> {
        let run: Option<String> = self.maybe(RUN_OF_FORK, id).await?;
        run.map(RunId::new)
            .ok_or_else(|| StoreError::missing("fork", id))
    }

    /// Finds the fork whose id is `piece`, or the only fork whose id begins or else ends with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_fork(&self, piece: &str) -> Result<String> {
        self.find("fork", (FORKS_LIKE, FORKS_ENDING), piece).await
    }

    /// Returns the last forks, newest first.
    pub async fn forks(&self, limit: u32) -> Result<Vec<StoredFork>> {
        let rows = self.rows(FORKS, limit).await?;
        let fork = |row: &Row| {
            Ok(StoredFork {
                id: row.get("id"),
                run: row.get("run_id"),
                persona: row.get("persona_id"),
                at_turn: row.get("at_turn"),
                change_json: row.get("change_json"),
                state: row.get("state"),
                created_at: crate::store::sql::timestamp(row, "created_at")?,
                finished_at: row.get("finished_at"),
            })
        };
        rows.iter().map(fork).collect()
    }
}

/// The budget_accounts of the run that a fork came from, and the fork's attempt numbers in its
/// turns.
struct Books<'a> {
    id: &'a str,
    row: Row,
    now: &'a str,
}

impl Books<'_> {
    async fn book(&self, conn: &mut Connection, step: &ForkMoney) -> Result<()> {
        let run: String = self.row.get("run_id");
        match step {
            ForkMoney::Begin {
                reservation: None, ..
            } => Ok(()),
            ForkMoney::Begin {
                turn_index,
                attempt,
                reservation: Some(reservation),
            } => {
                // Nobody else writes, so that what is left can be granted at once.
                engine_grants::grant(conn, &run, reservation).await?;
                let attempt = self.number(*attempt);
                money::reserve(conn, &run, *turn_index, attempt, reservation).await
            }
            ForkMoney::Finish {
                turn_index,
                attempt,
                provider,
                lines,
            } => {
                let attempt = self.number(*attempt);
                let rows = lines
                    .iter()
                    .map(|line| UsageRow::from(line.usage).ledger_line(line))
                    .collect();
                let rows = Value::Array(rows);
                self.ledger(
                    conn,
                    &run,
                    *turn_index,
                    attempt,
                    provider,
                    "answered",
                    &rows,
                )
                .await?;
                money::finish(conn, &run, *turn_index, attempt, lines, self.now).await
            }
            ForkMoney::Lose {
                turn_index,
                attempt,
                provider,
                model,
                billing,
            } => {
                let attempt = self.number(*attempt);
                if *billing == Billing::Unknown {
                    let zero = serde_json::json!([{ "model": model, "input": 0, "cache_read": 0, "cache_write": 0,
                        "output": 0, "reasoning": 0, "estimated": 0, "cost": null, "source": "unknown" }]);
                    self.ledger(conn, &run, *turn_index, attempt, provider, "lost", &zero)
                        .await?;
                }
                money::lose(conn, &run, *turn_index, attempt, *billing, self.now).await
            }
        }
    }

    fn number(&self, attempt: u32) -> u32 {
        let place = u32::try_from(self.row.get::<i64>("rowid")).unwrap_or(0);
        TRIES_BEGIN
            .saturating_add(place.saturating_mul(TRIES_PER_FORK))
            .saturating_add(attempt)
    }

    async fn ledger(
        &self,
        conn: &mut Connection,
        run: &str,
        turn_index: u32,
        attempt: u32,
        provider: &str,
        state: &str,
        lines: &Value,
    ) -> Result<()> {
        let persona: String = self.row.get("persona_id");
        let end = (provider, state, self.now, self.id);
        conn.exec(FORK_ENV, (run, turn_index, attempt, lines, persona, end))
            .await?;
        Ok(())
    }
}
