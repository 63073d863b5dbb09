//! `attache replay sweep --change FILE…`: which past runs would have been told otherwise under another configuration or
//! another text.

use crate::cli::runs::instant;
use crate::cli::{Command, Context, Exit, Failure, vocabulary};
use crate::harness::as_of::Configs;
use crate::replay::sweep::{Change, Effect, Judgement, Sweep};
use crate::store::RunFilter;
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde_json::json;

pub struct SweepCommand;

/// Runs that are fetched at once.
const PAGE: u32 = 500;
/// Largest text of a change; no file that a run reads may be larger.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;

impl Command for SweepCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("sweep")
            .about("Find the past runs whose first request a changed file would have changed")
            .arg(
                Arg::new("change")
                    .long("change")
                    .value_name("PATH[=FILE]")
                    .required(true)
                    .action(ArgAction::Append)
                    .help(
                        "A file of the workspace as it is now, such as `personas/ada/PERSONA.md`; with `=FILE`, as it \
                         would be with the text of another file",
                    ),
            )
            .arg(
                Arg::new("since")
                    .long("since")
                    .value_name("TIME")
                    .required(true)
                    .help("Only runs queued since then: `24h`, `7d`, or 2026-11-20T09:00:00Z"),
            )
            .arg(
                Arg::new("all")
                    .long("all")
                    .action(ArgAction::SetTrue)
                    .help("List the runs too that it would not have changed"),
            )
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move { sweep(context, args).await })
    }
}

async fn sweep(context: &Context, args: &ArgMatches) -> anyhow::Result<Exit> {
    let since = args.get_one::<String>("since").map(|typed| instant(typed)).transpose()?;
    let changes = args.get_many::<String>("change").into_iter().flatten();
    let changes = changes.map(|typed| read(context, typed)).collect::<Result<Vec<_>, _>>()?;
    let store = context.store_beside().await?;
    let configs = Configs::new(context.workspace.clone(), vocabulary());
    let sweep = Sweep::new(&store, &configs, changes);
    let (mut judged, mut offset) = (Vec::new(), 0);
    loop {
        let page = RunFilter { since, limit: PAGE, offset, ..RunFilter::default() };
        let runs = store.list_runs(&page).await?;
        for run in &runs {
            judged.push((run.created_at, run.persona.clone(), sweep.judge(&run.id).await?));
        }
        offset += PAGE;
        if runs.len() < PAGE as usize {
            break;
        }
    }
    let count = |effect| judged.iter().filter(|(_, _, of)| of.effect == effect).count();
    let (all, same, unknown) = (judged.len(), count(Effect::Same), count(Effect::Unknown));
    judged.retain(|(_, _, of)| args.get_flag("all") || of.effect != Effect::Same);
    if context.json() {
        context.screen.json(&json!({
            "runs": all, "changed": all - same - unknown, "unknown": unknown, "same": same,
            "judgements": judged.iter().map(|(_, _, judgement)| judgement).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Ok);
    }
    if !judged.is_empty() {
        let row =
            |(at, persona, judgement): &(crate::domain::Timestamp, crate::domain::PersonaId, Judgement)| {
                let by = match judgement.source.is_empty() {
                    true => judgement.by.clone(),
                    false => format!("{} ({})", judgement.by, judgement.source),
                };
                let effect = judgement.effect.as_str().to_owned();
                vec![
                    judgement.run.to_string(),
                    at.to_string(),
                    persona.to_string(),
                    effect,
                    by,
                    judgement.why.clone(),
                ]
            };
        let headings = ["ID", "QUEUED", "PERSONA", "EFFECT", "BY", "WHY"];
        context.screen.table(&headings, &judged.iter().map(row).collect::<Vec<_>>())?;
    }
    let changed = all - same - unknown;
    context
        .screen
        .line(format!("{changed} of {all} runs would have been told otherwise, {unknown} are not known"))?;
    Ok(Exit::Ok)
}

/// Reads one change as it was typed.
fn read(context: &Context, typed: &str) -> Result<Change, Failure> {
    let (path, file) = match typed.split_once('=') {
        Some((path, file)) => (path, std::path::PathBuf::from(file)),
        None => (typed, context.workspace.join(typed)),
    };
    let path = path.trim_start_matches("./");
    if path.is_empty() || path.starts_with('/') || path.split('/').any(|part| part == ".." || part.is_empty())
    {
        return Err(Failure::new(Exit::Usage, format!("`{path}` is no path below the workspace"))
            .hint("write one such as `personas/ada/PERSONA.md` or `configs/inference.json`"));
    }
    let unreadable = |error: std::io::Error| {
        let message = format!("`{}` cannot be read: {error}", file.display());
        Failure::new(Exit::NoInput, message)
    };
    let size = std::fs::metadata(&file).map_err(unreadable)?.len();
    if size > TEXT_BYTES_MAX {
        let message = format!("`{}` is larger than {TEXT_BYTES_MAX} bytes", file.display());
        return Err(Failure::new(Exit::NoInput, message));
    }
    Ok(Change { path: path.to_owned(), text: std::fs::read_to_string(&file).map_err(unreadable)? })
}
