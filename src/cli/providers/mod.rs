//! `attache providers list|check|models|test`: the configured providers, their health and models, and
//! the answer of one to a real call.
//!
//! `list` reads configuration and database, `check` and `models` ask the providers and cost nothing,
//! `test` makes two small calls.

use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, dollars};
use crate::domain::Timestamp;
use crate::providers::{LoopOwner, Provider, ProviderError, Response};
use crate::runs::provider_health::learnt::LearntModel;
use crate::runs::provider_health::probe::{Folder, Probe, ProbeCall, Tried};
use crate::runs::provider_health::status::{Finding, Seat, User};
use crate::runs::provider_health::{learnt, probe, status};
use crate::store::ProviderCalls;
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Most models that a hint names.
const MODELS_SHOWN_MAX: usize = 12;

/// Show the language models and agents, check that they work, try one out
#[derive(clap::Subcommand)]
pub enum ProvidersCommand {
    /// List providers: who uses them, key, endpoint, last success and failure
    List,
    /// Ask providers whether they work: endpoint or program, key, models; costs nothing
    Check {
        /// Only these [default: those that are in use]
        #[arg(num_args = 1)]
        id: Vec<String>,
    },
    /// List the models that a provider has; costs nothing
    Models {
        /// A provider, as configs/inference.json calls it
        id: String,
    },
    /// Make two small real calls, a text and a tool call; costs what they cost
    Test {
        /// A provider, as configs/inference.json calls it
        id: String,
        /// Ask this model [default: the one that is in use]
        #[arg(long)]
        model: Option<String>,
        /// Write what travels, both ways and without keys, into this folder; overwrites nothing
        #[arg(long, value_name = "DIR")]
        capture: Option<PathBuf>,
    },
}

impl ProvidersCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        match self {
            Self::List => list(context, &config).await,
            Self::Check { id } => check(context, &config, &id).await,
            Self::Models { id } => models(context, &config, &id).await,
            Self::Test { id, model, capture } => {
                test(context, &config, &id, model.as_ref(), capture.as_ref()).await
            }
        }
    }
}

async fn list(context: &CommandContext, config: &Config) -> anyhow::Result<Exit> {
    let calls = context.shared_store().await?.provider_calls().await?;
    let learnt = learnt::in_force(config, SystemClock::new().now());
    let of = |seat: &Seat| calls.iter().find(|calls| calls.provider == seat.name);
    let mut seats = status::seats(config);
    seats.sort_by_key(|seat| seat.users.is_empty());
    if context.json() {
        let values: Vec<ProviderRecord<'_>> = seats
            .iter()
            .map(|seat| ProviderRecord::new(seat, of(seat), &learnt))
            .collect();
        context.screen.json(&values)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = seats
        .iter()
        .map(|seat| listed_row(seat, of(seat), &learnt))
        .collect();
    let headings = [
        "PROVIDER",
        "USED BY",
        "MODEL",
        "KEY",
        "ENDPOINT",
        "CALLS",
        "LAST SUCCESS",
        "TOOK",
        "LAST FAILURE",
    ];
    let columns = Columns::of(&headings).optional(&["TOOK", "ENDPOINT", "LAST SUCCESS", "CALLS"]);
    context
        .screen
        .listing(columns, &rows, "there is no provider")?;
    Ok(Exit::Ok)
}

fn listed_row(seat: &Seat, calls: Option<&ProviderCalls>, learnt: &[LearntModel]) -> Vec<String> {
    let model = |user: &User| {
        let known = learnt.iter().find(|of| of.is_of(&seat.name, &user.model));
        match known.and_then(LearntModel::in_words) {
            Some(words) => format!("{} ({words})", user.model),
            None => user.model.clone(),
        }
    };
    let joined = |of: &dyn Fn(&User) -> String| {
        let mut words: Vec<String> = seat.users.iter().map(of).collect();
        words.dedup();
        if words.is_empty() {
            "-".to_owned()
        } else {
            words.join(", ")
        }
    };
    let key = match (&seat.key_variable, seat.has_key) {
        (None, _) => "none needed".to_owned(),
        (Some(variable), true) => variable.clone(),
        (Some(variable), false) => format!("{variable} is not set"),
    };
    let success = calls
        .and_then(|calls| calls.last_success_at)
        .map(|at| at.to_string());
    let took = calls
        .and_then(|calls| calls.last_latency_ms)
        .map(|ms| format!("{ms} ms"));
    let failure = calls.and_then(|calls| {
        Some(format!(
            "{} {}",
            calls.last_failure_at?,
            calls.last_failure_class.as_deref()?
        ))
    });
    vec![
        seat.name.clone(),
        joined(&|user| user.who.clone()),
        joined(&model),
        key,
        seat.endpoint().unwrap_or_else(|| "-".to_owned()),
        calls.map_or(0, |calls| calls.calls).to_string(),
        success.unwrap_or_else(|| "never".to_owned()),
        took.unwrap_or_else(|| "-".to_owned()),
        failure.unwrap_or_else(|| "never".to_owned()),
    ]
}

/// A provider with its use and its recorded calls.
#[derive(Serialize)]
struct ProviderRecord<'a> {
    name: &'a str,
    adapter: &'a str,
    used_by: Vec<UserRecord<'a>>,
    loop_owner: Option<&'static str>,
    endpoint: Option<String>,
    key: Value,
    error: Option<String>,
    calls: u64,
    failures: u64,
    last_success_at: Option<Timestamp>,
    last_model: Option<&'a str>,
    last_latency_ms: Option<u64>,
    last_failure: Option<Value>,
    /// What its models were found to lack.
    learnt: Vec<Value>,
}

