//! Changes of memory by a run, inside the transaction that records the result of its call.

use super::record::{MemorySource, MemoryWrite, NewMemory};
use super::uses::count_use;
use crate::domain::{MemoryScope, MemoryStatus, PersonaId, RunId, Timestamp, sha256_hex};
use crate::store::db::Connection;
use crate::store::sql::{to_i64, to_json};
use crate::store::{Result, StoreError};

/// Most entries of a persona that wait for its owner; the oldest ones make room.
const PROPOSED_MAX: i64 = 200;

const INSERT_MEMORY: &str = "
    INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json,
      audience_json, said_by, said_at, valid_to, created_at, created_run, created_by, confirmed_at, supersedes, proposes)
    VALUES ($1, $2, $3, $4,
      (SELECT coalesce(max(number), 0) + 1 FROM memory WHERE persona_id = $2 AND scope = $3 AND scope_key = $4),
      $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
const INSERT_MEMORY_SOURCE: &str = "
    INSERT INTO memory_sources (memory_id, message_id, part, quote_start, quote_end, quote, quote_sha256)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const INSERT_REPLACED: &str =
    "INSERT INTO memory_replaces (memory_id, replaced_id) VALUES ($1, $2)";
const MEMORY_EVENT: &str = "
    INSERT INTO memory_events (memory_id, act, actor, who, why, before_json, at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
const OPEN_MEMORY_COUNT: &str = "
    SELECT count(*) FROM memory WHERE persona_id = $1 AND scope = $2 AND scope_key = $3
      AND status IN ('proposed', 'active') AND (status = 'active' OR proposes IS NULL)";
/// The first condition on the state is the one of the index `memory_open`.
const SAME_ENTRY: &str = "
    SELECT id FROM memory WHERE persona_id = $1 AND scope = $2 AND scope_key = $3 AND text_sha256 = $4
      AND status IN ('proposed', 'active') AND status = 'active' LIMIT 1";
const SUPERSEDE_MEMORY: &str = "
    UPDATE memory SET status = 'superseded', superseded_by = $2 WHERE id = $1 AND status = 'active'";
/// Hands a pin on to the entry that takes another one's place.
const HAND_PIN_ON: &str = "
    UPDATE memory SET pinned = 1 WHERE id = $2 AND pinned = 0 AND EXISTS (SELECT 1 FROM memory o WHERE o.id = $1 AND o.pinned = 1)";
const CONFIRM_MEMORY: &str = "
    UPDATE memory SET confirmed_at = $3, last_used_at = $3, confirmations = confirmations + 1
    WHERE id = $1 AND persona_id = $2 AND status = 'active'";
const FORGET_MEMORY: &str = "
    UPDATE memory SET status = 'forgotten' WHERE id = $1 AND persona_id = $2 AND status = 'active'";
/// Waiting entries beyond the newest `$2`.
const NOTE_CROWDED_OUT: &str = "
    INSERT INTO memory_events (memory_id, act, actor, who, why, before_json, at)
    SELECT id, 'expired', 'engine', '', 'more entries wait than there may be', '{\"status\":\"proposed\"}', $3
    FROM memory WHERE persona_id = $1 AND status = 'proposed' ORDER BY created_at DESC LIMIT 9223372036854775807 OFFSET $2";
const CROWD_OUT: &str = "
    UPDATE memory SET status = 'expired' WHERE id IN (SELECT id FROM memory
      WHERE persona_id = $1 AND status = 'proposed' ORDER BY created_at DESC LIMIT 9223372036854775807 OFFSET $2)";

const IS_ALIAS: &str = "SELECT 1 AS is_alias FROM contact_aliases WHERE address = $1";

/// Author of a change, with the reason.
pub struct MemoryAuthor<'a> {
    /// `model`, `owner` or `engine`.
    pub actor: &'a str,
    pub who: &'a str,
    pub why: &'a str,
}

/// State of an entry that a restore brings back: `{status, readers_json, audience_json, superseded_by}`.
pub type BeforeJson = String;

/// Applies a change; `id` is for a new row.
pub async fn apply(
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
                supersede(conn, old, id, by(""), now).await?;
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
            let confirm = conn.exec(CONFIRM_MEMORY, (id, &persona, now)).await?;
            match confirm {
                0 => Ok(()),
                _ => event(conn, id, ("confirmed", None), by(""), now).await,
            }
        }
        MemoryWrite::Use { ids } => count_use(conn, ids, &now.to_string()).await,
        MemoryWrite::Forget { id, why } => match conn.exec(FORGET_MEMORY, (id, &persona)).await? {
            0 => Ok(()),
            _ => event(conn, id, ("forgotten", active()), by(why), now).await,
        },
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
    conn.maybe(
        SAME_ENTRY,
        (persona, scope, key, sha256_hex(&[new.text.as_bytes()])),
    )
    .await
}

