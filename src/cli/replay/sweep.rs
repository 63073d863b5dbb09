//! `attache replay sweep --change FILE…`: finds past runs that would have got another context under
//! another configuration or another text.

use crate::cli::args::instant;
use crate::cli::name_catalog;
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure, refuse};
use crate::config::{self, Config, ConfigErrors, Problem};
use crate::domain::Timestamp;
use crate::replay::sweep::{ChangedFile, Effect, Judgement, Sweep, is_config};
use crate::runs::record::configs::Configs;
use crate::store::{RunFilter, RunSummary, Store};
use crate::text::plural;
use serde_json::json;

/// Find the past runs whose first request a changed file would have changed
#[derive(clap::Args)]
#[command(after_help = "EFFECT of the change on a run's first request:\n\
                  wording  the model reads other words\n\
                  room     something is left out or let in that was not\n\
                  asked    another model is asked, or in another way\n\
                  unknown  the record does not say; WHY has the reason\n\
                  same     none (--all lists these runs too)\n\
                  BY names the resolver or the setting that makes the difference. No model is asked, so what it would have \
                  answered is not known.")]
pub struct SweepCommand {
    /// A file of the workspace as it is now, such as `personas/ada/PERSONA.md`; with `=FILE`, as it would be with the text of
    /// another file
    #[arg(long, value_name = "PATH[=FILE]", required = true)]
    change: Vec<String>,
    /// Only runs queued since then: `24h`, `7d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "TIME")]
    since: String,
    /// List the runs too that it would not have changed
    #[arg(long)]
    all: bool,
}

/// Files that can be changed, for a hint.
const CHANGES: &str = "a change is of a file such as `configs/context.json`, `personas/ID/PERSONA.md`, `personas/ID/active.md`, \
    `personas/ID/knowledge/…`, or of one that a step of configs/context.json names";
/// Path of a file that a configuration may lack.
const PRICES: &str = "configs/prices.json";
/// Number of runs fetched at once.
const PAGE: u32 = 500;
/// Maximum bytes of a change's text; no file that a run reads may be larger.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;

impl SweepCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let since = instant(&self.since)?;
        let changes = self
            .change
            .iter()
            .map(|typed| read(context, typed))
            .collect::<Result<Vec<_>, _>>()?;
        check(context, &changes)?;
        let store = context.shared_store().await?;
        let configs = Configs::new(context.workspace.clone(), name_catalog());
        let sweep = Sweep::new(&store, &configs, changes);
        let mut judged = judge_all(&store, &sweep, Some(since)).await?;
        let count = |effect| judged.iter().filter(|(_, of)| of.effect == effect).count();
        let (all, same, unknown) = (judged.len(), count(Effect::Same), count(Effect::Unknown));
        judged.retain(|(_, of)| self.all || of.effect != Effect::Same);
        let changed = all - same - unknown;
        context.report(
            &json!({
                "runs": all,
                "changed": changed,
                "unknown": unknown,
                "same": same,
                "judgements": judged.iter().map(|(_, judgement)| judgement).collect::<Vec<_>>(),
            }),
            |screen| {
                print_judgements(context, &judged)?;
                screen.line(format!(
                    "{changed} of {} would have been told otherwise, {unknown} not known",
                    plural(all, "run")
                ))?;
                Ok(())
            },
        )
    }
}

/// A run with its judgement; `None`: its summary cannot be read.
type JudgedRun = (Option<RunSummary>, Judgement);

/// Judges every run queued since an instant, page by page.
async fn judge_all(
    store: &Store,
    sweep: &Sweep<'_>,
    since: Option<Timestamp>,
) -> anyhow::Result<Vec<JudgedRun>> {
    let (mut judged, mut offset) = (Vec::new(), 0);
    loop {
        let page = RunFilter {
            since,
            limit: PAGE,
            offset,
            ..RunFilter::default()
        };
        let runs = store.run_ids(&page).await?;
        for run in &runs {
            let summary = match store.run_summary(run).await {
                Err(error) if error.is_of_one_row() => None,
                summary => Some(summary?),
            };
            judged.push((summary, sweep.judge(run).await?));
        }
        offset += PAGE;
        if runs.len() < PAGE as usize {
            break;
        }
    }
    Ok(judged)
}

