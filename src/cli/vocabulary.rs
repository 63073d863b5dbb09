//! The names that configuration files may use, gathered from the floors that own them.

use crate::config::Vocabulary;
use crate::tools::TOOLS;

/// Every provider, resolver and tool that this binary has.
pub fn vocabulary() -> Vocabulary {
    Vocabulary {
        providers: vec!["scripted", "anthropic", "openai"],
        resolvers: vec![
            "load-file",
            "persona",
            "active-memory",
            "knowledge",
            "thread-history",
            "invocation-metadata",
            "current-input",
        ],
        tools: TOOLS.iter().map(|tool| tool.name()).collect(),
        key_variables: vec![("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")],
    }
}
