//! `attache init DIR --domain DOMAIN --owner ADDRESS`: writes a workspace with one persona for its
//! owner.
//!
//! An existing workspace stays unchanged, so that removed files do not return. The guest house of
//! `attache demo` is no part of it.

pub mod sample;

use super::persona::PersonaFiles;
use super::{CommandContext, Exit, Failure, persona, refuse, screen};
use crate::config::check_name;
use crate::domain::{Address, PersonaId};
use serde::Serialize;
use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Write a new workspace with one persona of your own
#[derive(clap::Args)]
pub struct Init {
    /// Folder to write to; it is made if it does not exist
    dir: PathBuf,
    /// Mail domain of the persona: the part behind the @
    #[arg(long, value_name = "DOMAIN")]
    domain: String,
    /// Your own address: notices and reports go there; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    owner: Vec<String>,
    /// The persona's folder below `personas/`, and its address before the @
    #[arg(long, value_name = "ID", default_value = "assistant")]
    persona: String,
    /// Display name in its mails [default: its id]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Init {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        init(context, &self.dir, &WorkspaceSpec::read(&self)?)
    }
}

/// Outcome of one file.
#[derive(Serialize)]
struct Written {
    path: String,
    outcome: WrittenFileOutcome,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum WrittenFileOutcome {
    Written,
    Kept,
}

/// Values that the new workspace is made from.
struct WorkspaceSpec {
    mail_domain: String,
    owners: Vec<Address>,
    persona: PersonaId,
    address: Address,
    name: String,
}

impl WorkspaceSpec {
    /// Errors: an argument is no domain, address, id or name, or the persona would have an owner's
    /// address.
    fn read(typed: &Init) -> Result<Self, Failure> {
        let persona = PersonaId::parse(&typed.persona).map_err(Failure::usage)?;
        let address = Address::parse(&format!("{persona}@{}", typed.domain)).map_err(|_| {
            let message = format!("`{}` is not a mail domain", typed.domain);
            Failure::new(Exit::Usage, message)
                .hint("write the part behind the @, such as `example.org`")
        })?;
        let owners = typed.owner.iter();
        let owners: Vec<Address> = owners
            .map(|owner| Address::parse(owner))
            .collect::<Result<_, _>>()
            .map_err(Failure::usage)?;
        if owners.iter().any(|owner| owner.key() == address.key()) {
            return refuse(
                Exit::Usage,
                format!("`{address}` would be the persona's address and is an owner's"),
                "name the persona otherwise with --persona ID",
            );
        }
        let name = typed
            .name
            .as_ref()
            .map_or(persona.as_str(), |name| name.trim())
            .to_owned();
        check_name(&name).map_err(Failure::usage)?;
        Ok(Self {
            mail_domain: address.domain().to_owned(),
            owners,
            persona,
            address,
            name,
        })
    }
}

fn init(context: &CommandContext, folder: &Path, wanted: &WorkspaceSpec) -> anyhow::Result<Exit> {
    if folder.join(LAST).symlink_metadata().is_ok() {
        return refuse(
            Exit::CannotCreate,
            format!(
                "`{}` is a workspace already; nothing was written",
                folder.display()
            ),
            "`attache persona create ID --name NAME` adds a persona to it; name a folder that does not exist yet \
                    for another workspace",
        );
    }
    let cannot = |path: &str, source: std::io::Error| {
        Failure::new(
            Exit::CannotCreate,
            format!("cannot write `{}`", folder.join(path).display()),
        )
        .because(source)
    };
    // Existing personas were written or removed by the operator and stay so.
    let is_new = folder.join("personas").symlink_metadata().is_err();
    let mut files = Vec::new();
    let owners: Vec<String> = wanted.owners.iter().map(Address::to_string).collect();
    let (last, others): (Vec<_>, Vec<_>) = starter_files(&wanted.mail_domain, &owners)
        .into_iter()
        .partition(|(path, _)| *path == LAST);
    for (path, content) in others {
        let outcome =
            write_new(&folder.join(path), &content).map_err(|source| cannot(path, source))?;
        files.push(Written {
            path: path.to_owned(),
            outcome,
        });
    }
    if is_new {
        let home = format!("personas/{}", wanted.persona);
        let description = description(&wanted.name, &owners);
        let persona = PersonaFiles {
            name: &wanted.name,
            address: wanted.persona.as_str(),
            description: &description,
        };
        persona::write_folder(&folder.join("personas"), &wanted.persona, &persona)
            .map_err(|source| cannot(&home, source))?;
        let written = persona::FILES.iter().map(|file| format!("{home}/{file}"));
        files.extend(written.map(|path| Written {
            path,
            outcome: WrittenFileOutcome::Written,
        }));
    }
    // This file marks a workspace and is written last: until then a repeated `init` continues.
    for (path, content) in last {
        let outcome =
            write_new(&folder.join(path), &content).map_err(|source| cannot(path, source))?;
        files.push(Written {
            path: path.to_owned(),
            outcome,
        });
    }
    tell(context, folder, wanted, &files)
}

fn tell(
    context: &CommandContext,
    folder: &Path,
    wanted: &WorkspaceSpec,
    files: &[Written],
) -> anyhow::Result<Exit> {
    context.report(&files, |screen| {
    for file in files {
        match file.outcome {
            WrittenFileOutcome::Written => screen.line(format!("wrote {}", file.path))?,
            WrittenFileOutcome::Kept => screen
                .line(format!("kept  {} (it exists)", file.path))?,
        }
    }
    if files
        .iter()
        .any(|file| file.path == ".gitignore" && file.outcome == WrittenFileOutcome::Kept)
    {
        screen::remark("see that your .gitignore names `/.secrets` and `/data/`");
    }
    let shown = screen::quoted(&folder.display().to_string());
    let WorkspaceSpec {
        persona, address, ..
    } = wanted;
    screen.line(format!(
        "\n{address} is ready for a first letter: attache --workspace {shown} ingest --to {address} LETTER.eml\n\
         then describe it in personas/{persona}/PERSONA.md, name a model in configs/inference.json and the way in and \
         out in\nconfigs/gateway.json, and see what is in force: attache --workspace {shown} config check"
    ))?;
     Ok(())
})
}

/// Writes a file that does not exist yet. A link counts as existing, so that no file is written
/// through a link.
fn write_new(path: &Path, content: &str) -> std::io::Result<WrittenFileOutcome> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(content.as_bytes())?;
            Ok(WrittenFileOutcome::Written)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(WrittenFileOutcome::Kept),
        Err(error) => Err(error),
    }
}

