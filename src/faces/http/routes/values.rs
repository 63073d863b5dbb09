//! Values that words of the queries of pages may have.

use crate::domain::{Address, MemoryStatus, PersonaId};
use crate::http::pages::inbox;
use crate::http::route::QueryValue;

/// Persona by which a list is narrowed.
pub(super) const PERSONA: QueryValue = ("persona", "name of a persona", is_persona);

pub(super) fn is_persona(typed: &str) -> bool {
    PersonaId::parse(typed).is_ok()
}

pub(super) fn is_number(typed: &str) -> bool {
    typed.parse::<u32>().is_ok()
}

pub(super) fn is_cursor(typed: &str) -> bool {
    inbox::cursor(typed).is_some()
}

pub(super) fn is_entry_state(typed: &str) -> bool {
    typed == "all" || MemoryStatus::parse(typed).is_some()
}

pub(super) fn is_address(typed: &str) -> bool {
    Address::parse(typed).is_ok()
}
