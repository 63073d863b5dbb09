//! `attache notices list|show`: notices sent to the owner by mail, and pending ones.

use super::screen::Columns;
use super::{CommandContext, Exit, Failure};
use crate::store::{ListPage, NoticeFold, Notified, Store, StoreError};
use clap::value_parser;

/// List and show what went wrong, whether or not the owner was notified by mail
#[derive(clap::Subcommand)]
pub enum NoticesCommand {
    /// List causes with their events as the mails group them, the newest first
    List {
        /// Show so many lines at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Show the events of a cause, or one of them
    Show {
        /// A cause as `list` shows it, or the id of one notice, or the last or first characters of it
        #[arg(value_name = "CAUSE|ID")]
        which: String,
        /// Show so many events at most, the newest
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

impl NoticesCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        match self {
            Self::List { limit } => list(context, &store, limit).await?,
            Self::Show { which, limit } => show(context, &store, &which, limit).await?,
        }
        Ok(Exit::Ok)
    }
}

async fn list(context: &CommandContext, store: &Store, limit: u32) -> anyhow::Result<()> {
    let folds = store.list_notices(ListPage::first(limit)).await?;
    let row = |fold: &NoticeFold| {
        let (notified_at, delivery) = notified_cells(fold.notified.as_ref());
        vec![
            fold.cause.clone(),
            fold.count.to_string(),
            fold.first_at.to_string(),
            fold.last_at.to_string(),
            notified_at,
            delivery,
            fold.delivery_state.clone().unwrap_or_default(),
            fold.summary.clone(),
        ]
    };
    let headings = [
        "CAUSE", "EVENTS", "FIRST", "LAST", "NOTIFIED", "DELIVERY", "MAIL", "NEWEST",
    ];
    let columns = Columns::of(&headings)
        .main("CAUSE")
        .optional(&["FIRST", "DELIVERY", "NOTIFIED", "MAIL", "EVENTS"]);
    context
        .screen
        .list(&folds, columns, "there is no notice", row)
}

async fn show(
    context: &CommandContext,
    store: &Store,
    which: &str,
    limit: u32,
) -> anyhow::Result<()> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut events = store.notices_of_cause(which, limit).await?;
    if events.is_empty() {
        let one = store.find_notice(which).await;
        events.push(one.map_err(unknown)?);
    }
    if context.json() {
        return context.screen.json(&events);
    }
    for (place, event) in events.iter().enumerate() {
        if place > 0 {
            context.screen.line("")?;
        }
        let (notified_at, delivery) = notified_cells(event.notified.as_ref());
        context.screen.fields(&[
            ("notice", event.id.to_string()),
            ("cause", event.cause.clone()),
            (
                "about",
                format!("{} {}", event.subject.kind, event.subject.id),
            ),
            (
                "persona",
                event
                    .persona
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            ),
            ("emitted", event.emitted_at.to_string()),
            ("notified", notified_at),
            ("delivery", delivery),
            ("what", event.summary.clone()),
            ("to do", event.hint.clone()),
        ])?;
    }
    Ok(())
}

/// Turns a missing notice into a hint: the list shows causes, and they are not truncated.
fn unknown(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing { .. } => Failure::new(Exit::NoInput, error.to_string())
            .hint("`attache notices list` shows causes; give one whole, or the id of a notice that `show` has shown")
            .into(),
        other => other.into(),
    }
}

/// Instant and mail of a notification; dashes while the notice is pending.
fn notified_cells(notified: Option<&Notified>) -> (String, String) {
    let dash = || "-".to_owned();
    notified.map_or_else(
        || (dash(), dash()),
        |notified| (notified.at.to_string(), notified.delivery.to_string()),
    )
}
