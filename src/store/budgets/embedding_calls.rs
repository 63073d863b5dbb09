//! The second ledger: calls that make vectors. They belong to no turn of a run, so they have rows of their own, and reserve
//! and settle in the same budget accounts.

use crate::domain::{CostSource, PersonaId, RunId, UsageLine};
use crate::store::budgets::engine_grants;
use crate::store::budgets::engine_parts::part_of;
use crate::store::budgets::money::{Billing, CallReservation, accounts_json, is_paid};
use crate::store::budgets::usage_row::UsageRow;
use crate::store::db::{Connection, Scope, Sql};
use crate::store::postgres::lock::ACCOUNTS_OF_EMBEDDING_CALL;
use crate::store::search::embedded::{NewLetterVector, store_vectors};
use crate::store::{PersonaStore, Result, Store, StoreError};
use std::sync::{Arc, LazyLock};

/// Purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingPurpose {
    Letters,
    Question,
    Measurement,
}

impl EmbeddingPurpose {
    pub fn as_str(self) -> &'static str {
        match self {
            EmbeddingPurpose::Letters => "letters",
            EmbeddingPurpose::Question => "question",
            EmbeddingPurpose::Measurement => "bench",
        }
    }
}

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct NewEmbeddingCall {
    pub id: String,
    pub persona: PersonaId,
    pub purpose: EmbeddingPurpose,
    /// Run that asks; `None`: the engine itself, or its owner.
    pub run: Option<RunId>,
    pub provider: String,
    pub model: String,
    pub texts: usize,
    pub reservation: CallReservation,
}

/// Increases first and checks then, as [`super::money::RESERVE`]; a caller that gets a row rolls back.
const OPEN_EMBEDDING_CALL: &str = "
    INSERT INTO budget_accounts (scope, owner, period, reserved_micros, reserved_tokens)
      SELECT value ->> 'scope', value ->> 'owner', value ->> 'period', $8, $9 FROM jsonb_each($10) WHERE true
      ORDER BY 1, 2, 3
      ON CONFLICT (scope, owner, period) DO UPDATE SET
        reserved_micros = budget_accounts.reserved_micros + excluded.reserved_micros,
        reserved_tokens = budget_accounts.reserved_tokens + excluded.reserved_tokens;
    INSERT INTO embedding_calls (id, persona_id, purpose, run_id, provider, model, texts, tokens, estimated, state,
      cost_source, held_micros, accounts_json, day, created_at, epoch)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $9, 0, 'open', 'unknown', $8, $10, $11, $12, $13);
    SELECT a.scope, a.owner, a.period, a.spent_micros, a.reserved_micros - $8 AS reserved_micros, a.spent_tokens,
      a.reserved_tokens - $9 AS reserved_tokens, a.micros_max, a.tokens_max,
      coalesce(a.spent_micros + $8 <= a.micros_max, 1 = 1) AND coalesce(a.spent_tokens + $9 <= a.tokens_max, 1 = 1) AS held
    FROM (SELECT p.scope, p.owner, p.period, p.spent_micros, p.reserved_micros, p.spent_tokens, p.reserved_tokens,
        CASE WHEN p.scope <> 'engine' OR p.owner = '' OR w.value ->> 'micros' IS NULL THEN CAST(w.value ->> 'micros' AS BIGINT)
          WHEN p.grant_bound_micros = CAST(w.value ->> 'micros' AS BIGINT) THEN p.granted_micros ELSE 0 END AS micros_max,
        CASE WHEN p.scope <> 'engine' OR p.owner = '' OR w.value ->> 'tokens' IS NULL THEN CAST(w.value ->> 'tokens' AS BIGINT)
          WHEN p.grant_bound_tokens = CAST(w.value ->> 'tokens' AS BIGINT) THEN p.granted_tokens ELSE 0 END AS tokens_max
      FROM jsonb_each($10) w JOIN budget_accounts p
        ON p.scope = w.value ->> 'scope' AND p.owner = w.value ->> 'owner' AND p.period = w.value ->> 'period') a
    WHERE a.spent_micros + a.reserved_micros > a.micros_max OR a.spent_tokens + a.reserved_tokens > a.tokens_max
    ORDER BY held LIMIT 1";
/// `$2`: its tokens; `$3`: its cost, or NULL to keep the reservation as spent.
const FINISH_EMBEDDING_CALL: &str = "
    UPDATE budget_accounts SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + coalesce($3, w.micros), spent_tokens = spent_tokens + $2
    FROM (SELECT c.held_micros AS micros, c.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM embedding_calls c, json_each(c.accounts_json) p
          WHERE c.id = $1 AND c.state = 'open') w
    WHERE budget_accounts.scope = w.scope AND budget_accounts.owner = w.owner AND budget_accounts.period = w.period;
    UPDATE embedding_calls SET state = 'answered', tokens = $2, cost_micros = $3, estimated = $4, cost_source = $5,
      price_version = $6, held_micros = CASE WHEN $3 IS NULL THEN held_micros END
    WHERE id = $1 AND state = 'open'";
