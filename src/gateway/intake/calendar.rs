//! Calendar part of a letter: read before the letter is stored, so that one commit stores both.

use super::draft::Draft;
use crate::calendar::{
    CalendarMethod, CalendarObject, CalendarSender, is_calendar_part, read_calendar,
};
use crate::config::Persona;
use crate::domain::Trust;
use crate::store::NewCalendarPart;

impl Draft<'_> {
    /// Reports whether the letter answers an invitation and says nothing more.
    pub(super) fn is_calendar_answer(&self) -> bool {
        self.calendar().is_some_and(|object| {
            object.method == CalendarMethod::Reply
                && object.events.iter().all(|event| event.comment.is_empty())
        })
    }

    /// Returns the first calendar part that can be read, for the store.
    pub(super) fn calendar_part(&self, persona: &Persona) -> Option<NewCalendarPart> {
        Some(NewCalendarPart {
            object: self.calendar()?,
            sender: CalendarSender {
                address: self.understood.email.sender()?.key(),
                is_proven: self.identity.trust > Trust::Unauthenticated,
            },
            persona_address: persona.address.clone(),
        })
    }

    /// Reads the first calendar part that can be read. One that cannot stays an attachment.
    fn calendar(&self) -> Option<CalendarObject> {
        // Most letters have none, and their attachments are not looked into.
        let mut parts = self.understood.email.attachments.iter();
        parts.find_map(|part| {
            is_calendar_part(&part.content_type, &part.declared_name)
                .then(|| read_calendar(&part.bytes).ok())?
        })
    }
}
