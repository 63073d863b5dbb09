//! `attache memory list` and `attache memory export`: entries, the newest first.

use crate::cli::args::{LimitArg, persona_of};
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::{Address, MemoryStatus};
use crate::store::{MemoryEntry, MemoryFilter};
use clap::builder::PossibleValuesParser;

/// Most entries of one export.
const EXPORTED_MAX: u32 = 1_000_000;

/// List entries that wait for you, then those in use, the newest first
#[derive(clap::Args)]
pub struct ListMemory {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Only entries in this state [default: `proposed`, which wait for you, and `active`]
    #[arg(long, value_parser = PossibleValuesParser::new(MemoryStatus::ALL.iter().map(|status| status.as_str())))]
    status: Option<String>,
    /// Entries in every state
    #[arg(long)]
    all: bool,
    /// Only entries about this correspondent
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<String>,
    #[command(flatten)]
    page: LimitArg,
}

/// Key of the correspondent that was given.
pub(super) fn contact_of(typed: Option<String>) -> Result<Option<String>, Failure> {
    let parsed = typed.map(|typed| Address::parse(&typed)).transpose();
    let address = parsed.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    Ok(address.map(|address| address.key()))
}

impl ListMemory {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let status = self.status.and_then(|status| MemoryStatus::parse(&status));
        let states = match (self.all, status) {
            (true, _) => vec![None],
            (false, Some(status)) => vec![Some(status)],
            (false, None) => vec![Some(MemoryStatus::Proposed), Some(MemoryStatus::Active)],
        };
        let persona = persona_of(context, &store, self.persona).await?;
        let contact = contact_of(self.contact)?;
        let mut entries = Vec::new();
        for status in states {
            let filter = MemoryFilter {
                after: None,
                persona: persona.clone(),
                status,
                contact: contact.clone(),
                limit: self.page.limit,
            };
            entries.append(&mut store.memory_entries(&filter).await?);
        }
        let columns = Columns::of(&[
            "ID", "PERSONA", "ABOUT", "NO", "STATUS", "KIND", "SAID", "TEXT",
        ])
        .main("TEXT")
        .optional(&["SAID", "NO", "KIND"]);
        context.screen.list(&entries, columns, "no entry", cells)?;
        Ok(Exit::Ok)
    }
}

/// Prints entries with their sources and changes, as JSON lines.
pub async fn export(
    context: &CommandContext,
    persona: Option<String>,
    contact: Option<String>,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let filter = MemoryFilter {
        after: None,
        persona: persona_of(context, &store, persona).await?,
        status: None,
        contact: contact_of(contact)?,
        limit: EXPORTED_MAX,
    };
    for entry in store.memory_entries(&filter).await? {
        let dossier = store.memory_dossier(&entry.id).await?;
        context.screen.line(serde_json::to_string(&dossier)?)?;
    }
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
