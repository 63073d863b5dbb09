//! `attache runs list|show|cancel|retry|answer`: the runs of the personas, and the operator's
//! actions on them.

use super::output::Screen;
use super::replay::{find_letter, find_run, no_such_run};
use super::table::Columns;
use super::threads::{id_arg, number, page_args, persona_of};
use super::{Command, Context, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::config::dollars;
use crate::domain::{ErrorClass, MessageId, RunId, RunState, Timestamp};
use crate::replay::timeline::plural;
use crate::replay::{RunRecord, load_run};
use crate::store::{Cancellation, FailedRuns, RunFilter, Store};
use clap::{Arg, ArgAction, ArgMatches, builder::PossibleValuesParser};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::time::Duration;

pub struct RunsCommand;

impl Command for RunsCommand {
    fn clap(&self) -> clap::Command {
        // No run waits for an approval before approvals exist.
        let states = RunState::ALL
            .iter()
            .filter(|state| **state != RunState::WaitingApproval);
        let states = PossibleValuesParser::new(states.map(|state| state.as_str()));
        let state = Arg::new("state")
            .long("state")
            .value_name("STATE")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(states)
            .help("Only runs in this state; may be given several times");
        let since = Arg::new("since")
            .long("since")
            .value_name("TIME")
            .help("Only runs queued since then: `30m`, `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z");
        let named = |name: &'static str, about: &'static str| {
            clap::Command::new(name)
                .about(about)
                .arg(id_arg().help("Its id, the last or first characters of it, or `last`"))
        };
        clap::Command::new("runs")
            .about("List, show, cancel and retry runs, and answer what was filed")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List runs, the newest first")
                    .args(page_args())
                    .arg(state)
                    .arg(since),
            )
            .subcommand(named("show", "Show what is known of a run, in tables; `replay` tells it as a story"))
            .subcommand(named("cancel", "End a run that has not ended"))
            .subcommand(clap::Command::new("answer").about("Answer a letter that a rule has filed").arg(
                id_arg().help(
                    "The letter's id, the last or first characters of it, or `last` for the newest that is filed",
                ),
            ))
            .subcommand(retry_command())
    }
    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            if command == "list" {
                return list(context, args).await;
            }
            let store = match command {
                "answer" | "retry" => context.store_of_engine().await?,
                _ => context.shared_store().await?,
            };
            if command == "retry" && args.get_flag("failed") {
                return retry_failed(context, &store, args).await;
            }
            let id = args
                .get_one::<String>("id")
                .map(String::as_str)
                .unwrap_or_default();
            if command == "answer" {
                let message = find_letter(&store, id).await?;
                answer(context, &store, &message).await?;
                return Ok(Exit::Ok);
            }
            let run = match find_run(&store, id).await {
                Ok(run) => run,
                Err(error) => return Err(no_such_run(&store, error).await),
            };
            match command {
                "show" => show(context, &load_run(&store, &run).await?)?,
                "cancel" => cancel(context, &store, &run).await?,
                _ => retry(context, &store, &run).await?,
            }
            Ok(Exit::Ok)
        })
    }
}

async fn list(context: &Context, args: &ArgMatches) -> anyhow::Result<Exit> {
    let states = args.get_many::<String>("state").into_iter().flatten();
    let since = args
        .get_one::<String>("since")
        .map(|typed| instant(typed))
        .transpose()?;
    let store = context.shared_store().await?;
    let filter = RunFilter {
        states: states.filter_map(|word| RunState::parse(word)).collect(),
        persona: persona_of(context, &store, args).await?,
        since,
        ended_since: None,
        limit: number(args, "limit"),
        offset: number(args, "offset"),
    };
    let runs = store.list_runs(&filter).await?;
    if context.json() {
        context.screen.json(&runs)?;
        return Ok(Exit::Ok);
    }
    let rows = runs.iter().map(|run| {
        let why = run.error_class.map(|class| class.to_string());
        let why = why
            .or_else(|| run.stop_reason.map(|stop| stop.to_string()))
            .unwrap_or_default();
        vec![
            run.id.to_string(),
            run.created_at.to_string(),
            run.persona.to_string(),
            run.trigger.to_string(),
            run.state.to_string(),
            why,
            run.subject.clone(),
        ]
    });
    let columns = Columns::of(&[
        "ID", "QUEUED", "PERSONA", "TRIGGER", "STATE", "WHY", "SUBJECT",
    ])
    .optional(&["TRIGGER", "PERSONA"]);
    context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), "there is no such run")?;
    Ok(Exit::Ok)
}

