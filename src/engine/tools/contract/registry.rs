//! The tools of an engine as one value: those of `mod.rs`, and those that join at run time, such as
//! the tools of an MCP server.

use super::arguments::{check_against, validator};
use super::tool::{Effects, ResultWords, Tool, ToolClass, ToolDeclaration};
use crate::providers::ToolSchema;
use serde_json::{Map, Value};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Most characters of a tool's name: the least that a provider takes (OpenAI, Anthropic: 64).
const NAME_CHARS_MAX: usize = 64;

/// A tool with its declaration.
pub struct RegisteredTool {
    declaration: ToolDeclaration,
    tool: Box<dyn Tool>,
    /// The compiled schema, from the first call on.
    validator: OnceLock<Result<jsonschema::Validator, String>>,
}

impl RegisteredTool {
    pub fn new(tool: Box<dyn Tool>) -> Self {
        let declaration = tool.declaration();
        Self {
            declaration,
            tool,
            validator: OnceLock::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    pub fn description(&self) -> &str {
        &self.declaration.description
    }

    pub fn input_schema(&self) -> &ToolSchema {
        &self.declaration.input_schema
    }

    pub fn class(&self) -> ToolClass {
        self.declaration.class
    }

    pub fn effects(&self) -> Effects {
        self.declaration.effects
    }

    pub fn declaration(&self) -> &ToolDeclaration {
        &self.declaration
    }

    /// Checks arguments against the tool's schema. The error says which field is wrong, how, and
    /// what is required.
    ///
    /// An optional field that is `null` counts as absent, because models write it so.
    pub fn check_args(&self, args: &Map<String, Value>) -> Result<(), String> {
        let schema = &self.declaration.input_schema;
        let compiled = self.validator.get_or_init(|| validator(schema));
        // What others execute gets the arguments as they are.
        let capabilities = self.declaration.capabilities;
        let takes_one = !capabilities.mcp && !capabilities.programs;
        let compiled = compiled.as_ref().map_err(String::clone)?;
        check_against(schema, compiled, args, takes_one)
    }
}

/// Calls and what no declaration says: those of the tool.
impl Deref for RegisteredTool {
    type Target = dyn Tool;

    fn deref(&self) -> &Self::Target {
        self.tool.as_ref()
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredTool").field(&self.name()).finish()
    }
}

/// Tools by name, in the order the model sees them. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub struct ToolRegistry {
    tools: Arc<Vec<Arc<RegisteredTool>>>,
}

/// Reason why a tool cannot join a registry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    #[error("two tools are called `{name}`")]
    NameTaken { name: String },
    #[error(
        "`{name}` is no name of a tool: lower-case letters, digits and `_`, from a letter on, at most 64"
    )]
    BadName { name: String },
    #[error("the schema of `{name}` is broken: {problem}")]
    BadSchema { name: String, problem: String },
}

impl ToolRegistry {
    /// Returns the registry with more tools at its end, such as those of a server that was
    /// connected at run time.
    pub fn with(&self, tools: Vec<Box<dyn Tool>>) -> Result<Self, RegistryError> {
        let mut all: Vec<Arc<RegisteredTool>> = self.tools.as_ref().clone();
        for tool in tools {
            let tool = RegisteredTool::new(tool);
            let name = tool.name().to_owned();
            if !is_name(&name) {
                return Err(RegistryError::BadName { name });
            }
            if all.iter().any(|other| other.name() == name) {
                return Err(RegistryError::NameTaken { name });
            }
            if let Err(problem) = validator(tool.input_schema()) {
                return Err(RegistryError::BadSchema { name, problem });
            }
            all.push(Arc::new(tool));
        }
        Ok(Self {
            tools: Arc::new(all),
        })
    }

    /// Returns a registry of tools whose names and schemas a test holds.
    pub(in crate::tools) fn of(tools: Vec<Box<dyn Tool>>) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| Arc::new(RegisteredTool::new(tool)));
        Self {
            tools: Arc::new(tools.collect()),
        }
    }

    pub fn find(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tools.iter()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// Returns the source of the text in the results of a tool; `None` for a name that no tool has.
    pub fn result_words(&self, name: &str) -> Option<ResultWords> {
        self.find(name).map(|tool| tool.declaration.result_words)
    }
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(legal)
}
