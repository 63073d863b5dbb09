//! `attache memory list`: entries, the newest first.

use crate::cli::args::{limit_arg, number, persona_of};
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::{Address, MemoryStatus};
use crate::store::{MemoryEntry, MemoryFilter};
use clap::{Arg, ArgAction, ArgMatches};

pub fn clap() -> clap::Command {
    let states: Vec<&str> = MemoryStatus::ALL
        .iter()
        .map(|status| status.as_str())
        .collect();
    clap::Command::new("list")
        .about("List entries that wait for you, then those in use, the newest first")
        .arg(
            Arg::new("persona")
                .long("persona")
                .value_name("ID")
                .help("Only this persona's"),
        )
        .arg(
            Arg::new("status")
                .long("status")
                .value_name("STATUS")
                .value_parser(states)
                .help("Only entries in this state [default: `proposed`, which wait for you, and `active`]"),
        )
        .arg(
            Arg::new("all")
                .long("all")
                .action(ArgAction::SetTrue)
                .help("Entries in every state"),
        )
        .arg(contact_arg())
        .arg(limit_arg())
}

/// Argument for the correspondent whose entries are meant.
pub(super) fn contact_arg() -> Arg {
    Arg::new("contact")
        .long("contact")
        .value_name("ADDRESS")
        .help("Only entries about this correspondent")
}

/// Key of the correspondent that was given.
pub(super) fn contact_of(args: &ArgMatches) -> Result<Option<String>, Failure> {
    let typed = args.get_one::<String>("contact");
    let parsed = typed.map(|typed| Address::parse(typed)).transpose();
    let address = parsed.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    Ok(address.map(|address| address.key()))
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let status = args.get_one::<String>("status");
    let status = status.and_then(|status| MemoryStatus::parse(status));
    let states = match (args.get_flag("all"), status) {
        (true, _) => vec![None],
        (false, Some(status)) => vec![Some(status)],
        (false, None) => vec![Some(MemoryStatus::Proposed), Some(MemoryStatus::Active)],
    };
    let (persona, contact) = (persona_of(context, &store, args).await?, contact_of(args)?);
    let mut entries = Vec::new();
    for status in states {
        let filter = MemoryFilter {
            after: None,
            persona: persona.clone(),
            status,
            contact: contact.clone(),
            limit: number(args, "limit"),
        };
        entries.append(&mut store.memory_entries(&filter).await?);
    }
    if context.json() {
        context.screen.json(&entries)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
    let columns = Columns::of(&[
        "ID", "PERSONA", "ABOUT", "NO", "STATUS", "KIND", "SAID", "TEXT",
    ])
    .main("TEXT")
    .optional(&["SAID", "NO", "KIND"]);
    context.screen.listing(columns, &rows, "no entry")?;
    Ok(Exit::Ok)
}

fn cells(entry: &MemoryEntry) -> Vec<String> {
    vec![
        entry.id.clone(),
        entry.persona.to_string(),
        about(entry),
        entry.shown_id(),
        entry.status.to_string(),
        entry.kind.to_string(),
        entry.said_at.to_string(),
        match entry.erased_at {
            Some(_) => "[erased]".to_owned(),
            None => match entry.proposes {
                Some(proposal) => format!("[{proposal}] {}", crate::text::visible(&entry.text)),
                None => crate::text::visible(&entry.text),
            },
        },
    ]
}

/// Returns the owner of an entry, for people.
pub(super) fn about(entry: &MemoryEntry) -> String {
    match entry.scope.columns() {
        ("persona", _) => "everybody".to_owned(),
        ("thread", key) => format!("thread {key}"),
        (_, key) => key.to_owned(),
    }
}
