//! Forks: continuations of a run with a change, for an operator to compare. A fork is a document
//! outside the tables of real runs, and the only other rows that it writes are those of the
//! budget_accounts: its model calls cost money like any other.

use crate::domain::{PersonaId, RunId, Timestamp, UsageLine};
use crate::store::budgets::engine_grants;
use crate::store::budgets::money::{self, Billing, CallReservation};
use crate::store::budgets::usage_row::UsageRow;
use crate::store::db::{self, Connection, Row, Scope};
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

pub(in crate::store) const INSERT_FORK: &str = "
    INSERT INTO forks (id, run_id, persona_id, at_turn, change_json, state, record_json, created_at)
    VALUES ($1, $2, $3, $4, $5, 'running', $6, $7)";
pub(in crate::store) const WRITE_FORK: &str = "
    UPDATE forks SET record_json = $2, state = $3, finished_at = $4 WHERE id = $1 AND state = 'running'
    RETURNING rowid, run_id, persona_id, (SELECT thread_id FROM runs WHERE runs.id = forks.run_id) AS thread_id";
pub(in crate::store) const FORK_RECORD: &str = "SELECT record_json FROM forks WHERE id = $1";
pub(in crate::store) const RUN_OF_FORK: &str = "SELECT run_id FROM forks WHERE id = $1";
pub(in crate::store) const FORKS_LIKE: &str =
    "SELECT id FROM forks WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
pub(in crate::store) const FORKS_ENDING: &str = "SELECT id FROM forks WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
pub(in crate::store) const BUDGET_OF_RUN: &str = "SELECT budget_micros FROM runs WHERE id = $1";
pub(in crate::store) const FORKS: &str = "
    SELECT id, run_id, persona_id, at_turn, change_json, state, created_at, finished_at FROM forks
    ORDER BY id DESC LIMIT $1";
/// Before the budget_accounts are settled, because the day on which they were opened is unknown
/// afterwards.
pub(in crate::store) const FORK_ENV: &str = "
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
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let insert = db::query(INSERT_FORK)
                    .bind(&fork.id)
                    .bind(fork.run.as_str());
                let insert = insert
                    .bind(fork.persona.as_str())
                    .bind(fork.at_turn)
                    .bind(&fork.change_json);
                insert
                    .bind(&fork.record_json)
                    .bind(&now)
                    .execute(conn)
                    .await?;
                Ok(())
            })
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
        self.write(Scope::Engine, move |conn| {
            Box::pin(async move {
                let ended = (state != "running").then(|| now.clone());
                let write = db::query(WRITE_FORK)
                    .bind(&id)
                    .bind(&record_json)
                    .bind(state)
                    .bind(ended);
                let Some(row) = write.fetch_optional(&mut *conn).await? else {
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
        })
        .await
    }

    /// Returns the micro-dollars that a run's responsibility allows it.
    pub async fn budget_of_run(&self, run: &RunId) -> Result<Option<i64>> {
        let budget = db::query_scalar(BUDGET_OF_RUN)
            .bind(run.as_str())
            .fetch_optional(self.readers());
        Ok(budget.await?.flatten())
    }

    /// Returns the record of a fork, as stored.
    ///
    /// Errors: [`StoreError::WrongState`] when it was pruned.
    pub async fn fork_record(&self, id: &str) -> Result<String> {
        let record = db::query_scalar(FORK_RECORD)
            .bind(id)
            .fetch_optional(self.readers())
            .await?;
        match record {
            None => Err(StoreError::Missing {
                kind: "fork",
                id: id.to_owned(),
            }),
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
        let run: Option<String> = db::query_scalar(RUN_OF_FORK)
            .bind(id)
            .fetch_optional(self.readers())
            .await?;
        run.map(RunId::new).ok_or_else(|| StoreError::Missing {
            kind: "fork",
            id: id.to_owned(),
        })
    }

    /// Finds the fork whose id is `piece`, or the only fork whose id begins or else ends with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_fork(&self, piece: &str) -> Result<String> {
        self.find("fork", (FORKS_LIKE, FORKS_ENDING), piece).await
    }

    /// Returns the last forks, newest first.
    pub async fn forks(&self, limit: u32) -> Result<Vec<StoredFork>> {
        let rows = db::query(FORKS)
            .bind(limit)
            .fetch_all(self.readers())
            .await?;
        let fork = |row: &Row| {
            Ok(StoredFork {
                id: row.get("id"),
                run: RunId::new(row.get::<String>("run_id")),
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
        let run = RunId::new(self.row.get::<String>("run_id"));
        match step {
            ForkMoney::Begin {
                reservation: None, ..
            } => Ok(()),
            ForkMoney::Begin {
                turn_index,
                attempt,
                reservation: Some(reservation),
            } => {
                let call = (&run, *turn_index, self.number(*attempt));
                // Nobody else writes, so that what is left can be granted at once.
                engine_grants::grant(conn, run.as_str(), reservation).await?;
                money::reserve(conn, call, reservation).await
            }
            ForkMoney::Finish {
                turn_index,
                attempt,
                provider,
                lines,
            } => {
                let call = (&run, *turn_index, self.number(*attempt));
                let rows = lines
                    .iter()
                    .map(|line| UsageRow::from(line.usage).ledger_line(line))
                    .collect();
                self.ledger(conn, call, (provider, "answered"), &Value::Array(rows))
                    .await?;
                money::finish(conn, call, lines, self.now).await
            }
            ForkMoney::Lose {
                turn_index,
                attempt,
                provider,
                model,
                billing,
            } => {
                let call = (&run, *turn_index, self.number(*attempt));
                if *billing == Billing::Unknown {
                    let zero = serde_json::json!([{ "model": model, "input": 0, "cache_read": 0, "cache_write": 0,
                        "output": 0, "reasoning": 0, "estimated": 0, "cost": null, "source": "unknown" }]);
                    self.ledger(conn, call, (provider, "lost"), &zero).await?;
                }
                money::lose(conn, (run.as_str(), call.1, call.2), *billing, self.now).await
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
        (run, turn_index, attempt): (&RunId, u32, u32),
        (provider, state): (&str, &str),
        lines: &Value,
    ) -> Result<()> {
        let insert = db::query(FORK_ENV)
            .bind(run.as_str())
            .bind(turn_index)
            .bind(attempt);
        let insert = insert
            .bind(lines.to_string())
            .bind(self.row.get::<String>("persona_id"));
        let insert = insert
            .bind(provider.to_owned())
            .bind(state.to_owned())
            .bind(self.now.to_owned());
        insert.bind(self.id.to_owned()).execute(conn).await?;
        Ok(())
    }
}
