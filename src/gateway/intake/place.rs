//! The participants that a letter adds, the threads that it joins, and its force as an owner's
//! order: all of it only as far as its sender is known to have written it (decision D-49).
//!
//! Any server that has another sender's signed letter can replay it with its own `Cc` and
//! `In-Reply-To` above it. The signature still proves the name; only the fields that it covers are
//! that sender's.

use super::draft::Draft;
use crate::config::Persona;
use crate::domain::mail::robots::is_robot;
use crate::domain::{Address, ConversationId, Mailbox, ThreadId, Trust, is_listed};
use crate::store::{Company, Place};

/// Maximum people of one letter that become participants; a longer list is a mailing list without
/// the header.
pub(super) const PARTICIPANTS_MAX: usize = 200;

impl Draft<'_> {
    /// Reports whether the sender is known to have addressed this persona.
    pub(super) fn is_addressed_to(&self, persona: &Persona) -> bool {
        self.own_recipients()
            .any(|address| self.is_self(persona, &address))
    }

    /// Reports whether a program wrote the letter for somebody else: its sender is proven, and listed in `reply_to_of`.
    pub(super) fn is_form(&self) -> bool {
        let is_proven = [Trust::Unknown, Trust::Contact].contains(&self.identity.trust);
        let listed = &self.intake.config.security.reply_to_of;
        let sender = self.understood.email.sender();
        is_proven && sender.is_some_and(|sender| is_listed(listed, &sender))
    }

    /// The person for whom a form wrote the letter: its only `Reply-To`, if the form has signed that and it is neither ours nor
    /// a machine nor denied.
    pub(super) fn filled_in_by(&self) -> Option<Address> {
        let [only] = self.understood.email.reply_to.as_slice() else {
            return None;
        };
        let config = &self.intake.config;
        let is_usable = self.is_form() && self.identity.coverage.reply_to;
        only.address().filter(|person| {
            is_usable
                && config.personas.by_address(person).is_none()
                && !config.personas.may_be_out_of_service(person)
                && !config.security.access.denies(person)
                && !is_robot(person.local())
        })
    }

    /// The correspondent: the sender, or the person for whom a form wrote.
    pub(super) fn correspondent(&self) -> Option<Address> {
        let sender = || self.understood.email.sender();
        self.filled_in_by().or_else(sender)
    }

    /// Trust of the letter for this persona: anybody can fill in a form. An owner's letter to another recipient is no order,
    /// whichever server hands it over, and neither are words that may be another's reading of it.
    pub(super) fn trust_of(&self, persona: &Persona) -> Trust {
        if self.is_form() {
            return Trust::Unauthenticated;
        }
        let is_addressed = self.identity.is_direct || self.is_addressed_to(persona);
        if is_addressed && self.identity.coverage.content {
            self.identity.trust
        } else {
            self.identity.trust.min(Trust::Contact)
        }
    }

    /// The only `Reply-To`, if an answer may go there: it is covered by the sender's signature, or
    /// is the sender's own mailbox under another tag.
    pub(super) fn reply_to(&self) -> Option<Address> {
        let email = &self.understood.email;
        let [only] = email.reply_to.as_slice() else {
            return None;
        };
        let reply_to = only.address()?;
        let is_own = email
            .sender()
            .is_some_and(|sender| sender.counted_key() == reply_to.counted_key());
        (is_own || self.identity.coverage.reply_to).then_some(reply_to)
    }

    pub(super) fn place(&self, persona: &Persona) -> Place {
        let (clock, email) = (self.intake.clock.as_ref(), &self.understood.email);
        let list = email.list_id.as_ref().map(|id| format!("list:{id}"));
        let (sender, is_form) = (self.correspondent(), self.is_form());
        let is_authenticated = self.identity.trust > Trust::Unauthenticated && !is_form;
        let is_allowed = |sender: &Address| self.intake.config.security.access.allows(sender);
        let is_believed = sender
            .as_ref()
            .is_some_and(|s| !is_form && self.identity.is_believable(is_allowed(s)));
        // An unauthenticated sender with the address X is not the participant X (decision D-22).
        let unproven = sender
            .as_ref()
            .map(|sender| format!("unverified:{}", sender.key()));
        let from_self = sender
            .as_ref()
            .is_some_and(|address| self.is_self(persona, address));
        let sender = if is_believed {
            sender.as_ref().map(Address::key)
        } else {
            unproven.clone()
        };
        // An answer to a letter that was not addressed to this persona goes to no other recipients.
        let is_addressed = self.is_addressed_to(persona);
        let others = self
            .own_recipients()
            .filter(|address| is_addressed && !self.is_self(persona, address));
        let people = sender
            .clone()
            .into_iter()
            .filter(|_| !from_self)
            .chain(others.map(|a| a.key()));
        // Any sender can write a list's name into a letter: it joins the letter to the list's other
        // letters, and adds no participants.
        let is_private = list.is_none();
        let people: Vec<String> = people
            .filter(|_| is_private)
            .take(PARTICIPANTS_MAX)
            .collect();
        let joins_freely = !is_private || (is_addressed && self.identity.coverage.threading);
        Place {
            mentioned: email
                .mentioned_ids()
                .into_iter()
                .map(str::to_owned)
                .collect(),
            joins_as: list.clone().or(sender),
            joins_only: (!joins_freely).then(|| self.company(&people, unproven.as_deref())),
            authenticated: is_authenticated,
            participants: people.into_iter().chain(list).collect(),
            replaces: unproven.filter(|_| is_authenticated),
            new_conversation: ConversationId::new(clock.new_id()),
            new_thread: ThreadId::new(clock.new_id()),
        }
    }

    /// The people of the letter as participants of a thread: owners, who may read everything, are
    /// left out, and so is the sender's entry from before the name was authenticated.
    fn company(&self, people: &[String], unproven: Option<&str>) -> Company {
        let owners: Vec<String> = self
            .intake
            .config
            .gateway
            .owners
            .iter()
            .map(Address::key)
            .collect();
        let all_of = people
            .iter()
            .filter(|person| !owners.contains(person))
            .cloned()
            .collect();
        let unproven = unproven.into_iter().map(str::to_owned);
        Company {
            all_of,
            none_but: people
                .iter()
                .cloned()
                .chain(owners.iter().cloned())
                .chain(unproven)
                .collect(),
        }
    }

    /// All addresses in `To` and `Cc` that the sender is known to have written.
    fn own_recipients(&self) -> impl Iterator<Item = Address> {
        let (email, coverage) = (&self.understood.email, self.identity.coverage);
        let to = email.to.iter().filter(move |_| coverage.to);
        to.chain(email.cc.iter().filter(move |_| coverage.cc))
            .filter_map(Mailbox::address)
    }

    /// Reports whether an address is the addressed persona's, which is on every letter; another
    /// persona counts like any other person.
    fn is_self(&self, persona: &Persona, address: &Address) -> bool {
        self.intake
            .config
            .personas
            .by_address(address)
            .is_some_and(|other| other.id == persona.id)
    }
}
