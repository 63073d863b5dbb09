//! Calendar part of a letter: read before the letter is stored, so that one commit stores both.

use super::draft::Draft;
use crate::calendar::{CalendarSender, is_calendar_part, read_calendar};
use crate::config::Persona;
use crate::domain::Trust;
use crate::store::NewCalendarPart;

impl Draft<'_> {
    /// Returns the first calendar part that can be read. One that cannot stays an attachment.
    pub(super) fn calendar_part(&self, persona: &Persona) -> Option<NewCalendarPart> {
        let email = &self.understood.email;
        let mut parts = email.attachments.iter().filter(|part| {
            // Most letters have none, and their attachments are not looked into.
            is_calendar_part(&part.content_type, &part.declared_name)
        });
        let object = parts.find_map(|part| read_calendar(&part.bytes).ok())?;
        Some(NewCalendarPart {
            object,
            sender: CalendarSender {
                address: email.sender()?.key(),
                is_proven: self.identity.trust > Trust::Unauthenticated,
            },
            persona_address: persona.address.clone(),
        })
    }
}
