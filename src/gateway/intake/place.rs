//! Whom a letter brings along, which threads it joins, and whether it is an owner's order: all of it only as far as its
//! sender is known to have said so (decision D-49).
//!
//! Whoever has somebody's signed letter can hand it over once more, with a `Cc` and an `In-Reply-To` of their own above it.
//! The signature still proves the name; only what it covers is that person's word.

use super::draft::Draft;
use crate::config::Persona;
use crate::domain::{Address, ConversationId, Mailbox, ThreadId, Trust};
use crate::store::{Company, Place};

/// People of one letter that become participants; a longer list is a mailing list without the header.
pub(super) const PARTICIPANTS_MAX: usize = 200;

impl Draft<'_> {
    /// Whether the sender is known to have addressed this persona.
    pub(super) fn is_addressed_to(&self, persona: &Persona) -> bool {
        self.own_recipients().any(|address| self.is_self(persona, &address))
    }

    /// How much the letter counts for this persona: what an owner wrote to somebody else is no order, whoever brings it.
    pub(super) fn trust_of(&self, persona: &Persona) -> Trust {
        let is_order = self.identity.is_direct || self.is_addressed_to(persona);
        if is_order { self.identity.trust } else { self.identity.trust.min(Trust::Contact) }
    }

    /// The only `Reply-To`, as far as an answer may go there: the proven sender's word, or the sender's own mailbox
    /// under another tag.
    pub(super) fn reply_to(&self) -> Option<Address> {
        let email = &self.understood.email;
        let [only] = email.reply_to.as_slice() else { return None };
        let reply_to = only.address()?;
        let is_own = email.sender().is_some_and(|sender| sender.counted_key() == reply_to.counted_key());
        (is_own || self.identity.coverage.reply_to).then_some(reply_to)
    }

    pub(super) fn place(&self, persona: &Persona) -> Place {
        let (clock, email) = (self.intake.clock.as_ref(), &self.understood.email);
        let list = email.list_id.as_ref().map(|id| format!("list:{id}"));
        let sender = email.sender();
        let is_vouched = self.identity.trust > Trust::Unauthenticated;
        let is_allowed = |sender: &Address| self.intake.config.security.access.allows(sender);
        let is_believed = sender.as_ref().is_some_and(|s| self.identity.is_believable(is_allowed(s)));
        // Somebody who only says to be X is not the participant X (decision D-22).
        let unproven = sender.as_ref().map(|sender| format!("unverified:{}", sender.key()));
        let from_self = sender.as_ref().is_some_and(|address| self.is_self(persona, address));
        let sender = if is_believed { sender.as_ref().map(Address::key) } else { unproven.clone() };
        // A letter that was not written to this persona was not written to be answered before others.
        let is_addressed = self.is_addressed_to(persona);
        let others = self.own_recipients().filter(|address| is_addressed && !self.is_self(persona, address));
        let people = sender.clone().into_iter().filter(|_| !from_self).chain(others.map(|a| a.key()));
        // Anybody can write a list's name into a letter: it brings the letter to the list's others, and nobody with it.
        let is_private = list.is_none();
        let people: Vec<String> = people.filter(|_| is_private).take(PARTICIPANTS_MAX).collect();
        let joins_freely = !is_private || (is_addressed && self.identity.coverage.threading);
        Place {
            mentioned: email.mentioned_ids().into_iter().map(str::to_owned).collect(),
            joins_as: list.clone().or(sender),
            joins_only: (!joins_freely).then(|| self.company(&people, unproven.as_deref())),
            vouched: is_vouched,
            participants: people.into_iter().chain(list).collect(),
            replaces: unproven.filter(|_| is_vouched),
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }

    /// The people of the letter as those of a thread: owners, who may read everything, make no difference, nor does the
    /// sender from the time when that name was not proven.
    fn company(&self, people: &[String], unproven: Option<&str>) -> Company {
        let owners: Vec<String> = self.intake.config.gateway.owners.iter().map(Address::key).collect();
        let all_of = people.iter().filter(|person| !owners.contains(person)).cloned().collect();
        let unproven = unproven.into_iter().map(str::to_owned);
        Company {
            all_of,
            none_but: people.iter().cloned().chain(owners.iter().cloned()).chain(unproven).collect(),
        }
    }

    /// Everybody whom the sender is known to have written into `To` and `Cc`.
    fn own_recipients(&self) -> impl Iterator<Item = Address> {
        let (email, coverage) = (&self.understood.email, self.identity.coverage);
        let to = email.to.iter().filter(move |_| coverage.to);
        to.chain(email.cc.iter().filter(move |_| coverage.cc)).filter_map(Mailbox::address)
    }

    /// The addressed persona is on every letter; another one is somebody like anybody else.
    fn is_self(&self, persona: &Persona, address: &Address) -> bool {
        self.intake.config.personas.by_address(address).is_some_and(|other| other.id == persona.id)
    }
}
