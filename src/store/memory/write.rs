//! Changes of memory by a run, inside the transaction that records the result of its call.

use super::record::{MemorySource, MemoryWrite, NewMemory};
use super::uses::count_use;
use crate::domain::{
    MemoryProposal, MemoryScope, MemoryStatus, PersonaId, RunId, Timestamp, sha256_hex,
};
use crate::store::db::{self, Connection};
use crate::store::sql::{to_i64, to_json};
use crate::store::{Result, StoreError};

/// Most entries of a persona that wait for its owner; the oldest ones make room.
const PROPOSED_MAX: i64 = 200;

pub(in crate::store) const INSERT_MEMORY: &str = "
    INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json,
      audience_json, said_by, said_at, valid_to, created_at, created_run, created_by, confirmed_at, supersedes, proposes)
    VALUES ($1, $2, $3, $4,
      (SELECT coalesce(max(number), 0) + 1 FROM memory WHERE persona_id = $2 AND scope = $3 AND scope_key = $4),
      $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
pub(in crate::store) const INSERT_MEMORY_SOURCE: &str = "
    INSERT INTO memory_sources (memory_id, message_id, part, quote_start, quote_end, quote, quote_sha256)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
pub(in crate::store) const INSERT_REPLACED: &str =
    "INSERT INTO memory_replaces (memory_id, replaced_id) VALUES ($1, $2)";
pub(in crate::store) const MEMORY_EVENT: &str = "
    INSERT INTO memory_events (memory_id, act, actor, who, why, before_json, at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
pub(in crate::store) const OPEN_MEMORY_COUNT: &str = "
    SELECT count(*) FROM memory WHERE persona_id = $1 AND scope = $2 AND scope_key = $3
      AND status IN ('proposed', 'active') AND (status = 'active' OR proposes IS NULL)";
/// The first condition on the state is the one of the index `memory_open`.
pub(in crate::store) const SAME_ENTRY: &str = "
    SELECT id FROM memory WHERE persona_id = $1 AND scope = $2 AND scope_key = $3 AND text_sha256 = $4
      AND status IN ('proposed', 'active') AND status = 'active' LIMIT 1";
pub(in crate::store) const SUPERSEDE_MEMORY: &str = "
    UPDATE memory SET status = 'superseded', superseded_by = $2 WHERE id = $1 AND status = 'active'";
/// Hands a pin on to the entry that takes another one's place.
pub(in crate::store) const HAND_PIN_ON: &str = "
    UPDATE memory SET pinned = 1 WHERE id = $2 AND pinned = 0 AND EXISTS (SELECT 1 FROM memory o WHERE o.id = $1 AND o.pinned = 1)";
pub(in crate::store) const CONFIRM_MEMORY: &str = "
    UPDATE memory SET confirmed_at = $3, last_used_at = $3, confirmations = confirmations + 1
    WHERE id = $1 AND persona_id = $2 AND status = 'active'";
pub(in crate::store) const FORGET_MEMORY: &str = "
    UPDATE memory SET status = 'forgotten' WHERE id = $1 AND persona_id = $2 AND status = 'active'";
/// Waiting entries beyond the newest `$2`.
pub(in crate::store) const NOTE_CROWDED_OUT: &str = "
    INSERT INTO memory_events (memory_id, act, actor, who, why, before_json, at)
    SELECT id, 'expired', 'engine', '', 'more entries wait than there may be', '{\"status\":\"proposed\"}', $3
    FROM memory WHERE persona_id = $1 AND status = 'proposed' ORDER BY created_at DESC LIMIT 9223372036854775807 OFFSET $2";
pub(in crate::store) const CROWD_OUT: &str = "
    UPDATE memory SET status = 'expired' WHERE id IN (SELECT id FROM memory
      WHERE persona_id = $1 AND status = 'proposed' ORDER BY created_at DESC LIMIT 9223372036854775807 OFFSET $2)";

pub(in crate::store) const IS_ALIAS: &str =
    "SELECT 1 AS is_alias FROM contact_aliases WHERE address = $1";

/// Author of a change, with the reason.
pub(in crate::store) struct MemoryAuthor<'a> {
    /// `model`, `owner` or `engine`.
    pub actor: &'a str,
    pub who: &'a str,
    pub why: &'a str,
}

/// State of an entry that a restore brings back: `{status, readers_json, audience_json, superseded_by}`.
pub(in crate::store) type BeforeJson = String;

/// Applies a change; `id` is for a new row.
pub(in crate::store) async fn apply(
    conn: &mut Connection,
    (run, persona): (&RunId, &PersonaId),
    (write, id): (&MemoryWrite, &str),
    now: Timestamp,
) -> Result<()> {
    let by = |why| MemoryAuthor {
        actor: "model",
        who: run.as_str(),
        why,
    };
    let active = || Some("{\"status\":\"active\"}".to_owned());
    match write {
        MemoryWrite::Add(new) => {
            // Another run may have written the same down since the call looked.
            if let Some(known) = same_entry(conn, persona, new).await? {
                let confirm = MemoryWrite::Confirm { id: known };
                return Box::pin(apply(conn, (run, persona), (&confirm, id), now)).await;
            }
            if new.supersedes.is_none() || new.status != MemoryStatus::Active {
                require_room(conn, persona, &new.scope).await?;
            }
            insert(conn, (persona, id), (new, Some(run)), now).await?;
            event(conn, id, ("added", None), by(""), now).await?;
            if let (Some(old), MemoryStatus::Active) = (&new.supersedes, new.status) {
                supersede(conn, (old, id), by(""), now).await?;
            }
            match new.status {
                MemoryStatus::Proposed => crowd_out(conn, persona, now).await,
                _ => Ok(()),
            }
        }
        // It takes no room: approved, it takes that of what it replaces.
        MemoryWrite::Propose { new, why } => {
            insert(conn, (persona, id), (new, Some(run)), now).await?;
            event(conn, id, ("proposed", None), by(why), now).await?;
            crowd_out(conn, persona, now).await
        }
        // An entry that the owner changes meanwhile stays as they leave it.
        MemoryWrite::Confirm { id } => {
            let confirm = db::query(CONFIRM_MEMORY).bind(id).bind(persona.as_str());
            let confirm = confirm.bind(now.to_string()).execute(&mut *conn).await?;
            match confirm.rows_affected() {
                0 => Ok(()),
                _ => event(conn, id, ("confirmed", None), by(""), now).await,
            }
        }
        MemoryWrite::Use { ids } => count_use(conn, ids, &now.to_string()).await,
        MemoryWrite::Forget { id, why } => {
            let forget = db::query(FORGET_MEMORY).bind(id).bind(persona.as_str());
            match forget.execute(&mut *conn).await?.rows_affected() {
                0 => Ok(()),
                _ => event(conn, id, ("forgotten", active()), by(why), now).await,
            }
        }
    }
}

/// Returns the active entry of the scope with the same text; of a correction it is none.
async fn same_entry(
    conn: &mut Connection,
    persona: &PersonaId,
    new: &NewMemory,
) -> Result<Option<String>> {
    if new.supersedes.is_some() {
        return Ok(None);
    }
    let (scope, key) = new.scope.columns();
    let find = db::query_scalar(SAME_ENTRY)
        .bind(persona.as_str())
        .bind(scope)
        .bind(key)
        .bind(sha256_hex(&[new.text.as_bytes()]));
    Ok(find.fetch_optional(conn).await?)
}

/// Errors: the scope is full, such as by another run since the call looked.
pub(in crate::store) async fn require_room(
    conn: &mut Connection,
    persona: &PersonaId,
    of: &MemoryScope,
) -> Result<()> {
    match open_count(conn, persona, of).await? < to_i64(of.entries_max()) {
        true => Ok(()),
        false => Err(StoreError::MemoryFull),
    }
}

/// Errors: the scope has more entries than it may, such as after several came back.
pub(in crate::store) async fn require_limit(
    conn: &mut Connection,
    persona: &PersonaId,
    of: &MemoryScope,
) -> Result<()> {
    match open_count(conn, persona, of).await? <= to_i64(of.entries_max()) {
        true => Ok(()),
        false => Err(StoreError::MemoryFull),
    }
}

async fn open_count(conn: &mut Connection, persona: &PersonaId, of: &MemoryScope) -> Result<i64> {
    let (scope, key) = of.columns();
    let count = db::query_scalar(OPEN_MEMORY_COUNT)
        .bind(persona.as_str())
        .bind(scope)
        .bind(key);
    Ok(count.fetch_one(conn).await?)
}

/// Inserts an entry with its sources. `run`: the run that writes it; `None`: the owner does.
pub(in crate::store) async fn insert(
    conn: &mut Connection,
    (persona, id): (&PersonaId, &str),
    (new, run): (&NewMemory, Option<&RunId>),
    now: Timestamp,
) -> Result<()> {
    let (scope, key) = new.scope.columns();
    db::query(INSERT_MEMORY)
        .bind(id)
        .bind(persona.as_str())
        .bind(scope)
        .bind(key)
        .bind(new.kind.as_str())
        .bind(&new.text)
        .bind(sha256_hex(&[new.text.as_bytes()]))
        .bind(new.status.as_str())
        .bind(new.trust.as_str())
        .bind(to_json(&new.readers)?)
        .bind(to_json(&new.audience)?)
        .bind(&new.said_by)
        .bind(new.said_at.to_string())
        .bind(new.valid_to.map(|at| at.to_string()))
        .bind(now.to_string())
        .bind(run.map(RunId::as_str))
        .bind(if run.is_some() { "model" } else { "owner" })
        .bind(new.confirmed_at.unwrap_or(now).to_string())
        .bind(&new.supersedes)
        .bind(new.proposes.map(MemoryProposal::as_str))
        .execute(&mut *conn)
        .await?;
    for replaced in &new.replaces {
        let insert = db::query(INSERT_REPLACED).bind(id).bind(replaced);
        insert.execute(&mut *conn).await?;
    }
    for source in &new.sources {
        insert_source(conn, id, source).await?;
    }
    Ok(())
}

async fn insert_source(conn: &mut Connection, id: &str, source: &MemorySource) -> Result<()> {
    let MemorySource {
        message,
        part,
        start,
        end,
        quote,
    } = source;
    db::query(INSERT_MEMORY_SOURCE)
        .bind(id)
        .bind(message.as_str())
        .bind(part)
        .bind(to_i64(*start))
        .bind(to_i64(*end))
        .bind(quote)
        .bind(sha256_hex(&[quote.as_bytes()]))
        .execute(conn)
        .await?;
    Ok(())
}

/// Marks an entry as said anew by another one.
pub(in crate::store) async fn supersede(
    conn: &mut Connection,
    (old, new): (&str, &str),
    by: MemoryAuthor<'_>,
    now: Timestamp,
) -> Result<()> {
    let change = db::query(SUPERSEDE_MEMORY).bind(old).bind(new);
    match change.execute(&mut *conn).await?.rows_affected() {
        0 => Ok(()),
        _ => {
            hand_pin_on(conn, old, new).await?;
            let before = Some("{\"status\":\"active\"}".to_owned());
            event(conn, old, ("superseded", before), by, now).await
        }
    }
}

pub(in crate::store) async fn hand_pin_on(
    conn: &mut Connection,
    old: &str,
    new: &str,
) -> Result<()> {
    let hand = db::query(HAND_PIN_ON).bind(old).bind(new);
    hand.execute(conn).await?;
    Ok(())
}

/// Lets the oldest waiting entries go, so that strangers cannot fill the table. Nobody is refused for it: what one
/// correspondent is told does not depend on another.
async fn crowd_out(conn: &mut Connection, persona: &PersonaId, now: Timestamp) -> Result<()> {
    let note = db::query(NOTE_CROWDED_OUT).bind(persona.as_str());
    let note = note.bind(PROPOSED_MAX).bind(now.to_string());
    if note.execute(&mut *conn).await?.rows_affected() > 0 {
        let crowd = db::query(CROWD_OUT).bind(persona.as_str());
        crowd.bind(PROPOSED_MAX).execute(conn).await?;
    }
    Ok(())
}

/// Reports whether entries of a scope stand under another address now.
pub(in crate::store) async fn is_of_alias(
    conn: &mut Connection,
    scope: &MemoryScope,
) -> Result<bool> {
    let MemoryScope::Contact(address) = scope else {
        return Ok(false);
    };
    let find = db::query(IS_ALIAS).bind(address);
    Ok(find.fetch_optional(conn).await?.is_some())
}

/// Records a change of an entry.
pub(in crate::store) async fn event(
    conn: &mut Connection,
    id: &str,
    (act, before): (&str, Option<BeforeJson>),
    by: MemoryAuthor<'_>,
    now: Timestamp,
) -> Result<()> {
    db::query(MEMORY_EVENT)
        .bind(id)
        .bind(act)
        .bind(by.actor)
        .bind(by.who)
        .bind(by.why)
        .bind(before)
        .bind(now.to_string())
        .execute(conn)
        .await?;
    Ok(())
}
