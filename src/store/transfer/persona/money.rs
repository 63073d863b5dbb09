//! The persona's share of the engine's account, for each day and month: every call of a persona is in its own account of the
//! period and in the engine's, so the first says what leaves the second.

use crate::domain::PersonaId;
use crate::store::budgets::engine_parts::owners;
use crate::store::db::{self, Connection};

pub(in crate::store) const SHARES: &str = "
    SELECT period, spent_micros, spent_tokens FROM budget_accounts
    WHERE scope = 'persona' AND owner = $1 AND (spent_micros <> 0 OR spent_tokens <> 0) ORDER BY period";
/// What was granted to parts was so for another sum, and is granted anew with the next call.
pub(in crate::store) const ADD_SHARE: &str = "
    INSERT INTO budget_accounts (scope, owner, period, spent_micros, spent_tokens) VALUES ('engine', '', $1, $2, $3)
      ON CONFLICT (scope, owner, period) DO UPDATE SET
        spent_micros = budget_accounts.spent_micros + excluded.spent_micros,
        spent_tokens = budget_accounts.spent_tokens + excluded.spent_tokens;
    UPDATE budget_accounts SET granted_micros = NULL, granted_tokens = NULL, grant_bound_micros = NULL, grant_bound_tokens = NULL
      WHERE scope = 'engine' AND owner <> '' AND period = $1";
pub(in crate::store) const ENGINE_ROWS: &str = "
    SELECT owner, spent_micros, spent_tokens FROM budget_accounts
    WHERE scope = 'engine' AND owner IN (SELECT value FROM json_each($1)) AND period = $2 ORDER BY owner";
pub(in crate::store) const TAKE_SHARE: &str = "
    UPDATE budget_accounts SET spent_micros = spent_micros - $3, spent_tokens = spent_tokens - $4
    WHERE scope = 'engine' AND owner = $1 AND period = $2";

struct Share {
    period: String,
    micros: i64,
    tokens: i64,
}

async fn shares(conn: &mut Connection, persona: &PersonaId) -> Result<Vec<Share>, db::Error> {
    let rows = db::query(SHARES).bind(persona.as_str()).fetch_all(conn);
    let share = |row: &db::Row| Share {
        period: row.get("period"),
        micros: row.get("spent_micros"),
        tokens: row.get("spent_tokens"),
    };
    Ok(rows.await?.iter().map(share).collect())
}

/// Adds the persona's share to the engine's account of a database that has the persona's rows.
pub(super) async fn add(conn: &mut Connection, persona: &PersonaId) -> Result<(), db::Error> {
    for share in shares(conn, persona).await? {
        let add = db::query(ADD_SHARE)
            .bind(share.period)
            .bind(share.micros)
            .bind(share.tokens);
        add.execute(&mut *conn).await?;
    }
    Ok(())
}

/// Takes it out again, from whatever parts have it: their sum is the account. A part never has less than nothing.
pub(super) async fn take(conn: &mut Connection, persona: &PersonaId) -> Result<(), db::Error> {
    for mut share in shares(conn, persona).await? {
        let parts = db::query(ENGINE_ROWS).bind(owners()).bind(&share.period);
        for part in parts.fetch_all(&mut *conn).await? {
            let micros = share.micros.min(part.get("spent_micros"));
            let tokens = share.tokens.min(part.get("spent_tokens"));
            share.micros -= micros;
            share.tokens -= tokens;
            let take = db::query(TAKE_SHARE)
                .bind(part.get::<String>("owner"))
                .bind(&share.period)
                .bind(micros)
                .bind(tokens);
            take.execute(&mut *conn).await?;
        }
    }
    Ok(())
}