fn print_judgements(context: &CommandContext, judged: &[JudgedRun]) -> anyhow::Result<()> {
    if judged.is_empty() {
        return Ok(());
    }
    let row = |(summary, judgement): &JudgedRun| {
        let by = match judgement.source.is_empty() {
            true => judgement.by.clone(),
            false => format!("{} ({})", judgement.by, judgement.source),
        };
        let of_run =
            |column: fn(&RunSummary) -> String| summary.as_ref().map(column).unwrap_or_default();
        vec![
            judgement.run.to_string(),
            of_run(|run| run.created_at.to_string()),
            of_run(|run| run.persona.to_string()),
            judgement.effect.as_str().to_owned(),
            by,
            judgement.why.clone(),
        ]
    };
    let headings = ["ID", "QUEUED", "PERSONA", "EFFECT", "BY", "WHY"];
    context.screen.table(
        Columns::of(&headings).optional(&["PERSONA"]),
        &judged.iter().map(row).collect::<Vec<_>>(),
    )?;
    Ok(())
}

/// Reads one change from its argument.
fn read(context: &CommandContext, typed: &str) -> Result<ChangedFile, Failure> {
    let (path, file) = match typed.split_once('=') {
        Some((path, file)) => (path, std::path::PathBuf::from(file)),
        None => (typed, context.workspace.join(typed)),
    };
    let path = path.trim_start_matches("./");
    let is_below = !path.is_empty()
        && !path.starts_with('/')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_below {
        return refuse(
            Exit::Usage,
            format!("`{path}` is no path below the workspace"),
            CHANGES,
        );
    }
    if ["data", ".secrets"].contains(&path.split('/').next().unwrap_or_default()) {
        return refuse(
            Exit::Usage,
            format!("`{path}` is nothing that a model is told"),
            CHANGES,
        );
    }
    let unreadable = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::InvalidData => "only files of text can be changed",
            _ => "write PATH=FILE to give the text of another file",
        };
        Failure::new(Exit::NoInput, format!("cannot read `{}`", file.display()))
            .hint(hint)
            .because(error)
    };
    let size = std::fs::metadata(&file).map_err(unreadable)?.len();
    if size > TEXT_BYTES_MAX {
        return refuse(
            Exit::NoInput,
            format!("`{}` is larger than {TEXT_BYTES_MAX} bytes", file.display()),
            "no file that a run reads may be",
        );
    }
    Ok(ChangedFile {
        path: path.to_owned(),
        text: std::fs::read_to_string(&file).map_err(unreadable)?,
    })
}

/// Refuses a change that no run could have read: of a file that no run reads, or with a problem
/// that `config check` would report.
fn check(context: &CommandContext, changes: &[ChangedFile]) -> anyhow::Result<()> {
    let names = name_catalog();
    let is_changed = |problem: &Problem| changes.iter().any(|change| change.path == problem.file);
    let today = match config::load_without_secrets(&context.workspace, &names) {
        Ok(today) => today,
        // Problems of unchanged files do not concern the change.
        Err(errors) => return refused(errors.problems.into_iter().filter(is_changed).collect()),
    };
    let changed = changes.iter().filter(|change| is_config(&change.path));
    let snapshot = changed.fold((*today.snapshot).clone(), |files, change| {
        files.with(&change.path, &change.text)
    });
    let config = match config::load_snapshot(&context.workspace, &names, &snapshot) {
        Ok(config) => config,
        Err(errors) => return refused(errors.problems),
    };
    let out_of_service = config
        .personas
        .out_of_service()
        .iter()
        .flat_map(|out| &out.problems);
    let made_wrong: Vec<Problem> = out_of_service
        .filter(|problem| is_changed(problem))
        .cloned()
        .collect();
    if !made_wrong.is_empty() {
        return refused(made_wrong);
    }
    for change in changes {
        let is_known = match is_config(&change.path) {
            true => today.snapshot.files().contains_key(&change.path) || change.path == PRICES,
            false => is_read(&change.path, &[&today, &config]),
        };
        if !is_known {
            return refuse(
                Exit::Usage,
                format!("no run reads `{}` when it begins", change.path),
                CHANGES,
            );
        }
    }
    Ok(())
}

fn refused(problems: Vec<Problem>) -> anyhow::Result<()> {
    let Some(errors) = ConfigErrors::from_problems(problems) else {
        return Ok(());
    };
    let failure = Failure::new(Exit::BadData, "no engine would start with the change");
    Err(failure
        .hint("mend the file, then sweep again")
        .because(errors)
        .into())
}

/// Reports whether a step of a profile reads the file, or a persona has it in its memory or
/// knowledge.
fn is_read(path: &str, configs: &[&Config]) -> bool {
    configs.iter().any(|config| {
        config.personas.iter().any(|persona| {
            let own = path.strip_prefix(&format!("personas/{}/", persona.id));
            let steps = config.context.values().flat_map(|profile| &profile.steps);
            let mut named = steps.flat_map(|step| &step.args);
            own.is_some_and(|file| {
                matches!(file, "PERSONA.md" | "active.md") || file.starts_with("knowledge/")
            }) || named.any(|arg| arg.replace("{persona_id}", persona.id.as_str()) == path)
        })
    })
}
