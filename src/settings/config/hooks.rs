//! `configs/hooks.json`: programs of the owner that are asked before and after what a run does.

use crate::config::policy::REPLY;
use crate::config::values::section::*;
use crate::domain::{HookEvent, PersonaId};
use crate::text::glob_matches;

const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Most hooks: each costs a process.
const HOOKS_MAX: usize = 50;

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
    #[serde(default = "default_timeout", with = "TypedDuration")]
    #[schemars(default = "timeout_text")]
    timeout: Duration,
}

fn default_timeout() -> Duration {
    TIMEOUT
}

fn timeout_text() -> String {
    spell(TIMEOUT)
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
    #[serde(with = "TypedDuration")]
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
    let place = &mut ctx.place(file, "/hooks");
    if typed.len() > HOOKS_MAX {
        let hint = "each costs a process; let one program do the work of several";
        place.refuse("", format!("has more than {HOOKS_MAX} hooks"), hint);
    }
    let mut hooks: Vec<Hook> = Vec::new();
    for (index, typed) in typed.iter().take(HOOKS_MAX).enumerate() {
        let (place, id) = (&mut place.under(index), &typed.id);
        if hooks.iter().any(|other| other.id == *id) {
            let message = format!("two hooks are called `{id}`");
            place.refuse(
                "id",
                message,
                "give each hook an id of its own: records name it",
            );
        }
        check_tools(typed, place);
        let workspace = place.ctx.workspace;
        place.check_command(&typed.command, workspace, &COMMAND);
        place.check_timeout(typed.timeout, TIMEOUT_MAX, "hooks");
        let persona = place.persona("persona", typed.persona.as_deref());
        if persona.is_none() && typed.persona.is_some() {
            continue;
        }
        hooks.push(Hook {
            id: id.clone(),
            event: typed.event,
            persona,
            tools: typed.tools.clone(),
            command: typed.command.clone(),
            timeout: typed.timeout,
            environment: usual_environment().collect(),
        });
    }
    hooks
}

const COMMAND: CommandHints = CommandHints {
    example: "such as `[\"hooks/check-mail\"]`, made executable",
    elsewhere: "put it into `hooks/` of the workspace, where no persona writes",
    folder: "workspace",
};

fn check_tools(typed: &TypedHook, place: &mut CheckPlace<'_, '_>) {
    if !typed.tools.is_empty() && !typed.event.is_of_call() {
        let message = format!("`{}` belongs to a run and not to a tool", typed.event);
        return place.refuse("tools", message, "leave it out");
    }
    for tool in typed.tools.iter().filter(|tool| !tool.contains('*')) {
        let is_reply = tool == REPLY && typed.event == HookEvent::BeforeSend;
        if !is_reply && !place.ctx.knows_tool(tool) {
            let problem = place
                .file
                .problem_at(&place.at("tools"), format!("no tool `{tool}`"));
            let known = place.ctx.tool_names().chain([REPLY]);
            let problem = problem.did_you_mean(tool, known);
            place.ctx.report(problem);
        }
    }
}
