//! `attache mcp serve`: personas for other agents; with `--run ID`, the tools of a run for the agent that works on it, which
//! starts that itself.

use super::super::{CommandContext, Exit, Failure, name_catalog};
use crate::config::Config;
use crate::domain::RunId;
use clap::{Arg, ArgMatches};

pub fn clap() -> clap::Command {
    clap::Command::new("serve")
        .about("Let other agents ask personas, over stdin and stdout (Model Context Protocol)")
        .after_help(
            "What is offered, and to which personas, `mcp_server` in configs/security.json says; without it, nothing. An engine must be at \
             work: it answers. With --run, which command-line agents give themselves, the tools of that run are offered instead.",
        )
        .arg(
            Arg::new("run")
                .long("run")
                .value_name("RUN")
                .help("Offer the tools of this run, by its whole id, which an engine works on"),
        )
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let run = args.get_one::<String>("run");
    context.require_workspace()?;
    let config = crate::config::load_without_secrets(&context.workspace, &name_catalog())?;
    match run {
        Some(run) => {
            let store = context.shared_store().await?;
            crate::mcp::serve(store, config, &RunId::new(run.as_str())).await?;
        }
        None => serve_agents(context, config).await?,
    }
    Ok(Exit::Ok)
}

async fn serve_agents(context: &CommandContext, config: Config) -> anyhow::Result<()> {
    let Some(settings) = config.security.mcp_server.clone() else {
        let hint =
            "name personas in configs/security.json: `\"mcp_server\": { \"personas\": [\"ada\"] }`";
        return Err(
            Failure::new(Exit::Usage, "nothing is offered to other agents here")
                .hint(hint)
                .into(),
        );
    };
    let is_missing = |id: &&crate::domain::PersonaId| config.personas.get(id).is_none();
    if let Some(missing) = settings.personas.iter().find(is_missing) {
        let message = format!("`mcp_server` names the persona `{missing}`, and there is none");
        let hint = "`attache persona list` shows those that there are";
        return Err(Failure::new(Exit::BadData, message).hint(hint).into());
    }
    let store = context.store_of_engine().await?;
    Ok(crate::mcp::serve_agents(store, config, settings).await?)
}
