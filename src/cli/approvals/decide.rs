//! `attache approvals approve|reject|edit|answer`.

use super::super::args::{id_arg, text, user};
use super::super::{CommandContext, Exit, Failure, screen};
use crate::domain::ApprovalKind;
use crate::store::{ApprovalVerdict, DecisionOutcome, NewDecision};
use clap::{Arg, ArgMatches};
use serde_json::json;

/// Returns the commands that decide on a question.
pub fn commands() -> [clap::Command; 4] {
    let command = |name: &'static str, about: &'static str| {
        let hash = Arg::new("hash")
            .long("hash")
            .value_name("SHA256")
            .help("Decide only if this is the digest of what is asked for, as `show` prints it");
        clap::Command::new(name)
            .about(about)
            .arg(id_arg())
            .arg(hash)
    };
    let words = |name: &'static str, help: &'static str| {
        Arg::new(name).value_name("TEXT").required(true).help(help)
    };
    let reason = Arg::new("reason")
        .long("reason")
        .value_name("TEXT")
        .help("Reason, which the persona reads");
    [
        command("approve", "Let it happen, exactly as shown"),
        command("reject", "Refuse it").arg(reason),
        command(
            "edit",
            "Refuse it as it is, and have the persona propose it anew",
        )
        .arg(words("text", "What is to be changed; the persona reads it")),
        command("answer", "Answer a persona's question").arg(words("text", "The answer")),
    ]
}

pub async fn run(
    context: &CommandContext,
    command: &str,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let (verdict, words) = match command {
        "approve" => (ApprovalVerdict::Approve, ""),
        "edit" => (ApprovalVerdict::Edit, text(args, "text")),
        "answer" => (ApprovalVerdict::Answer, text(args, "text")),
        _ => (ApprovalVerdict::Reject, text(args, "reason")),
    };
    let store = context.store_of_engine().await?;
    let view = super::found(&store, text(args, "id")).await?;
    let decision = NewDecision {
        verdict,
        by: user(),
        via: "cli",
        words: words.to_owned(),
        evidence_json: "{}".to_owned(),
        sha256: args.get_one::<String>("hash").cloned(),
    };
    match store.decide_approval(&view.id, decision).await? {
        DecisionOutcome::Decided(state) => {
            if context.json() {
                context
                    .screen
                    .json(&json!({ "id": view.id, "state": state }))?;
            } else {
                context.screen.line(format!("{}: {state}", view.id))?;
                if state == crate::domain::ApprovalState::Expired {
                    screen::remark("its time was over before you decided, so it counts as a no");
                }
            }
            Ok(Exit::Ok)
        }
        DecisionOutcome::Already { state, by, at } => {
            let by = match by.is_empty() {
                true => String::new(),
                false => format!(" by {by}"),
            };
            let message = format!("`{}` is {state} already{by}, since {at}", view.id);
            Err(Failure::new(Exit::Failed, message).into())
        }
        DecisionOutcome::OtherBytes => {
            let message = format!("`{}` asks for something else than this digest", view.id);
            Err(Failure::new(Exit::Failed, message)
                .hint("`attache approvals show` prints what it asks for, with its sha256")
                .into())
        }
        DecisionOutcome::NotFitting => {
            let (message, hint) = match verdict {
                _ if view.kind == ApprovalKind::Draft => (
                    "this is a draft: its run does not write it anew",
                    "use `attache drafts edit`, `send` or `discard`",
                ),
                ApprovalVerdict::Answer => (
                    "this asks for a yes or a no",
                    "use `approve`, `reject` or `edit`",
                ),
                _ => (
                    "this is a question that wants words",
                    "use `answer`, or `reject` to give none",
                ),
            };
            Err(Failure::new(Exit::Usage, message).hint(hint).into())
        }
    }
}
