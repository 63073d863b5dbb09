//! `attache approvals`: questions to the owner, and answers to them.

use super::args::{LimitArg, persona_of, user};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::domain::{ApprovalKind, ApprovalState};
use crate::store::{ApprovalVerdict, ApprovalView, DecisionOutcome, ListPage, NewDecision, Store};
use clap::value_parser;
use serde_json::json;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Answer what a persona asks its owner before it acts
#[derive(clap::Subcommand)]
pub enum ApprovalsCommand {
    /// List open questions, those that end first
    List(ApprovalsListArgs),
    /// List all questions and what became of them, the newest first
    History(ApprovalsListArgs),
    /// Show a question: what would be done, to whom, and why it is asked
    Show {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Let it happen, exactly as shown
    Approve(ApprovalOfBytes),
    /// Refuse it
    Reject {
        #[command(flatten)]
        of: ApprovalOfBytes,
        /// Reason, which the persona reads
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Refuse it as it is, and have the persona propose it anew
    Edit {
        #[command(flatten)]
        of: ApprovalOfBytes,
        /// What is to be changed; the persona reads it
        text: String,
    },
    /// Answer a persona's question
    Answer {
        #[command(flatten)]
        of: ApprovalOfBytes,
        /// The answer
        text: String,
    },
    /// Show how often owners are asked, how soon they decide, and how
    Stats {
        /// Count the last so many days
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u32).range(1..=3650))]
        days: u32,
    },
}

/// A page of questions.
#[derive(clap::Args)]
pub struct ApprovalsListArgs {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    #[command(flatten)]
    page: LimitArg,
}

impl ApprovalsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let (verdict, of, words) = match self {
            Self::List(page) => return list(context, page, Some(ApprovalState::Open)).await,
            Self::History(page) => return list(context, page, None).await,
            Self::Show { id } => return show(context, &id).await,
            Self::Stats { days } => return stats(context, days).await,
            Self::Approve(of) => (ApprovalVerdict::Approve, of, String::new()),
            Self::Reject { of, reason } => {
                (ApprovalVerdict::Reject, of, reason.unwrap_or_default())
            }
            Self::Edit { of, text } => (ApprovalVerdict::Edit, of, text),
            Self::Answer { of, text } => (ApprovalVerdict::Answer, of, text),
        };
        decide(context, verdict, of, words).await
    }
}

async fn list(
    context: &CommandContext,
    ApprovalsListArgs { persona, page }: ApprovalsListArgs,
    state: Option<ApprovalState>,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let persona = persona_of(context, &store, persona).await?;
    let found = store
        .approvals(state, persona.as_ref(), ListPage::first(page.limit))
        .await?;
    let (headings, nothing): (&[&str], _) = match state {
        Some(_) => (
            &["ID", "PERSONA", "KIND", "TOOL", "ASKED", "ENDS", "WHAT"],
            "no question is open",
        ),
        None => (
            &[
                "ID", "PERSONA", "KIND", "TOOL", "ASKED", "STATE", "BY", "DECIDED", "WHAT",
            ],
            "nothing was ever asked",
        ),
    };
    let columns = Columns::of(headings)
        .main("WHAT")
        .optional(&["KIND", "DECIDED", "ASKED"]);
    let row = |view: &ApprovalView| cells(view, state.is_none());
    context.list(&found, columns, nothing, row)
}

fn cells(view: &ApprovalView, is_history: bool) -> Vec<String> {
    let first = view.view.lines().next().unwrap_or_default().to_owned();
    let mut cells = vec![
        view.id.clone(),
        view.persona.to_string(),
        view.kind.to_string(),
        view.tool.clone(),
        view.requested_at.to_string(),
    ];
    match is_history {
        false => cells.push(view.expires_at.to_string()),
        true => cells.extend([
            view.state.to_string(),
            decided_by(view),
            view.decided_at.map(|at| at.to_string()).unwrap_or_default(),
        ]),
    }
    cells.push(first);
    cells
}

