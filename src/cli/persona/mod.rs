//! `attache persona`: the personas of this workspace, and what their files were before.
//!
//! - `versions`: earlier versions of their files

mod versions;

use super::args::in_force;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, screen};
use crate::config::{
    Config, ModelChoice, Persona, SettingsInForce, check_name, description, show_persona,
};
use crate::context::resolvers::knowledge::{self, KnowledgeSurvey, Surveyed};
use crate::domain::{Address, PersonaId, ReplyMode, RunOptions, Trigger};
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
    Restore(versions::RestoreFile),
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
            Self::Versions { id, file } => versions::list(context, &id, file).await,
            Self::Restore(it) => it.run(context).await,
            Self::Create { id, name, address } => create(context, &id, name.trim(), address),
        }
    }
}

fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    let config = context.config()?;
    if context.json() {
        context
            .screen
            .json(&config.personas.iter().map(show_persona).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let rows = config.personas.iter().map(|persona| {
        vec![
            persona.id.to_string(),
            persona.address.to_string(),
            persona.name.clone(),
            joined(&persona.aliases),
        ]
    });
    let columns = Columns::of(&["ID", "ADDRESS", "NAME", "ALIASES"]).main("ADDRESS");
    context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), "no persona lives here")?;
    for out in config.personas.out_of_service() {
        screen::remark(&format!(
            "`{}` is out of service; `attache config check` says why",
            out.name
        ));
    }
    in_force::remark(&in_force::compare(context));
    Ok(Exit::Ok)
}

fn show(context: &CommandContext, id: &str) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let persona = find(&config, id)?;
    let (knowledge, responsibilities) = (surveyed(persona)?, pages(persona, "responsibilities"));
    if context.json() {
        context.screen.json(&PersonaRecord {
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
        })?;
        return Ok(Exit::Ok);
    }
    context
        .screen
        .fields(&fields(&config, persona, &knowledge, &responsibilities))?;
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
    let left_out =
        left_out.map(|(path, why)| vec![path.clone(), "-".to_owned(), format!("left out: {why}")]);
    let rows: Vec<_> = used.chain(left_out).collect();
    if !rows.is_empty() {
        context.screen.line("")?;
        context.screen.table(&["FILE", "TOKENS", "REMARK"], &rows)?;
    }
    Ok(Exit::Ok)
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
    let bad = |error: &dyn std::error::Error| Failure::new(Exit::Usage, error.to_string());
    let id = PersonaId::parse(id).map_err(|error| bad(&error))?;
    check_name(name).map_err(|error| bad(&error))?;
    let typed = address.as_deref().unwrap_or(id.as_str());
    let address = Address::parse_in(typed, &config.gateway.mail_domain);
    let address = address.map_err(|error| bad(&error))?;
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
        let message = format!("`{address}` belongs to persona `{}` already", persona.id);
        return Err(
            Failure::new(Exit::CannotCreate, message).hint("choose another one with --address")
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
