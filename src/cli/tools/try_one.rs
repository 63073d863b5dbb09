//! `attache tools try`: the program of one own tool, started as a run would. Nothing is recorded.

use super::super::args::text;
use super::super::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, OwnTool};
use crate::runs::programs::LocalPrograms;
use crate::tools::{self, OwnerPrograms, ToolError};
use clap::ArgMatches;
use serde_json::{Map, Value, json};

pub async fn run(
    context: &CommandContext,
    config: &Config,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let name = text(args, "name");
    let Some(own) = config.own_tools.iter().find(|own| own.name == name) else {
        return Err(Failure::new(Exit::NoInput, format!("no own tool `{name}`"))
            .hint("`attache tools list` shows them; tools of the engine need a run")
            .into());
    };
    let arguments = checked_arguments(config, own, args)?;
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
    let (word, said) = match &answer {
        Ok(written) => ("result", written.trim().to_owned()),
        Err(ToolError::Mendable { code, message }) => (*code, message.clone()),
        Err(error) => ("tool_failed", error.to_string()),
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
    Ok(match answer {
        Ok(_) => Exit::Ok,
        Err(_) => Exit::Failed,
    })
}

fn checked_arguments(
    config: &Config,
    own: &OwnTool,
    args: &ArgMatches,
) -> anyhow::Result<Map<String, Value>> {
    let typed = args
        .get_one::<String>("arguments")
        .map_or("{}", String::as_str);
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
