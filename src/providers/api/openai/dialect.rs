//! Variants of chat completions: the differences between the vendors that serve them.

use crate::config::{ChatApi, ChatSwitches};
use crate::providers::Adapter;
use crate::providers::contract::content::ContentKinds;
use crate::providers::contract::request::{Parameter, Request};
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
    pub cache_key: CacheKey,
    /// Returns the member of the thinking effort.
    pub effort: fn(&Value) -> (&'static str, Value),
    /// Returns further members of the body.
    pub routing: fn(&ChatSwitches) -> Map<String, Value>,
}

/// How a vendor is told the key of a thread for its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKey {
    /// Not at all, unless the block says so (`prompt_cache_key`): servers refuse members that they do not know.
    Silent,
    /// By the member `prompt_cache_key`.
    Member,
    /// By a header of chat completions, and by the member in the Responses API.
    Header(&'static str),
}

impl Dialect {
    /// Returns the key that the body of a request holds.
    pub fn cache_key<'r>(
        &self,
        request: &'r Request,
        switches: &ChatSwitches,
        api: ChatApi,
    ) -> Option<&'r str> {
        let is_sent = match self.cache_key {
            CacheKey::Silent => switches.prompt_cache_key,
            CacheKey::Member => true,
            CacheKey::Header(_) => api == ChatApi::Responses,
        };
        let is_refused = request.without.contains(&Parameter::PromptCacheKey);
        let key = request.cache_key.as_deref();
        key.filter(|_| is_sent && !is_refused)
    }
}

/// Returns OpenAI's member of the thinking effort.
pub fn effort(effort: &Value) -> (&'static str, Value) {
    ("reasoning_effort", effort.clone())
}

/// Returns no further members.
pub fn no_members(_switches: &ChatSwitches) -> Map<String, Value> {
    Map::new()
}
