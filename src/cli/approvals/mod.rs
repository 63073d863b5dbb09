//! `attache approvals`: questions to the owner, and answers to them.

mod decide;

use super::args::{LimitArg, persona_of};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure};
use crate::domain::ApprovalState;
use crate::store::{ApprovalVerdict, ApprovalView, ListPage, Store};
use clap::value_parser;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Answer what a persona asks its owner before it acts
#[derive(clap::Subcommand)]
pub enum ApprovalsCommand {
    /// List open questions, those that end first
    List(ApprovalsPage),
    /// List all questions and what became of them, the newest first
    History(ApprovalsPage),
    /// Show a question: what would be done, to whom, and why it is asked
    Show {
        /// Its id, or the last or first characters of it
        id: String,
    },
    /// Let it happen, exactly as shown
    Approve(decide::ApprovalOfBytes),
    /// Refuse it
    Reject {
        #[command(flatten)]
        of: decide::ApprovalOfBytes,
        /// Reason, which the persona reads
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Refuse it as it is, and have the persona propose it anew
    Edit {
        #[command(flatten)]
        of: decide::ApprovalOfBytes,
        /// What is to be changed; the persona reads it
        text: String,
    },
    /// Answer a persona's question
    Answer {
        #[command(flatten)]
        of: decide::ApprovalOfBytes,
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
pub struct ApprovalsPage {
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
        decide::run(context, verdict, of, words).await
    }
}

async fn list(
    context: &CommandContext,
    ApprovalsPage { persona, page }: ApprovalsPage,
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
    context.screen.list(&found, columns, nothing, row)?;
    Ok(Exit::Ok)
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
    if context.json() {
        context.screen.json(&view)?;
        return Ok(Exit::Ok);
    }
    let decided = view.decided_at.map(|at| at.to_string());
    context.screen.fields(&[
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
    context.screen.line("")?;
    for line in view.view.lines() {
        context.screen.line(line)?;
    }
    Ok(Exit::Ok)
}

/// Finds a question by its id or the end of it. Errors: none, or several.
async fn found(store: &Store, typed: &str) -> anyhow::Result<ApprovalView> {
    let ids = match store.approval(typed).await {
        Ok(view) => return Ok(view),
        Err(_) => store.approvals_ending(typed).await?,
    };
    match ids.as_slice() {
        [one] => Ok(store.approval(one).await?),
        [] => Err(
            Failure::new(Exit::NoInput, format!("no question `{typed}`"))
                .hint("`attache approvals history` lists all of them")
                .into(),
        ),
        _ => Err(Failure::new(
            Exit::NoInput,
            format!("several questions end with `{typed}`"),
        )
        .hint("type more of the id")
        .into()),
    }
}

async fn stats(context: &CommandContext, days: u32) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let since = store.clock().now().minus(DAY * days);
    let stats = store.approval_stats(since).await?;
    if context.json() {
        context.screen.json(&stats)?;
        return Ok(Exit::Ok);
    }
    let seconds =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0} s"));
    context.screen.fields(&[
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
    Ok(Exit::Ok)
}
