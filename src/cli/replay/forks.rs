//! `attache replay forks`: the forks of this workspace, newest first.

use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit};
use crate::store::StoredFork;
use serde::Serialize;
use serde_json::Value;

/// Maximum number of forks in a listing.
const LISTED_MAX: u32 = 200;

#[derive(Serialize)]
struct ForkRow {
    id: String,
    run: String,
    persona: String,
    at_turn: u32,
    change: Value,
    state: String,
    created_at: String,
    finished_at: Option<String>,
}

/// Prints the forks.
pub async fn forks(context: &CommandContext) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let forks = store.forks(LISTED_MAX).await?;
    let rows: Vec<ForkRow> = forks.into_iter().map(row).collect();
    let headings = ["FORK", "RUN", "TURN", "STATE", "CHANGE", "MADE"];
    let columns = Columns::of(&headings).main("CHANGE");
    let cells = |row: &ForkRow| {
        let change = row.change.as_object().into_iter().flatten();
        let change = change
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| match value {
                _ if key == "persona_text" => "another persona text".to_owned(),
                Value::String(text) => format!("{key} {text}"),
                Value::Object(of) => {
                    let call = of["call"].as_str().unwrap_or_default();
                    format!("another result of {call}")
                }
                _ => key.clone(),
            });
        vec![
            row.id.clone(),
            row.run.clone(),
            row.at_turn.to_string(),
            row.state.clone(),
            change.collect::<Vec<_>>().join(", "),
            row.created_at.clone(),
        ]
    };
    context
        .screen
        .list(&rows, columns, "no run was forked", cells)?;
    Ok(Exit::Ok)
}

fn row(fork: StoredFork) -> ForkRow {
    ForkRow {
        id: fork.id,
        run: fork.run.to_string(),
        persona: fork.persona,
        at_turn: fork.at_turn,
        change: serde_json::from_str(&fork.change_json).unwrap_or_default(),
        state: fork.state,
        created_at: fork.created_at.to_string(),
        finished_at: fork.finished_at,
    }
}
