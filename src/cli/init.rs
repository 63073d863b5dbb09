//! `attache init DIR`: writes a fresh workspace; what exists is kept.

use super::{Command, Context, Exit, Failure, output, sample};
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub struct Init;

/// What became of one file.
#[derive(Serialize)]
struct Written {
    path: &'static str,
    outcome: Outcome,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Written,
    Kept,
}

impl Command for Init {
    fn clap(&self) -> clap::Command {
        clap::Command::new("init")
            .about("Write a fresh workspace with two sample personas; existing files are kept")
            .arg(
                Arg::new("dir")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Folder to write to; it is made if it does not exist"),
            )
    }
    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let folder = args.get_one::<PathBuf>("dir").map_or(Path::new("."), PathBuf::as_path);
            init(context, folder)
        })
    }
}

fn init(context: &Context, folder: &Path) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    for (path, content) in sample::FILES {
        let outcome = write_new(&folder.join(path), content).map_err(|source| {
            Failure::new(Exit::CannotCreate, format!("cannot write `{}`", folder.join(path).display()))
                .because(source)
        })?;
        files.push(Written { path, outcome });
    }
    if context.json() {
        context.screen.json(&files)?;
        return Ok(Exit::Ok);
    }
    for file in &files {
        match file.outcome {
            Outcome::Written => context.screen.line(format!("wrote {}", file.path))?,
            Outcome::Kept => context.screen.line(format!("kept  {} (it exists)", file.path))?,
        }
    }
    if files.iter().any(|file| file.path == ".gitignore" && file.outcome == Outcome::Kept) {
        output::remark("see that your .gitignore names `/.secrets` and `/data/`");
    }
    let file = output::quoted(&folder.join("configs/gateway.json").display().to_string());
    let shown = output::quoted(&folder.display().to_string());
    context.screen.line(format!("\nedit {file}, then: attache --workspace {shown} config check"))?;
    Ok(Exit::Ok)
}

/// Writes a file that does not exist yet. A link counts as existing, so nothing is written through one.
fn write_new(path: &Path, content: &str) -> std::io::Result<Outcome> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(content.as_bytes())?;
            Ok(Outcome::Written)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Outcome::Kept),
        Err(error) => Err(error),
    }
}
