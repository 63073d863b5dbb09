//! `attache memory`: what personas remember of people.
//!
//! - `list`, `show`, `export`: entries, with what each rests on
//! - `decide`: what the owner does with one; `forget`: erasure
//! - `alias`: which addresses belong to one person
//! - `measure`: what a search of the owner's own letters finds; `vectors`: and with vectors

mod list;
mod show;
mod export;
mod decide;
mod forget;
mod alias;
mod measure;
mod vectors;

use super::{Command, CommandContext, Exit, Failure};
use crate::store::{MemoryDossier, Store, StoreError};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct MemoryCommand;

impl Command for MemoryCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("memory")
            .about("Read and decide what personas remember of people")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(list::clap())
            .subcommand(show::clap())
            .subcommands(decide::clap())
            .subcommand(forget::clap())
            .subcommand(alias::clap())
            .subcommand(export::clap())
            .subcommand(measure::clap())
    }

    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("list", args)) => list::run(context, args).await,
                Some(("show", args)) => show::run(context, args).await,
                Some(("forget", args)) => forget::run(context, args).await,
                Some(("alias", args)) => alias::run(context, args).await,
                Some(("export", args)) => export::run(context, args).await,
                Some(("bench", args)) => measure::run(context, args).await,
                Some((command, args)) => decide::run(context, command, args).await,
                None => Ok(Exit::Usage),
            }
        })
    }
}

/// Returns the entry that an id, or the end of one, names.
async fn found(store: &Store, piece: &str) -> anyhow::Result<MemoryDossier> {
    if is_shown_id(piece) {
        let failure = Failure::new(
            Exit::Usage,
            format!("`{piece}` counts within one correspondent or thread"),
        );
        return Err(failure
            .hint("`attache memory list --all` shows it as NO, and the id of each entry")
            .into());
    }
    match store.find_memory(piece).await {
        Ok(id) => Ok(store.memory_dossier(&id).await?),
        Err(StoreError::Missing { .. }) => {
            let failure = Failure::new(Exit::NoInput, format!("no entry of memory `{piece}`"));
            Err(failure
                .hint("`attache memory list --all` shows ids; their last characters will do")
                .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports whether it is an id such as `c3`, as models read it.
fn is_shown_id(piece: &str) -> bool {
    let digits = piece.strip_prefix(['c', 't', 'p']);
    digits.is_some_and(|digits| {
        (1..=3).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit())
    })
}

/// Formats a number of entries.
fn entries(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        count => format!("{count} entries"),
    }
}
