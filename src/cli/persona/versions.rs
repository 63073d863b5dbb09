//! `attache persona versions|restore`: what a persona's files were before their owner replaced them on a page or here.

use super::find;
use crate::cli::args::user;
use crate::cli::screen::{Columns, one_line};
use crate::cli::{CommandContext, Exit, Failure, screen};
use crate::config::{Config, Persona};
use crate::scheduler::examine;
use crate::scheduler::schedule_file::WorkspaceNames;
use crate::store::files::persona_file_versions::{
    FileEditor, NewFileText, PersonaFileVersion, PersonaFileVersionText,
};
use crate::store::files::persona_files::PersonaFileError;
use crate::text::line_diff::line_diff;
use crate::tools;

/// Bring back an earlier version of a file; the present one is kept, too
#[derive(clap::Args)]
pub struct RestoreFile {
    /// Its folder's name below `personas/`
    id: String,
    /// Path below the persona's folder, such as `knowledge/prices.md`
    file: String,
    /// As `attache persona versions` shows it [default: the newest]
    #[arg(long, value_name = "NUMBER")]
    version: Option<i64>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

pub async fn list(
    context: &CommandContext,
    id: &str,
    file: Option<String>,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let persona = find(&config, id)?;
    let store = context.shared_store().await?.persona(&persona.id);
    let (versions, is_outside) = match file.filter(|name| !name.is_empty()) {
        None => (store.file_versions(None).await?, false),
        Some(name) => {
            let history = store.file_history(&persona.folder, &name).await;
            let history = history.map_err(failure)?;
            (history.versions, history.changed_outside)
        }
    };
    let columns = Columns::of(&["VERSION", "UNTIL", "BYTES", "REPLACED BY", "WAS", "FILE"]);
    context.screen.list(
        &versions,
        columns.main("FILE"),
        "no version is kept",
        |version| {
            vec![
                version.version.to_string(),
                version.replaced_at.to_string(),
                version.bytes.to_string(),
                one_line(&version.replaced_by),
                was(version).to_owned(),
                one_line(&version.name),
            ]
        },
    )?;
    if is_outside && !context.json() {
        screen::remark("the file is not what was saved last: it was changed on the machine");
    }
    Ok(Exit::Ok)
}

fn was(version: &PersonaFileVersion) -> &'static str {
    match (version.sha256.as_str(), version.changed_outside) {
        ("", true) => "removed on the machine",
        ("", false) => "not there",
        (_, true) => "changed on the machine",
        (_, false) => "saved",
    }
}

impl RestoreFile {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let config = context.config()?;
        let persona = find(&config, &self.id)?;
        let name = &self.file;
        let store = context.store_of_engine().await?.persona(&persona.id);
        let now = store.file_history(&persona.folder, name).await;
        let now = now.map_err(failure)?.file;
        let number = self.version;
        let Some(found) = store.file_version(name, number).await? else {
            let of = number.map_or_else(String::new, |number| format!(" {number}"));
            let message = format!("no version{of} of `{}` is kept", one_line(name));
            let hint = format!(
                "`attache persona versions {}` shows what there is",
                persona.id
            );
            return Err(Failure::new(Exit::NoInput, message).hint(hint).into());
        };
        if self.dry_run {
            return show_difference(context, &now.text, &found);
        }
        check(&config, persona, &found)?;
        let new = NewFileText {
            name: name.to_owned(),
            text: found.text,
            base_sha256: now.sha256,
            is_exact: true,
        };
        let by = FileEditor {
            user: user(),
            session: None,
        };
        let saved = store.replace_file(&persona.folder, new, &by).await;
        let saved = saved.map_err(failure)?;
        if context.json() {
            context.screen.json(&saved)?;
            return Ok(Exit::Ok);
        }
        context.screen.line(format!(
            "`{}` is as it was until {}",
            one_line(&saved.name),
            found.about.replaced_at
        ))?;
        screen::remark("what it replaced is kept, too; the next run reads the file");
        Ok(Exit::Ok)
    }
}

/// Refuses a responsibility that could not be read.
fn check(
    config: &Config,
    persona: &Persona,
    found: &PersonaFileVersionText,
) -> Result<(), Failure> {
    if !found.about.name.starts_with("responsibilities/") {
        return Ok(());
    }
    let names = WorkspaceNames::of(config, tools::of_config(config).names());
    match examine(persona, &names, found.text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(problem) => Err(Failure::new(
            Exit::BadData,
            format!("{}: {problem}", one_line(&found.about.name)),
        )
        .hint("nothing was changed")),
    }
}

fn show_difference(
    context: &CommandContext,
    now: &str,
    found: &PersonaFileVersionText,
) -> anyhow::Result<Exit> {
    if context.json() {
        context.screen.json(found)?;
        return Ok(Exit::Ok);
    }
    for line in line_diff(now, &found.text) {
        let mark = match line.kind {
            "added" => "+ ",
            "removed" => "- ",
            "skipped" => "…",
            _ => "  ",
        };
        context.screen.line(format!("{mark}{}", line.text))?;
    }
    Ok(Exit::Ok)
}

fn failure(error: PersonaFileError) -> anyhow::Error {
    match error {
        PersonaFileError::Name(_) => Failure::new(Exit::Usage, error.to_string()).into(),
        PersonaFileError::Changed(_) => Failure::new(Exit::Failed, error.to_string())
            .hint("nothing was changed; try again")
            .into(),
        PersonaFileError::Store(error) => error.into(),
        error => Failure::new(Exit::NoInput, "the file cannot be read or replaced")
            .because(error)
            .into(),
    }
}
