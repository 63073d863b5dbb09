//! `attache memory show`: an entry with the letter that it rests on and what became of it.

use super::list::about;
use crate::cli::{CommandContext, Exit};
use crate::domain::{Readers, RunId};
use crate::store::{MemoryDossier, MemoryEntry};
use crate::text::visible;

pub async fn run(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let dossier = super::found(&store, id).await?;
    if context.json() {
        context.screen.json(&dossier)?;
        return Ok(Exit::Ok);
    }
    let MemoryDossier {
        entry,
        sources,
        replaces,
        events,
    } = &dossier;
    context.screen.fields(&fields(entry))?;
    context.screen.line("")?;
    context.screen.line(visible(&entry.text))?;
    if let Some(proposal) = entry.proposes {
        context.screen.line("")?;
        context
            .screen
            .line(format!("proposes to {proposal}: {}", replaces.join(" ")))?;
    }
    for source in sources {
        context.screen.line("")?;
        context.screen.line(format!(
            "rests on message {}, characters {} to {}:",
            source.message, source.start, source.end
        ))?;
        for line in source.quote.lines() {
            context.screen.line(format!("> {}", visible(line)))?;
        }
    }
    context.screen.line("")?;
    for event in events {
        let why = match event.why.is_empty() {
            true => String::new(),
            false => format!(": {}", visible(&event.why)),
        };
        context.screen.line(format!(
            "{} {} by {} {}{why}",
            event.at, event.act, event.actor, event.who
        ))?;
    }
    Ok(Exit::Ok)
}

fn fields(entry: &MemoryEntry) -> Vec<(&'static str, String)> {
    let dash = || "-".to_owned();
    let readers = match &entry.readers {
        Readers::Everyone => "everybody".to_owned(),
        Readers::Only(people) if people.is_empty() => "owners".to_owned(),
        Readers::Only(people) => people.iter().cloned().collect::<Vec<_>>().join(" "),
    };
    let audience = entry.audience.as_ref().map_or_else(
        || "everybody".to_owned(),
        |people| people.iter().cloned().collect::<Vec<_>>().join(" "),
    );
    vec![
        ("entry", entry.id.clone()),
        ("persona", entry.persona.to_string()),
        ("about", about(entry)),
        ("number", entry.shown_id()),
        ("kind", entry.kind.to_string()),
        ("status", entry.status.to_string()),
        ("trust", entry.trust.as_str().to_owned()),
        ("readers", readers),
        ("heard by", audience),
        ("said by", visible(&entry.said_by)),
        ("said", entry.said_at.to_string()),
        (
            "valid to",
            entry.valid_to.map_or_else(dash, |at| at.to_string()),
        ),
        ("written", entry.created_at.to_string()),
        ("by", entry.created_by.clone()),
        (
            "run",
            entry
                .created_run
                .as_ref()
                .map_or_else(dash, RunId::to_string),
        ),
        ("confirmed", entry.confirmed_at.to_string()),
        ("times", entry.confirmations.to_string()),
        ("used", entry.uses.to_string()),
        (
            "last used",
            entry.last_used_at.map_or_else(dash, |at| at.to_string()),
        ),
        ("pinned", if entry.pinned { "yes" } else { "no" }.to_owned()),
        ("instead of", entry.supersedes.clone().unwrap_or_else(dash)),
        (
            "replaced by",
            entry.superseded_by.clone().unwrap_or_else(dash),
        ),
        (
            "erased",
            entry.erased_at.map_or_else(dash, |at| at.to_string()),
        ),
    ]
}
