//! The names that configuration files may use, gathered from the floors that own them.

use crate::config::Vocabulary;
use crate::harness::providers::PROVIDERS;
use crate::harness::resolvers::RESOLVERS;
use crate::tools::TOOLS;

/// Every provider, resolver and tool that this binary has.
pub fn vocabulary() -> Vocabulary {
    let keys = PROVIDERS.iter().filter_map(|adapter| adapter.key_variable.map(|key| (adapter.id, key)));
    Vocabulary {
        providers: PROVIDERS.iter().map(|adapter| adapter.id).collect(),
        resolvers: RESOLVERS.iter().map(|resolver| (resolver.name(), resolver.arguments())).collect(),
        tools: TOOLS.iter().map(|tool| tool.name()).collect(),
        key_variables: keys.collect(),
        settings: PROVIDERS.iter().map(|adapter| (adapter.id, adapter.settings.concat())).collect(),
    }
}