/// A persona or default that asks a provider.
#[derive(Serialize)]
struct UserRecord<'a> {
    who: &'a str,
    model: &'a str,
}

impl<'a> ProviderRecord<'a> {
    fn new(seat: &'a Seat, calls: Option<&'a ProviderCalls>, learnt: &'a [LearntModel]) -> Self {
        let learnt = learnt.iter().filter(|of| of.provider == seat.name);
        let learnt = learnt.map(|of| {
            json!({
                "model": of.model,
                "learnt_at": of.learnt_at(),
                "takes_tools": !of.takes_no_tools(),
                "window_tokens": of.window_tokens,
                "without": of.without,
            })
        });
        let owner = seat.loop_owner().map(|owner| match owner {
            LoopOwner::Engine => "engine",
            LoopOwner::Agent => "agent",
        });
        let failure = |calls: &'a ProviderCalls| {
            Some(json!({
                "at": calls.last_failure_at?,
                "class": calls.last_failure_class,
                "message": calls.last_failure_message,
            }))
        };
        Self {
            name: &seat.name,
            adapter: status::adapter(&seat.name),
            used_by: users(seat),
            loop_owner: owner,
            endpoint: seat.endpoint(),
            key: json!({
                "needed": seat.key_variable.is_some(),
                "set": seat.has_key,
                "variable": seat.key_variable,
            }),
            error: seat.provider.as_ref().err().map(ToString::to_string),
            calls: calls.map_or(0, |calls| calls.calls),
            failures: calls.map_or(0, |calls| calls.failures),
            last_success_at: calls.and_then(|calls| calls.last_success_at),
            last_model: calls.and_then(|calls| calls.last_model.as_deref()),
            last_latency_ms: calls.and_then(|calls| calls.last_latency_ms),
            last_failure: calls.and_then(failure),
            learnt: learnt.collect(),
        }
    }
}

fn users(seat: &Seat) -> Vec<UserRecord<'_>> {
    let users = seat.users.iter().map(|user| UserRecord {
        who: &user.who,
        model: &user.model,
    });
    users.collect()
}

