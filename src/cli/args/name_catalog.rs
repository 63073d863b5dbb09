//! The names that configuration files may use, collected from the modules that define them.

use crate::config::NameCatalog;
use crate::context::resolvers::RESOLVERS;
use crate::providers::{KEY_ALIASES, adapters, embeddings};
use crate::tools;

/// Returns the names of every provider, resolver and tool of this binary.
pub fn name_catalog() -> NameCatalog {
    let keys = adapters().filter_map(|adapter| adapter.key_variable.map(|key| (adapter.id, key)));
    let keys = keys.chain(KEY_ALIASES.iter().copied());
    NameCatalog {
        providers: adapters().map(|adapter| adapter.id).collect(),
        resolvers: RESOLVERS
            .iter()
            .map(|resolver| (resolver.name(), resolver.arguments()))
            .collect(),
        tools: tools::builtin().names().map(str::to_owned).collect(),
        agents: adapters()
            .filter_map(|adapter| adapter.bounds.map(|bounds| (adapter.id, bounds)))
            .collect(),
        key_variables: keys.collect(),
        embedding_providers: embeddings::adapters().collect(),
        settings: adapters()
            .map(|adapter| (adapter.id, adapter.settings.concat()))
            .collect(),
    }
}
