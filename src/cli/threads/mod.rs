//! `attache threads list|show|raw|budget|instruct`: threads with their participants, messages and runs, and
//! the bytes of a letter.

pub mod budget;
pub mod instruct;

use super::args::lookup::not_found;
use super::args::{PageArgs, persona_of};
use super::screen::Columns;
use super::{CommandContext, Exit};
use crate::domain::{MessageId, Trigger};
use crate::replay::{MessageRecord, RunRow, ThreadDetail, load_thread};
use crate::store::{StoredThreadSummary, ThreadFilter, ThreadSession, ThreadSummary};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::value_parser;
use serde::Serialize;

/// List and show threads and letters
#[derive(clap::Subcommand)]
pub enum ThreadsCommand {
    /// List threads, the last active first
    List(PageArgs),
    /// Show a thread's messages and runs
    Show {
        /// Its id, or the last or first characters of it
        id: String,
        /// Show the last N messages
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    Budget(budget::BoundThread),
    Instruct(instruct::InstructThread),
    /// Print a letter byte by byte, our Received field in front of it
    Raw {
        /// Its id, or the last or first characters of it
        id: String,
    },
}

impl ThreadsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List(page) => list(context, page).await,
            Self::Show { id, limit } => show(context, &id, limit).await,
            Self::Budget(it) => it.run(context).await,
            Self::Instruct(it) => it.run(context).await,
            Self::Raw { id } => raw(context, &id).await,
        }
    }
}

/// Maximum number of the newest runs that `show` lists.
const RUNS_MAX: u32 = 100;
/// Summaries that `show` lists.
const SUMMARIES_MAX: u32 = 3;

async fn list(context: &CommandContext, page: PageArgs) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let filter = ThreadFilter {
        persona: persona_of(context, &store, page.persona).await?,
        limit: page.limit,
        offset: page.offset,
    };
    let threads = store.list_threads(&filter).await?;
    let row = |thread: &ThreadSummary| {
        vec![
            thread.id.to_string(),
            thread.updated_at.to_string(),
            thread.persona.to_string(),
            thread.messages.to_string(),
            thread.runs.to_string(),
            thread.open_runs.to_string(),
            thread.held.clone().unwrap_or_default(),
            thread.participants.join(", "),
            thread.subject.clone(),
        ]
    };
    let columns = Columns::of(&[
        "ID", "ACTIVE", "PERSONA", "MSGS", "RUNS", "OPEN", "HELD", "WITH", "SUBJECT",
    ])
    .optional(&["RUNS", "MSGS", "OPEN", "PERSONA"]);
    context
        .screen
        .list(&threads, columns, "no letter has come yet", row)?;
    Ok(Exit::Ok)
}

async fn show(context: &CommandContext, id: &str, limit: u32) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let id = store
        .find_thread(id)
        .await
        .map_err(|error| not_found(error, "`attache threads list`"))?;
    let thread = load_thread(&store, &id, limit, RUNS_MAX).await?;
    let sessions = store.thread_sessions(&id).await?;
    let resets = store.thread_resets(&id).await?;
    let summaries = store.summaries_of_thread(&id, SUMMARIES_MAX).await?;
    if context.json() {
        let detail = ThreadDetail::of(&thread, (&sessions, &resets, &summaries));
        context.screen.json(&detail)?;
        return Ok(Exit::Ok);
    }
    let mut fields = vec![
        ("thread", thread.id.clone()),
        ("conversation", thread.conversation.clone()),
        ("persona", thread.persona.clone()),
        ("subject", thread.subject.clone()),
        ("participants", thread.participants.join(", ")),
    ];
    fields.extend(sessions.iter().map(|session| {
        let ThreadSession {
            provider,
            model,
            id,
            state,
            created_at,
            used_at,
        } = session;
        let said =
            format!("{provider}/{model} {id}, {state}, since {created_at}, last used {used_at}");
        ("session", context.screen.moments(&said))
    }));
    fields.extend(resets.iter().map(|reset| {
        let said = format!("{}: later runs do not see what is older", reset.reset_at);
        ("reset", context.screen.moments(&said))
    }));
    context.screen.fields(&fields)?;
    for message in &thread.messages {
        let run = thread
            .runs
            .iter()
            .find(|run| {
                run.trigger.id == message.id && run.run.trigger != Trigger::Summary.as_str()
            })
            .map(|run| &run.run);
        show_message(context, message, run)?;
    }
    show_summaries(context, &summaries)?;
    Ok(Exit::Ok)
}

