//! `attache replay fork RUN --at-turn N …`: repeats a run from a turn on with one change. Sends no
//! mail unless asked.

use super::show::print;
use crate::cli::args::lookup::run_of;
use crate::cli::name_catalog;
use crate::cli::{CommandContext, Exit, Failure, refuse};
use crate::config::{self, Config, NameCatalog};
use crate::domain::RunId;
use crate::replay::fork::{ForkChange, ForkError, Forked, fork, require_texts, results_of};
use crate::replay::{load_run, timeline};
use crate::runs::record::as_of::AsOf;
use crate::runs::record::configs::Configs;
use crate::store::Store;
use serde_json::{Value, json};
use std::io::Read;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// Go on from a turn of a run with one thing changed; costs what it asks, mails nothing
#[derive(clap::Args)]
pub struct Fork {
    /// An id, its last or first characters, or `last`
    #[arg(value_name = "RUN")]
    id: String,
    /// The first turn that is asked anew; what was before it stays
    #[arg(long, value_name = "N", required_unless_present_any = ["edit_result", "persona_file"])]
    at_turn: Option<u32>,
    /// Ask this provider instead
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Ask this model instead
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Give this call (such as c1_0) the result in FILE, and go on from the turn after it
    #[arg(long, num_args = 2, value_names = ["CALL", "FILE"], action = clap::ArgAction::Set)]
    edit_result: Vec<String>,
    /// Take this text instead of PERSONA.md, from turn 0
    #[arg(long, value_name = "FILE", conflicts_with = "edit_result")]
    persona_file: Option<String>,
    /// Mail its final reply into the thread; needs --yes
    #[arg(long, requires = "yes")]
    send: bool,
    /// Somebody has thought about what --send does
    #[arg(long)]
    yes: bool,
    /// Show long texts and values whole
    #[arg(long)]
    full: bool,
}

impl Fork {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let run = run_of(&store, &self.id, "forked").await?;
        let change = self.change()?;
        let config = self.config(context, &store, &run).await?;
        let at_turn = self.at_turn(&store, &run, &change).await?;
        let cancel = CancellationToken::new();
        let working = fork(&store, config, &run, at_turn, &change, &cancel);
        tokio::pin!(working);
        let forked = tokio::select! {
            forked = &mut working => forked,
            // Its usage is recorded before the command ends.
            _interrupted = tokio::signal::ctrl_c() => {
                cancel.cancel();
                working.await
            }
        };
        let forked = forked.map_err(explained)?;
        let sent = if self.send {
            send(&store, &run, &forked).await?
        } else {
            None
        };
        match context.json() {
            true => context.screen.json(&json!({
                "run": run,
                "fork": forked.record,
                "sent": sent,
            }))?,
            false => {
                let lines = timeline::run(&forked.record, self.full);
                print(&context.screen, &lines)?;
                let fork = &forked.record.run.id;
                context.screen.line(format!(
                    "`attache replay diff {run} {fork}` compares it with its run"
                ))?;
                if let Some(sent) = sent {
                    context
                        .screen
                        .line(format!("its reply is queued as <{sent}>"))?;
                }
            }
        }
        Ok(if forked.record.run.state == "succeeded" {
            Exit::Ok
        } else {
            Exit::Failed
        })
    }

    fn change(&self) -> anyhow::Result<ForkChange> {
        let result = match self.edit_result.as_slice() {
            [call, file] => Some((call.clone(), payload(&read(Path::new(file))?))),
            _ => None,
        };
        let persona_text = self.persona_file.as_ref();
        let persona_text = persona_text.map(|file| read(Path::new(file))).transpose()?;
        Ok(ForkChange {
            provider: self.provider.clone(),
            model: self.model.clone(),
            result,
            persona_text,
        })
    }

    /// The current configuration; for an imported run its recorded one, unless its workspace has
    /// another.
    async fn config(
        &self,
        context: &CommandContext,
        store: &Store,
        run: &RunId,
    ) -> anyhow::Result<Config> {
        let (workspace, names) = (&context.workspace, name_catalog());
        if store.archive_header().await?.is_some() {
            if self.send {
                return refuse(
                    Exit::Usage,
                    "nothing is mailed from a workspace of `replay import`",
                    "leave --send out",
                );
            }
            if !workspace.join("configs/gateway.json").exists() {
                return config_of(workspace, &names, store, run).await;
            }
        }
        Ok(match self.provider {
            Some(_) => config::load_for_one(workspace, &names)?,
            None => config::load(workspace, &names)?,
        })
    }

    /// The turn that was named, or the turn that the change implies.
    async fn at_turn(
        &self,
        store: &Store,
        run: &RunId,
        change: &ForkChange,
    ) -> anyhow::Result<u32> {
        if let Some(turn) = self.at_turn {
            return Ok(turn);
        }
        let Some((id, _)) = &change.result else {
            return Ok(0);
        };
        let record = load_run(store, run).await?;
        require_texts(&record).map_err(explained)?;
        let call = record.calls.iter().find(|call| call.id == *id);
        match call.and_then(|call| call.turn_index) {
            Some(turn) => Ok(turn + 1),
            None => Err(explained(ForkError::NoResult {
                id: id.clone(),
                there: results_of(&record),
            })),
        }
    }
}

