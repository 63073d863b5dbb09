//! `glob`: finds files of the persona's folder by a pattern of their names.

use super::folder::{is_private_name, label_of_names, on_disk};
use super::walk::files_below;
use crate::tools::contract::arguments::read_args;
use crate::tools::{
    Effects, Reader, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolNeed, ToolOutcome, arguments_schema,
};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const PATTERN_CHARS_MAX: usize = 300;
/// Most files of one answer.
const FILES_MAX: usize = 500;

/// Text that the model reads.
const DESCRIPTION: &str = "Finds files in your folder by a pattern of their paths: `*` is any characters but `/`, `**` any \
         folders, `{a,b}` either.";

pub struct Glob;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobArgs {
    /// Such as `knowledge/**/*.md`.
    pattern: String,
}

impl Tool for Glob {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Orders]
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "glob".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<GlobArgs>(),
            class: ToolClass::Repeatable,
            effects: Effects::NONE,
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                files: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: GlobArgs = read_args(call.args)?;
            let pattern = path_pattern("pattern", &args.pattern)?;
            let (bytes_max, reader) = (call.limits.result_bytes_max, call.reader);
            let found = on_disk(call.env.files()?, move |folder| {
                found(folder, &pattern, bytes_max, reader)
            });
            let (result, has_private) = found.await?;
            Ok(ToolOutcome {
                result,
                label: label_of_names(has_private),
                ..ToolOutcome::default()
            })
        })
    }
}

/// Compiles a pattern of paths. It becomes a regular expression that takes linear time.
pub fn path_pattern(field: &str, typed: &str) -> Result<GlobMatcher, ToolError> {
    let typed = typed.trim().trim_start_matches("./");
    let bad = |why: String| {
        let hint =
            format!("field `{field}` is no pattern: {why}; write one such as `knowledge/**/*.md`");
        ToolError::mendable("bad_pattern", hint)
    };
    if typed.is_empty() || typed.chars().count() > PATTERN_CHARS_MAX {
        return Err(bad(format!(
            "it must have 1 to {PATTERN_CHARS_MAX} characters"
        )));
    }
    let glob = GlobBuilder::new(typed).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| bad(error.kind().to_string()))
}

/// Returns the files, and whether names that are for the owner alone are among them.
fn found(
    folder: &Dir,
    pattern: &GlobMatcher,
    bytes_max: usize,
    reader: Reader,
) -> Result<(Value, bool), ToolError> {
    let walked = files_below(folder, ".", reader)?;
    let mut has_private = false;
    let (mut files, mut bytes_left) = (Vec::new(), bytes_max / 2);
    let mut is_cut = walked.is_cut;
    for file in walked
        .files
        .iter()
        .filter(|file| pattern.is_match(&file.path))
    {
        let cost = file.path.len() + 32;
        if files.len() == FILES_MAX || cost > bytes_left {
            is_cut = true;
            break;
        }
        bytes_left -= cost;
        has_private |= is_private_name(&file.path);
        files.push(json!({ "path": file.path, "bytes": file.bytes }));
    }
    Ok((json!({ "files": files, "truncated": is_cut }), has_private))
}
