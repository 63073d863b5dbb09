//! `attache persona`: the personas of this workspace, and what their files were before.

use super::args::{in_force, user};
use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::config::{
    Config, ModelChoice, Persona, SettingsInForce, check_name, description, show_persona,
};
use crate::context::resolvers::knowledge;
use crate::context::resolvers::knowledge::{KnowledgeSurvey, Surveyed};
use crate::domain::{Address, PersonaId, ReplyMode, RunOptions, Trigger};
use crate::schedule_file::WorkspaceNames;
use crate::scheduler::examine;
use crate::store::files::persona_file_versions::{
    FileEditor, NewFileText, PersonaFileVersion, PersonaFileVersionText,
};
use crate::store::files::persona_files::PersonaFileError;
use crate::text::line_diff::line_diff;
use crate::tools;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// List, show and create personas, and bring back earlier versions of their files
#[derive(clap::Subcommand)]
pub enum PersonaCommand {
    /// List every persona
    List,
    /// Show one persona's settings and files
    Show {
        /// Its folder's name below `personas/`
        id: String,
    },
    /// List what was replaced in a persona's files on a page or by `restore`, the newest first
    Versions {
        /// Its folder's name below `personas/`
        id: String,
        /// Path below the persona's folder, such as `knowledge/prices.md`
        file: Option<String>,
    },
    Restore(RestoreFile),
    /// Write a new persona's folder, to be edited by hand
    Create {
        /// Its folder's name below `personas/`
        id: String,
        /// Display name in its mails
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Mail address; a local part alone lives at the gateway's mail domain [default: ID]
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
    },
}

impl PersonaCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        match self {
            Self::List => list(context),
            Self::Show { id } => show(context, &id),
            Self::Versions { id, file } => list_versions(context, &id, file).await,
            Self::Restore(it) => it.run(context).await,
            Self::Create { id, name, address } => create(context, &id, name.trim(), address),
        }
    }
}

fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    let config = context.config()?;
    context.report(
        &config.personas.iter().map(show_persona).collect::<Vec<_>>(),
        |screen| {
            let rows = config.personas.iter().map(|persona| {
                vec![
                    persona.id.to_string(),
                    persona.address.to_string(),
                    persona.name.clone(),
                    joined(&persona.aliases),
                ]
            });
            let columns = Columns::of(&["ID", "ADDRESS", "NAME", "ALIASES"]).main("ADDRESS");
            screen.listing(columns, &rows.collect::<Vec<_>>(), "no persona lives here")?;
            for out in config.personas.out_of_service() {
                screen::remark(&format!(
                    "`{}` is out of service; `attache config check` says why",
                    out.name
                ));
            }
            in_force::remark(&in_force::compare(context));
            Ok(())
        },
    )
}

fn show(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let persona = find(&config, id)?;
    let (knowledge, responsibilities) = (surveyed(persona)?, pages(persona, "responsibilities"));
    context.report(
        &PersonaRecord {
            settings: show_persona(persona),
            in_force: settings_of(&config, persona)
                .listed()
                .into_iter()
                .map(|(name, value, origin)| {
                    let origin = origin.as_str();
                    (name, SettingRecord { value, origin })
                })
                .collect(),
            folder: &persona.folder,
            knowledge: &knowledge.used,
            knowledge_left_out: knowledge.left_out.iter().map(LeftOut::from).collect(),
            responsibilities: &responsibilities,
        },
        |screen| {
            screen.fields(&fields(&config, persona, &knowledge, &responsibilities))?;
            let used = knowledge.used.iter().map(|file| {
                let charset = file
                    .charset
                    .map(|charset| format!("read as {charset}"))
                    .unwrap_or_default();
                vec![
                    file.path.clone(),
                    file.tokens
                        .map_or_else(|| "when read".to_owned(), |tokens| tokens.to_string()),
                    charset,
                ]
            });
            let left_out = knowledge.left_out.iter();
            let left_out = left_out
                .map(|(path, why)| vec![path.clone(), "-".to_owned(), format!("left out: {why}")]);
            let rows: Vec<_> = used.chain(left_out).collect();
            if !rows.is_empty() {
                screen.line("")?;
                screen.table(&["FILE", "TOKENS", "REMARK"], &rows)?;
            }
            Ok(())
        },
    )
}

pub(super) fn find<'c>(config: &'c Config, id: &str) -> Result<&'c Persona, Failure> {
    let parsed = PersonaId::parse(id).ok();
    parsed
        .and_then(|id| config.personas.get(&id))
        .ok_or_else(|| {
            let ids = config.personas.iter().map(|persona| persona.id.as_str());
            let ids = ids.collect::<Vec<_>>().join(", ");
            Failure::new(Exit::NoInput, format!("no persona `{id}`"))
                .hint(format!("there are: {ids}"))
        })
}

