//! `attache tools list|try`: the tools of this workspace, and what an own one answers.

use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, Failure, refuse};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, OwnTool};
use crate::runs::programs::LocalPrograms;
use crate::tools::{self, Effects, OwnerPrograms, ToolClass, ToolError, own_tool};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Show the tools of this workspace, and try one of the owner's
#[derive(clap::Subcommand)]
pub enum ToolsCommand {
    /// List all tools: those of the engine, and those in `configs/tools/`
    List,
    /// Start the program of an own tool as a run would; nothing is recorded
    #[command(after_help = "The exit code is 0 when the tool gave a result, and 1 when it failed.")]
    Try {
        /// The tool: the name of its folder below `configs/tools/`
        name: String,
        /// Its arguments [default: {}]
        #[arg(value_name = "JSON")]
        arguments: Option<String>,
    },
}

impl ToolsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        match self {
            Self::List => list(context, &config),
            Self::Try { name, arguments } => try_one(context, &config, &name, arguments).await,
        }
    }
}

/// A tool as it is listed.
#[derive(Serialize)]
struct ListedTool<'c> {
    name: &'c str,
    /// `false`: a tool of the engine.
    is_own: bool,
    class: &'static str,
    effects: Vec<&'static str>,
    description: &'c str,
    command: &'c [String],
}

fn list(context: &CommandContext, config: &Config) -> anyhow::Result<Exit> {
    let registry = tools::of_config(config);
    let listed = registry.iter().map(|tool| {
        let own = config.own_tools.iter().find(|own| own.name == tool.name());
        ListedTool {
            name: tool.name(),
            is_own: own.is_some(),
            class: class(tool.class()),
            effects: effects(tool.effects()),
            description: tool.description(),
            command: own.map_or(&[], |own| own.command.as_slice()),
        }
    });
    let listed: Vec<ListedTool<'_>> = listed.collect();
    let row = |tool: &ListedTool<'_>| {
        vec![
            tool.name.to_owned(),
            tool.class.to_owned(),
            tool.effects.join(", "),
            match tool.is_own {
                true => one_line(&tool.command.join(" ")),
                false => "of the engine".to_owned(),
            },
        ]
    };
    let columns = Columns::of(&["TOOL", "CLASS", "EFFECTS", "PROGRAM"]).main("PROGRAM");
    context.list(&listed, columns, "there is no tool", row)
}

fn class(class: ToolClass) -> &'static str {
    match class {
        ToolClass::Repeatable => "repeatable",
        ToolClass::Transactional => "transactional",
        ToolClass::Verifiable => "verifiable",
        ToolClass::Once => "once",
    }
}

fn effects(effects: Effects) -> Vec<&'static str> {
    let all = [
        (effects.reads_private, "reads_private"),
        (effects.sends_out, "sends_out"),
        (effects.changes_state, "changes_state"),
        (effects.runs_code, "runs_code"),
    ];
    all.into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
}

/// Starts the program of one own tool as a run would. Nothing is recorded.
async fn try_one(
    context: &CommandContext,
    config: &Config,
    name: &str,
    arguments: Option<String>,
) -> anyhow::Result<Exit> {
    let Some(own) = config.own_tools.iter().find(|own| own.name == name) else {
        return refuse(
            Exit::NoInput,
            format!("no own tool `{name}`"),
            "`attache tools list` shows them; tools of the engine need a run",
        );
    };
    let arguments = checked_arguments(config, own, arguments)?;
    let input = json!({
        "tool": own.name,
        "run": "00000000-0000-7000-8000-000000000001",
        "sender": { "from": "owner@example.test", "trust": "owner" },
        "arguments": arguments,
    });
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let answer = LocalPrograms.run(own, &input, own.timeout).await;
    let took_ms = clock.monotonic().saturating_sub(began).as_millis();
    let (exit, word, said) = match answer {
        Ok(written) => {
            let result = own_tool::result(&written, usize::MAX);
            let content = &result["content"];
            let said = content.as_str().map_or(content.to_string(), str::to_owned);
            match result["is_error"] == true {
                true => (Exit::Failed, "tool_error", said),
                false => (Exit::Ok, "result", said),
            }
        }
        Err(ToolError::Mendable { code, message }) => (Exit::Failed, code, message),
        Err(error) => (Exit::Failed, "tool_failed", error.to_string()),
    };
    if context.json() {
        let tried = json!({ "tool": own.name, "given": input, "outcome": word, "said": said, "took_ms": took_ms });
        context.screen.json(&tried)?;
    } else {
        context.screen.fields(&[
            ("tool", own.name.clone()),
            ("given", input.to_string()),
            (word, said),
            ("took", format!("{took_ms} ms")),
        ])?;
    }
    Ok(exit)
}

fn checked_arguments(
    config: &Config,
    own: &OwnTool,
    typed: Option<String>,
) -> anyhow::Result<Map<String, Value>> {
    let typed = typed.as_deref().unwrap_or("{}");
    let read: Map<String, Value> = serde_json::from_str(typed).map_err(|error| {
        Failure::new(
            Exit::BadData,
            format!("the arguments are no JSON object: {error}"),
        )
        .hint("such as '{\"city\": \"Oslo\"}'")
    })?;
    let registry = tools::of_config(config);
    let checked = registry
        .find(&own.name)
        .map_or(Ok(()), |tool| tool.check_args(&read));
    checked.map_err(|problem| {
        Failure::new(Exit::BadData, problem).hint("`arguments` in its `tool.json` is the schema")
    })?;
    Ok(read)
}
