//! `attache memory export`: entries with their sources and changes, as JSON lines.

use super::list::{contact_arg, contact_of};
use crate::cli::args::persona_of;
use crate::cli::{CommandContext, Exit};
use crate::store::MemoryFilter;
use clap::{Arg, ArgMatches};

/// Most entries of one export.
const ENTRIES_MAX: u32 = 1_000_000;

pub fn clap() -> clap::Command {
    clap::Command::new("export")
        .about(
            "Print entries in every state with all that is known of each, one JSON object a line",
        )
        .arg(
            Arg::new("persona")
                .long("persona")
                .value_name("ID")
                .help("Only this persona's"),
        )
        .arg(contact_arg())
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let filter = MemoryFilter {
        after: None,
        persona: persona_of(context, &store, args).await?,
        status: None,
        contact: contact_of(args)?,
        limit: ENTRIES_MAX,
    };
    for entry in store.memory_entries(&filter).await? {
        let dossier = store.memory_dossier(&entry.id).await?;
        context.screen.line(serde_json::to_string(&dossier)?)?;
    }
    Ok(Exit::Ok)
}
