//! `attache schedule validate`: reads one responsibility file as the engine would, from any path,
//! and changes nothing.

use crate::cli::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Persona};
use crate::domain::{DeliverTo, PersonaId};
use crate::schedule_file::file::FILE_BYTES_MAX;
use crate::schedule_file::{Responsibility, WorkspaceNames};
use crate::scheduler::examine;
use crate::tools;
use anyhow::Context as _;
use serde::Serialize;
use std::io::Read;
use std::path::Path;

/// Number of slots shown.
const SLOTS_SHOWN: usize = 5;

/// Reads a file as the engine would.
pub(super) async fn validate(
    context: &CommandContext,
    persona: Option<String>,
    file: &Path,
) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let content = read(file).map_err(|error| {
        let message = format!("`{}` cannot be read", file.display());
        Failure::new(Exit::NoInput, message).because(error)
    })?;
    let persona = owner(context, &config, persona, file)?;
    let names = WorkspaceNames::from_config(&config, tools::of_config(&config).names());
    let bad =
        |problem: String| Failure::new(Exit::BadData, format!("{}: {problem}", file.display()));
    let found = examine(persona, &names, &content).map_err(bad)?;
    if let DeliverTo::Thread(thread) = &found.run_options.deliver_to {
        let store = context.shared_store().await?;
        if !store.persona(&persona.id).has_thread(thread).await? {
            let line = found.deliver_to_line;
            let problem = format!(
                "line {line}: `deliver_to`: {} has no thread `{thread}`",
                persona.id
            );
            return Err(bad(problem).hint("`attache threads list` shows ids").into());
        }
    }
    tell(context, file, persona, &found)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than permitted, so that the parser reports that the file is too large.
    let most = FILE_BYTES_MAX as u64 + 1;
    match file.to_str() {
        Some("-") => std::io::stdin()
            .lock()
            .take(most)
            .read_to_end(&mut content)?,
        _ => std::fs::File::open(file)?
            .take(most)
            .read_to_end(&mut content)?,
    };
    Ok(content)
}

/// Persona of the file: the named one, or the one in whose folder the file is, or the only persona.
fn owner<'a>(
    context: &CommandContext,
    config: &'a Config,
    named: Option<String>,
    file: &Path,
) -> anyhow::Result<&'a Persona> {
    let all = || {
        config
            .personas
            .iter()
            .map(|persona| format!("`{}`", persona.id))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(typed) = named {
        let found = PersonaId::parse(&typed)
            .ok()
            .and_then(|id| config.personas.get(&id));
        return found.ok_or_else(|| {
            Failure::new(Exit::NoInput, format!("no persona `{typed}`"))
                .hint(format!("there are: {}", all()))
                .into()
        });
    }
    let path = std::path::absolute(file).context("no such path")?;
    let folder = path.strip_prefix(context.workspace.join("personas")).ok();
    let by_folder = folder.and_then(|path| PersonaId::parse(path.iter().next()?.to_str()?).ok());
    if let Some(found) = by_folder.and_then(|id| config.personas.get(&id)) {
        return Ok(found);
    }
    let mut personas = config.personas.iter();
    match (personas.next(), personas.next()) {
        (Some(only), None) => Ok(only),
        _ => refuse(
            Exit::Usage,
            "the file lies in no persona's folder, so nobody knows whose it is",
            format!("name the persona with --persona ID; there are: {}", all()),
        ),
    }
}

fn tell(
    context: &CommandContext,
    file: &Path,
    persona: &Persona,
    found: &Responsibility,
) -> anyhow::Result<Exit> {
    let next = found.upcoming(SystemClock::new().now(), SLOTS_SHOWN);
    context.report(
        &ValidResponsibility {
            file,
            persona: &persona.id,
            name: &found.name,
            schedule: found.timing.formatted(),
            timezone: found.timezone.name(),
            enabled: found.enabled,
            next: &next,
        },
        |screen| {
            let mut fields = vec![
                ("name", found.name.clone()),
                ("persona", persona.id.to_string()),
                (
                    "when",
                    format!("{} ({})", found.timing.formatted(), found.timezone.name()),
                ),
            ];
            fields.extend(next.iter().map(|slot| ("next", slot.clone())));
            screen.fields(&fields)?;
            if next.is_empty() {
                screen::remark("it will never be due: its instant has passed");
            }
            if !found.enabled {
                screen::remark("it says `enabled: false`, so none of this happens yet");
            }
            Ok(())
        },
    )
}

/// A responsibility file without problems.
#[derive(Serialize)]
struct ValidResponsibility<'a> {
    file: &'a Path,
    persona: &'a PersonaId,
    name: &'a str,
    schedule: String,
    timezone: &'static str,
    enabled: bool,
    next: &'a [String],
}