fn fields(
    config: &Config,
    persona: &Persona,
    knowledge: &KnowledgeSurvey,
    responsibilities: &[String],
) -> Vec<(&'static str, String)> {
    let choices = config.inference.choices_for(persona);
    let asked = |of: fn(&ModelChoice) -> &String| {
        let is_own = persona.provider.is_some() || persona.model.is_some();
        let name = choices.first().map(of).cloned().unwrap_or_default();
        match is_own {
            true => name,
            false => format!("{name} (default)"),
        }
    };
    let settings = settings_of(config, persona).listed().into_iter();
    let settings = settings.map(|(name, value, origin)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        format!("{name} {value} ({origin})")
    });
    let settings: Vec<String> = settings.collect();
    vec![
        ("id", persona.id.to_string()),
        ("name", persona.name.clone()),
        ("address", persona.address.to_string()),
        ("aliases", joined(&persona.aliases)),
        ("reply", persona.reply.as_str().to_owned()),
        ("provider", asked(|choice| &choice.provider)),
        ("model", asked(|choice| &choice.model)),
        ("settings", settings.join(", ")),
        ("tools", persona.tools.to_string()),
        ("timezone", persona.timezone.name().to_owned()),
        ("folder", persona.folder.display().to_string()),
        ("knowledge", described(knowledge)),
        ("responsibilities", responsibilities.join(", ")),
    ]
}

/// Settings in force for answers to letters of the persona, at the provider that is asked first.
fn settings_of(config: &Config, persona: &Persona) -> SettingsInForce {
    let options = RunOptions::default();
    let choices = config.inference.choices_under(&options, persona);
    let provider = choices.first().map_or("", |choice| &choice.provider);
    let whose = (persona, &options);
    (config.inference).settings_in_force(whose, Trigger::Email, provider)
}

/// A setting in force.
#[derive(Serialize)]
struct SettingRecord {
    value: Value,
    origin: &'static str,
}

/// A persona's settings and files.
#[derive(Serialize)]
struct PersonaRecord<'a> {
    #[serde(flatten)]
    settings: Value,
    in_force: BTreeMap<&'static str, SettingRecord>,
    folder: &'a Path,
    knowledge: &'a [Surveyed],
    knowledge_left_out: Vec<LeftOut<'a>>,
    responsibilities: &'a [String],
}

/// A file of the knowledge folder that is not used.
#[derive(Serialize)]
struct LeftOut<'a> {
    path: &'a str,
    why: &'a str,
}

impl<'a> From<&'a (String, String)> for LeftOut<'a> {
    fn from((path, why): &'a (String, String)) -> Self {
        Self { path, why }
    }
}

/// Parts of the persona's knowledge that its runs can load.
fn surveyed(persona: &Persona) -> anyhow::Result<KnowledgeSurvey> {
    let unreadable = |source| {
        Failure::new(
            Exit::NoInput,
            format!("cannot read the folder of `{}`", persona.id),
        )
        .because(source)
    };
    Ok(knowledge::survey(&persona.folder).map_err(unreadable)?)
}

fn described(knowledge: &KnowledgeSurvey) -> String {
    let tokens: usize = knowledge.used.iter().filter_map(|file| file.tokens).sum();
    let left_out = match knowledge.left_out.len() {
        0 => String::new(),
        count => format!("; {count} left out"),
    };
    format!(
        "{} files, about {tokens} tokens{left_out}",
        knowledge.used.len()
    )
}

fn joined(addresses: &[Address]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Markdown files directly below one of a persona's folders, sorted.
fn pages(persona: &Persona, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(persona.folder.join(folder))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pages = names
        .filter(|name| name.ends_with(".md"))
        .collect::<Vec<_>>();
    pages.sort();
    pages
}

fn create(
    context: &CommandContext,
    id: &str,
    name: &str,
    address: Option<String>,
) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let id = PersonaId::parse(id).map_err(Failure::usage)?;
    check_name(name).map_err(Failure::usage)?;
    let typed = address.as_deref().unwrap_or(id.as_str());
    let address = Address::parse_in(typed, &config.gateway.mail_domain);
    let address = address.map_err(Failure::usage)?;
    check_free(&config, &address)?;
    let personas = context.workspace.join("personas");
    let folder = personas.join(id.as_str());
    // A dangling link also blocks the name.
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::new(
            Exit::CannotCreate,
            format!("`personas/{id}` exists already"),
        )
        .into());
    }
    let description = description(name);
    let whole = PersonaFiles {
        name,
        address: typed,
        description: &description,
    };
    write_folder(&personas, &id, &whole).map_err(|source| {
        Failure::new(Exit::CannotCreate, format!("cannot write `personas/{id}`")).because(source)
    })?;
    if context.json() {
        context.screen.json(&CreatedPersona {
            id: &id,
            address: address.to_string(),
            folder: &folder,
        })?;
    } else {
        context
            .screen
            .line(format!("created persona `{id}` at {address}"))?;
        context.screen.line(format!(
            "now describe it in {}",
            folder.join("PERSONA.md").display()
        ))?;
    }
    in_force::remark(&in_force::compare(context));
    Ok(Exit::Ok)
}

