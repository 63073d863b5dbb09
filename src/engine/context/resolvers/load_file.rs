//! `load-file(PATH)`: a text file of the workspace as a system section.
//!
//! The smallest resolver: copy this file to start a new one, then add its two lines in `mod.rs`.
//! Files below `configs/prompts/` are templates with `persona`, `date`, `trigger` and `tools`; every other
//! file is taken as it is.

use super::reads::{BaseFolder, ReadError};
use super::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, StaticFault, StaticStep, garbled,
};
use crate::context::prompt;
use crate::domain::Trigger;
use futures_util::future::BoxFuture;
use std::io::ErrorKind;

/// Largest file in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

pub struct LoadFile;

impl Resolver for LoadFile {
    fn name(&self) -> &'static str {
        "load-file"
    }

    fn arguments(&self) -> std::ops::RangeInclusive<usize> {
        1..=1
    }

    fn fault(&self, step: StaticStep<'_>) -> Option<StaticFault> {
        let path = step.args.first()?;
        // A file for one thread or trigger has its name at run time.
        if path.contains('{') {
            return None;
        }
        let of_file = |what, hint: &str| {
            Some(StaticFault {
                file: Some(path.clone()),
                what,
                hint: Some(hint.to_owned()),
            })
        };
        match text(path, step, Trigger::Email, &[]) {
            Ok(Some(text)) => of_file(garbled(&text)?, "save it as UTF-8"),
            Ok(None) if step.is_optional => None,
            Ok(None) => Some(StaticFault {
                file: None,
                what: format!("no file `{path}`"),
                hint: Some(
                    "a path is relative to the workspace; write the file, or take the step out"
                        .to_owned(),
                ),
            }),
            Err(ReadError::File(error)) if is_refused(&error) => {
                let hint = "such as `configs/prompts/house.md`".to_owned();
                Some(StaticFault {
                    file: None,
                    what: error.to_string(),
                    hint: Some(hint),
                })
            }
            Err(problem) => of_file(problem.to_string(), prompt::OFFERED),
        }
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move { load(&call) })
    }
}

fn load(call: &ResolverCall<'_>) -> Result<Contribution, ResolveError> {
    let path = call.args[0].as_str();
    let ResolverCall {
        args,
        is_optional,
        persona,
        reads,
        now,
        ..
    } = *call;
    let step = StaticStep {
        args,
        is_optional,
        persona,
        files: reads,
        now,
    };
    let read = text(path, step, call.subject.trigger, &call.subject.tools);
    let Some(text) = read.map_err(|error| error.of(format!("load-file({path})"), ""))? else {
        // What a run was told when engines did without the file is told again so.
        if !is_optional && !call.reads.is_record() {
            let (resolver, path) = ("load-file".to_owned(), path.to_owned());
            return Err(ResolveError::NoText { resolver, path });
        }
        return Ok(Contribution::nothing(format!("no file `{path}`")));
    };
    if text.trim().is_empty() {
        return Ok(Contribution::nothing(format!("`{path}` is empty")));
    }
    Ok(Contribution::one(
        path,
        Piece::System {
            text: text.trim_end().to_owned(),
            required: true,
        },
    ))
}

/// Returns the file as the model reads it; `None` when there is no such file.
fn text(
    path: &str,
    step: StaticStep<'_>,
    trigger: Trigger,
    tools: &[String],
) -> Result<Option<String>, ReadError> {
    if path
        .split('/')
        .any(|part| part.starts_with('.') || part == "data")
    {
        let what =
            format!("`{path}` is no prompt text: hidden files, `..` and `data` are not read");
        return Err(ReadError::File(std::io::Error::new(
            ErrorKind::InvalidFilename,
            what,
        )));
    }
    match step
        .files
        .text(BaseFolder::Workspace, path, FILE_BYTES_MAX)?
    {
        Some(source) if path.starts_with("configs/prompts/") => {
            prompt::render(path, &source, step.persona, trigger, tools, step.now)
                .map(Some)
                .map_err(wrong)
        }
        as_it_is => Ok(as_it_is.map(|text| text.to_string())),
    }
}

/// Reports whether the path itself was refused, and not the file.
fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::InvalidFilename
}

fn wrong(what: String) -> ReadError {
    ReadError::File(std::io::Error::other(what))
}