fn show_summaries(
    context: &CommandContext,
    summaries: &[StoredThreadSummary],
) -> anyhow::Result<()> {
    let screen = &context.screen;
    for summary in summaries {
        screen.line("")?;
        let made = screen.moment(&summary.created_at.to_string());
        screen.heading(format!(
            "{made}  summary of {} messages, {}",
            summary.messages, summary.state
        ))?;
        let ids = |ids: &[MessageId]| {
            let ids: Vec<&str> = ids.iter().map(MessageId::as_str).collect();
            ids.join(", ")
        };
        let mut fields = vec![
            ("id", summary.id.clone()),
            ("run", format!("{} ({})", summary.run, summary.model)),
            ("up to", summary.upto_message.to_string()),
            ("made from", ids(&summary.made_from)),
            ("readers", summary.readers.join(", ")),
            ("label", summary.label.described()),
        ];
        fields.extend(
            summary
                .previous
                .clone()
                .map(|id| ("and from", format!("summary {id}"))),
        );
        fields.extend(
            (!summary.changed.is_empty()).then(|| ("changed since", ids(&summary.changed))),
        );
        fields.extend(
            (!summary.problems.is_empty()).then(|| ("not used", summary.problems.join("; "))),
        );
        screen.fields(&fields)?;
        screen.behind("| ", summary.text.trim_end())?;
    }
    Ok(())
}

async fn raw(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let found = |error| not_found(error, "`attache threads show`");
    let message = store.find_message(id).await.map_err(found)?;
    let letter = store.raw_letter(&message).await.map_err(found)?;
    if context.json() {
        context.screen.json(&RawLetterRecord {
            id: &message,
            trace: letter.trace.as_deref(),
            bytes_base64: STANDARD.encode(&letter.bytes),
        })?;
        return Ok(Exit::Ok);
    }
    context
        .screen
        .bytes(letter.trace.unwrap_or_default().as_bytes())?;
    context.screen.bytes(&letter.bytes)?;
    Ok(Exit::Ok)
}

fn show_message(
    context: &CommandContext,
    message: &MessageRecord,
    run: Option<&RunRow>,
) -> anyhow::Result<()> {
    let screen = &context.screen;
    screen.line("")?;
    let subject = message
        .subject
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    screen.heading(format!(
        "{}  {}  {subject}",
        screen.moment(&message.received_at),
        message.direction
    ))?;
    let trust = match &message.trust_basis {
        Some(basis) => format!("{} ({basis})", message.trust),
        None => message.trust.clone(),
    };
    let mut fields = vec![
        ("id", message.id.clone()),
        ("from", message.sender.clone()),
        ("trust", trust),
        ("disposition", message.disposition.clone()),
    ];
    for attachment in &message.attachments {
        let (name, kind) = (&attachment.filename, &attachment.content_type);
        fields.push((
            "attachment",
            format!("{name} ({kind}, {} bytes)", attachment.size_bytes),
        ));
    }
    if let Some(run) = run {
        fields.push(("run", format!("{} {}", run.id, run.state)));
    }
    if let Some((why, remedy)) = message.filed() {
        fields.extend([("why", why.to_owned()), ("remedy", remedy)]);
    }
    screen.fields(&fields)?;
    Ok(screen.behind("| ", message.text.trim_end())?)
}

/// The bytes of a letter.
#[derive(Serialize)]
struct RawLetterRecord<'a> {
    id: &'a MessageId,
    trace: Option<&'a str>,
    bytes_base64: String,
}
