//! `configs/tools/NAME/tool.json`: a tool that is a program of the owner's.

mod typed;

pub use typed::{OwnToolClass, OwnToolEffects, ToolSenders, TypedOwnTool};

use super::secrets;
use super::values::check_context::CheckContext;
use crate::config::TOOL_TIMEOUT_MAX;
use crate::config::file::duration;
use crate::config::file::{ConfigFile, OWN_TOOLS_FOLDER, child, own_tool_file};
use crate::domain::PersonaId;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Most tools of a workspace: the model reads them all.
const TOOLS_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 2000;
const SCHEMA_BYTES_MAX: usize = 16 * 1024;
/// Variables of the engine's environment that every such program sees. Keys are not among them.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

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
    #[serde(with = "duration::text")]
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
        let problem = crate::config::file::Problem::of_file(
            OWN_TOOLS_FOLDER,
            format!("holds more than {TOOLS_MAX} tools"),
        );
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
    check_name(name, file, ctx);
    check_command(file, ctx);
    if typed.description.chars().count() > DESCRIPTION_CHARS_MAX {
        let what = format!("has more than {DESCRIPTION_CHARS_MAX} characters");
        ctx.complain(file, "/description", what);
    }
    if typed.timeout.is_zero() || typed.timeout > TOOL_TIMEOUT_MAX {
        let span = duration::spell(typed.timeout);
        ctx.refuse(
            file,
            "/timeout",
            format!("`{span}` is out of range"),
            "write a time from `1ms` to `10m`: a run waits for its tools",
        );
    }
    let personas = typed
        .personas
        .iter()
        .enumerate()
        .filter_map(|(index, persona)| ctx.persona(file, &child("/personas", index), persona));
    let personas: Vec<PersonaId> = personas.collect();
    let usual = ENVIRONMENT
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), secrets::environment(name)?.into())));
    let mut values: Vec<(String, SecretString)> = usual.collect();
    for (index, variable) in typed.environment.iter().enumerate() {
        match ctx.secrets.get(variable) {
            Some(value) => values.push((variable.clone(), value)),
            None => {
                let pointer = child("/environment", index);
                ctx.refuse(
                    file,
                    &pointer,
                    format!("`{variable}` is not set"),
                    "set it in `.secrets`, or in the engine's environment",
                );
            }
        }
    }
    OwnTool {
        name: name.to_owned(),
        description: typed.description.clone(),
        arguments: arguments(file, ctx),
        command: typed.command.clone(),
        class: typed.class,
        effects: typed.effects,
        senders: typed.senders,
        trusted_result: typed.trusted_result,
        personas,
        timeout: typed.timeout,
        folder: ctx.workspace.join(OWN_TOOLS_FOLDER).join(name),
        workspace: ctx.workspace.to_owned(),
        environment: typed.environment.clone(),
        values,
    }
}

fn check_name(name: &str, file: &ConfigFile<TypedOwnTool>, ctx: &mut CheckContext<'_>) {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(legal);
    if !is_name {
        ctx.refuse(
            file,
            "",
            format!("`{name}` is no name of a tool"),
            "rename the folder: lower-case letters, digits and `_`, from a letter on, at most 64",
        );
    } else if ctx.names.tools.iter().any(|tool| tool == name) {
        ctx.refuse(
            file,
            "",
            format!("`{name}` is a tool of the engine"),
            "rename the folder: no tool takes another one's place",
        );
    }
}

/// Reports a command whose files a persona's tools or agents might write, or that is no program.
fn check_command(file: &ConfigFile<TypedOwnTool>, ctx: &mut CheckContext<'_>) {
    let folder = ctx.workspace.join(&file.file).with_file_name("");
    let personas = ctx.workspace.join("personas");
    let command = &file.typed.command;
    let is_below = |part: &&String| super::file::below(&folder, part).starts_with(&personas);
    let program = command.first().filter(|program| !program.is_empty());
    if program.is_none() {
        ctx.refuse(
            file,
            "/command",
            "names no program",
            "such as `[\"./run\"]`, made executable",
        );
    } else if let Some(part) = command.iter().find(is_below) {
        let message = format!("`{part}` is in a persona's folder");
        ctx.refuse(
            file,
            "/command",
            message,
            "put it beside `tool.json`, where no persona writes",
        );
    } else if let Some(program) = program.filter(|program| program.contains('/'))
        && ctx.source.has_world()
    {
        let path = folder.join(program);
        if !super::file::is_program(&path) {
            ctx.refuse(
                file,
                "/command",
                format!("`{program}` is not a program"),
                "its path begins at the tool's folder; `chmod +x` makes a script one",
            );
        } else if super::file::is_text_without_interpreter(&path) {
            let message = format!("`{program}` is a script without `#!`, which no system starts");
            ctx.refuse(file, "/command", message, "name its interpreter in its first line, such as `#!/bin/sh` or `#!/usr/bin/env python3`");
        }
    }
}

/// Returns the schema of the arguments, closed: a name that it does not know is a mistake of the model.
fn arguments(file: &ConfigFile<TypedOwnTool>, ctx: &mut CheckContext<'_>) -> Value {
    let mut schema = file.typed.arguments.clone();
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
        ctx.complain(file, "/arguments", problem);
    }
    schema
}
