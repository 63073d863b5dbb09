//! Parts of the engine's account, on PostgreSQL.
//!
//! Every call of every node changes the account of the engine. As one row it would make each call wait for the commit of the
//! call before, on whatever node; so it is divided, and a call changes the part that the last digit of an id names.

use crate::store::Result;
use crate::store::db::Connection;
use crate::store::sql::json_list;

/// Names of the parts; a part is the owner of its row.
pub const PARTS: [&str; 16] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f",
];

/// Balance of the engine's account, whole or in parts.
pub const ENGINE_ACCOUNT: &str = "
    SELECT coalesce(sum(spent_micros), 0) AS spent_micros, coalesce(sum(reserved_micros), 0) AS reserved_micros,
      coalesce(sum(spent_tokens), 0) AS spent_tokens, coalesce(sum(reserved_tokens), 0) AS reserved_tokens
    FROM budget_accounts WHERE scope = 'engine' AND owner IN (SELECT value FROM json_each($1)) AND period = $2";
/// One row again, in a database that was moved to SQLite, when no call is open.
const JOIN_PARTS: &str = "
    INSERT INTO budget_accounts (scope, owner, period, spent_micros, reserved_micros, spent_tokens, reserved_tokens)
      SELECT 'engine', '', period, sum(spent_micros), sum(reserved_micros), sum(spent_tokens), sum(reserved_tokens)
      FROM budget_accounts WHERE scope = 'engine' AND owner <> '' GROUP BY period
      ON CONFLICT (scope, owner, period) DO UPDATE SET
        spent_micros = budget_accounts.spent_micros + excluded.spent_micros,
        reserved_micros = budget_accounts.reserved_micros + excluded.reserved_micros,
        spent_tokens = budget_accounts.spent_tokens + excluded.spent_tokens,
        reserved_tokens = budget_accounts.reserved_tokens + excluded.reserved_tokens;
    DELETE FROM budget_accounts WHERE scope = 'engine' AND owner <> ''";

/// Returns the owner of the engine's account for calls of a run, or for a call with an id of its own: empty on SQLite,
/// where nobody else writes at the same time.
pub fn part_of(conn: &Connection, id: &str) -> &'static str {
    if conn.is_sqlite() {
        return "";
    }
    let digit = id.chars().next_back().and_then(|last| last.to_digit(16));
    let place = digit.and_then(|digit| usize::try_from(digit).ok());
    PARTS[place.unwrap_or(0)]
}

/// Returns all owners of the engine's account, as a JSON list.
pub fn owners() -> String {
    json_list([""].into_iter().chain(PARTS))
}

/// Makes the engine's account one row again on SQLite, where no call is open.
pub async fn join(conn: &mut Connection) -> Result<()> {
    if conn.is_sqlite() {
        conn.exec(JOIN_PARTS, ()).await?;
    }
    Ok(())
}
