//! What the modules of most sections import: `use crate::config::values::section::*`.

pub use super::check_context::{
    COMPAT, CheckContext, CheckPlace, CommandHints, adapter_of, texts, usual_environment,
};
pub use crate::config::file::{ConfigFile, TypedDuration, below, child, spell};
pub use schemars::JsonSchema;
pub use secrecy::SecretString;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};
pub use std::collections::BTreeMap;
pub use std::time::Duration;
