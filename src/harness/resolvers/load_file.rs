//! `load-file(PATH)`: a text file of the workspace as a system section.
//!
//! The smallest resolver: copy this file to start a new one, then add its two lines in `mod.rs`. Files below
//! `configs/prompts/` are templates with `persona`, `date` and `trigger`; every other file is taken as it is.

use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, read_text};
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

    fn resolve<'a>(&'a self, call: ResolverCall<'a>) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move { load(&call) })
    }
}

fn load(call: &ResolverCall<'_>) -> Result<Contribution, ResolveError> {
    let path = call.args[0].as_str();
    let broken = |problem: String| ResolveError::Config { resolver: format!("load-file({path})"), problem };
    if path.split('/').any(|part| part.starts_with('.') || part == "data") {
        return Err(broken("hidden files, `..` and `data` are not prompt text".to_owned()));
    }
    let text = read_text(call.workspace, path, FILE_BYTES_MAX).map_err(|error| broken(error.to_string()))?;
    let Some(text) = text else {
        return Ok(Contribution::nothing(format!("no file `{path}`")));
    };
    let text = if path.starts_with("configs/prompts/") {
        prompt::render(path, &text, call.persona, call.subject.trigger, call.now).map_err(broken)?
    } else {
        text
    };
    if text.trim().is_empty() {
        return Ok(Contribution::nothing(format!("`{path}` is empty")));
    }
    Ok(Contribution::one(path, Piece::System { text: text.trim_end().to_owned(), required: true }))
}
