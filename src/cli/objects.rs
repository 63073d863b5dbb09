//! `attache objects claim`: this workspace's database deletes objects in its object store, whichever did before.

use super::{Command, CommandContext, Exit, Failure};
use crate::config::objects_of;
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::path::Path;

pub struct ObjectsCommand;

impl Command for ObjectsCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("objects")
            .about("Say which database deletes in an object store that a copy of it has used, too")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(clap::Command::new("claim").about(
                "Let this workspace delete objects there, and no copy of it: after a restore, a migration or a move to another disk",
            ))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        _args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(claim(context))
    }
}

/// Step for an operator whose database has come to another place.
pub const CLAIM_STEP: &str = "`attache objects claim` there, when no other database uses its object store: until then no object is deleted";

/// Reports whether a workspace has an object store.
pub fn has_objects(workspace: &Path) -> bool {
    objects_of(workspace).is_ok_and(|settings| settings.is_some())
}

/// What was claimed.
#[derive(Serialize)]
struct Claimed {
    place: String,
}

async fn claim(context: &CommandContext) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let Some(place) = store.claim_objects().await? else {
        let message = "`configs/keeping.json` names no object store under `objects`";
        return Err(Failure::new(Exit::Usage, message.to_owned())
            .hint("bytes are in the rows of the database; there is nothing to claim")
            .into());
    };
    let claimed = Claimed { place };
    if context.json() {
        context.screen.json(&claimed)?;
        return Ok(Exit::Ok);
    }
    context.screen.line(format!(
        "the database of this workspace deletes objects in {}; a copy that still uses it stops deleting, and says so",
        claimed.place
    ))?;
    Ok(Exit::Ok)
}
