//! Permissions of Claude Code's own tools. Pure, except for the targets of links (`paths.rs`).

use crate::config::Tier;
use crate::providers::agents::agent::is_ours;
use crate::providers::agents::paths;
use crate::providers::contract::traits::{AgentOptions, ToolArgs};

/// Returns the tier that a tool of Claude Code's own needs. The names are those of its reference;
/// an unknown one needs `Full`.
pub fn needs(name: &str) -> Tier {
    match name {
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => Tier::ReadOnly,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Tier::Write,
        // To-do lists, the answer's form, and the lookup of our own server's tools.
        "TodoWrite"
        | "TodoRead"
        | "TaskCreate"
        | "TaskGet"
        | "TaskList"
        | "TaskUpdate"
        | "StructuredOutput"
        | "ToolSearch"
        | "ListMcpResourcesTool"
        | "ReadMcpResourceTool" => Tier::None,
        name if is_ours(name) => Tier::None,
        _ => Tier::Full,
    }
}

/// Returns the value of `--tools`.
pub fn tools(tier: Tier) -> &'static str {
    match tier {
        Tier::None => "",
        Tier::ReadOnly => "Read,Glob,Grep",
        Tier::Write => "Read,Glob,Grep,Edit,Write",
        Tier::Full => "default",
    }
}

/// Returns the reason why the agent may not make this call; `None` if it may.
pub fn refusal(name: &str, args: &ToolArgs, options: &AgentOptions) -> Option<String> {
    let needed = needs(name);
    if is_ours(name) {
        return None;
    }
    if needed > options.tier {
        return Some(format!("`{name}` is not allowed here"));
    }
    if options.tier < Tier::Full && matches!(args, ToolArgs::Malformed { .. }) {
        return Some("the arguments are not an object".to_owned());
    }
    if needed == Tier::Full {
        return None;
    }
    let patterns: &[&str] = if name == "Glob" { &["pattern"] } else { &[] };
    paths::refusal(name, needed, args, options, patterns)
}
