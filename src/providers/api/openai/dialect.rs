//! Variants of chat completions: the differences between the vendors that serve them.

use crate::config::ChatSwitches;
use crate::providers::Adapter;
use crate::providers::contract::content::ContentKinds;
use crate::providers::transport::classify::Family;
use serde_json::{Map, Value};

/// One vendor's variant of chat completions.
pub struct Dialect {
    pub adapter: &'static Adapter,
    /// Vendor family, which decides on error classes and on the vendor's particulars in an answer.
    pub family: Family,
    /// Default base URL; `None`: the configuration must name it.
    pub base_url: Option<&'static str>,
    /// Name under which calls appear in the vendor's statistics (`X-Title`).
    pub title: Option<&'static str>,
    /// Path, relative to the base URL, of a document that needs a valid key, where the list of
    /// models needs none.
    pub key_path: Option<&'static str>,
    /// `true`: the vendor names the output limit `max_tokens`.
    pub legacy_max_tokens: bool,
    /// Kinds of content that every vision model of the vendor takes.
    pub content: ContentKinds,
    /// Returns the member of the thinking effort.
    pub effort: fn(&Value) -> (&'static str, Value),
    /// Returns further members of the body.
    pub routing: fn(&ChatSwitches) -> Map<String, Value>,
}

/// Returns OpenAI's member of the thinking effort.
pub fn effort(effort: &Value) -> (&'static str, Value) {
    ("reasoning_effort", effort.clone())
}

/// Returns no further members.
pub fn no_members(_switches: &ChatSwitches) -> Map<String, Value> {
    Map::new()
}
