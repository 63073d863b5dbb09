//! The JSON Schemas of the configuration files, generated from their types.

use super::{context, gateway, inference, persona, prices, security};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// A kind of configuration file with its schema.
pub struct Kind {
    /// Name of the kind, and of the schema file below `configs/schema/` without `.json`.
    pub name: &'static str,
    pub schema: fn() -> Value,
}

/// Every kind of configuration file.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "gateway",
        schema: of::<gateway::Typed>,
    },
    Kind {
        name: "inference",
        schema: of::<inference::Typed>,
    },
    Kind {
        name: "prices",
        schema: of::<prices::Typed>,
    },
    Kind {
        name: "context",
        schema: of::<context::Typed>,
    },
    Kind {
        name: "security",
        schema: of::<security::Typed>,
    },
    Kind {
        name: "persona",
        schema: of::<persona::Typed>,
    },
];

impl Kind {
    /// The text of the checked-in schema file.
    pub fn text(&self) -> String {
        // Printing a `Value` cannot fail: its keys are strings and its numbers are finite.
        serde_json::to_string_pretty(&(self.schema)()).unwrap_or_default() + "\n"
    }
}

/// Returns the schema of one type, without `$ref`, so that JSON pointers into the file map to the
/// schema.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}
