//! `attache providers test`: two small calls to one provider, and what they were answered.

use super::{ProviderErrorRecord, find};
use crate::cli::{CommandContext, Exit, Failure, screen};
use crate::clock::SystemClock;
use crate::config::{Config, dollars};
use crate::providers::{Provider, Response};
use crate::runs::provider_health::learnt;
use crate::runs::provider_health::probe::{self, Folder, Probe, ProbeCall, Tried};
use crate::runs::provider_health::status::{self, Seat};
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

pub async fn test(
    context: &CommandContext,
    config: &Config,
    id: &str,
    model: Option<&String>,
    path: Option<&PathBuf>,
) -> anyhow::Result<Exit> {
    let seats = status::seats(config);
    let seat = find(&seats, id)?;
    let in_use = seat.users.first().map(|user| &user.model);
    let Some(model) = model.or(in_use) else {
        let failure = Failure::new(Exit::Usage, format!("nobody uses provider `{}`", seat.name));
        return Err(failure.hint("name a model of it with --model MODEL").into());
    };
    let provider = seat.provider.as_ref().map_err(|error| {
        let message = format!("provider `{}` cannot be used", seat.name);
        Failure::new(Exit::Unavailable, message)
            .hint(status::advice(seat, error.class))
            .because(error.clone())
    })?;
    let probe = Probe {
        provider: provider.as_ref(),
        model,
        clock: &SystemClock::new(),
        folder: &config.workspace,
        capture: path.map(|path| Folder {
            path,
            secrets: &config.secrets,
        }),
    };
    probe.prepare().map_err(|error| uncaptured(&error))?;
    let (mut values, mut is_good) = (Vec::new(), true);
    for call in probe.calls() {
        let tried = probe
            .make(*call)
            .await
            .map_err(|error| uncaptured(&error))?;
        is_good &= tried.fault().is_none();
        if *call == ProbeCall::Tool && tried.fault().is_none() {
            // It takes tools now: an engine at work sees that, too.
            learnt::forget(&config.workspace, &seat.name, model)?;
        }
        if !context.json() {
            context
                .screen
                .line(probe::clean(&tried_line(&tried), &config.secrets))?;
            for file in &tried.files {
                context
                    .screen
                    .line(format!("\twritten: {}", file.display()))?;
            }
        }
        let value = serde_json::to_string(&TriedRecord::from(&tried))?;
        let value = probe::clean(&value, &config.secrets);
        values.push(serde_json::from_str::<Value>(&value).unwrap_or_default());
    }
    if context.json() {
        context.screen.json(&TestReport {
            name: &seat.name,
            model,
            ok: is_good,
            calls: &values,
        })?;
    } else if path.is_some() {
        screen::remark(
            "look through the files before you hand them on: they hold what the provider said",
        );
    }
    Ok(if is_good { Exit::Ok } else { Exit::Failed })
}

/// Makes the first call of a test: a text.
///
/// Errors: the provider's words with what to do.
pub(super) async fn say_a_word(
    config: &Config,
    seat: &Seat,
    provider: &dyn Provider,
) -> Result<String, Failure> {
    let probe = Probe {
        provider,
        model: &config.inference.model,
        clock: &SystemClock::new(),
        folder: &config.workspace,
        capture: None,
    };
    let tried = probe.make(ProbeCall::Text).await;
    let tried = tried.map_err(|error| uncaptured(&error))?;
    let line = tried_line(&tried).replace('\t', ", ");
    let line = probe::clean(&line, &config.secrets);
    match (&tried.outcome, tried.fault()) {
        (Ok(_), None) => Ok(format!("`{}` answers: {line}", seat.name)),
        (outcome, _) => {
            let class = outcome.as_ref().err().map(|error| error.class);
            let failure = Failure::new(Exit::Unavailable, format!("`{}`: {line}", seat.name));
            Err(match class {
                Some(class) => failure.hint(status::advice(seat, class)),
                None => failure,
            })
        }
    }
}

fn uncaptured(error: &std::io::Error) -> Failure {
    let failure = Failure::new(
        Exit::CannotCreate,
        format!("the capture cannot be written: {error}"),
    );
    failure.hint("name a new folder with --capture DIR")
}

fn tried_line(tried: &Tried) -> String {
    let name = tried.call.name();
    let took = tried.took.as_millis();
    let fault = tried.fault();
    let Ok(response) = &tried.outcome else {
        return format!(
            "{name}\tfailed after {took} ms: {}",
            fault.unwrap_or_default()
        );
    };
    let said = match fault {
        Some(fault) => format!("not as asked: {fault}"),
        None => {
            let calls = response.calls().map(|(_, name, args)| {
                format!(
                    "calls {name} {}",
                    serde_json::to_string(args).unwrap_or_default()
                )
            });
            let text = response.text();
            calls
                .chain((!text.is_empty()).then(|| format!("says `{}`", screen::one_line(&text))))
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    let usage = &response.usage;
    let cost = match usage.cost_micros {
        Some(micros) => format!("${}", dollars(micros)),
        None => "unknown cost".to_owned(),
    };
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    format!(
        "{name}\t{said}\t{took} ms, {input} tokens in, {} out, {cost}, {}",
        usage.output_tokens, response.model_served
    )
}

/// Outcome of a test of one provider.
#[derive(Serialize)]
struct TestReport<'a> {
    name: &'a str,
    model: &'a str,
    ok: bool,
    calls: &'a [Value],
}

/// A call of a test.
#[derive(Serialize)]
struct TriedRecord<'a> {
    call: &'static str,
    ok: bool,
    fault: Option<String>,
    latency_ms: u64,
    response: Option<&'a Response>,
    error: Option<ProviderErrorRecord<'a>>,
    files: &'a [PathBuf],
}

impl<'a> From<&'a Tried> for TriedRecord<'a> {
    fn from(tried: &'a Tried) -> Self {
        Self {
            call: tried.call.name(),
            ok: tried.fault().is_none(),
            fault: tried.fault(),
            latency_ms: u64::try_from(tried.took.as_millis()).unwrap_or(u64::MAX),
            response: tried.outcome.as_ref().ok(),
            error: tried.outcome.as_ref().err().map(ProviderErrorRecord::from),
            files: &tried.files,
        }
    }
}
