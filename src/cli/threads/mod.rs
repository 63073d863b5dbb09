//! `attache threads list|show|raw|budget|instruct`: threads with their participants, messages and runs, and
//! the bytes of a letter.

use super::args::lookup::not_found;
use super::args::{PageArgs, correspondent, persona_of, user};
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse};
use crate::config::{dollars, micros_of};
use crate::domain::{Allowance, MessageId, PersonaId, ThreadBudget, Trigger};
use crate::replay::{MessageRecord, RunRow, ThreadDetail, load_thread};
use crate::store::{
    INSTRUCTIONS_MAX, InstructionScope, Store, StoredInstruction, StoredThreadSummary,
    ThreadFilter, ThreadSession, ThreadSummary,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::value_parser;
use serde_json::json;

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
    Budget(BoundThread),
    Instruct(InstructThread),
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
    context.list(&threads, columns, "no letter has come yet", row)
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
        let detail = ThreadDetail::of(&thread, &sessions, &resets, &summaries);
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
    context.report(
        &json!({
            "id": message,
            "trace": letter.trace,
            "bytes_base64": STANDARD.encode(&letter.bytes),
        }),
        |screen| {
            screen.bytes(letter.trace.as_deref().unwrap_or_default().as_bytes())?;
            screen.bytes(&letter.bytes)?;
            Ok(())
        },
    )
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

/// Show or set what a thread may cost, besides the budgets of its persona and of all
#[derive(clap::Args)]
pub struct BoundThread {
    /// Its id, or the last or first characters of it
    id: String,
    /// All its runs in a day, in dollars
    #[arg(long, value_name = "USD")]
    day_usd: Option<String>,
    /// All its runs in a day, in tokens
    #[arg(long, value_name = "N")]
    day_tokens: Option<String>,
    /// Each of its runs, in dollars
    #[arg(long, value_name = "USD")]
    run_usd: Option<String>,
    /// Each of its runs, in tokens
    #[arg(long, value_name = "N")]
    run_tokens: Option<String>,
    /// Take all of it back
    #[arg(long, conflicts_with_all = ["day_usd", "day_tokens", "run_usd", "run_tokens"])]
    clear: bool,
}

impl BoundThread {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let id = store
            .find_thread(&self.id)
            .await
            .map_err(|error| not_found(error, "`attache threads list`"))?;
        let before = store.thread_budget(&id).await?;
        let typed = ThreadBudget {
            run: Allowance {
                cost_micros_max: self.run_usd.map(money).transpose()?,
                tokens_max: self.run_tokens.map(count).transpose()?,
            },
            day: Allowance {
                cost_micros_max: self.day_usd.map(money).transpose()?,
                tokens_max: self.day_tokens.map(count).transpose()?,
            },
        };
        let either = |typed: Allowance, before: Allowance| Allowance {
            cost_micros_max: typed.cost_micros_max.or(before.cost_micros_max),
            tokens_max: typed.tokens_max.or(before.tokens_max),
        };
        let wanted = match self.clear {
            true => ThreadBudget::default(),
            false => ThreadBudget {
                run: either(typed.run, before.run),
                day: either(typed.day, before.day),
            },
        };
        if wanted != before {
            let is_nothing = wanted == ThreadBudget::default();
            store
                .set_thread_budget(&id, (!is_nothing).then_some(wanted))
                .await?;
        }
        context.report(
            &json!({
                "thread": id,
                "run_micros_max": wanted.run.cost_micros_max,
                "run_tokens_max": wanted.run.tokens_max,
                "day_micros_max": wanted.day.cost_micros_max,
                "day_tokens_max": wanted.day.tokens_max,
            }),
            |screen| {
                let usd = |micros: Option<i64>| {
                    micros.map_or_else(
                        || "-".to_owned(),
                        |micros| format!("{} usd", dollars(micros)),
                    )
                };
                let tokens =
                    |n: Option<i64>| n.map_or_else(|| "-".to_owned(), |n| format!("{n} tokens"));
                let spell = |of: Allowance| {
                    format!("{}, {}", usd(of.cost_micros_max), tokens(of.tokens_max))
                };
                screen.fields(&[
                    ("thread", id.to_string()),
                    ("each run", spell(wanted.run)),
                    ("a day", spell(wanted.day)),
                ])?;
                Ok(())
            },
        )
    }
}

