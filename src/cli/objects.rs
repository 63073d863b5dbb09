//! `attache objects claim`: this workspace's database deletes objects in its object store, whichever did before.

use super::{Command, CommandContext, Exit, Failure};
use crate::config::objects_of;
use crate::text::plural;
use clap::{Arg, ArgAction, ArgMatches};
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
            .subcommand(
                clap::Command::new("claim")
                    .about("Let this workspace delete objects there, and no copy of it: after a restore, a migration or a move to another disk")
                    .arg(
                        Arg::new("yes")
                            .long("yes")
                            .action(ArgAction::SetTrue)
                            .help("Do it where another database has used the object store, too"),
                    ),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        let is_sure = args
            .subcommand()
            .is_some_and(|(_, args)| args.get_flag("yes"));
        Box::pin(claim(context, is_sure))
    }
}

/// Step for an operator whose database has come to another place.
pub const CLAIM_STEP: &str = "`attache objects claim --yes` there, when no other database uses its object store: until then no object is deleted";

/// Reports whether a workspace has an object store.
pub fn has_objects(workspace: &Path) -> bool {
    objects_of(workspace).is_ok_and(|settings| settings.is_some())
}

/// What was claimed.
#[derive(Serialize)]
struct Claimed {
    place: String,
}

async fn claim(context: &CommandContext, is_sure: bool) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    if !is_sure && store.is_not_object_holder().await? {
        let waiting = plural(store.dropped_objects().await?, "object");
        let message = format!(
            "another database has used this object store, whose rows may name what this one deletes: {waiting} at once, and all that \
             no row here names"
        );
        let hint = "nothing was changed; where the other one is still needed, copy the objects to another place and name that as \
             its `url`; then say --yes";
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
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
