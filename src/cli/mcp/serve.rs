//! `attache mcp serve --run ID`: our tools for a command-line agent. Agents start it; users need
//! not.

use super::super::{CommandContext, Exit, name_catalog};
use crate::domain::RunId;
use clap::{Arg, ArgMatches};

pub fn clap() -> clap::Command {
    clap::Command::new("serve")
        .about("Offer the tools of a run that is being worked on, over stdin and stdout (Model Context Protocol)")
        .arg(Arg::new("run").long("run").value_name("RUN").required(true).help("The run, by its whole id"))
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let run = args.get_one::<String>("run");
    let run = RunId::new(run.map(String::as_str).unwrap_or_default());
    let store = context.shared_store().await?;
    let config = crate::config::load_without_secrets(&context.workspace, &name_catalog())?;
    crate::mcp::serve(store, config, &run).await?;
    Ok(Exit::Ok)
}
