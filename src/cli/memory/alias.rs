//! `attache memory alias`: which addresses belong to one person.

use super::entries;
use crate::cli::args::{correspondent, user};
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::Address;
use crate::store::{ContactAlias, StoreError};
use serde_json::json;

/// Say, list or take back which addresses belong to one person
#[derive(clap::Args)]
#[command(
    after_help = "Only memory goes by it: what the person has said from one address is known when they write from the other, and entries count \
                  together. Letters, threads and the policy go by addresses. Without arguments, lists what was said."
)]
pub struct AliasMemory {
    /// Other address of the person; its entries move
    #[arg(requires = "person")]
    address: Option<String>,
    /// Address under which the entries of the person stand
    person: Option<String>,
    /// Have this address stand for itself again; what was said from it goes back
    #[arg(long, value_name = "ADDRESS", conflicts_with = "address")]
    remove: Option<String>,
}

impl AliasMemory {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if let Some(address) = &self.remove {
            return remove(context, &correspondent(address)?).await;
        }
        match (&self.address, &self.person) {
            (Some(address), Some(person)) => {
                add(context, &correspondent(address)?, &correspondent(person)?).await
            }
            _ => list(context).await,
        }
    }
}

async fn add(
    context: &CommandContext,
    address: &Address,
    person: &Address,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let is_owner = |of: &Address| {
        config
            .gateway
            .owners
            .iter()
            .any(|owner| owner.key() == of.key())
    };
    if is_owner(address) || is_owner(person) {
        let failure = Failure::new(
            Exit::Usage,
            "an owner's address belongs to no correspondent",
        );
        return Err(failure
            .hint("`owners` in `configs/gateway.json` has the addresses of the owners")
            .into());
    }
    let store = context.store_of_engine().await?;
    let added = store
        .add_contact_alias(&address.key(), &person.key(), &user())
        .await;
    let moved = added.map_err(refusal)?;
    let person = store.persons().await?.person(&address.key()).to_owned();
    if context.json() {
        let said = json!({ "address": address.key(), "person": person, "entries_moved": moved });
        context.screen.json(&said)?;
    } else {
        let entries = entries(moved);
        context.screen.line(format!(
            "{} belongs to {person}; moved: {entries}",
            address.key()
        ))?;
    }
    Ok(Exit::Ok)
}

async fn remove(context: &CommandContext, address: &Address) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let removed = store.remove_contact_alias(&address.key(), &user()).await;
    let Some(moved) = removed.map_err(refusal)? else {
        let failure = Failure::new(
            Exit::NoInput,
            format!("`{}` is no other address of anybody", address.key()),
        );
        return Err(failure.hint("`attache memory alias` lists them").into());
    };
    context.screen.line(format!(
        "{} stands for itself again; moved back: {}",
        address.key(),
        entries(moved)
    ))?;
    Ok(Exit::Ok)
}

fn refusal(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::MemoryFull => Failure::new(
            Exit::Failed,
            "together there would be more entries than one correspondent may have",
        )
        .hint("`attache memory reject` takes some out of use first")
        .into(),
        StoreError::WrongState {
            id, state, hint, ..
        } => Failure::new(Exit::Usage, format!("`{id}` is {state}"))
            .hint(hint)
            .into(),
        error => error.into(),
    }
}

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    let aliases = context.shared_store().await?.contact_aliases().await?;
    let columns = Columns::of(&["ADDRESS", "PERSON", "SINCE", "BY"]);
    context
        .screen
        .list(&aliases, columns, "every address stands for itself", cells)?;
    Ok(Exit::Ok)
}

fn cells(alias: &ContactAlias) -> Vec<String> {
    let ContactAlias {
        address,
        person,
        since,
        said_by,
    } = alias;
    vec![
        address.clone(),
        person.clone(),
        since.to_string(),
        said_by.clone(),
    ]
}
