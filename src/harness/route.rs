//! Where a call goes: a provider and one of its models.

use super::desk::{Desk, RunError};
use super::providers::{LoopOwner, Provider};
use crate::config::Persona;
use crate::domain::ErrorClass;

/// A provider and one of its models.
#[derive(Clone)]
pub struct Route<'a> {
    /// As the configuration calls it.
    pub name: String,
    pub provider: &'a dyn Provider,
    pub model: String,
}

impl<'a> Route<'a> {
    /// The persona's own, or that of `configs/inference.json`. Errors: class `Config`.
    pub fn of(desk: &'a Desk, persona: &Persona) -> Result<Self, RunError> {
        let inference = &desk.config.inference;
        let name = persona.provider.as_ref().unwrap_or(&inference.provider);
        let no_provider = || RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("provider `{name}` is not configured"),
        };
        let provider = desk.providers.get(name).ok_or_else(no_provider)?;
        let model = persona.model.as_ref().unwrap_or(&inference.model).clone();
        Ok(Self { name: name.clone(), provider: provider.as_ref(), model })
    }

    pub fn loop_owner(&self) -> LoopOwner {
        self.provider.capabilities(&self.model).loop_owner
    }
}
