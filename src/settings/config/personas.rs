//! Resolved personas, and those out of service.

use crate::config::file::Problem;
use crate::config::persona::Persona;
use crate::domain::{Address, PersonaId};
use std::collections::{BTreeMap, BTreeSet};

/// All personas, indexed by id and by address. No two share an address.
#[derive(Debug, Clone, Default)]
pub struct Personas {
    by_id: BTreeMap<PersonaId, Persona>,
    by_address: BTreeMap<String, PersonaId>,
    out_of_service: Vec<OutOfService>,
    /// Addresses of personas that are out of service, as [`Address::key`] formats them.
    held: BTreeSet<String>,
    /// The mail domain, while any unknown address in it may belong to a persona out of service.
    held_domain: Option<String>,
}

/// A folder below `personas/` whose persona is out of service, because its file is faulty.
#[derive(Debug, Clone)]
pub struct OutOfService {
    /// Name of the folder; an id, unless the name itself is faulty.
    pub name: String,
    pub problems: Vec<Problem>,
    /// Addresses by which letters may mean it.
    pub addresses: Vec<Address>,
    /// `true`: its file could be read, so that it has no other addresses.
    pub is_known: bool,
}

/// Error of two personas with one address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{address}` belongs to persona `{first}` and to persona `{second}`: give one of them another address"
)]
pub struct SharedAddress {
    pub address: String,
    pub first: PersonaId,
    pub second: PersonaId,
}

impl Personas {
    pub fn new(personas: Vec<Persona>) -> Result<Self, SharedAddress> {
        let mut all = Self::default();
        for persona in personas {
            for address in persona.addresses() {
                let key = address.key();
                match all.by_address.insert(key.clone(), persona.id.clone()) {
                    Some(first) if first != persona.id => {
                        return Err(SharedAddress {
                            address: key,
                            first,
                            second: persona.id.clone(),
                        });
                    }
                    _ => {}
                }
            }
            all.by_id.insert(persona.id.clone(), persona);
        }
        Ok(all)
    }
    /// Adds personas that are out of service; `mail_domain` completes addresses without a domain.
    #[must_use]
    pub fn without(mut self, out_of_service: Vec<OutOfService>, mail_domain: &str) -> Self {
        self.held = out_of_service
            .iter()
            .flat_map(|out| &out.addresses)
            .map(Address::key)
            .collect();
        let is_unknown = out_of_service.iter().any(|out| !out.is_known);
        self.held_domain = is_unknown.then(|| mail_domain.to_ascii_lowercase());
        self.out_of_service = out_of_service;
        self
    }
    /// Personas that are out of service.
    pub fn out_of_service(&self) -> &[OutOfService] {
        &self.out_of_service
    }
    /// Reports whether an address without a persona may belong to a persona that is out of service.
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
    /// The persona that has an address: its primary one, an alias, or either with a `+tag`.
    pub fn by_address(&self, address: &Address) -> Option<&Persona> {
        let exact = self.by_address.get(&address.key());
        let untagged = || {
            self.by_address
                .get(&format!("{}@{}", address.base_local(), address.domain()))
        };
        exact.or_else(untagged).and_then(|id| self.by_id.get(id))
    }
    /// Reports whether a persona has an address in that domain (lower case).
    pub fn has_domain(&self, domain: &str) -> bool {
        self.by_address
            .keys()
            .any(|key| key.rsplit_once('@').is_some_and(|(_, d)| d == domain))
    }
}
