//! Who lives here: personas as meant, and those that cannot work.

use super::ModelChoice;
use crate::config::budgets::PersonaBudget;
use crate::config::problem::Problem;
use crate::domain::{Address, PersonaId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What becomes of the model's final text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyMode {
    /// It is mailed into the thread, unless the run already replied there.
    Final,
    /// Only `send_email` sends.
    ToolOnly,
}

/// A folder below `personas/`.
#[derive(Debug, Clone)]
pub struct Persona {
    pub id: PersonaId,
    /// Display name.
    pub name: String,
    pub address: Address,
    pub aliases: Vec<Address>,
    pub reply: ReplyMode,
    /// Overrides of `configs/inference.json`.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub fallback: Option<Vec<ModelChoice>>,
    /// Names of the tools it may use; `None` is all.
    pub tools: Option<Vec<String>>,
    /// Zone of its dates and of responsibilities that name none.
    pub timezone: chrono_tz::Tz,
    /// What it may cost, where it says something itself.
    pub budget: PersonaBudget,
    /// Absolute path of its folder.
    pub folder: PathBuf,
}

/// All personas, found by id or by address. No two share an address.
#[derive(Debug, Clone, Default)]
pub struct Personas {
    by_id: BTreeMap<PersonaId, Persona>,
    by_address: BTreeMap<String, PersonaId>,
    out_of_service: Vec<OutOfService>,
    /// What those that are out of service may be addressed by, as [`Address::key`] has it.
    held: BTreeSet<String>,
    /// The mail domain, while an address that nobody has may be one of theirs.
    held_domain: Option<String>,
}

/// A folder below `personas/` whose persona cannot work, because what is said of it is wrong.
#[derive(Debug, Clone)]
pub struct OutOfService {
    /// Name of the folder; an id, unless that is what is wrong.
    pub name: String,
    pub problems: Vec<Problem>,
    /// By which letters may mean it.
    pub addresses: Vec<Address>,
    /// Its file could be read so far that it has no other addresses.
    pub is_known: bool,
}

/// Two personas claim one address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{address}` belongs to persona `{first}` and to persona `{second}`: give one of them another address"
)]
pub struct SharedAddress {
    pub address: String,
    pub first: PersonaId,
    pub second: PersonaId,
}

impl Persona {
    /// Its own address, then its aliases.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.aliases)
    }
}

impl Personas {
    pub fn new(personas: Vec<Persona>) -> Result<Self, SharedAddress> {
        let mut all = Self::default();
        for persona in personas {
            for address in persona.addresses() {
                let key = address.key();
                match all.by_address.insert(key.clone(), persona.id.clone()) {
                    Some(first) if first != persona.id => {
                        return Err(SharedAddress { address: key, first, second: persona.id.clone() });
                    }
                    _ => {}
                }
            }
            all.by_id.insert(persona.id.clone(), persona);
        }
        Ok(all)
    }
    /// The same beside personas that cannot work; `mail_domain` is where an address without a domain lives.
    #[must_use]
    pub fn without(mut self, out_of_service: Vec<OutOfService>, mail_domain: &str) -> Self {
        self.held = out_of_service.iter().flat_map(|out| &out.addresses).map(Address::key).collect();
        let is_unknown = out_of_service.iter().any(|out| !out.is_known);
        self.held_domain = is_unknown.then(|| mail_domain.to_ascii_lowercase());
        self.out_of_service = out_of_service;
        self
    }
    /// Those that cannot work.
    pub fn out_of_service(&self) -> &[OutOfService] {
        &self.out_of_service
    }
    /// Whether letters to an address that reaches nobody may be meant for a persona that is out of service.
    pub fn may_be_out_of_service(&self, address: &Address) -> bool {
        let untagged = || format!("{}@{}", address.base_local(), address.domain());
        let is_named = self.held.contains(&address.key()) || self.held.contains(&untagged());
        is_named || self.held_domain.as_deref() == Some(address.domain())
    }
    pub fn get(&self, id: &PersonaId) -> Option<&Persona> {
        self.by_id.get(id)
    }
    pub fn iter(&self) -> impl Iterator<Item = &Persona> {
        self.by_id.values()
    }
    /// The persona that an address reaches: its own, an alias, or either with a `+tag`.
    pub fn by_address(&self, address: &Address) -> Option<&Persona> {
        let exact = self.by_address.get(&address.key());
        let untagged = || self.by_address.get(&format!("{}@{}", address.base_local(), address.domain()));
        exact.or_else(untagged).and_then(|id| self.by_id.get(id))
    }
    /// Whether some persona lives in that domain (lower case).
    pub fn has_domain(&self, domain: &str) -> bool {
        self.by_address.keys().any(|key| key.rsplit_once('@').is_some_and(|(_, d)| d == domain))
    }
}
