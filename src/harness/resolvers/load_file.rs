//! `load-file(PATH)`: a text file of the workspace as a system section.
//!
//! The smallest resolver: copy this file to start a new one, then add its two lines in `mod.rs`. Files below
//! `configs/prompts/` are templates with `persona`, `date` and `trigger`; every other file is taken as it is.

use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, StandingStep, garbled, read_text};
use crate::domain::Trigger;
use crate::harness::prompt;
use futures_util::future::BoxFuture;

/// Standing texts are pages, not books.
const FILE_BYTES_MAX: u64 = 256 * 1024;

pub struct LoadFile;

impl Resolver for LoadFile {
    fn name(&self) -> &'static str {
        "load-file"
    }

    fn arguments(&self) -> std::ops::RangeInclusive<usize> {
        1..=1
    }

    fn fault(&self, step: StandingStep<'_>) -> Option<String> {
        let path = step.args.first()?;
        // A file of one thread or trigger need not be there for the others.
        if path.contains('{') {
            return None;
        }
        match text(path, step, Trigger::Email) {
            Ok(Some(text)) => garbled(&text),
            Ok(None) => Some(format!("no file `{path}`")),
            Err(problem) => Some(problem),
        }
    }

    fn resolve<'a>(&'a self, call: ResolverCall<'a>) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move { load(&call) })
    }
}

fn load(call: &ResolverCall<'_>) -> Result<Contribution, ResolveError> {
    let path = call.args[0].as_str();
    let ResolverCall { args, persona, folder, workspace, now, .. } = *call;
    let step = StandingStep { args, persona, folder, workspace, now };
    let read = text(path, step, call.subject.trigger);
    let broken = |problem| ResolveError::Config { resolver: format!("load-file({path})"), problem };
    let Some(text) = read.map_err(broken)? else {
        return Ok(Contribution::nothing(format!("no file `{path}`")));
    };
    if text.trim().is_empty() {
        return Ok(Contribution::nothing(format!("`{path}` is empty")));
    }
    Ok(Contribution::one(path, Piece::System { text: text.trim_end().to_owned(), required: true }))
}

/// The file as the model reads it; `None` when there is no such file.
fn text(path: &str, step: StandingStep<'_>, trigger: Trigger) -> Result<Option<String>, String> {
    if path.split('/').any(|part| part.starts_with('.') || part == "data") {
        return Err("hidden files, `..` and `data` are not prompt text".to_owned());
    }
    let text = read_text(step.workspace, path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    match text {
        Some(source) if path.starts_with("configs/prompts/") => {
            prompt::render(path, &source, step.persona, trigger, step.now).map(Some)
        }
        as_it_is => Ok(as_it_is),
    }
}
