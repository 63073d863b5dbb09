//! `configs/hooks.json`: programs of the owner that are asked before and after what a run does.

use super::secrets;
use super::values::check_context::CheckContext;
use crate::config::file::duration::{self, TypedDuration};
use crate::config::file::{ConfigFile, child};
use crate::config::policy::REPLY;
use crate::domain::{HookEvent, PersonaId};
use crate::text::glob_matches;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Most hooks: each costs a process.
const HOOKS_MAX: usize = 50;

/// Variables of the engine's environment that a hook sees. Keys of providers are not among them.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// Programs of the owner that are asked before and after what a run does.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/hooks.json")]
pub struct TypedHooks {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Hooks in order; the first that denies decides, and those behind it are not asked.
    #[serde(default)]
    hooks: Vec<TypedHook>,
}

/// A hook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedHook {
    /// Name of the hook, as records show it.
    #[schemars(length(min = 1, max = 64))]
    id: String,
    /// Occasion on which it is asked.
    #[schemars(schema_with = "event_schema")]
    event: HookEvent,
    /// Persona that it is for. Default: all.
    persona: Option<String>,
    /// Tools that it is for; `*` stands for any text; `reply` is the final text of a run. Default: all.
    #[serde(default)]
    tools: Vec<String>,
    /// Program and its arguments, started without a shell in the workspace. A program with a slash is a path, relative to
    /// the workspace; another is looked up on `PATH`.
    #[schemars(length(min = 1))]
    command: Vec<String>,
    /// Time after which it is stopped, which counts as a no.
    #[serde(default = "default_timeout", with = "duration::text")]
    #[schemars(with = "TypedDuration", default = "timeout_text")]
    timeout: Duration,
}

fn default_timeout() -> Duration {
    TIMEOUT
}

fn timeout_text() -> String {
    duration::spell(TIMEOUT)
}

fn event_schema(_: &mut SchemaGenerator) -> Schema {
    let words: Vec<&str> = HookEvent::ALL.iter().map(|event| event.as_str()).collect();
    json_schema!({ "type": "string", "enum": words })
}

/// A program that is asked on one occasion.
#[derive(Debug, Clone, Serialize)]
pub struct Hook {
    pub id: String,
    pub event: HookEvent,
    /// Persona that it is for; `None`: all.
    pub persona: Option<PersonaId>,
    /// Names of tools, in which `*` stands for any text; empty: all.
    pub tools: Vec<String>,
    /// Program and its arguments.
    pub command: Vec<String>,
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    /// Variables that the program sees.
    #[serde(skip)]
    pub environment: Vec<(String, String)>,
}

impl Hook {
    /// Reports whether the hook is asked on this occasion; `tool` is empty for an occasion of a run.
    pub fn concerns(&self, event: HookEvent, persona: &PersonaId, tool: &str) -> bool {
        self.event == event
            && self.persona.as_ref().is_none_or(|own| own == persona)
            && (self.tools.is_empty() || self.tools.iter().any(|own| glob_matches(own, tool)))
    }
}

/// Resolves `configs/hooks.json`. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedHooks>, ctx: &mut CheckContext<'_>) -> Vec<Hook> {
    let typed = &file.typed.hooks;
    if typed.len() > HOOKS_MAX {
        ctx.refuse(
            file,
            "/hooks",
            format!("has more than {HOOKS_MAX} hooks"),
            "each costs a process; let one program do the work of several",
        );
    }
    let mut hooks: Vec<Hook> = Vec::new();
    for (index, typed) in typed.iter().take(HOOKS_MAX).enumerate() {
        let pointer = child("/hooks", index);
        if hooks.iter().any(|other| other.id == typed.id) {
            ctx.refuse(
                file,
                child(&pointer, "id"),
                format!("two hooks are called `{}`", typed.id),
                "give each hook an id of its own: records name it",
            );
        }
        hooks.extend(hook(file, &pointer, typed, ctx));
    }
    hooks
}

fn hook(
    file: &ConfigFile<TypedHooks>,
    pointer: &str,
    typed: &TypedHook,
    ctx: &mut CheckContext<'_>,
) -> Option<Hook> {
    let at = |key: &str| child(pointer, key);
    check_tools(file, pointer, typed, ctx);
    check_command(file, &at("command"), typed, ctx);
    if typed.timeout.is_zero() || typed.timeout > TIMEOUT_MAX {
        let span = duration::spell(typed.timeout);
        ctx.refuse(
            file,
            &at("timeout"),
            format!("`{span}` is out of range"),
            "write a time from `1ms` to `2m`: a run waits for its hooks",
        );
    }
    let persona = match typed.persona.as_deref() {
        Some(name) => Some(ctx.persona(file, &at("persona"), name)?),
        None => None,
    };
    Some(Hook {
        id: typed.id.clone(),
        event: typed.event,
        persona,
        tools: typed.tools.clone(),
        command: typed.command.clone(),
        timeout: typed.timeout,
        environment: ENVIRONMENT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), secrets::environment(name)?)))
            .collect(),
    })
}

fn check_tools(
    file: &ConfigFile<TypedHooks>,
    pointer: &str,
    typed: &TypedHook,
    ctx: &mut CheckContext<'_>,
) {
    let at = child(pointer, "tools");
    if !typed.tools.is_empty() && !typed.event.is_of_call() {
        let message = format!("`{}` belongs to a run and not to a tool", typed.event);
        ctx.refuse(file, &at, message, "leave it out");
        return;
    }
    for tool in typed.tools.iter().filter(|tool| !tool.contains('*')) {
        let is_reply = tool == REPLY && typed.event == HookEvent::BeforeSend;
        if !is_reply && !ctx.knows_tool(tool) {
            let problem = file.problem_at(&at, format!("no tool `{tool}`"));
            let problem = problem.did_you_mean(tool, ctx.tool_names().chain([REPLY]));
            ctx.report(problem);
        }
    }
}

/// Reports a command whose files a persona's tools or agents might write.
fn check_command(
    file: &ConfigFile<TypedHooks>,
    pointer: &str,
    typed: &TypedHook,
    ctx: &mut CheckContext<'_>,
) {
    let personas = ctx.workspace.join("personas");
    let is_below = |part: &String| super::file::below(ctx.workspace, part).starts_with(&personas);
    let program = typed.command.first().filter(|program| !program.is_empty());
    if program.is_none() {
        ctx.refuse(
            file,
            pointer,
            "names no program",
            "such as `[\"hooks/check-mail\"]`, made executable",
        );
    } else if let Some(part) = typed.command.iter().find(|part| is_below(part)) {
        let message = format!("`{part}` is in a persona's folder");
        ctx.refuse(
            file,
            pointer,
            message,
            "put it into `hooks/` of the workspace, where no persona writes",
        );
    } else if let Some(program) = program.filter(|program| program.contains('/'))
        && ctx.source.has_world()
        && !super::file::is_program(&ctx.workspace.join(program))
    {
        ctx.refuse(
            file,
            pointer,
            format!("`{program}` is not a program"),
            "its path begins at the workspace; `chmod +x` makes a script one",
        );
    }
}