async fn check(
    context: &CommandContext,
    config: &Config,
    named: &[String],
) -> anyhow::Result<Exit> {
    let mut seats = status::seats(config);
    for name in named {
        find(&seats, name)?;
    }
    seats.retain(|seat| {
        if named.is_empty() {
            !seat.users.is_empty()
        } else {
            named.contains(&seat.name)
        }
    });
    let clock = SystemClock::new();
    let findings = join_all(seats.iter().map(|seat| status::check(seat, &clock))).await;
    let found = || seats.iter().zip(&findings);
    if context.json() {
        context.screen.json(
            &found()
                .map(|(seat, finding)| CheckRecord::new(seat, finding))
                .collect::<Vec<_>>(),
        )?;
    } else {
        for (seat, finding) in found() {
            context
                .screen
                .line(format!("{}\t{}", seat.name, finding_text(finding)))?;
            for advice in advised(seat, finding) {
                context.screen.line(format!("\t{advice}"))?;
            }
        }
    }
    Ok(if findings.iter().all(Finding::is_good) {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

/// Checks the provider that answers by default, then has it say one word, which costs what it costs.
///
/// Errors: the provider's words with what to do.
pub(super) async fn try_default(config: &Config) -> Result<String, Failure> {
    let seats = status::seats(config);
    let seat = find(&seats, &config.inference.provider)?;
    let finding = status::check(seat, &SystemClock::new()).await;
    if let Some(failure) = unknown_model(seat, &finding) {
        return Err(failure);
    }
    if !finding.is_good() {
        let message = format!("`{}` {}", seat.name, finding_text(&finding));
        return refuse(
            Exit::Unavailable,
            probe::clean(&message, &config.secrets),
            advised(seat, &finding).join("; "),
        );
    }
    let provider = seat.provider.as_ref().map_err(|error| {
        Failure::new(Exit::Unavailable, error.to_string()).hint(status::advice(seat, error.class))
    })?;
    say_a_word(config, seat, provider.as_ref()).await
}

/// Returns the failure of a provider that answers and does not have a model in use; `None`: it has all.
fn unknown_model(seat: &Seat, finding: &Finding) -> Option<Failure> {
    let unlisted = finding.models.iter().find(|model| !model.is_listed)?;
    let (name, model) = (&seat.name, &unlisted.model);
    let message = format!("`{name}` answers, and has no model `{model}`");
    let listed = finding.health.as_ref().map(|health| &health.models[..]);
    let listed = listed.unwrap_or_default();
    let shown = listed[..listed.len().min(MODELS_SHOWN_MAX)].join(", ");
    let more = match listed.len() - listed.len().min(MODELS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let near = unlisted.near.as_ref();
    let near = near.map(|near| format!("did you mean `{near}`? "));
    let hint = format!("{}it has {shown}{more}", near.unwrap_or_default());
    Some(Failure::new(Exit::Unavailable, message).hint(hint))
}

/// Formats a finding, or the reason that there is none, on one line.
fn finding_text(finding: &Finding) -> String {
    let health = match &finding.health {
        Ok(health) => health,
        Err(error) => return format!("does not work: {}: {error}", error.class),
    };
    let mut parts: Vec<String> = [&health.endpoint, &health.version]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    parts.push(format!("answered in {} ms", finding.latency.as_millis()));
    if !health.models.is_empty() {
        parts.push(format!("{} models", health.models.len()));
    }
    parts.extend(health.note.clone());
    let works = if finding.is_good() {
        "works"
    } else {
        "does not work"
    };
    format!("{works}: {}", parts.join(", "))
}

/// Recommended steps, one line each.
fn advised(seat: &Seat, finding: &Finding) -> Vec<String> {
    let missing = finding
        .models
        .iter()
        .filter(|model| !model.is_listed)
        .map(|listed| {
            let near = listed
                .near
                .as_ref()
                .map(|near| format!("; did you mean `{near}`?"))
                .unwrap_or_default();
            format!("model `{}` is not among its models{near}", listed.model)
        });
    let error = finding
        .health
        .as_ref()
        .err()
        .map(|error| status::advice(seat, error.class));
    let toolless = seat.without_tools.iter();
    let toolless =
        toolless.map(|persona| format!("its model does not get the tools of persona `{persona}`"));
    error.into_iter().chain(missing).chain(toolless).collect()
}

/// Outcome of a check of one provider.
#[derive(Serialize)]
struct CheckRecord<'a> {
    name: &'a str,
    ok: bool,
    used_by: Vec<UserRecord<'a>>,
    endpoint: Option<String>,
    version: Option<&'a str>,
    latency_ms: u64,
    models: Option<usize>,
    in_use: Vec<Value>,
    note: Option<&'a str>,
    error: Option<ProviderErrorRecord<'a>>,
    advice: Vec<String>,
}

/// An error of a provider.
#[derive(Serialize)]
struct ProviderErrorRecord<'a> {
    class: &'static str,
    message: &'a str,
}

impl<'a> From<&'a ProviderError> for ProviderErrorRecord<'a> {
    fn from(error: &'a ProviderError) -> Self {
        Self {
            class: error.class.as_str(),
            message: &error.message,
        }
    }
}

impl<'a> CheckRecord<'a> {
    fn new(seat: &'a Seat, finding: &'a Finding) -> Self {
        let health = finding.health.as_ref().ok();
        let models = finding.models.iter().map(|listed| {
            json!({
                "model": listed.model,
                "listed": listed.is_listed,
                "did_you_mean": listed.near,
            })
        });
        let endpoint = health.and_then(|health| health.endpoint.clone());
        Self {
            name: &seat.name,
            ok: finding.is_good(),
            used_by: users(seat),
            endpoint: endpoint.or_else(|| seat.endpoint()),
            version: health.and_then(|health| health.version.as_deref()),
            latency_ms: u64::try_from(finding.latency.as_millis()).unwrap_or(u64::MAX),
            models: health.map(|health| health.models.len()),
            in_use: models.collect(),
            note: health.and_then(|health| health.note.as_deref()),
            error: finding.health.as_ref().err().map(ProviderErrorRecord::from),
            advice: advised(seat, finding),
        }
    }
}

/// A model of a provider.
#[derive(Serialize)]
struct ListedModel<'a> {
    model: &'a str,
    /// `true`: a persona or a fallback asks it.
    in_use: bool,
}

