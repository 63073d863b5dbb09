//! Recognises a command of an owner: the first line of a letter that is proven to be an owner's order to this persona.
//!
//! The proof is that of any order (decision D-22): a signature of the owner's own domain over the whole body, `From` and
//! `Subject`, or a login as the owner; and the persona stands in a `To` or `Cc` that the owner is known to have written.
//! A letter whose words may be another's reading of the signed bytes is answered with a refusal.
//! What changes something needs more (decision D-79), because whoever has the bytes of an old letter can send them again:
//! it was signed a short time ago, and it bears a signed Message-ID, under which it counts once.
//!
//! Absent on purpose: what commands do (`store::commands`), and the answer (`gateway::commands`).

use super::draft::Draft;
use crate::config::Persona;
use crate::domain::{Address, CommandLine, CommandRefusal, Timestamp, Trust};
use crate::store::{CLOCK_SKEW_MAX, NewMailCommand};

impl Draft<'_> {
    /// Returns the command that the letter brings this persona; a letter that another rule files brings none.
    pub(super) fn command(&self, persona: &Persona) -> Option<NewMailCommand> {
        let email = &self.understood.email;
        if self.identity.trust != Trust::Owner || !self.is_addressed_to(persona) {
            return None;
        }
        let line = CommandLine::read(&email.fresh_text)?;
        let owner = email.sender()?;
        let sent_at = self.identity.sent_at?;
        let refusal = match line.has_more_in_line {
            _ if !self.identity.coverage.content => Some(CommandRefusal::UnsignedContent),
            true => Some(CommandRefusal::MoreInLine),
            false if line.command.changes_state() => self.replay_risk(&owner, sent_at),
            false => None,
        };
        Some(NewMailCommand {
            owner: owner.key(),
            command: line.command,
            argument: line.argument,
            refusal,
            sent_at,
        })
    }

    /// Reason for which the letter may be a copy that somebody else sent again. A login proves more than any letter.
    fn replay_risk(&self, owner: &Address, sent_at: Timestamp) -> Option<CommandRefusal> {
        let submitter = self.envelope.arrival.submitted_by.as_ref();
        if submitter.is_some_and(|submitter| submitter.key() == owner.key()) {
            return None;
        }
        let received_at = self.received_at();
        let age_max = self.intake.config.gateway.commands.age_max;
        if !self.identity.coverage.threading || self.understood.email.message_id.is_none() {
            Some(CommandRefusal::Repeatable)
        } else if received_at.since(sent_at) > age_max {
            Some(CommandRefusal::TooOld)
        } else if sent_at.since(received_at) > CLOCK_SKEW_MAX {
            Some(CommandRefusal::FromFuture)
        } else {
            None
        }
    }
}
