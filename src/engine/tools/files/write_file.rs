//! `write_file`: writes a whole text file in the workspace.

use super::change::{WorkspaceChange, verified};
use crate::tools::contract::*;

/// Writes a whole text file in `workspace/`. Your owner keeps the version before. To change a part, use edit_file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// Such as `workspace/notes/rooms.md`.
    path: String,
    content: String,
}

impl WriteFile {
    fn change(call: &ToolCall<'_>) -> Result<WorkspaceChange, ToolError> {
        let args: WriteFile = read_args(call.args)?;
        let content = args.content;
        WorkspaceChange::of(call, &args.path, Box::new(move |_| Ok(content)))
    }
}

impl TypedTool for WriteFile {
    const NAME: &str = "write_file";
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
