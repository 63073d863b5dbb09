//! `attache memory approve`, `edit`, `reject`, `restore`, `pin`, `unpin`: what the owner does with an entry.

use crate::cli::args::{id_arg, text, user};
use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::MEMORY_TEXT_CHARS_MAX;
use crate::store::{MemoryAct, StoreError};
use crate::text::one_line;
use clap::{Arg, ArgAction, ArgMatches};
use serde_json::json;

pub fn clap() -> [clap::Command; 6] {
    let command = |name: &'static str, about: &'static str| {
        clap::Command::new(name).about(about).arg(id_arg())
    };
    let everybody = Arg::new("for-everybody")
        .long("for-everybody")
        .action(ArgAction::SetTrue)
        .help("Show it in every run of the persona, whoever writes; nobody but you can do that");
    let new_text = Arg::new("text")
        .value_name("TEXT")
        .required(true)
        .help("What it says from now on");
    let reason = Arg::new("reason")
        .long("reason")
        .value_name("TEXT")
        .help("Reason, for the record");
    [
        command("approve", "Have an entry that waits be used").arg(everybody),
        command("edit", "Say an entry in your own words").arg(new_text),
        command(
            "reject",
            "Take an entry out of use; it is not written again",
        )
        .arg(reason),
        command("restore", "Undo the last change of an entry"),
        command("pin", "Keep an entry however long no run needs it"),
        command(
            "unpin",
            "Let an entry expire when no run has needed it for 180 days",
        ),
    ]
}

pub async fn run(
    context: &CommandContext,
    command: &str,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let act = match command {
        "approve" => MemoryAct::Approve {
            for_everybody: args.get_flag("for-everybody"),
        },
        "edit" => MemoryAct::Edit {
            text: checked(text(args, "text"))?,
        },
        "reject" => MemoryAct::Reject {
            why: one_line(text(args, "reason")),
        },
        "pin" => MemoryAct::Pin,
        "unpin" => MemoryAct::Unpin,
        _ => MemoryAct::Restore,
    };
    let store = context.store_of_engine().await?;
    let id = super::found(&store, text(args, "id")).await?.entry.id;
    let changed = match store.change_memory(&id, act, &user()).await {
        Err(StoreError::WrongState { state, hint, .. }) => {
            let failure = Failure::new(Exit::Failed, format!("entry `{id}` is {state}"));
            return Err(failure.hint(hint).into());
        }
        Err(StoreError::MemoryFull) => {
            let failure = Failure::new(Exit::Failed, "there are as many entries as there may be");
            return Err(failure
                .hint("`attache memory reject` takes one out of use")
                .into());
        }
        changed => changed?,
    };
    let entry = store.memory_dossier(&changed).await?.entry;
    if context.json() {
        context
            .screen
            .json(&json!({ "id": entry.id, "status": entry.status }))?;
    } else {
        context
            .screen
            .line(format!("{}: {}", entry.id, entry.status))?;
    }
    Ok(Exit::Ok)
}

fn checked(typed: &str) -> Result<String, Failure> {
    let line = one_line(typed);
    match line.chars().count() {
        0 => Err(Failure::new(Exit::Usage, "the text is empty")
            .hint("`attache memory reject` takes an entry out of use")),
        chars if chars > MEMORY_TEXT_CHARS_MAX => Err(Failure::new(
            Exit::Usage,
            format!(
                "the text has {chars} characters, and an entry has at most {MEMORY_TEXT_CHARS_MAX}"
            ),
        )),
        _ => Ok(line),
    }
}