fn money(typed: String) -> Result<i64, Failure> {
    micros_of(&typed).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is no sum of money"))
            .hint("write US dollars such as `0.25`")
    })
}

fn count(typed: String) -> Result<i64, Failure> {
    let count = typed.parse().ok().filter(|count: &i64| *count > 0);
    count.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is no number of tokens"))
            .hint("write a whole number such as `200000`")
    })
}

/// Longest instruction, in characters.
const CHARS_MAX: usize = 1_000;

/// Give, list or take back instructions for one thread, or for one correspondent of a persona
#[derive(clap::Args)]
pub struct InstructThread {
    /// The thread and the instruction; with --contact the instruction alone. Without one, list what is given
    #[arg(value_name = "THREAD|TEXT", num_args = 0..=2, action = clap::ArgAction::Set)]
    words: Vec<String>,
    /// For every thread in which this correspondent writes, whose address is proven
    #[arg(long, value_name = "ADDRESS", requires = "persona")]
    contact: Option<String>,
    /// The persona that the correspondent writes to
    #[arg(long, value_name = "NAME")]
    persona: Option<String>,
    /// Take an instruction back
    #[arg(long, value_name = "ID", conflicts_with_all = ["words", "contact"])]
    remove: Option<String>,
}

impl InstructThread {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        if let Some(id) = &self.remove {
            store
                .remove_instruction(id, &user())
                .await
                .map_err(|error| not_found(error, "`attache threads instruct THREAD`"))?;
            context.screen.line(format!("taken back: {id}"))?;
            return Ok(Exit::Ok);
        }
        let (persona, scope, text) = self.scope(context, &store).await?;
        if let Some(text) = text {
            let text = checked_instruction(&text)?;
            if store
                .add_instruction(&persona, &scope, &text, &user())
                .await?
                .is_none()
            {
                return refuse(
                    Exit::Usage,
                    format!("{INSTRUCTIONS_MAX} instructions are in force there"),
                    "take one back with `--remove ID`",
                );
            }
        }
        let found = store.instructions(&persona, &scope).await?;
        let row = |given: &StoredInstruction| {
            let state = given.removed_at.map(|at| format!("taken back {at}"));
            vec![
                given.id.clone(),
                given.given_at.to_string(),
                given.given_by.clone(),
                state.unwrap_or_else(|| "in force".to_owned()),
                given.text.clone(),
            ]
        };
        let columns = Columns::of(&["ID", "GIVEN", "BY", "STATE", "TEXT"]);
        context.list(&found, columns, "no instructions are given", row)
    }

    /// Reads what an instruction is for, and its text.
    async fn scope(
        self,
        context: &CommandContext,
        store: &Store,
    ) -> anyhow::Result<(PersonaId, InstructionScope, Option<String>)> {
        let words = &self.words;
        if let Some(contact) = &self.contact {
            let address = correspondent(contact)?;
            let persona = persona_of(context, store, self.persona).await?;
            let persona = persona.ok_or_else(|| {
                Failure::new(Exit::Usage, "name the persona with `--persona`".to_owned())
            })?;
            if words.len() > 1 {
                return refuse(
                    Exit::Usage,
                    "an instruction is one text".to_owned(),
                    "put it between quotes",
                );
            }
            let scope = InstructionScope::Contact(address.key());
            return Ok((persona, scope, words.first().cloned()));
        }
        let Some((thread, text)) = words.split_first() else {
            return refuse(
                Exit::Usage,
                "no thread is named".to_owned(),
                "`attache threads list` has their ids; or use `--contact`",
            );
        };
        let thread = store
            .find_thread(thread)
            .await
            .map_err(|error| not_found(error, "`attache threads list`"))?;
        let persona = store.thread_summary(&thread).await?.persona;
        Ok((
            persona,
            InstructionScope::Thread(thread),
            text.first().cloned(),
        ))
    }
}

/// Checks an instruction: one line of a list in the system text.
fn checked_instruction(text: &str) -> Result<String, Failure> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = text.chars().count();
    if text.is_empty() || length > CHARS_MAX || text.chars().any(char::is_control) {
        return refuse(
            Exit::Usage,
            format!(
                "an instruction has 1 to {CHARS_MAX} characters and no control characters, not {length}"
            ),
            "what is longer belongs into PERSONA.md or a skill",
        );
    }
    Ok(text)
}
