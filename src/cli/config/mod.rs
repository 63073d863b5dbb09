//! `attache config check|show|schema`: the problems, the effective values and the permitted keys of
//! the configuration.

mod summary;

use super::args::in_force;
use super::args::in_force::NotInForce;
use super::process::exit::of_open;
use super::{CommandContext, Exit, Failure, name_catalog, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ConfigErrors, Problem, effective, load_beside_secrets, schema};
use crate::gateway::ingress::smtp::ListenerFactory;
use crate::runs::preflight;
use crate::runs::preflight::ScheduleRequirements;
use crate::schedule_file::WorkspaceNames;
use crate::scheduler::Asks;
use crate::store::{DatabasePlace, Store, VectorSwitch};
use crate::text::with_causes;
use crate::{scheduler, tools};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use summary::Summary;

/// Check and show the configuration
#[derive(clap::Subcommand)]
pub enum ConfigCommand {
    /// List everything that is wrong, warn of what is surely unmeant, and sum up; exit code 65 if anything is wrong
    Check {
        /// Exit with 65 for warnings too
        #[arg(long)]
        strict: bool,
    },
    /// Show the effective settings by file, defaults included, secrets left out
    Show,
    /// Print the JSON Schema of a configuration file, or of all of them
    Schema {
        #[arg(value_parser = schema::KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>())]
        file: Option<String>,
        /// Write them to `configs/schema/` of the workspace instead
        #[arg(long, conflicts_with = "file")]
        write: bool,
    },
}

impl ConfigCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Check { strict } => check(context, strict).await,
            Self::Show => show(context),
            Self::Schema { write: true, .. } => write_schemas(context),
            Self::Schema { file, .. } => print_schema(context, file),
        }
    }
}

/// Result of the check, as `--json` prints it.
#[derive(Serialize)]
pub(in crate::cli) struct CheckReport {
    pub(in crate::cli) problems: Vec<Problem>,
    pub(in crate::cli) warnings: Vec<Problem>,
    /// `None` unless the configuration is usable.
    summary: Option<Summary>,
    /// Edits that are not in force in the engine that works here.
    #[serde(flatten)]
    pub(in crate::cli) not_in_force: NotInForce,
}

impl CheckReport {
    /// Checks the configuration of a workspace.
    pub(in crate::cli) async fn of(context: &CommandContext) -> Self {
        let not_in_force = in_force::compare(context);
        let (mut problems, mut warnings, mut summary) = (Vec::new(), Vec::new(), None);
        let config = context.config().or_else(|errors| {
            problems = errors.problems;
            // A faulty line of `.secrets` hides nothing of what else is worth a look.
            load_beside_secrets(&context.workspace, &name_catalog())
        });
        if let Ok(config) = config {
            let (more, found) = beyond_the_files(&config);
            (problems, warnings) = (ordered([problems, more].concat()), found);
            warnings.extend(unused_switches(context, &config).await);
            let now = SystemClock::new().now();
            summary = problems.is_empty().then(|| Summary::of(&config, now));
        }
        Self {
            problems,
            warnings,
            summary,
            not_in_force,
        }
    }
}

async fn check(context: &CommandContext, is_strict: bool) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let report = CheckReport::of(context).await;
    let is_good = report.problems.is_empty() && (report.warnings.is_empty() || !is_strict);
    let exit = if is_good { Exit::Ok } else { Exit::BadData };
    for warning in &report.warnings {
        screen::remark(&format!("warning: {warning}"));
    }
    in_force::remark(&report.not_in_force);
    if context.json() {
        context.screen.json(&report)?;
        return Ok(exit);
    }
    for problem in &report.problems {
        context.screen.line(problem.to_string())?;
    }
    let warned = match report.warnings.len() {
        0 => String::new(),
        1 => ", with 1 warning".to_owned(),
        many => format!(", with {many} warnings"),
    };
    match report.problems.len() {
        0 => context
            .screen
            .line(format!("the configuration is good{warned}"))?,
        1 => context.screen.line("1 problem")?,
        many => context.screen.line(format!("{many} problems"))?,
    }
    if let Some(summary) = &report.summary {
        context.screen.fields(&summary.fields())?;
    }
    Ok(exit)
}

