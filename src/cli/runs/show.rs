//! `attache runs show`: what is known of a run, in tables.

use crate::cli::CommandContext;
use crate::cli::screen::{Columns, Screen};
use crate::config::dollars;
use crate::domain::Origin;
use crate::replay::RunRecord;
use crate::text::truncated;
use serde_json::Value;

pub fn show(context: &CommandContext, record: &RunRecord) -> anyhow::Result<()> {
    let screen = &context.screen;
    if context.json() {
        return screen.json(record);
    }
    screen.fields(&fields(record))?;
    section(
        screen,
        "\nlimits",
        &["PURSE", "SPAN", "MAX", "SET BY"],
        &limits(record),
    )?;
    show_context(screen, record)?;
    section(
        screen,
        "\nturns",
        &["TURN", "TRY", "STATE", "MODEL", "IN", "OUT", "ERROR"],
        &turns(record),
    )?;
    section(
        screen,
        "\ncalls",
        &["ID", "TOOL", "DECISION", "ENDED", "ARGUMENTS"],
        &calls(record),
    )?;
    section(
        screen,
        "\nhooks",
        &["EVENT", "TOOL", "HOOK", "DECISION", "MS", "REASON"],
        &hooks(record),
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

/// Labels and values of the run itself.
fn fields(record: &RunRecord) -> Vec<(&'static str, String)> {
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
    fields.extend(run.answered_by.iter().map(|by| ("answered by", by.clone())));
    fields
}

fn show_context(screen: &Screen, record: &RunRecord) -> anyhow::Result<()> {
    let Some(context) = &record.context else {
        return Ok(());
    };
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
            entry.label.described(),
            entry.outcome.clone(),
            why,
        ]
    });
    let headings = [
        "RESOLVER", "SOURCE", "BYTES", "TOKENS", "LABEL", "OUTCOME", "WHY",
    ];
    screen.table(
        Columns::of(&headings).main("SOURCE").optional(&["BYTES"]),
        &rows.collect::<Vec<_>>(),
    )?;
    Ok(())
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
        if let Some(name) = account.get("setting") {
            let (value, origin) = (said(&account["value"]), said(&account["origin"]));
            if origin != Origin::Default.as_str() {
                rows.push(vec![said(name), String::new(), value, origin]);
            }
            continue;
        }
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
        let arguments = truncated(&arguments, ARGUMENTS_CHARS_MAX);
        let decision = call.decision().unwrap_or_else(|| "-".to_owned());
        vec![
            call.id.clone(),
            call.tool.clone(),
            decision,
            ended,
            arguments,
        ]
    };
    record.calls.iter().map(row).collect()
}

fn hooks(record: &RunRecord) -> Vec<Vec<String>> {
    let row = |call: &crate::store::HookCall| {
        vec![
            call.event.to_string(),
            call.tool.clone(),
            call.hook.clone(),
            call.decision.to_string(),
            call.took_ms.to_string(),
            crate::text::one_line(&call.reason),
        ]
    };
    record.hooks.iter().map(row).collect()
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
