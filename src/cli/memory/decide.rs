//! `attache memory approve`, `edit`, `reject`, `restore`, `pin`, `unpin`: what the owner does with an entry.

use crate::cli::args::user;
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::MEMORY_TEXT_CHARS_MAX;
use crate::store::{MemoryAct, StoreError};
use crate::text::one_line;
use serde_json::json;

pub async fn run(context: &CommandContext, id: &str, act: MemoryAct) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let id = super::found(&store, id).await?.entry.id;
    let changed = match store.change_memory(&id, act, &user()).await {
        Err(StoreError::WrongState { state, hint, .. }) => {
            let failure = Failure::new(Exit::Failed, format!("entry `{id}` is {state}"));
            return Err(failure.hint(hint).into());
        }
        Err(StoreError::MemoryFull) => {
            let failure = Failure::new(Exit::Failed, "there are as many entries as there may be");
            return Err(failure
                .hint("`attache memory reject` takes one out of use")
                .into());
        }
        changed => changed?,
    };
    let entry = store.memory_dossier(&changed).await?.entry;
    if context.json() {
        context
            .screen
            .json(&json!({ "id": entry.id, "status": entry.status }))?;
    } else {
        context
            .screen
            .line(format!("{}: {}", entry.id, entry.status))?;
    }
    Ok(Exit::Ok)
}

/// Checks a text of the owner.
pub fn checked(typed: &str) -> Result<String, Failure> {
    let line = one_line(typed);
    match line.chars().count() {
        0 => Err(Failure::new(Exit::Usage, "the text is empty")
            .hint("`attache memory reject` takes an entry out of use")),
        chars if chars > MEMORY_TEXT_CHARS_MAX => Err(Failure::new(
            Exit::Usage,
            format!(
                "the text has {chars} characters, and an entry has at most {MEMORY_TEXT_CHARS_MAX}"
            ),
        )),
        _ => Ok(line),
    }
}
