//! `attache init DIR --domain DOMAIN --owner ADDRESS`: writes a workspace with one persona for its
//! owner.
//!
//! An existing workspace stays unchanged, so that removed files do not return. The guest house of
//! `attache demo` is no part of it.

pub mod sample;
pub mod starter;

use super::persona::{self, PersonaFiles};
use super::{CommandContext, Exit, Failure, screen};
use crate::config::check_name;
use crate::domain::{Address, PersonaId};
use serde::Serialize;
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
        let bad = |error: &dyn std::error::Error| Failure::new(Exit::Usage, error.to_string());
        let persona = PersonaId::parse(&typed.persona).map_err(|error| bad(&error))?;
        let address = Address::parse(&format!("{persona}@{}", typed.domain)).map_err(|_| {
            let message = format!("`{}` is not a mail domain", typed.domain);
            Failure::new(Exit::Usage, message)
                .hint("write the part behind the @, such as `example.org`")
        })?;
        let owners = typed.owner.iter();
        let owners: Vec<Address> = owners
            .map(|owner| Address::parse(owner))
            .collect::<Result<_, _>>()
            .map_err(|error| bad(&error))?;
        if owners.iter().any(|owner| owner.key() == address.key()) {
            let message = format!("`{address}` would be the persona's address and is an owner's");
            return Err(Failure::new(Exit::Usage, message)
                .hint("name the persona otherwise with --persona ID"));
        }
        let name = typed
            .name
            .as_ref()
            .map_or(persona.as_str(), |name| name.trim())
            .to_owned();
        check_name(&name).map_err(|error| bad(&error))?;
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
    if folder.join(starter::LAST).symlink_metadata().is_ok() {
        let message = format!(
            "`{}` is a workspace already; nothing was written",
            folder.display()
        );
        let hint = "`attache persona create ID --name NAME` adds a persona to it; name a folder that does not exist yet \
                    for another workspace";
        return Err(Failure::new(Exit::CannotCreate, message).hint(hint).into());
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
    let (last, others): (Vec<_>, Vec<_>) = starter::files(&wanted.mail_domain, &owners)
        .into_iter()
        .partition(|(path, _)| *path == starter::LAST);
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
        let description = starter::description(&wanted.name, &owners);
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
    if context.json() {
        context.screen.json(&files)?;
        return Ok(Exit::Ok);
    }
    for file in files {
        match file.outcome {
            WrittenFileOutcome::Written => context.screen.line(format!("wrote {}", file.path))?,
            WrittenFileOutcome::Kept => context
                .screen
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
    context.screen.line(format!(
        "\n{address} is ready for a first letter: attache --workspace {shown} ingest --to {address} LETTER.eml\n\
         then describe it in personas/{persona}/PERSONA.md, name a model in configs/inference.json and the way in and \
         out in\nconfigs/gateway.json, and see what is in force: attache --workspace {shown} config check"
    ))?;
    Ok(Exit::Ok)
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
