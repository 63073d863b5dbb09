//! Events that a run may see: those at which everybody is present who reads the answer.

use crate::calendar::CalendarEvent;
use crate::domain::Address;
use crate::store::ReadersRule;
use crate::tools::contract::*;
use crate::tools::mail::visibility::whoever_may_see;

/// People who read what the run writes, besides owners; `None`: owners alone.
pub struct EventAudience(Option<Vec<Address>>);

impl EventAudience {
    /// Errors: the letter has no single sender, so nobody knows who reads the answer.
    pub fn of(mail: &MailPolicy) -> Result<Self, ToolError> {
        whoever_may_see(mail).map(Self)
    }

    /// Reports whether all of them organise or attend the event.
    pub fn takes_part_in(&self, event: &CalendarEvent) -> bool {
        let everybody = self.0.iter().flatten();
        everybody.map(Address::key).all(|key| {
            let mut people = event.attendees.iter().chain(&event.organizer);
            people.any(|person| person.is(&key))
        })
    }

    /// Returns the rule for messages of the run's thread.
    pub fn rule<'a>(&'a self, events: EventReader<'a>) -> ReadersRule<'a> {
        ReadersRule {
            trigger: events.trigger(),
            visible_to: self.0.as_deref(),
        }
    }
}
