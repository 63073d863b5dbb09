//! Commands of owners in the first line of a letter: what each does, whose letters bring none, and that each counts once.

pub mod crash;
mod effects;
mod history;
mod proof;
mod once;

use crate::app::Workspace;
use crate::app::db;
use crate::identity::world::World;
use attache::domain::Email;
use attache::gateway::intake_contract::CopyOutcome;
use serde_json::json;

pub const OLGA: &str = "olga@home.test";

/// The world of identities, whose owner signs her mail, with a second persona.
pub async fn world() -> World {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    workspace.persona("bea", "Bea");
    World::in_workspace(workspace, json!({})).await
}

/// A letter of the owner with that text; `more` are header lines.
pub fn letter(world: &World, id: &str, more: &str, text: &str) -> String {
    let (head, _) = world
        .plain(OLGA, id, more)
        .split_once("\r\n\r\n")
        .map(|(head, body)| (head.to_owned(), body.to_owned()))
        .expect("a header");
    format!("{head}\r\n\r\n{text}\r\n")
}

/// The same, signed as owners sign.
pub fn signed(world: &World, id: &str, more: &str, text: &str) -> String {
    world.signed("home.test", &letter(world, id, more, text))
}

/// Hands a letter over; `command`, another rule, or `run`.
pub async fn taken(world: &World, eml: &str) -> String {
    let accepted = world.hand_over(eml, None).await.expect("taken");
    match &accepted.copies[0].outcome {
        CopyOutcome::Run(_) => "run".to_owned(),
        CopyOutcome::Filed(rule) => rule.clone(),
        CopyOutcome::Duplicate => "duplicate".to_owned(),
        CopyOutcome::Held => "held".to_owned(),
    }
}

/// Gives a command as the owner would, lets the engine work, and returns the answer.
pub async fn command(world: &World, id: &str, text: &str) -> Email {
    let before = world.app.notices().len();
    let eml = signed(world, id, "", text);
    assert_eq!(taken(world, &eml).await, "command", "{text}");
    world.app.drain().await;
    let mut answers = world.app.notices().split_off(before);
    assert_eq!(answers.len(), 1, "one answer to {text}");
    answers.remove(0)
}

/// Commands as they are stored: `persona command refusal`.
pub async fn stored(world: &World) -> Vec<String> {
    let mut rows = world.app.workspace.rows().await;
    let sql = "SELECT persona_id, command, coalesce(refusal, '-') AS refusal FROM mail_commands ORDER BY seq";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("rows");
    let text = |row: &db::Row, column| row.get::<String>(column);
    let line = |row| {
        format!(
            "{} {} {}",
            text(row, "persona_id"),
            text(row, "command"),
            text(row, "refusal")
        )
    };
    found.iter().map(line).collect()
}

/// Halts in force, by persona.
pub async fn halted(world: &World) -> Vec<String> {
    let halts = world.app.engine.store.halts().await.expect("halts");
    let name = |halt: &attache::store::PersonaHalt| {
        halt.persona
            .as_ref()
            .map_or("all".to_owned(), ToString::to_string)
    };
    halts.iter().map(name).collect()
}
