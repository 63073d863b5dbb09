//! Entries of a persona's memory: kinds, states, and the people for whom they are. Pure.
//!
//! Absent on purpose: instructions. What a persona should do stands in its owner's files, so there is no kind for them.

pub mod lines;

use super::id::ThreadId;
use super::mail::email::Trust;
use super::mail::label::Readers;
use super::run::word_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest text of an entry, in characters.
pub const MEMORY_TEXT_CHARS_MAX: usize = 400;
/// Most entries that one run writes.
pub const MEMORY_OF_RUN_MAX: u32 = 3;
/// Time without a use after which an entry expires, unless it is pinned.
pub const MEMORY_UNUSED_MAX: Duration = Duration::from_secs(180 * 24 * 3600);
/// Time in which an expired entry can be brought back.
pub const MEMORY_RESTORABLE: Duration = Duration::from_secs(90 * 24 * 3600);

word_enum!(
    /// Subject of an entry.
    MemoryKind {
        Fact = "fact",
        Preference = "preference",
        Commitment = "commitment",
        Event = "event",
        Procedure = "procedure",
    }
);

word_enum!(
    /// State of an entry. Only active ones are ever shown to a model.
    MemoryStatus {
        /// It waits for its owner.
        Proposed = "proposed",
        Active = "active",
        /// The owner does not want it.
        Rejected = "rejected",
        /// Another entry says it anew.
        Superseded = "superseded",
        /// Its time is over.
        Expired = "expired",
        /// It is not used any more; with `erased_at`, its text is gone.
        Forgotten = "forgotten",
    }
);

word_enum!(
    /// Change of entries that a duty proposes.
    MemoryProposal {
        /// One entry in the place of several.
        Merge = "merge",
        /// Another text of an entry.
        Correct = "correct",
        /// An entry is used no longer.
        Expire = "expire",
    }
);

/// Owner of an entry: a correspondent, a thread, or everybody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "scope", content = "key", rename_all = "snake_case")]
pub enum MemoryScope {
    /// A correspondent, by the key of a proved address.
    Contact(String),
    Thread(ThreadId),
    /// Everybody; only the owner makes such entries.
    Persona,
}

impl MemoryScope {
    /// Returns the columns `scope` and `scope_key`.
    pub fn columns(&self) -> (&'static str, &str) {
        match self {
            Self::Contact(address) => ("contact", address),
            Self::Thread(thread) => ("thread", thread.as_str()),
            Self::Persona => ("persona", ""),
        }
    }

    pub fn from_columns(scope: &str, key: &str) -> Option<Self> {
        match scope {
            "contact" => Some(Self::Contact(key.to_owned())),
            "thread" => Some(Self::Thread(ThreadId::new(key))),
            "persona" => Some(Self::Persona),
            _ => None,
        }
    }

    /// Returns the most entries that are open at a time: active ones, and those that wait for the owner.
    pub fn entries_max(&self) -> usize {
        match self {
            Self::Contact(_) | Self::Persona => 100,
            Self::Thread(_) => 50,
        }
    }

    /// Returns the id that a model reads, such as `c3`: it counts within the scope.
    pub fn shown_id(&self, number: u32) -> String {
        let letter = match self {
            Self::Contact(_) => 'c',
            Self::Thread(_) => 't',
            Self::Persona => 'p',
        };
        format!("{letter}{number}")
    }
}

/// People around a run: memory is read and written for them, and for nobody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryCircle {
    /// Key of the proved address that the run answers; `None`: the owner asks at the machine, or a schedule.
    pub sender: Option<String>,
    /// Trust of whoever triggered the run.
    pub trust: Trust,
    pub thread: ThreadId,
    /// Keys of everybody who reads what the run writes, besides the owners.
    pub people: BTreeSet<String>,
}

impl MemoryCircle {
    /// Reports whether entries may be shown in this circle at all: not to somebody whom nobody knows.
    pub fn is_known(&self) -> bool {
        self.trust >= Trust::Contact
    }

    /// Returns the correspondent whose entries the run reads and writes.
    pub fn contact(&self, aliases: &ContactAliases) -> Option<MemoryScope> {
        let sender = self.sender.as_deref()?;
        Some(MemoryScope::Contact(aliases.person(sender).to_owned()))
    }

    /// Returns the scopes of entries that may be shown.
    pub fn scopes(&self, aliases: &ContactAliases) -> Vec<MemoryScope> {
        let common = [
            MemoryScope::Thread(self.thread.clone()),
            MemoryScope::Persona,
        ];
        self.contact(aliases).into_iter().chain(common).collect()
    }

    /// Reports whether everybody here belongs to those before whom an entry was said; `None`: it is for everybody.
    pub fn is_within(&self, audience: Option<&BTreeSet<String>>) -> bool {
        audience.is_none_or(|audience| self.people.is_subset(audience))
    }
}

/// Addresses that belong to the person of another address, as the owner has said; by key, with the key of that other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContactAliases(BTreeMap<String, String>);

impl FromIterator<(String, String)> for ContactAliases {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(aliases: I) -> Self {
        Self(aliases.into_iter().collect())
    }
}

impl ContactAliases {
    /// Returns the address under which the entries of an address stand: its own where the owner has said nothing.
    pub fn person<'a>(&'a self, address: &'a str) -> &'a str {
        self.0.get(address).map_or(address, String::as_str)
    }

    /// Returns the addresses with all others of the same persons.
    pub fn with_others(&self, addresses: BTreeSet<String>) -> BTreeSet<String> {
        if self.0.is_empty() {
            return addresses;
        }
        let persons: BTreeSet<&str> = addresses.iter().map(|one| self.person(one)).collect();
        let is_of = |(_, person): &(&String, &String)| persons.contains(person.as_str());
        let others = self.0.iter().filter(is_of).map(|(alias, _)| alias.clone());
        let others: Vec<String> = others
            .chain(persons.iter().map(|person| (*person).to_owned()))
            .collect();
        addresses.into_iter().chain(others).collect()
    }

    /// Returns the readers with all other addresses of the same persons.
    pub fn readers_with_others(&self, readers: Readers) -> Readers {
        match readers {
            Readers::Everyone => Readers::Everyone,
            Readers::Only(readers) => Readers::Only(self.with_others(readers)),
        }
    }
}
