//! What both databases say of a move: the old one that a persona goes, the new one that it comes. No engine starts on either until
//! its row has ended.

use crate::domain::{PersonaId, Timestamp};
use crate::store::db::{self, Connection};
use std::path::Path;

pub(in crate::store) const BEGIN_MOVE: &str = "
    INSERT INTO persona_moves (id, persona_id, direction, place, state, begun_at, counts_json)
    VALUES ($1, $2, $3, $4, 'begun', $5, $6)";
pub(in crate::store) const END_MOVE: &str =
    "UPDATE persona_moves SET state = $2, ended_at = $3, counts_json = $4 WHERE id = $1";
pub(in crate::store) const FORGET_MOVE: &str = "DELETE FROM persona_moves WHERE id = $1";
pub(in crate::store) const IS_KNOWN_MOVE: &str =
    "SELECT EXISTS (SELECT 1 FROM persona_moves WHERE id = $1)";
/// The last move of a persona away from here.
pub(in crate::store) const LAST_OUT: &str = "
    SELECT id FROM persona_moves WHERE persona_id = $1 AND direction = 'out' AND state = 'ended'
    ORDER BY ended_at DESC, id DESC LIMIT 1";

/// Direction of a move, as seen from a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveDirection {
    Out,
    In,
}

impl MoveDirection {
    fn as_str(self) -> &'static str {
        match self {
            MoveDirection::Out => "out",
            MoveDirection::In => "in",
        }
    }
}

pub(super) async fn begin(
    conn: &mut Connection,
    (id, persona): (&str, &PersonaId),
    (direction, place): (MoveDirection, &Path),
    (now, counts_json): (Timestamp, &str),
) -> Result<(), db::Error> {
    let begin = db::query(BEGIN_MOVE)
        .bind(id)
        .bind(persona.as_str())
        .bind(direction.as_str())
        .bind(place.display().to_string())
        .bind(now.to_string())
        .bind(counts_json);
    begin.execute(conn).await?;
    Ok(())
}

/// `state`: `ended` or `cancelled`.
pub(super) async fn end(
    conn: &mut Connection,
    (id, state): (&str, &str),
    (now, counts_json): (Timestamp, &str),
) -> Result<(), db::Error> {
    let end = db::query(END_MOVE)
        .bind(id)
        .bind(state)
        .bind(now.to_string())
        .bind(counts_json);
    end.execute(conn).await?;
    Ok(())
}

pub(super) async fn forget(conn: &mut Connection, id: &str) -> Result<(), db::Error> {
    db::query(FORGET_MOVE).bind(id).execute(conn).await?;
    Ok(())
}

/// Reports whether a database has a row of a move.
pub(super) async fn is_known(conn: &mut Connection, id: &str) -> Result<bool, db::Error> {
    let known = db::query_scalar::<bool>(IS_KNOWN_MOVE).bind(id);
    known.fetch_one(conn).await
}

/// Returns the id of the last move of a persona away from a database.
pub(super) async fn last_out(
    conn: &mut Connection,
    persona: &PersonaId,
) -> Result<Option<String>, db::Error> {
    let last = db::query_scalar::<String>(LAST_OUT).bind(persona.as_str());
    last.fetch_optional(conn).await
}
