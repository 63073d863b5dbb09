//! The names that configuration files may use. Higher units define them.

use crate::config::inference::agents::AgentBounds;
use std::ops::RangeInclusive;

/// The names that files may use. Higher modules define them, so they are an argument.
#[derive(Debug, Clone, Default)]
pub struct NameCatalog {
    pub providers: Vec<&'static str>,
    /// Resolvers with their permitted numbers of arguments.
    pub resolvers: Vec<(&'static str, RangeInclusive<usize>)>,
    pub tools: Vec<String>,
    /// Agents with the tiers that their programs hold.
    pub agents: Vec<(&'static str, AgentBounds)>,
    /// Providers with the variable of their key. A provider without a key is not listed.
    pub key_variables: Vec<(&'static str, &'static str)>,
    /// Adapters whose servers make vectors of texts.
    pub embedding_providers: Vec<&'static str>,
    /// Providers with the keys that they read from their block in `configs/inference.json`.
    pub settings: Vec<(&'static str, Vec<&'static str>)>,
}