/// Problems and warnings beyond the single files: adapters, standing texts, responsibilities.
fn beyond_the_files(config: &Config) -> (Vec<Problem>, Vec<Problem>) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (mut problems, mut warnings) = preflight::examine(config, clock.now());
    let out_of_service = config.personas.out_of_service().iter();
    problems.extend(out_of_service.flat_map(|out| out.problems.iter().cloned()));
    if let Err(error) = ListenerFactory::open(&config.gateway, &config.limits, &[], &clock) {
        let message = format!("{:#}", anyhow::Error::new(error));
        let problem = config
            .snapshot
            .problem_at("configs/gateway.json", "/tls", message);
        let hint = "`certificate` is a PEM file that begins with `-----BEGIN CERTIFICATE-----`, `key` the private key of its \
                    first certificate; see that they are not exchanged";
        problems.push(problem.hint(hint));
    }
    if let Err(error) = DatabasePlace::of(&config.workspace) {
        let problem = Problem::in_file(".secrets", with_causes(&error));
        problems.push(problem.hint(of_open(&error).1.unwrap_or_default()));
    }
    let names = WorkspaceNames::from_config(config, tools::of_config(config).names());
    let survey = scheduler::survey(config.personas.iter(), &names, clock.now());
    let of_file = |found: scheduler::FileProblem| Problem::in_file(&found.file, found.problem);
    problems.extend(survey.problems.into_iter().map(of_file));
    warnings.extend(survey.warnings.into_iter().map(of_file));
    let of_its_own = |asks: &Asks| asks.run_options.model.is_some() || asks.budget_micros.is_some();
    let schedules = survey
        .asks
        .into_iter()
        .filter(of_its_own)
        .filter_map(|asks| {
            let Asks {
                persona,
                file,
                run_options: options,
                budget_micros,
            } = asks;
            Some(ScheduleRequirements {
                file,
                persona: config.personas.get(&persona)?,
                options,
                budget_micros,
            })
        });
    problems.extend(preflight::schedule_problems(
        config,
        clock.now(),
        &schedules.collect::<Vec<_>>(),
    ));
    (ordered(problems), ordered(warnings))
}

fn ordered(found: Vec<Problem>) -> Vec<Problem> {
    ConfigErrors::from_problems(found).map_or_else(Vec::new, |errors| errors.problems)
}

fn show(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let files = effective(&context.config()?);
    context.report(&files, |screen| {
        for (file, settings) in &files {
            screen.heading(file)?;
            let mut lines = Vec::new();
            flatten(String::new(), settings, &mut lines);
            for (path, value) in lines {
                screen.line(format!("  {path} = {value}"))?;
            }
        }
        Ok(())
    })
}

/// Appends one `path = value` line per setting; lists stay whole.
fn flatten(path: String, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, member) in members {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                flatten(path, member, lines);
            }
        }
        Value::Null => lines.push((path, "(none)".to_owned())),
        other => lines.push((path, other.to_string())),
    }
}

fn print_schema(context: &CommandContext, name: Option<String>) -> anyhow::Result<Exit> {
    let named = |kind: &&schema::ConfigFileKind| name.as_deref() == Some(kind.name);
    match schema::KINDS.iter().find(named) {
        Some(kind) => context.screen.json(&(kind.schema)())?,
        None => {
            let all = schema::KINDS
                .iter()
                .map(|kind| (kind.name.to_owned(), (kind.schema)()));
            context.screen.json(&all.collect::<Map<_, _>>())?;
        }
    }
    Ok(Exit::Ok)
}

fn write_schemas(context: &CommandContext) -> anyhow::Result<Exit> {
    let folder = context.require_workspace()?.join("configs/schema");
    let failed = |source: std::io::Error| {
        Failure::new(
            Exit::CannotCreate,
            format!("cannot write to `{}`", folder.display()),
        )
        .because(source)
    };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    for kind in schema::KINDS {
        std::fs::write(folder.join(format!("{}.json", kind.name)), kind.text()).map_err(failed)?;
        context
            .screen
            .line(format!("configs/schema/{}.json", kind.name))?;
    }
    Ok(Exit::Ok)
}

/// Returns personas for which another model was measured. A database that cannot be read says nothing here: `attache doctor`
/// reports it.
async fn unused_switches(context: &CommandContext, config: &Config) -> Vec<Problem> {
    let place = DatabasePlace::of(&context.workspace);
    if !place.is_ok_and(|place| place.is_made()) {
        return Vec::new();
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let Ok(store) = Store::open_to_read(&context.workspace, clock).await else {
        return Vec::new();
    };
    let switches = store.vector_switches().await.unwrap_or_default();
    store.close().await;
    let current = config.inference.embeddings.as_ref();
    let current = current.map(|of| (of.provider.clone(), of.vector_model()));
    let problem = |(persona, switch): (String, VectorSwitch)| {
        let is_current = current.as_ref().is_some_and(|(provider, model)| {
            (provider, model) == (&switch.provider, &switch.model)
        });
        let named = current.as_ref().map(|(_, model)| format!("`{model}`"));
        let named = named.unwrap_or_else(|| "no model".to_owned());
        let message = format!(
            "vectors of `{persona}` were measured with `{}`, and the configuration names {named}: its searches go by words alone",
            switch.model
        );
        let place = ("configs/inference.json", "/embeddings");
        let problem = config.snapshot.problem_at(place.0, place.1, message);
        let hint = format!(
            "`attache memory bench --persona {persona} --switch-on` measures again, `--switch-off` forgets it"
        );
        (!is_current).then(|| problem.hint(hint))
    };
    switches.into_iter().filter_map(problem).collect()
}