/// `carol@home.test by mail`, or who else ended it.
fn decided_by(view: &ApprovalView) -> String {
    let via = view.via.as_deref().unwrap_or_default();
    match view.decided_by.as_deref().filter(|by| !by.is_empty()) {
        Some(by) => format!("{by} by {via}"),
        None => via.to_owned(),
    }
}

async fn show(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let view = found(&store, id).await?;
    context.report(&view, |screen| {
        let decided = view.decided_at.map(|at| at.to_string());
        screen.fields(&[
            ("approval", view.id.clone()),
            ("state", view.state.to_string()),
            ("persona", view.persona.to_string()),
            ("run", view.run.to_string()),
            ("tool", view.tool.clone()),
            ("asked", view.requested_at.to_string()),
            ("ends", view.expires_at.to_string()),
            ("decided", decided.unwrap_or_else(|| "-".to_owned())),
            ("by", decided_by(&view)),
            ("words", view.words.clone().unwrap_or_default()),
            ("sha256", view.sha256.clone()),
        ])?;
        screen.line("")?;
        for line in view.view.lines() {
            screen.line(line)?;
        }
        Ok(())
    })
}

/// Finds a question by its id or the end of it. Errors: none, or several.
async fn found(store: &Store, typed: &str) -> anyhow::Result<ApprovalView> {
    let ids = match store.approval(typed).await {
        Ok(view) => return Ok(view),
        Err(_) => store.approvals_ending(typed).await?,
    };
    match ids.as_slice() {
        [one] => Ok(store.approval(one).await?),
        [] => refuse(
            Exit::NoInput,
            format!("no question `{typed}`"),
            "`attache approvals history` lists all of them",
        ),
        _ => refuse(
            Exit::NoInput,
            format!("several questions end with `{typed}`"),
            "type more of the id",
        ),
    }
}

async fn stats(context: &CommandContext, days: u32) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * days);
    let stats = store.approval_stats(since).await?;
    context.report(&stats, |screen| {
        let seconds =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0} s"));
        screen.fields(&[
            ("questions", stats.questions.to_string()),
            ("runs", stats.runs.to_string()),
            ("per 100 runs", format!("{:.1}", stats.per_100_runs)),
            ("open", stats.open.to_string()),
            ("approved", stats.approved.to_string()),
            ("rejected", stats.rejected.to_string()),
            ("edited", stats.edited.to_string()),
            ("expired", stats.expired.to_string()),
            ("other ends", stats.other.to_string()),
            ("median time to decide", seconds(stats.median_seconds)),
            ("decided within 3 s", stats.hasty.to_string()),
        ])?;
        Ok(())
    })
}

/// A question, as it was shown.
#[derive(clap::Args)]
pub struct ApprovalOfBytes {
    /// Its id, or the last or first characters of it
    id: String,
    /// Decide only if this is the digest of what is asked for, as `show` prints it
    #[arg(long, value_name = "SHA256")]
    hash: Option<String>,
}

pub async fn decide(
    context: &CommandContext,
    verdict: ApprovalVerdict,
    ApprovalOfBytes { id, hash }: ApprovalOfBytes,
    words: String,
) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let view = found(&store, &id).await?;
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
            context.report(&json!({ "id": view.id, "state": state }), |screen| {
                screen.line(format!("{}: {state}", view.id))?;
                if state == crate::domain::ApprovalState::Expired {
                    screen::remark("its time was over before you decided, so it counts as a no");
                }
                Ok(())
            })
        }
        DecisionOutcome::Already { state, by, at } => {
            let by = match by.is_empty() {
                true => String::new(),
                false => format!(" by {by}"),
            };
            let message = format!("`{}` is {state} already{by}, since {at}", view.id);
            Err(Failure::new(Exit::Failed, message).into())
        }
        DecisionOutcome::OtherBytes => refuse(
            Exit::Failed,
            format!("`{}` asks for something else than this digest", view.id),
            "`attache approvals show` prints what it asks for, with its sha256",
        ),
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
            refuse(Exit::Usage, message, hint)
        }
    }
}