/// Maximum bytes of a file that is given to a fork.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Parses a file as a whole result (`{"ok": …}`), another JSON value, or plain text.
fn payload(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut members)) if members.contains_key("ok") => {
            // The first member marks a failure (`tool_policy::is_failure`).
            let ok = members.remove("ok").unwrap_or_default();
            let mut payload = serde_json::Map::from_iter([("ok".to_owned(), ok)]);
            payload.extend(members);
            Value::Object(payload)
        }
        Ok(value) => json!({ "ok": true, "result": value }),
        Err(_) => json!({ "ok": true, "result": text.trim_end() }),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |source| {
        Failure::new(Exit::NoInput, format!("cannot read `{}`", file.display()))
            .hint("name a text file")
            .because(source)
    };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    let read = opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    match read as u64 > FILE_BYTES_MAX {
        true => refuse(
            Exit::NoInput,
            format!("`{}` is larger than {FILE_BYTES_MAX} bytes", file.display()),
            "give a fork less",
        ),
        false => Ok(text),
    }
}

/// The recorded configuration of an imported run, with secrets masked.
async fn config_of(
    workspace: &Path,
    names: &NameCatalog,
    store: &Store,
    run: &RunId,
) -> anyhow::Result<Config> {
    let unknown = |cause: anyhow::Error| {
        Failure::new(Exit::BadData, "the configuration of the run cannot be had")
            .hint("put one of your own, with this persona, into the folders `configs` and `personas` of this workspace")
            .because(cause)
    };
    let persona = store.persona(&store.run_summary(run).await?.persona);
    let contexts = AsOf::of_run(store, run)
        .await
        .map_err(|error| unknown(error.into()))?;
    let digest = contexts
        .last()
        .map(|context| context.config.as_str())
        .unwrap_or_default();
    let (snapshot, _) = Configs::found(&persona, digest)
        .await
        .map_err(|error| unknown(error.into()))?;
    Ok(config::load_foreign(workspace, names, &snapshot)
        .map_err(|errors| unknown(errors.into()))?)
}

/// Queues the final reply of the fork, as the original run would have done.
async fn send(store: &Store, run: &RunId, forked: &Forked) -> anyhow::Result<Option<String>> {
    let Some(reply) = &forked.reply else {
        return Err(Failure::new(Exit::Failed, "the fork has no reply to send").into());
    };
    let persona = store.run_summary(run).await?.persona;
    store
        .persona(&persona)
        .send_of_fork(run, reply.clone())
        .await?;
    Ok(Some(reply.content.rfc_message_id.clone()))
}

fn explained(error: ForkError) -> anyhow::Error {
    let message = error.to_string();
    let failure = |exit| Failure::new(exit, message);
    match error {
        ForkError::NotEnded => failure(Exit::Usage)
            .hint("wait for its end, or `attache runs cancel` it")
            .into(),
        ForkError::Agent(_) => failure(Exit::Usage)
            .hint("name a model API with --provider and --model")
            .into(),
        ForkError::PersonaLater => failure(Exit::Usage).hint("leave --at-turn out").into(),
        ForkError::ResultLater { of_turn, .. } => {
            let hint = format!("leave --at-turn out, or write --at-turn {}", of_turn + 1);
            failure(Exit::Usage).hint(hint).into()
        }
        ForkError::NoTurn(_) => failure(Exit::NoInput)
            .hint("`attache replay show` lists its turns")
            .into(),
        ForkError::Collected(_) => failure(Exit::NoInput)
            .hint("a backup from before has them still; fork it there")
            .into(),
        ForkError::Redacted(_) => failure(Exit::NoInput)
            .hint("fork another run of the thread")
            .into(),
        ForkError::NoResult { there, .. } if there.is_empty() => failure(Exit::NoInput)
            .hint("no call of it has a result")
            .into(),
        ForkError::NoResult { there, .. } | ForkError::NoProvider { there, .. } => {
            failure(Exit::NoInput)
                .hint(format!("there are: {}", there.join(", ")))
                .into()
        }
        ForkError::Provider { source, .. } => {
            let hint = "`attache providers list` says what each provider needs; --provider chooses another";
            failure(Exit::BadData).hint(hint).because(*source).into()
        }
        ForkError::Sandbox(source) => failure(Exit::CannotCreate)
            .hint("`data/forks` must be a folder in which this user may write")
            .because(source)
            .into(),
        ForkError::Store(error) => error.into(),
        ForkError::PersonaText(_) | ForkError::Unreadable(_) | ForkError::Run(_) => error.into(),
    }
}