/// Refuses an address that a persona or an owner has.
fn check_free(config: &Config, address: &Address) -> Result<(), Failure> {
    let owner = config.personas.iter().find(|persona| {
        persona
            .addresses()
            .any(|taken| taken.key() == address.key())
    });
    if let Some(persona) = owner {
        return refuse(
            Exit::CannotCreate,
            format!("`{address}` belongs to persona `{}` already", persona.id),
            "choose another one with --address",
        );
    }
    if config
        .gateway
        .owners
        .iter()
        .any(|owner| owner.key() == address.key())
    {
        return Err(Failure::new(
            Exit::CannotCreate,
            format!("`{address}` is an owner's address"),
        ));
    }
    Ok(())
}

/// A persona that was created.
#[derive(Serialize)]
struct CreatedPersona<'a> {
    id: &'a PersonaId,
    address: String,
    folder: &'a Path,
}

/// Settings of a new persona's file.
#[derive(Serialize)]
struct NewSettings<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    address: &'a str,
    reply: &'static str,
    timezone: &'static str,
}

/// Contents of the files of a new persona.
pub(super) struct PersonaFiles<'a> {
    pub name: &'a str,
    pub address: &'a str,
    /// Its PERSONA.md.
    pub description: &'a str,
}

/// The files of a new persona.
pub(super) const FILES: [&str; 3] = ["persona.json", "PERSONA.md", "active.md"];

/// Writes a whole persona into a temporary folder; the rename that follows makes it visible at
/// once.
pub(super) fn write_folder(
    personas: &Path,
    id: &PersonaId,
    persona: &PersonaFiles<'_>,
) -> io::Result<()> {
    let draft = personas.join(format!(".{id}.new"));
    match std::fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for folder in ["knowledge", "responsibilities"] {
        std::fs::create_dir_all(draft.join(folder))?;
    }
    for (file, content) in contents(persona)? {
        std::fs::write(draft.join(file), content)?;
    }
    std::fs::rename(&draft, personas.join(id.as_str()))
}

/// The files of a new persona and their texts.
pub(super) fn contents(persona: &PersonaFiles<'_>) -> io::Result<[(&'static str, String); 3]> {
    let settings = NewSettings {
        schema: "../../configs/schema/persona.json",
        name: persona.name,
        address: persona.address,
        reply: ReplyMode::Final.as_str(),
        timezone: "UTC",
    };
    let settings = serde_json::to_string_pretty(&settings)? + "\n";
    let [json, description, active] = FILES;
    Ok([
        (json, settings),
        (description, persona.description.to_owned()),
        (active, "# Open\n\nNothing yet.\n".to_owned()),
    ])
}

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

async fn list_versions(
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
            let history = history.map_err(file_failure)?;
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
        let now = now.map_err(file_failure)?.file;
        let number = self.version;
        let Some(found) = store.file_version(name, number).await? else {
            let of = number.map_or_else(String::new, |number| format!(" {number}"));
            return refuse(
                Exit::NoInput,
                format!("no version{of} of `{}` is kept", one_line(name)),
                format!(
                    "`attache persona versions {}` shows what there is",
                    persona.id
                ),
            );
        };
        if self.dry_run {
            return show_difference(context, &now.text, &found);
        }
        check_responsibility(&config, persona, &found)?;
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
        let saved = saved.map_err(file_failure)?;
        context.report(&saved, |screen| {
            screen.line(format!(
                "`{}` is as it was until {}",
                one_line(&saved.name),
                found.about.replaced_at
            ))?;
            screen::remark("what it replaced is kept, too; the next run reads the file");
            Ok(())
        })
    }
}

/// Refuses a responsibility that could not be read.
fn check_responsibility(
    config: &Config,
    persona: &Persona,
    found: &PersonaFileVersionText,
) -> Result<(), Failure> {
    if !found.about.name.starts_with("responsibilities/") {
        return Ok(());
    }
    let names = WorkspaceNames::from_config(config, tools::of_config(config).names());
    match examine(persona, &names, found.text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(problem) => refuse(
            Exit::BadData,
            format!("{}: {problem}", one_line(&found.about.name)),
            "nothing was changed",
        ),
    }
}

fn show_difference(
    context: &CommandContext,
    now: &str,
    found: &PersonaFileVersionText,
) -> anyhow::Result<Exit> {
    context.report(found, |screen| {
        for line in line_diff(now, &found.text) {
            let mark = match line.kind {
                "added" => "+ ",
                "removed" => "- ",
                "skipped" => "…",
                _ => "  ",
            };
            screen.line(format!("{mark}{}", line.text))?;
        }
        Ok(())
    })
}

fn file_failure(error: PersonaFileError) -> anyhow::Error {
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
