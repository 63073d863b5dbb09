//! `attache tail`: letters, runs, steps and deliveries as they happen, one line each, beside a working engine and without one.
//!
//! What it shows is the feed (`store/feed.rs`); it writes nothing. No signal between processes tells of a commit, so following
//! looks for a newer event four times a second, which reads one page of the database.

use super::args::lookup::{find_run, no_such_run};
use super::args::{instant, persona_of};
use super::screen::{remark, visible};
use super::{CommandContext, Exit, Failure};
use crate::clock::SystemClock;
use crate::config::dollars;
use crate::domain::FeedKind;
use crate::domain::mail::filed;
use crate::store::{
    ConfigurationEvent, DatabasePlace, FEED_PAGE_MAX, FeedFilter, FeedLine, OpenError, Store,
};
use crate::text::{plural, shortened};
use anyhow::Context as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Show what happens: letters, runs, their steps, deliveries, one line each
#[derive(clap::Args)]
#[command(
    // What other programs call it.
    visible_alias = "logs",
    after_help = "The first column is the number of the event: `--since NUMBER` goes on behind it. With --json each line is one JSON \
                  object. It can be called as `attache logs`, too; the lines that the engine itself logs are on its stderr, or in the \
                  journal."
)]
pub struct TailCommand {
    /// Wait for what comes, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Only this run: its id, the last or first characters of it, or `last`
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// What came after the event of this number, or since then: `30m`, `24h`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "WHEN", conflicts_with = "lines")]
    since: Option<String>,
    /// Begin with so many of the newest events
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    lines: u32,
}

/// Time between two looks for a newer event.
const GLANCE: Duration = Duration::from_millis(250);

impl TailCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = store_to_read(context).await?;
        let filter = FeedFilter {
            persona: persona_of(context, &store, self.persona).await?,
            run: match &self.run {
                Some(typed) => match find_run(&store, typed).await {
                    Ok(run) => Some(run),
                    Err(error) => return Err(no_such_run(&store, error).await),
                },
                None => None,
            },
            thread: None,
        };
        let mut since = begin(&store, &filter, self.since.as_deref(), self.lines).await?;
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        // Events before a number that was given may be gone; those before a time or a count were not asked for.
        let mut is_resumed = self.since.as_deref().is_some_and(is_number);
        loop {
            let page = store.feed_after(since, &filter, FEED_PAGE_MAX).await?;
            if page.has_gap && is_resumed {
                remark(&format!(
                    "event {since} is not in this database's feed any more: what came right after it is missing"
                ));
            }
            for line in store.feed_lines(&page.events).await? {
                show_line(context, &line)?;
            }
            (since, is_resumed) = (page.through, true);
            if page.has_more() {
                continue;
            }
            if !self.follow {
                return Ok(Exit::Ok);
            }
            if !wait(context, &store, since, &mut interrupts).await? {
                remark(&format!(
                    "`attache tail --follow --since {since}` goes on from here"
                ));
                return Ok(Exit::Ok);
            }
        }
    }
}

/// Waits for an event after `since`; `false`: Ctrl-C.
///
/// Errors: nobody reads the output any more.
async fn wait(
    context: &CommandContext,
    store: &Store,
    since: i64,
    interrupts: &mut tokio::signal::unix::Signal,
) -> anyhow::Result<bool> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(GLANCE) => {}
            _ = interrupts.recv() => return Ok(false),
        }
        context.screen.require_reader()?;
        // Smaller: the database was replaced by an older one.
        if store.feed_glance().await? != since {
            return Ok(true);
        }
    }
}

/// Opens the database without writing into it, unless it has to be made or brought up to date first.
async fn store_to_read(context: &CommandContext) -> anyhow::Result<Store> {
    let workspace = context.require_workspace()?;
    if DatabasePlace::of(workspace)?.is_made() {
        match Store::open_to_read(workspace, Arc::new(SystemClock::new())).await {
            Err(OpenError::Older(_) | OpenError::NotMade) => {}
            opened => return Ok(opened?),
        }
    }
    context.shared_store().await
}

/// Returns the number after which the output begins.
async fn begin(
    store: &Store,
    filter: &FeedFilter,
    since: Option<&str>,
    lines: u32,
) -> anyhow::Result<i64> {
    let Some(typed) = since else {
        return Ok(store.feed_before_newest(filter, lines).await?);
    };
    if is_number(typed) {
        let number = typed.parse();
        return number.map_err(|_| {
            Failure::new(Exit::Usage, format!("`{typed}` is no number of an event")).into()
        });
    }
    Ok(store.feed_before(instant(typed)?).await?)
}

fn is_number(typed: &str) -> bool {
    !typed.is_empty() && typed.bytes().all(|byte| byte.is_ascii_digit())
}

