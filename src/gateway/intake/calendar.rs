//! Calendar part of a letter: read before the letter is stored, so that one commit stores both.

use super::draft::Draft;
use crate::calendar::{CalendarMethod, CalendarSender, is_calendar_part, read_calendar};
use crate::config::Persona;
use crate::domain::Trust;
use crate::store::NewCalendarPart;

impl Draft<'_> {
    /// Reports whether the letter answers an invitation and says nothing more. Where a person adds words, programs put them into
    /// `COMMENT`, and Google into a parameter of the attendee.
    pub(super) fn is_calendar_answer(&self) -> bool {
        let parts = self.understood.email.attachments.iter();
        let mut parts =
            parts.filter(|part| is_calendar_part(&part.content_type, &part.declared_name));
        parts.any(|part| {
            let text = String::from_utf8_lossy(&part.bytes);
            let unfolded = text.replace("\r\n ", "").replace("\n ", "");
            let has_words = unfolded
                .split("X-RESPONSE-COMMENT=\"")
                .skip(1)
                .any(|words| !words.starts_with('"'));
            read_calendar(&part.bytes).is_ok_and(|object| {
                object.method == CalendarMethod::Reply
                    && !has_words
                    && object
                        .events
                        .iter()
                        .all(|event| event.comment.trim().is_empty())
            })
        })
    }

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
