//! `attache backup verify PATH`: checks a backup without restoring it.

use super::refusal::refusal;
use crate::cli::screen::progress;
use crate::cli::{CommandContext, Exit, Failure};
use crate::keeping::{self, BackupVerdict};
use crate::text::plural;
use std::path::Path;

pub(super) async fn verify(context: &CommandContext, path: &Path) -> anyhow::Result<Exit> {
    let path = std::path::absolute(path)?;
    let checking = keeping::check(&path);
    let verdict = progress::turning(context, "looking it over", checking).await;
    let verdict = verdict.map_err(refusal)?;
    match context.json() {
        true => context.screen.json(&verdict)?,
        false => print(context, &path.display().to_string(), &verdict)?,
    }
    if verdict.found.is_empty() {
        return Ok(Exit::Ok);
    }
    let failure = Failure::new(Exit::BadData, "the backup is not as it was made");
    Err(failure
        .hint("take another one; what is wrong stands above")
        .into())
}

fn print(context: &CommandContext, path: &str, verdict: &BackupVerdict) -> anyhow::Result<()> {
    for found in &verdict.found {
        context.screen.line(found)?;
    }
    let made = match &verdict.manifest {
        Some(manifest) => format!(
            "attache {} made it at {}: {} bytes in {}",
            manifest.program,
            manifest.made_at,
            manifest.bytes,
            plural(manifest.files, "file")
        ),
        None => "a copy of the database alone".to_owned(),
    };
    let age = match verdict.is_older {
        true => format!(
            ", of an earlier version (migration {}): of its database only the pages were checked",
            verdict.migration
        ),
        false => String::new(),
    };
    let found = match verdict.found.len() {
        0 => "nothing is wrong".to_owned(),
        count => plural(count, "fault"),
    };
    let checks = plural(verdict.checks, "check");
    context
        .screen
        .line(format!("{path}: {made}{age}; {checks}, {found}"))?;
    Ok(())
}