/// The file that makes a folder a workspace; written last.
pub const LAST: &str = "configs/gateway.json";

/// Bounds that a new workspace begins with: tokens of all runs and mails of each persona in a day, and letters of one
/// organisation's strangers that are answered in a day.
pub const DAY_TOKENS_MAX: u64 = 5_000_000;
pub const DAY_MAILS_MAX: u32 = 200;
pub const DOMAIN_RUNS_MAX: u32 = 30;

/// Sample files that are copied unchanged.
const SHARED: &[&str] = &[
    "configs/context.json",
    "configs/keeping.json",
    "configs/prices.json",
    "configs/prompts/",
    "configs/schema/",
    ".gitignore",
];

/// The answers of `scripted`, until a model is configured.
const SCRIPT: &str = r#"{
  "model": "scripted",
  "rules": [
    {
      "when": { "contains": "trigger: schedule" },
      "say": "Nothing to report: no model is configured yet, and the scripted provider has answered this responsibility."
    },
    {
      "when": { "contains": "trigger: manual" },
      "say": "Nothing to report: no model is configured yet, and the scripted provider has answered this responsibility."
    },
    {
      "say": "Good day,\n\nyour letter \"{{subject}}\" has arrived and is stored.\n\nThis is a test answer: no model is configured yet."
    }
  ]
}
"#;

/// Path below the workspace, and content. Domain and owners are checked and need no escapes.
pub fn starter_files(
    mail_domain: &str,
    owners: &[String],
) -> Vec<(&'static str, Cow<'static, str>)> {
    let is_shared = |path: &str| SHARED.iter().any(|shared| path.starts_with(shared));
    let shared = sample::FILES.iter().filter(|(path, _)| is_shared(path));
    let mut files: Vec<_> = shared
        .map(|(path, content)| (*path, Cow::Borrowed(*content)))
        .collect();
    let owners: Vec<String> = owners.iter().map(|owner| format!("\"{owner}\"")).collect();
    let owners = owners.join(", ");
    files.extend([
        ("configs/script.json", Cow::Borrowed(SCRIPT)),
        (
            "configs/inference.json",
            Cow::Owned(format!(
                r#"{{
  "$schema": "schema/inference.json",
  "provider": "scripted",
  "model": "scripted",
  "budget": {{
    "tool_calls_max": 50, "tokens_max": 500000, "duration_max": "10m", "mails_max": 5,
    "day_tokens_max": {DAY_TOKENS_MAX}, "persona_day_mails_max": {DAY_MAILS_MAX}
  }},
  "providers": {{ "scripted": {{ "script": "configs/script.json" }} }}
}}
"#
            )),
        ),
        (
            "configs/security.json",
            Cow::Borrowed(
                "{\n  \"$schema\": \"schema/security.json\",\n  \"access\": { \"allow\": [] }\n}\n",
            ),
        ),
        (
            LAST,
            Cow::Owned(format!(
                r#"{{
  "$schema": "schema/gateway.json",
  "mail_domain": "{mail_domain}",
  "owners": [{owners}],
  "listeners": [{{ "kind": "smtp", "address": "127.0.0.1:2525" }}],
  "outbound": {{ "kind": "folder", "path": "data/outbox" }},
  "limits": {{ "domain_runs_per_day_max": {DOMAIN_RUNS_MAX} }}
}}
"#
            )),
        ),
    ]);
    files
}

/// A PERSONA.md with which a persona can answer before its owner has edited it.
pub fn description(name: &str, owners: &[String]) -> String {
    let owner = owners.first().map(String::as_str).unwrap_or_default();
    format!(
        "# {name}\n\n\
         You answer the mail that comes to you, for {owner}. Write in the language of the letter, briefly and plainly, \
         and\nsign with \"{name}\".\n\n\
         - Answer what your knowledge and the thread say. What you do not know, you say you do not know.\n\
         - Promise nothing, agree to nothing and pay nothing: say that you pass it on.\n\
         - Say nothing of one correspondent to another.\n"
    )
}
