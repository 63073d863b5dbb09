//! Turns of runs as texts, and rows of turns as an engine wrote them before requests were packed.

use super::db;
use attache::domain::{PersonaId, RunId};
use attache::store::{Store, StoredTurn};

/// The turns of a run, in order.
pub async fn of_run(store: &Store, rows: &mut db::Connection, run: &str) -> Vec<StoredTurn> {
    let persona = db::query_scalar("SELECT persona_id FROM runs WHERE id = $1").bind(run);
    let persona: String = persona.fetch_one(rows).await.expect("a run");
    let persona = PersonaId::parse(&persona).expect("a persona");
    let (store, run) = (store.persona(&persona), RunId::new(run));
    store.turns_of_run(&run).await.expect("turns")
}

/// Writes every turn as plain text, for tests that change a word of it.
pub async fn unpack(store: &Store, rows: &mut db::Connection) {
    let runs = db::query("SELECT DISTINCT run_id FROM run_turns");
    for row in runs.fetch_all(&mut *rows).await.expect("runs") {
        let run: &str = row.get("run_id");
        for turn in of_run(store, rows, run).await {
            let plain = "UPDATE run_turns SET request_json = $4, context_json = $5, sources_json = $6, packed = NULL, packed_with = NULL
                WHERE run_id = $1 AND turn_index = $2 AND attempt = $3";
            let plain = db::query(plain)
                .bind(run)
                .bind(turn.turn_index)
                .bind(turn.attempt)
                .bind(turn.request_json)
                .bind(turn.context_json)
                .bind(turn.sources_json);
            plain.execute(&mut *rows).await.expect("a row");
        }
    }
}
