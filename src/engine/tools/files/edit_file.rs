//! `edit_file`: replaces one passage of a text file in the workspace, named by its exact old text.

use super::change::{WorkspaceChange, verified};
use super::folder::shown;
use crate::domain::sha256_hex;
use crate::tools::contract::*;

/// Replaces one passage of a text file in `workspace/`. Read the file first. Give the passage exactly as it is, with
/// enough around it that it occurs once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFile {
    path: String,
    /// As read_file, write_file or edit_file showed it.
    sha256: String,
    old: String,
    /// Empty to remove the passage.
    new: String,
}

impl EditFile {
    fn change(call: &ToolCall<'_>) -> Result<WorkspaceChange, ToolError> {
        let args: EditFile = read_args(call.args)?;
        let path = args.path.clone();
        WorkspaceChange::of(call, &path, Box::new(move |before| edited(&args, before)))
    }
}

fn edited(args: &EditFile, before: Option<&str>) -> Result<String, ToolError> {
    let path = shown(&args.path);
    let Some(before) = before else {
        return refuse(
            "file_not_found",
            format!("there is no `{path}`; write_file makes it"),
        );
    };
    let sha256 = sha256_hex(&[before.as_bytes()]);
    if !args.sha256.trim().eq_ignore_ascii_case(&sha256) {
        return refuse(
            "stale_file",
            format!(
                "`{path}` has changed since you read it: its sha256 is {sha256}; read it again, then edit what it says now"
            ),
        );
    }
    let count = match args.old.is_empty() {
        true => 0,
        false => before.matches(args.old.as_str()).count(),
    };
    match count {
        1 => Ok(before.replacen(args.old.as_str(), &args.new, 1)),
        0 => refuse(
            "old_not_found",
            format!("`old` does not occur in `{path}`; copy the passage exactly, with its spaces"),
        ),
        count => refuse(
            "old_not_unique",
            format!("`old` occurs {count} times in `{path}`; give more of what stands around it"),
        ),
    }
}

impl TypedTool for EditFile {
    const NAME: &str = "edit_file";
    const CLASS: ToolClass = ToolClass::Verifiable;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(workspace);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        Self::change(call)?.make(call).await
    }

    async fn expected_effects(self, call: &ToolCall<'_>) -> Result<Value, ToolError> {
        Self::change(call)?.expected(call).await
    }

    async fn verify(call: &ToolCall<'_>, expected: &Value) -> Result<CallTrace, ToolError> {
        verified(call, expected).await
    }
}
