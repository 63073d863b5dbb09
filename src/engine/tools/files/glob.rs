//! `glob`: finds files of the persona's folder by a pattern of their names.

use super::folder::{is_private_name, label_of_names, on_disk};
use super::walk::files_below;
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use globset::{GlobBuilder, GlobMatcher};

const PATTERN_CHARS_MAX: usize = 300;
/// Most files of one answer.
const FILES_MAX: usize = 500;

/// Finds files in your folder by a pattern of their paths: `*` is any characters but `/`, `**` any folders, `{a,b}`
/// either.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// Such as `knowledge/**/*.md`.
    pattern: String,
}

impl TypedTool for Glob {
    const NAME: &str = "glob";
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let pattern = path_pattern("pattern", &self.pattern)?;
        let (bytes_max, reader) = (call.limits.result_bytes_max, call.reader);
        let found = on_disk(call.env.files()?, move |folder| {
            found(folder, &pattern, bytes_max, reader)
        });
        let (result, has_private) = found.await?;
        Ok(ToolOutcome::labelled(result, label_of_names(has_private)))
    }
}

/// Compiles a pattern of paths. It becomes a regular expression that takes linear time.
pub fn path_pattern(field: &str, typed: &str) -> Result<GlobMatcher, ToolError> {
    let typed = typed.trim().trim_start_matches("./");
    let bad = |why: String| {
        ToolError::mendable(
            "bad_pattern",
            format!("field `{field}` is no pattern: {why}; write one such as `knowledge/**/*.md`"),
        )
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