/// Errors: the scope is full, such as by another run since the call looked.
pub async fn require_room(
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
pub async fn require_limit(
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
    conn.one(OPEN_MEMORY_COUNT, (persona, scope, key)).await
}

/// Inserts an entry with its sources. `run`: the run that writes it; `None`: the owner does.
pub async fn insert(
    conn: &mut Connection,
    (persona, id): (&PersonaId, &str),
    (new, run): (&NewMemory, Option<&RunId>),
    now: Timestamp,
) -> Result<()> {
    let (scope, key) = new.scope.columns();
    conn.exec(
        INSERT_MEMORY,
        (
            (
                id,
                &persona,
                scope,
                key,
                &new.kind,
                &new.text,
                sha256_hex(&[new.text.as_bytes()]),
                &new.status,
                &new.trust,
                to_json(&new.readers)?,
                to_json(&new.audience)?,
                &new.said_by,
                new.said_at,
                new.valid_to,
                now,
                run,
            ),
            (
                if run.is_some() { "model" } else { "owner" },
                new.confirmed_at.unwrap_or(now),
                &new.supersedes,
                new.proposes,
            ),
        ),
    )
    .await?;
    for replaced in &new.replaces {
        conn.exec(INSERT_REPLACED, (id, replaced)).await?;
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
    conn.exec(
        INSERT_MEMORY_SOURCE,
        (
            id,
            &message,
            part,
            *start,
            *end,
            quote,
            sha256_hex(&[quote.as_bytes()]),
        ),
    )
    .await?;
    Ok(())
}

/// Marks an entry as said anew by another one.
async fn supersede(
    conn: &mut Connection,
    old: &str,
    new: &str,
    by: MemoryAuthor<'_>,
    now: Timestamp,
) -> Result<()> {
    match conn.exec(SUPERSEDE_MEMORY, (old, new)).await? {
        0 => Ok(()),
        _ => {
            hand_pin_on(conn, old, new).await?;
            let before = Some("{\"status\":\"active\"}".to_owned());
            event(conn, old, ("superseded", before), by, now).await
        }
    }
}

pub async fn hand_pin_on(conn: &mut Connection, old: &str, new: &str) -> Result<()> {
    conn.exec(HAND_PIN_ON, (old, new)).await?;
    Ok(())
}

/// Lets the oldest waiting entries go, so that strangers cannot fill the table. Nobody is refused for it: what one
/// correspondent is told does not depend on another.
async fn crowd_out(conn: &mut Connection, persona: &PersonaId, now: Timestamp) -> Result<()> {
    if conn
        .exec(NOTE_CROWDED_OUT, (persona, PROPOSED_MAX, now))
        .await?
        > 0
    {
        conn.exec(CROWD_OUT, (persona, PROPOSED_MAX)).await?;
    }
    Ok(())
}

/// Reports whether entries of a scope stand under another address now.
pub async fn is_of_alias(conn: &mut Connection, scope: &MemoryScope) -> Result<bool> {
    let MemoryScope::Contact(address) = scope else {
        return Ok(false);
    };
    Ok(conn.maybe_row(IS_ALIAS, address).await?.is_some())
}

/// Records a change of an entry.
pub async fn event(
    conn: &mut Connection,
    id: &str,
    (act, before): (&str, Option<BeforeJson>),
    by: MemoryAuthor<'_>,
    now: Timestamp,
) -> Result<()> {
    conn.exec(
        MEMORY_EVENT,
        (id, act, by.actor, by.who, by.why, before, now),
    )
    .await?;
    Ok(())
}
