//! `attache approvals approve|reject|edit|answer`.

use super::super::args::user;
use super::super::{CommandContext, Exit, Failure, screen};
use crate::domain::ApprovalKind;
use crate::store::{ApprovalVerdict, DecisionOutcome, NewDecision};
use serde_json::json;

/// A question, as it was shown.
#[derive(clap::Args)]
pub struct ApprovalOfBytes {
    /// Its id, or the last or first characters of it
    id: String,
    /// Decide only if this is the digest of what is asked for, as `show` prints it
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
}

pub async fn run(
    context: &CommandContext,
    verdict: ApprovalVerdict,
    ApprovalOfBytes { id, hash }: ApprovalOfBytes,
    words: String,
) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let view = super::found(&store, &id).await?;
    let decision = NewDecision {
        verdict,
        by: user(),
        via: "cli",
        words,
        evidence_json: "{}".to_owned(),
        sha256: hash,
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
