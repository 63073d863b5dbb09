//! Stores letters of an archive: parsed and placed like other letters, but without verification of
//! the sender, rules of admission, or a run.

use super::draft::{Dedup, Draft};
use super::returns::ReturnedLetter;
use super::{Intake, Understood};
use crate::config::Persona;
use crate::domain::{Address, Email, Identity, Letter, Mailbox, Trust};
use crate::gateway::intake_contract::Refusal;
use crate::gateway::judge::Records;
use crate::store::{ArchivedWay, NewInbound, StoredInbound};
use std::sync::Arc;

/// Rule under which archived letters are filed.
const RULE: &str = "import";

/// Outcome of a letter of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    Stored(ArchivedWay),
    /// It was stored before.
    Duplicate,
}

impl Intake {
    /// Stores a letter as history of `persona`; letters from the persona's addresses, or from
    /// `owners`, count as its own.
    ///
    /// Errors: [`Refusal::NotStored`] when a retry may succeed, others when these bytes can never
    /// be stored.
    pub async fn file_history(
        &self,
        letter: Letter,
        persona: &Persona,
        owners: &[Address],
    ) -> Result<Archived, Refusal> {
        let max_bytes = self.config.limits.letter_bytes_max;
        if letter.bytes.len() > max_bytes {
            return Err(Refusal::TooLarge { max_bytes });
        }
        let Letter { envelope, bytes } = letter;
        let bytes: Arc<[u8]> = bytes.into();
        let email = self
            .parse(bytes.clone())
            .await?
            .ok_or(Refusal::Hostile("not a letter"))?;
        let is_self = |address: &Address| {
            let is_persona = self
                .config
                .personas
                .by_address(address)
                .is_some_and(|other| other.id == persona.id);
            is_persona || owners.iter().any(|owner| owner.key() == address.key())
        };
        let way = match email.sender().is_some_and(|sender| is_self(&sender)) {
            true => ArchivedWay::FromPersona,
            false => ArchivedWay::ToPersona,
        };
        let mut identity = Identity::unverified("it was imported");
        if way == ArchivedWay::FromPersona {
            identity.trust = Trust::System;
        }
        let dedup = Dedup::from_archived(&email, &bytes, envelope.mail_from.as_ref());
        let understood = Understood {
            email,
            held_by: Some(RULE.to_owned()),
        };
        let draft = Draft {
            intake: self,
            envelope: &envelope,
            id: None,
            bytes,
            understood,
            returned: ReturnedLetter::default(),
            identity,
            decisions: Vec::new(),
            records: Records::default(),
            dedup,
        };
        let mut copy = draft.copy(persona);
        place(&mut copy, &draft.understood.email, is_self);
        Ok(match self.store.import_letter(copy, way).await? {
            StoredInbound::New { .. } => Archived::Stored(way),
            StoredInbound::Duplicate { .. } => Archived::Duplicate,
        })
    }
}

/// Places a letter. An archive is its owner's, so that its sender names are trusted for joining a
/// letter to its correspondence; but it adds no participant to an existing thread (decision D-49).
fn place(copy: &mut NewInbound, email: &Email, is_self: impl Fn(&Address) -> bool) {
    let sender = email.sender().into_iter();
    let people = sender.chain(
        email
            .to
            .iter()
            .chain(&email.cc)
            .filter_map(Mailbox::address),
    );
    let mut participants: Vec<String> = Vec::new();
    for address in people.filter(|address| !is_self(address)) {
        if !participants.contains(&address.key())
            && participants.len() < super::place::PARTICIPANTS_MAX
        {
            participants.push(address.key());
        }
    }
    let list = email.list_id.as_ref().map(|id| format!("list:{id}"));
    copy.place.joins_as = list.clone().or_else(|| participants.first().cloned());
    copy.place.participants = participants.into_iter().chain(list).collect();
    copy.readers = None;
    (
        copy.place.authenticated,
        copy.place.replaces,
        copy.place.joins_only,
    ) = (false, None, None);
}
