//! Texts in `contents` that the runs of a persona name. They go along, where the other cell has them not yet, and stay: what no turn
//! names any more goes by the retention.

use crate::domain::PersonaId;
use crate::store::db::{self, Connection, Sql};
use crate::store::sql::json_list;

/// Texts that are read at a time.
const TEXTS_AT_ONCE: usize = 32;

/// Digests of texts that turns of a persona name; a configuration names its files.
pub(in crate::store) const TEXTS_OF_PERSONA: Sql = Sql::pair(
    "
    WITH named (sha256) AS (
      SELECT t.sha256 FROM runs r JOIN turn_texts t ON t.run_id = r.id WHERE r.persona_id = $1
      UNION SELECT t.begun_json ->> '$.config' FROM runs r JOIN run_turns t ON t.run_id = r.id WHERE r.persona_id = $1
      UNION SELECT t.packed_with FROM runs r JOIN run_turns t ON t.run_id = r.id WHERE r.persona_id = $1
    )
    SELECT sha256 FROM named WHERE sha256 IS NOT NULL
    UNION SELECT j.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
      json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') j",
    "
    WITH named (sha256) AS (
      SELECT t.sha256 FROM runs r JOIN turn_texts t ON t.run_id = r.id WHERE r.persona_id = $1
      UNION SELECT t.begun_json ->> '$.config' FROM runs r JOIN run_turns t ON t.run_id = r.id WHERE r.persona_id = $1
      UNION SELECT t.packed_with FROM runs r JOIN run_turns t ON t.run_id = r.id WHERE r.persona_id = $1
    )
    SELECT sha256 FROM named WHERE sha256 IS NOT NULL
    UNION SELECT j.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
      json_each(CASE WHEN json_valid(text_of(c.bytes)) THEN text_of(c.bytes) ELSE '{}' END, '$.files') j",
);
pub(in crate::store) const SOME_TEXTS: &str = "
    SELECT sha256, bytes FROM contents WHERE sha256 IN (SELECT value FROM jsonb_each($1)) ORDER BY sha256";
pub(in crate::store) const STORE_TEXT: &str =
    "INSERT INTO contents (sha256, bytes) VALUES ($1, $2) ON CONFLICT (sha256) DO NOTHING";

/// Copies the texts that the persona's runs name, and returns their number.
pub(super) async fn copy(
    source: &mut Connection,
    target: &mut Connection,
    persona: &PersonaId,
) -> Result<u64, db::Error> {
    let named = db::query_scalar::<String>(TEXTS_OF_PERSONA).bind(persona.as_str());
    let named = named.fetch_all(&mut *source).await?;
    let mut count = 0;
    for some in named.chunks(TEXTS_AT_ONCE) {
        let digests = json_list(some.iter().map(String::as_str));
        let rows = db::query(SOME_TEXTS).bind(digests);
        for row in rows.fetch_all(&mut *source).await? {
            let store = db::query(STORE_TEXT)
                .bind(row.try_get::<String>("sha256")?)
                .bind(row.try_get::<Vec<u8>>("bytes")?);
            store.execute(&mut *target).await?;
            count += 1;
        }
    }
    Ok(count)
}