/// Earliest instant that is accepted.
const THE_FIRST: &str = "1970-01-01T00:00:00Z";

/// Parses `24h` (an age), a day in UTC (its beginning), or an instant.
pub fn instant(typed: &str) -> Result<Timestamp, Failure> {
    let ago = || {
        let (count, unit) = typed.split_at(typed.find(|c: char| !c.is_ascii_digit())?);
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        let span = Duration::from_secs(count.parse::<u64>().ok()?.checked_mul(seconds)?);
        // A time before 1970 is a typing error.
        Some(SystemClock::new().now().minus(span))
            .filter(|at| Timestamp::parse(THE_FIRST).is_some_and(|first| *at > first))
    };
    let day = || Timestamp::parse(&format!("{typed}T00:00:00Z"));
    Timestamp::parse(typed).or_else(day).or_else(ago).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{typed}` is not a time")).hint(
            "write a span such as `24h` or `7d`, a day such as 2026-11-20 (from midnight UTC), or an instant such as 2026-11-20T09:00:00Z",
        )
    })
}

fn show(context: &Context, record: &RunRecord) -> anyhow::Result<()> {
    let screen = &context.screen;
    if context.json() {
        return screen.json(record);
    }
    let run = &record.run;
    let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let error = run
        .error
        .as_ref()
        .map(|error| format!("{}: {}", error.class, error.message));
    let slot = record.slot.iter().map(|slot| ("slot", slot.named()));
    let options = record
        .slot
        .iter()
        .map(|slot| ("terms", slot.options()))
        .filter(|(_, value)| !value.is_empty());
    let mut fields = vec![
        ("run", run.id.clone()),
        ("persona", run.persona.clone()),
        ("thread", run.thread.clone()),
        (
            "trigger",
            format!(
                "{} {} ({})",
                run.trigger, record.trigger.id, record.trigger.subject
            ),
        ),
        ("state", run.state.clone()),
        ("stopped", said(&run.stop_reason)),
        ("error", said(&error)),
        ("attempt", run.attempt.to_string()),
        ("next try", said(&run.next_attempt_at)),
        ("cancel asked", said(&run.cancel_requested_at)),
        (
            "tokens",
            format!(
                "{} in, {} out",
                run.usage.input_tokens, run.usage.output_tokens
            ),
        ),
        (
            "cost",
            run.usage.cost_micros.map_or_else(
                || "unknown".to_owned(),
                |micros| format!("{} usd", dollars(micros)),
            ),
        ),
        ("queued", run.created_at.clone()),
        ("started", said(&run.started_at)),
        ("finished", said(&run.finished_at)),
    ];
    fields.extend(slot.chain(options));
    screen.fields(&fields)?;
    section(
        screen,
        "\nlimits",
        &["PURSE", "SPAN", "MAX", "SET BY"],
        &limits(record),
    )?;
    if let Some(context) = &record.context {
        screen.heading("\ncontext")?;
        if let Some(note) = &context.note {
            screen.line(note)?;
        }
        let rows = context.entries.iter().map(|entry| {
            let why = entry.why.clone().unwrap_or_default();
            let (bytes, tokens) = (entry.bytes.to_string(), entry.tokens.to_string());
            vec![
                entry.resolver.clone(),
                entry.source.clone(),
                bytes,
                tokens,
                entry.outcome.clone(),
                why,
            ]
        });
        let headings = ["RESOLVER", "SOURCE", "BYTES", "TOKENS", "OUTCOME", "WHY"];
        screen.table(
            Columns::of(&headings).main("SOURCE").optional(&["BYTES"]),
            &rows.collect::<Vec<_>>(),
        )?;
    }
    section(
        screen,
        "\nturns",
        &["TURN", "TRY", "STATE", "MODEL", "IN", "OUT", "ERROR"],
        &turns(record),
    )?;
    section(
        screen,
        "\ncalls",
        &["ID", "TOOL", "ENDED", "ARGUMENTS"],
        &calls(record),
    )?;
    let columns = [
        "MESSAGE",
        "OUTCOME",
        "DELIVERY",
        "RECIPIENT",
        "STATE",
        "LAST REPLY",
    ];
    section(screen, "\nmails", &columns, &mails(record))?;
    let Some(output) = &record.output else {
        return Ok(());
    };
    screen.heading(format!("\noutput, {} repairs", output.repairs))?;
    Ok(screen.line(format!("{:#}", output.value))?)
}

/// The bounds on tokens and money with which the run began.
fn limits(record: &RunRecord) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for account in record
        .run
        .limits
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let said = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        for (key, unit) in [("cost_max", "usd"), ("tokens_max", "tokens")] {
            if let Some(bound) = account.get(key).filter(|bound| !bound.is_null()) {
                let max = format!("{} {unit}", said(&bound[unit]));
                rows.push(vec![
                    said(&account["account"]),
                    said(&account["span"]),
                    max,
                    said(&bound["origin"]),
                ]);
            }
        }
    }
    rows
}

fn section(
    screen: &Screen,
    heading: &str,
    columns: &[&str],
    rows: &[Vec<String>],
) -> anyhow::Result<()> {
    if !rows.is_empty() {
        screen.heading(heading)?;
        screen.table(columns, rows)?;
    }
    Ok(())
}

fn turns(record: &RunRecord) -> Vec<Vec<String>> {
    let row = |turn: &crate::replay::TurnRecord| {
        vec![
            turn.turn_index.to_string(),
            turn.attempt.to_string(),
            turn.state.clone(),
            format!("{}/{}", turn.provider, turn.model),
            turn.usage.input_tokens.to_string(),
            turn.usage.output_tokens.to_string(),
            turn.error
                .as_ref()
                .map(|error| format!("{}: {}", error.class, error.message))
                .unwrap_or_default(),
        ]
    };
    record.turns.iter().map(row).collect()
}

fn calls(record: &RunRecord) -> Vec<Vec<String>> {
    /// Maximum characters of a row's arguments.
    const ARGUMENTS_CHARS_MAX: usize = 120;
    let row = |call: &crate::replay::CallRecord| {
        let ended = match &call.result {
            None => "no result".to_owned(),
            Some(_) if call.succeeded() => "ok".to_owned(),
            Some(result) => result["error"]["code"]
                .as_str()
                .unwrap_or("failed")
                .to_owned(),
        };
        let arguments = call.call.get("args").unwrap_or(&call.call).to_string();
        let arguments = arguments.chars().take(ARGUMENTS_CHARS_MAX).collect();
        vec![call.id.clone(), call.tool.clone(), ended, arguments]
    };
    record.calls.iter().map(row).collect()
}

/// One row per recipient; one row for a mail without recipients.
fn mails(record: &RunRecord) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for mail in &record.mails {
        let (id, outcome) = (mail.message.id.clone(), mail.message.disposition.clone());
        let Some(delivery) = &mail.delivery else {
            rows.push(
                [id, outcome]
                    .into_iter()
                    .chain(std::iter::repeat_n(String::new(), 4))
                    .collect(),
            );
            continue;
        };
        for recipient in &delivery.recipients {
            let code = recipient.last_code.map(|code| code.to_string());
            let reply = [code, recipient.last_reply.clone()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ");
            let (id, outcome) = (id.clone(), outcome.clone());
            let (to, state) = (recipient.recipient.clone(), recipient.state.clone());
            rows.push(vec![id, outcome, delivery.id.clone(), to, state, reply]);
        }
    }
    rows
}

async fn cancel(context: &Context, store: &Store, run: &RunId) -> anyhow::Result<()> {
    let (word, sentence) = match store.request_cancel(run).await? {
        Cancellation::Done => ("cancelled", format!("cancelled run {run}")),
        Cancellation::Requested => (
            "requested",
            format!("asked the engine to stop run {run}; it does so within about a second"),
        ),
    };
    if context.json() {
        return context
            .screen
            .json(&json!({ "run": run.as_str(), "outcome": word }));
    }
    Ok(context.screen.line(sentence)?)
}

fn retry_command() -> clap::Command {
    let classes = PossibleValuesParser::new(ErrorClass::ALL.iter().map(|class| class.as_str()));
    // Not `requires("failed")`: clap waives it when an argument that conflicts with it is given.
    let of_failed = |name: &'static str, value: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .conflicts_with("id")
    };
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    clap::Command::new("retry")
        .about("Queue a failed, cancelled or waiting run for now, or with --failed all that failed")
        .arg(
            id_arg()
                .required(false)
                .help("Its id, the last or first characters of it, or `last`"),
        )
        .arg(
            flag("failed")
                .conflicts_with("id")
                .help("All failed runs; says how many and waits for --yes"),
        )
        .arg(
            of_failed("class", "CLASS")
                .value_parser(classes)
                .help("Only those that failed with this class"),
        )
        .arg(of_failed("persona", "ID").help("Only this persona's"))
        .arg(of_failed("since", "TIME").help("Only those that failed since then, such as `12h`"))
        .arg(flag("yes").conflicts_with("id").help("Do it"))
        .group(
            clap::ArgGroup::new("which")
                .args(["id", "failed"])
                .required(true),
        )
}

/// Retries all failed runs at once, such as after an expired key.
async fn retry_failed(context: &Context, store: &Store, args: &ArgMatches) -> anyhow::Result<Exit> {
    let which = FailedRuns {
        class: args
            .get_one::<String>("class")
            .and_then(|word| ErrorClass::parse(word)),
        persona: persona_of(context, store, args).await?,
        since: args
            .get_one::<String>("since")
            .map(|typed| instant(typed))
            .transpose()?,
    };
    let found = store.failed_runs(&which).await?;
    let (count, is_meant) = (found.len(), args.get_flag("yes"));
    let ids = found.iter().map(ToString::to_string).collect::<Vec<_>>();
    let queued = if is_meant && count > 0 {
        store.retry_runs(found).await?
    } else {
        0
    };
    if context.json() {
        context
            .screen
            .json(&json!({ "found": count, "queued": queued, "runs": ids }))?;
        return Ok(Exit::Ok);
    }
    context.screen.line(match (count, is_meant) {
        (0, _) => "no run has failed so".to_owned(),
        (_, false) => format!("{count} failed runs would be queued again; say --yes to do it"),
        (_, true) => {
            format!(
                "queued {}; a serving engine takes them at once, `attache drain` now",
                plural(queued, "run")
            )
        }
    })?;
    Ok(Exit::Ok)
}

async fn answer(context: &Context, store: &Store, message: &MessageId) -> anyhow::Result<()> {
    let run = store.answer_message(message).await?;
    if context.json() {
        let queued =
            json!({ "message": message.as_str(), "run": run.as_str(), "outcome": "queued" });
        return context.screen.json(&queued);
    }
    let next = "a serving engine takes it within about a second, `attache drain` now";
    Ok(context
        .screen
        .line(format!("queued run {run} for letter {message}; {next}"))?)
}

async fn retry(context: &Context, store: &Store, run: &RunId) -> anyhow::Result<()> {
    store.retry_run(run).await?;
    if context.json() {
        return context
            .screen
            .json(&json!({ "run": run.as_str(), "outcome": "queued" }));
    }
    let next = "a serving engine takes it within about a second, `attache drain` now";
    Ok(context.screen.line(format!("queued run {run}; {next}"))?)
}
