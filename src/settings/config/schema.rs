//! The JSON Schemas of the configuration files, generated from their types.

use super::file::json_schema;
use super::{
    context, gateway, hooks, inference, keeping, mcp, own_tools, persona, policy, security, skills,
    web,
};
use serde_json::Value;

/// A kind of configuration file with its schema.
pub struct ConfigFileKind {
    /// Name of the kind, and of the schema file below `configs/schema/` without `.json`.
    pub name: &'static str,
    pub schema: fn() -> Value,
}

macro_rules! kinds {
    ($($name:literal $typed:ty;)*) => {
        /// Every kind of configuration file.
        pub static KINDS: &[ConfigFileKind] = &[$(ConfigFileKind {
            name: $name,
            schema: json_schema::schema_for::<$typed>,
        }),*];
    };
}

kinds! {
    "gateway" gateway::TypedGateway;
    "inference" inference::TypedInference;
    "prices" inference::prices::TypedPrices;
    "context" context::TypedContext;
    "security" security::TypedSecurity;
    "policy" policy::TypedPolicy;
    "hooks" hooks::TypedHooks;
    "keeping" keeping::TypedKeeping;
    "web" web::TypedWeb;
    "skills" skills::TypedSkills;
    "mcp" mcp::TypedMcp;
    "tool" own_tools::TypedOwnTool;
    "persona" persona::TypedPersona;
}

impl ConfigFileKind {
    /// The text of the checked-in schema file.
    pub fn text(&self) -> String {
        // Printing a `Value` cannot fail: its keys are strings and its numbers are finite.
        serde_json::to_string_pretty(&(self.schema)()).unwrap_or_default() + "\n"
    }
}
