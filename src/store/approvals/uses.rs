//! Calls that rules with `uses_max` have decided.

use crate::store::db::{Row, Scope};
use crate::store::{Result, Store};

const POLICY_USES: &str =
    "SELECT rule_id, uses FROM policy_uses WHERE rule_id IN (SELECT value FROM json_each($1))";
/// Counts one use, unless there were as many as the rule allows.
const USE_RULE: &str = "
    INSERT INTO policy_uses (rule_id, uses) VALUES ($1, 1)
    ON CONFLICT (rule_id) DO UPDATE SET uses = policy_uses.uses + 1 WHERE policy_uses.uses < $2";

impl Store {
    /// Returns the number of calls that each of these rules has decided; rules without any are left out.
    pub async fn policy_uses(&self, rules: &[&str]) -> Result<Vec<(String, u64)>> {
        let rows = self
            .rows(POLICY_USES, serde_json::json!(rules).to_string())
            .await?;
        let uses = |row: &Row| (row.get("rule_id"), row.get::<i64>("uses").unsigned_abs());
        Ok(rows.iter().map(uses).collect())
    }

    /// Counts a call that a rule decides; `false`: it has decided as many as it may. A crash behind it wastes one use.
    pub async fn use_rule(&self, rule: &str, uses_max: u64) -> Result<bool> {
        let (rule, max) = (rule.to_owned(), i64::try_from(uses_max).unwrap_or(i64::MAX));
        transact!(self, Scope::Rows, |conn| Ok(conn
            .exec(USE_RULE, (rule, max))
            .await?
            > 0))
        .await
    }
}
