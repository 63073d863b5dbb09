//! `attache replay forks`: the forks of this workspace, newest first.

use crate::cli::screen::Columns;
use crate::cli::{Command, CommandContext, Exit};
use crate::store::StoredFork;
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

pub struct Forks;

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

impl Command for Forks {
    fn clap(&self) -> clap::Command {
        clap::Command::new("forks").about("List the forks that were made, the newest first")
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        _args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let store = context.shared_store().await?;
            let rows: Vec<ForkRow> = store
                .forks(LISTED_MAX)
                .await?
                .into_iter()
                .map(row)
                .collect();
            let headings = ["FORK", "RUN", "TURN", "STATE", "CHANGE", "MADE"];
            context.screen.list(
                &rows,
                Columns::of(&headings).main("CHANGE"),
                "no run was forked",
                |row| {
                    let change = row.change.as_object().into_iter().flatten();
                    let change = change.filter(|(_, value)| !value.is_null()).map(
                        |(key, value)| match value {
                            _ if key == "persona_text" => "another persona text".to_owned(),
                            Value::String(text) => format!("{key} {text}"),
                            Value::Object(of) => {
                                format!(
                                    "another result of {}",
                                    of["call"].as_str().unwrap_or_default()
                                )
                            }
                            _ => key.clone(),
                        },
                    );
                    let change = change.collect::<Vec<_>>().join(", ");
                    let (id, run, turn) =
                        (row.id.clone(), row.run.clone(), row.at_turn.to_string());
                    vec![
                        id,
                        run,
                        turn,
                        row.state.clone(),
                        change,
                        row.created_at.clone(),
                    ]
                },
            )?;
            Ok(Exit::Ok)
        })
    }
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