/// A failed call: `$2` is 1 when it may be billed nevertheless; else nothing of it stays.
const LOSE_EMBEDDING_CALL: &str = "
    UPDATE budget_accounts SET reserved_micros = reserved_micros - w.micros, reserved_tokens = reserved_tokens - w.tokens,
      spent_micros = spent_micros + w.micros * $2, spent_tokens = spent_tokens + w.tokens * $2
    FROM (SELECT c.held_micros AS micros, c.tokens, p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
            p.value ->> 'period' AS period FROM embedding_calls c, json_each(c.accounts_json) p
          WHERE c.id = $1 AND c.state = 'open') w
    WHERE budget_accounts.scope = w.scope AND budget_accounts.owner = w.owner AND budget_accounts.period = w.period;
    DELETE FROM embedding_calls WHERE id = $1 AND state = 'open' AND $2 = 0;
    UPDATE embedding_calls SET state = 'lost', tokens = 0 WHERE id = $1 AND state = 'open'";
static FINISH_LOCKED: LazyLock<Sql> =
    LazyLock::new(|| Sql::preceded_on_postgres(ACCOUNTS_OF_EMBEDDING_CALL, FINISH_EMBEDDING_CALL));
static LOSE_LOCKED: LazyLock<Sql> =
    LazyLock::new(|| Sql::preceded_on_postgres(ACCOUNTS_OF_EMBEDDING_CALL, LOSE_EMBEDDING_CALL));
const OPEN_EMBEDDING_CALLS: &str = "SELECT id FROM embedding_calls WHERE state = 'open' AND epoch NOT IN (SELECT epoch FROM nodes)";

impl Store {
    /// Commits that a call is about to be made, with its reservation.
    ///
    /// Errors: [`StoreError::BudgetExhausted`]; then nothing is stored.
    pub async fn open_embedding_call(&self, call: NewEmbeddingCall) -> Result<()> {
        let call = Arc::new(call);
        match self.write_open_call(&call, false).await {
            Err(StoreError::BudgetExhausted(empty)) if empty.is_of_part() => {
                self.write_open_call(&call, true).await
            }
            written => written,
        }
    }

    /// Commits a call; with `is_granting`, what the parts of the engine's account may spend is granted anew.
    async fn write_open_call(&self, call: &Arc<NewEmbeddingCall>, is_granting: bool) -> Result<()> {
        let (epoch, now) = (self.epoch(), self.clock().now().to_string());
        let call = call.clone();
        let write = transact!(self, Scope::persona(&call.persona), |conn| {
            if is_granting {
                engine_grants::lock(conn).await?;
                engine_grants::grant(conn, &call.id, &call.reservation).await?;
            }
            let part = part_of(conn, &call.id);
            let overdrawn = conn
                .maybe_row(
                    OPEN_EMBEDDING_CALL,
                    (
                        &call.id,
                        &call.persona,
                        &call.purpose,
                        &call.run,
                        &call.provider,
                        &call.model,
                        crate::store::sql::to_i64(call.texts),
                        call.reservation.micros,
                        call.reservation.tokens,
                        accounts_json(&call.reservation, part),
                        call.reservation.day(),
                        now,
                        epoch,
                    ),
                )
                .await?;
            is_paid(overdrawn.as_ref(), &call.reservation)
        });
        write.await
    }

    /// Settles an answered call.
    pub async fn finish_embedding_call(&self, id: &str, line: UsageLine) -> Result<()> {
        let id = id.to_owned();
        transact!(self, Scope::persona_of("embedding_calls", &id), |conn| {
            finish(conn, &id, &line).await
        })
        .await
    }

    /// Settles a failed call.
    pub async fn lose_embedding_call(&self, id: &str, billing: Billing) -> Result<()> {
        let id = id.to_owned();
        transact!(self, Scope::persona_of("embedding_calls", &id), |conn| {
            lose(conn, &id, billing).await
        })
        .await
    }
}

impl PersonaStore {
    /// Settles an answered call and stores the vectors that it made, in one commit.
    pub async fn finish_letters(
        &self,
        id: &str,
        line: UsageLine,
        model: &str,
        vectors: Vec<NewLetterVector>,
    ) -> Result<()> {
        let (id, persona, model) = (id.to_owned(), self.persona.clone(), model.to_owned());
        let write = transact!(self, |conn| {
            finish(conn, &id, &line).await?;
            store_vectors(conn, &persona, &model, &vectors).await
        });
        write.await
    }
}

async fn finish(conn: &mut Connection, id: &str, line: &UsageLine) -> Result<()> {
    let usage = UsageRow::from(line.usage);

    conn.exec(
        &FINISH_LOCKED,
        (
            id,
            usage.total(),
            usage.cost,
            i64::from(line.usage.estimated),
            CostSource::as_str(line.source),
            &line.price_version,
        ),
    )
    .await?;
    Ok(())
}

async fn lose(conn: &mut Connection, id: &str, billing: Billing) -> Result<()> {
    conn.exec(&LOSE_LOCKED, (id, i64::from(billing == Billing::Unknown)))
        .await?;
    Ok(())
}

/// Books every call of an engine that is gone as spent.
pub async fn recover(conn: &mut Connection) -> Result<()> {
    let open: Vec<String> = conn.all(OPEN_EMBEDDING_CALLS, ()).await?;
    for id in open {
        lose(conn, &id, Billing::Unknown).await?;
    }
    Ok(())
}

text_column!(EmbeddingPurpose;);
