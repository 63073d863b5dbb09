//! The JSON Schemas of the configuration files, generated from their types.

use super::inference::prices::TypedPrices;
use crate::config::context::TypedContext;
use crate::config::file::json_schema;
use crate::config::gateway::TypedGateway;
use crate::config::hooks::TypedHooks;
use crate::config::inference::TypedInference;
use crate::config::keeping::TypedKeeping;
use crate::config::mcp::TypedMcp;
use crate::config::own_tools::TypedOwnTool;
use crate::config::persona::TypedPersona;
use crate::config::policy::TypedPolicy;
use crate::config::security::TypedSecurity;
use crate::config::skills::TypedSkills;
use crate::config::web::TypedWeb;
use serde_json::Value;

/// A kind of configuration file with its schema.
pub struct ConfigFileKind {
    /// Name of the kind, and of the schema file below `configs/schema/` without `.json`.
    pub name: &'static str,
    pub schema: fn() -> Value,
}

/// Every kind of configuration file.
pub static KINDS: &[ConfigFileKind] = &[
    ConfigFileKind {
        name: "gateway",
        schema: json_schema::of::<TypedGateway>,
    },
    ConfigFileKind {
        name: "inference",
        schema: json_schema::of::<TypedInference>,
    },
    ConfigFileKind {
        name: "prices",
        schema: json_schema::of::<TypedPrices>,
    },
    ConfigFileKind {
        name: "context",
        schema: json_schema::of::<TypedContext>,
    },
    ConfigFileKind {
        name: "security",
        schema: json_schema::of::<TypedSecurity>,
    },
    ConfigFileKind {
        name: "policy",
        schema: json_schema::of::<TypedPolicy>,
    },
    ConfigFileKind {
        name: "hooks",
        schema: json_schema::of::<TypedHooks>,
    },
    ConfigFileKind {
        name: "keeping",
        schema: json_schema::of::<TypedKeeping>,
    },
    ConfigFileKind {
        name: "web",
        schema: json_schema::of::<TypedWeb>,
    },
    ConfigFileKind {
        name: "skills",
        schema: json_schema::of::<TypedSkills>,
    },
    ConfigFileKind {
        name: "mcp",
        schema: json_schema::of::<TypedMcp>,
    },
    ConfigFileKind {
        name: "tool",
        schema: json_schema::of::<TypedOwnTool>,
    },
    ConfigFileKind {
        name: "persona",
        schema: json_schema::of::<TypedPersona>,
    },
];

impl ConfigFileKind {
    /// The text of the checked-in schema file.
    pub fn text(&self) -> String {
        // Printing a `Value` cannot fail: its keys are strings and its numbers are finite.
        serde_json::to_string_pretty(&(self.schema)()).unwrap_or_default() + "\n"
    }
}