const SUBJECT_CHARS_MAX: usize = 40;
const DETAIL_CHARS_MAX: usize = 160;

/// Shows an event: a JSON object, columns on a terminal, tab-separated cells in a pipe.
fn show_line(context: &CommandContext, line: &FeedLine) -> anyhow::Result<()> {
    let screen = &context.screen;
    if context.json() {
        return screen.json_line(line);
    }
    let [number, at, persona, kind, subject, detail] = feed_cells(line);
    if !screen.is_terminal() {
        return Ok(screen.line([number, at, persona, kind, subject, detail].join("\t"))?);
    }
    let at = screen.moment(&at);
    let text = format!("{number:>6}  {at}  {persona:<10} {kind:<20} {subject}  {detail}");
    Ok(screen.fitted(text.trim_end())?)
}

/// Cells of an event: number, time, persona, kind, subject of the thread, details. Control characters are visible.
fn feed_cells(line: &FeedLine) -> [String; 6] {
    let event = &line.event;
    let subject = shortened(
        &visible(line.subject.as_deref().unwrap_or_default()),
        SUBJECT_CHARS_MAX,
    );
    let persona = event.persona.as_ref().map(ToString::to_string);
    let parts = details(line).into_iter().flatten();
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    [
        event.seq.to_string(),
        event.at.to_string(),
        persona.unwrap_or_else(|| "-".to_owned()),
        event.kind.to_string(),
        if subject.is_empty() {
            "-".to_owned()
        } else {
            subject
        },
        shortened(&visible(&parts.join(", ")), DETAIL_CHARS_MAX),
    ]
}

/// Details of an event, the most telling first.
fn details(line: &FeedLine) -> [Option<String>; 5] {
    let event = &line.event;
    let cost = line
        .cost_micros
        .map(|micros| format!("${}", dollars(micros)));
    let error = match (&line.error_class, &line.error_message) {
        (Some(class), Some(message)) => Some(format!("{class}: {message}")),
        (class, message) => class.clone().or_else(|| message.clone()),
    };
    let run = event.run.as_ref().map(|run| format!("run {run}"));
    match event.kind {
        FeedKind::LetterFiled => {
            let rule = line.disposition.as_deref().and_then(filed::rule_of);
            let why = rule.map(|rule| format!("{rule}: {}", filed::why(rule)));
            [
                line.sender.as_ref().map(|from| format!("from {from}")),
                why,
                None,
                None,
                None,
            ]
        }
        kind if kind.subject() == "letter" => [
            line.sender.as_ref().map(|from| format!("from {from}")),
            run,
            None,
            None,
            None,
        ],
        kind if kind.subject() == "run" => {
            let trigger = line.trigger.map(|trigger| trigger.to_string());
            let next = line
                .next_attempt_at
                .map(|at| format!("next attempt at {at}"));
            [error, next, cost, trigger, run]
        }
        kind if kind.subject() == "turn" => [error, cost, line.model.clone(), None, None],
        kind if kind.subject() == "call" => {
            let called = [line.tool.clone(), line.arguments.clone()];
            let called: Vec<String> = called.into_iter().flatten().collect();
            [Some(called.join(" ")), error, None, None, None]
        }
        kind if kind.subject() == "delivery" => [Some(recipients(line)), None, None, None, None],
        kind if kind.subject() == "approval" => {
            let approval = event.approval.as_ref().map(|id| format!("question {id}"));
            [line.tool.clone(), approval, None, None, None]
        }
        kind if kind.subject() == "configuration" => [
            event.item.as_deref().map(configuration),
            None,
            None,
            None,
            None,
        ],
        kind if kind.subject() == "slot" => [line.responsibility.clone(), run, None, None, None],
        _ => [
            line.summary.clone().or_else(|| event.item.clone()),
            None,
            None,
            None,
            None,
        ],
    }
}

/// Files of a configuration that was read again, with the number of what was found in them.
fn configuration(item: &str) -> String {
    let read: ConfigurationEvent = serde_json::from_str(item).unwrap_or_default();
    let found = [(read.problems, "problem"), (read.warnings, "warning")];
    let counts = found.into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| plural(count, what));
    let more = (read.more_files > 0).then(|| format!("{} more", read.more_files));
    read.files
        .into_iter()
        .chain(more)
        .chain(counts)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Recipients of a mail, with what the server said of those that do not have it.
fn recipients(line: &FeedLine) -> String {
    let replies = line.recipients.iter().map(|one| {
        let code = one.code.map(|code| format!("{code} ")).unwrap_or_default();
        match (&one.reply, one.state.as_str()) {
            (_, "delivered") => format!("to {}", one.recipient),
            (Some(reply), state) => format!("{} {state}: {code}{reply}", one.recipient),
            (None, state) => format!("{} {state}", one.recipient),
        }
    });
    replies.collect::<Vec<_>>().join(", ")
}