async fn models(context: &CommandContext, config: &Config, id: &str) -> anyhow::Result<Exit> {
    let seats = status::seats(config);
    let seat = find(&seats, id)?;
    let finding = status::check(seat, &SystemClock::new()).await;
    let health = finding.health.map_err(|error| {
        let message = format!("provider `{}` does not say which models it has", seat.name);
        Failure::new(Exit::Unavailable, message)
            .hint(status::advice(seat, error.class))
            .because(error)
    })?;
    let mut names: Vec<&str> = health.models.iter().map(String::as_str).collect();
    names.sort_unstable();
    let listed: Vec<ListedModel<'_>> = names
        .into_iter()
        .map(|model| ListedModel {
            model,
            in_use: seat.users.iter().any(|user| user.model == model),
        })
        .collect();
    let row = |listed: &ListedModel<'_>| {
        let used = if listed.in_use { "in use" } else { "-" };
        vec![listed.model.to_owned(), used.to_owned()]
    };
    let columns = Columns::of(&["MODEL", "USED"]);
    context.list(&listed, columns, "it lists no models", row)
}

fn find<'a>(seats: &'a [Seat], name: &str) -> Result<&'a Seat, Failure> {
    seats.iter().find(|seat| seat.name == name).ok_or_else(|| {
        let names: Vec<&str> = seats.iter().map(|seat| seat.name.as_str()).collect();
        let failure = Failure::new(Exit::NoInput, format!("no provider `{name}`"));
        failure.hint(format!("there are: {}", names.join(", ")))
    })
}

async fn test(
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
        return refuse(
            Exit::Usage,
            format!("nobody uses provider `{}`", seat.name),
            "name a model of it with --model MODEL",
        );
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
        context.screen.json(&json!({
            "name": seat.name,
            "model": model,
            "ok": is_good,
            "calls": values,
        }))?;
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
async fn say_a_word(
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
