//! `configs/tools/NAME/tool.json`: a tool that is a program of the owner's.

mod typed;

pub use typed::{OwnToolClass, OwnToolEffects, ToolSenders, TypedOwnTool};

use crate::config::TOOL_TIMEOUT_MAX;
use crate::config::file::{OWN_TOOLS_FOLDER, Problem, is_text_without_interpreter, own_tool_file};
use crate::config::values::section::*;
use crate::domain::PersonaId;
use serde_json::Map;
use std::path::PathBuf;

/// Most tools of a workspace: the model reads them all.
const TOOLS_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 2000;
const SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// A program of the owner's that is a tool.
#[derive(Debug, Clone, Serialize)]
pub struct OwnTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, closed.
    pub arguments: Value,
    pub command: Vec<String>,
    pub class: OwnToolClass,
    pub effects: OwnToolEffects,
    pub senders: ToolSenders,
    pub trusted_result: bool,
    /// Empty: all.
    pub personas: Vec<PersonaId>,
    #[serde(with = "TypedDuration")]
    pub timeout: Duration,
    /// Folder in which the program is started.
    #[serde(skip)]
    pub folder: PathBuf,
    #[serde(skip)]
    pub workspace: PathBuf,
    /// Names of the variables that it sees beside the usual ones.
    pub environment: Vec<String>,
    /// All variables that it sees, with their values.
    #[serde(skip)]
    pub values: Vec<(String, SecretString)>,
}

/// Files of the tools, by the names of their folders.
pub type OwnToolFiles = Vec<(String, ConfigFile<TypedOwnTool>)>;

/// Reads the files of all tools. Their names count for the other files from here on.
pub fn read(ctx: &mut CheckContext<'_>) -> OwnToolFiles {
    let names = ctx.source.own_tool_folders();
    if names.len() > TOOLS_MAX {
        let message = format!("holds more than {TOOLS_MAX} tools");
        let problem = Problem::in_file(OWN_TOOLS_FOLDER, message);
        ctx.report(problem.hint("a model that reads so many chooses badly; keep the ones in use"));
    }
    let mut files = Vec::new();
    for name in names.into_iter().take(TOOLS_MAX) {
        if let Some(file) = ctx.read::<TypedOwnTool>(&own_tool_file(&name)) {
            ctx.own_tools.push(name.clone());
            files.push((name, file));
        }
    }
    files
}

/// Resolves the files of all tools. Problems go to the context.
pub fn resolve(files: &OwnToolFiles, ctx: &mut CheckContext<'_>) -> Vec<OwnTool> {
    let tools = files.iter();
    tools.map(|(name, file)| tool(name, file, ctx)).collect()
}

fn tool(name: &str, file: &ConfigFile<TypedOwnTool>, ctx: &mut CheckContext<'_>) -> OwnTool {
    let typed = &file.typed;
    let place = &mut ctx.place(file, "");
    check_name(name, place);
    let folder = place.ctx.workspace.join(&file.file).with_file_name("");
    if let Some(program) = place.check_command(&typed.command, &folder, &COMMAND)
        && is_text_without_interpreter(&folder.join(program))
    {
        let message = format!("`{program}` is a script without `#!`, which no system starts");
        let hint = "name its interpreter in its first line, such as `#!/bin/sh` or `#!/usr/bin/env python3`";
        place.refuse("command", message, hint);
    }
    if typed.description.chars().count() > DESCRIPTION_CHARS_MAX {
        let what = format!("has more than {DESCRIPTION_CHARS_MAX} characters");
        place.complain("description", what);
    }
    place.check_timeout(typed.timeout, TOOL_TIMEOUT_MAX, "tools");
    OwnTool {
        name: name.to_owned(),
        description: typed.description.clone(),
        arguments: arguments(&typed.arguments, place),
        command: typed.command.clone(),
        class: typed.class,
        effects: typed.effects,
        senders: typed.senders,
        trusted_result: typed.trusted_result,
        personas: place.personas(&typed.personas),
        timeout: typed.timeout,
        folder: place.ctx.workspace.join(OWN_TOOLS_FOLDER).join(name),
        workspace: place.ctx.workspace.to_owned(),
        environment: typed.environment.clone(),
        values: place.environment(&typed.environment),
    }
}

const COMMAND: CommandHints = CommandHints {
    example: "such as `[\"./run\"]`, made executable",
    elsewhere: "put it beside `tool.json`, where no persona writes",
    folder: "tool's folder",
};

fn check_name(name: &str, place: &mut CheckPlace<'_, '_>) {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(legal);
    if !is_name {
        let hint =
            "rename the folder: lower-case letters, digits and `_`, from a letter on, at most 64";
        place.refuse("", format!("`{name}` is no name of a tool"), hint);
    } else if place.ctx.names.tools.iter().any(|tool| tool == name) {
        let hint = "rename the folder: no tool takes another one's place";
        place.refuse("", format!("`{name}` is a tool of the engine"), hint);
    }
}

/// Returns the schema of the arguments, closed: a name that it does not know is a mistake of the model.
fn arguments(typed: &Map<String, Value>, place: &mut CheckPlace<'_, '_>) -> Value {
    let mut schema = typed.clone();
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let size = serde_json::to_string(&schema).map_or(0, |text| text.len());
    let schema = Value::Object(schema);
    let problem = if schema["type"] != "object" || !schema["properties"].is_object() {
        Some("is no schema of an object with `properties`".to_owned())
    } else if size > SCHEMA_BYTES_MAX {
        Some(format!("has more than {SCHEMA_BYTES_MAX} bytes"))
    } else {
        let compiled = jsonschema::validator_for(&schema);
        compiled
            .err()
            .map(|error| format!("is no JSON Schema: {error}"))
    };
    if let Some(problem) = problem {
        place.complain("arguments", problem);
    }
    schema
}
