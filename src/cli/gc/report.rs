//! `attache gc --report`: when the engine last went over each kind, and what went.

use crate::cli::{CommandContext, Exit};
use crate::config::spell;
use crate::store::gc::KINDS;
use crate::store::{RetentionPass, Store};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A kind with its age and its last pass.
#[derive(Serialize)]
struct RetentionRecord {
    kind: &'static str,
    /// `null`: it stays.
    age: Option<String>,
    last: Option<RetentionPass>,
}

/// Prints every kind.
pub(super) async fn report(
    context: &CommandContext,
    store: &Store,
    ages: &BTreeMap<&'static str, Duration>,
) -> anyhow::Result<Exit> {
    let mut kinds = Vec::new();
    for kind in KINDS {
        kinds.push(RetentionRecord {
            kind: kind.name,
            age: ages.get(kind.name).copied().map(spell),
            last: store.retention_pass(kind.name).await?,
        });
    }
    if context.json() {
        context.screen.json(&kinds)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = kinds.iter().map(RetentionRecord::cells).collect();
    context.screen.table(
        &["KIND", "AGE", "LAST PASS", "ROWS", "BYTES", "ROWS IN ALL"],
        &rows,
    )?;
    Ok(Exit::Ok)
}

impl RetentionRecord {
    fn cells(&self) -> Vec<String> {
        let age = self.age.clone().unwrap_or_else(|| "stays".to_owned());
        let mut cells = vec![self.kind.to_owned(), age];
        match &self.last {
            None => cells.extend(["never", "0", "0", "0"].map(str::to_owned)),
            Some(pass) => cells.extend([
                match pass.finished {
                    Some(finished) => finished.to_string(),
                    None => "at work".to_owned(),
                },
                pass.pass_rows.to_string(),
                pass.pass_bytes.to_string(),
                pass.total_rows.to_string(),
            ]),
        }
        cells
    }
}
