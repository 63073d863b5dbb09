//! Watches of folders and mailboxes, as the configuration has them.

use super::parts::EngineParts;
use crate::config::{Config, ImapMailbox, WatchedFolder};
use crate::domain::{Address, PersonaId};
use crate::gateway::ingress::folder::FolderWatch;
use crate::gateway::ingress::imap::MailboxWatch;
use crate::gateway::ingress::in_flight::InFlightMarker;

pub(super) fn folder_watch(
    parts: &EngineParts,
    config: &Config,
    watched: WatchedFolder,
) -> FolderWatch {
    let fallback = address_of(config, watched.fallback.as_ref());
    let source = watched.path.display().to_string();
    let in_flight = InFlightMarker::open(parts.store.clone(), &config.workspace, &source);
    let letter_bytes_max = config.limits.letter_bytes_max;
    FolderWatch::new(watched, fallback, parts.intake.clone(), letter_bytes_max)
        .with_in_flight(in_flight)
}

pub(super) fn mailbox_watch(
    parts: &EngineParts,
    config: &Config,
    mailbox: ImapMailbox,
) -> MailboxWatch {
    let fallback = address_of(config, mailbox.fallback.as_ref());
    let (intake, store) = (parts.intake.clone(), parts.store.clone());
    MailboxWatch::new(mailbox, fallback, intake, store, &config.limits)
        .in_workspace(&config.workspace)
}

/// Returns an address of a persona; for a persona that is out of service, an address at which
/// its letters wait.
fn address_of(config: &Config, persona: Option<&PersonaId>) -> Option<Address> {
    let (id, personas) = (persona?, &config.personas);
    if let Some(persona) = personas.get(id) {
        return Some(persona.address.clone());
    }
    let out = personas
        .out_of_service()
        .iter()
        .find(|out| out.name == id.as_str())?;
    let usual = || Address::parse(&format!("{id}@{}", config.gateway.mail_domain)).ok();
    out.addresses.first().cloned().or_else(usual)
}
