//! Files that were edited after the engine beside this command was started: their edits are in
//! force after a restart.

use crate::cli::{CommandContext, screen};
use crate::config::in_force;
use crate::store::working_engine;

/// Files whose content differs from the content that the working engine read; empty when no engine
/// works here or every edit is in force.
pub fn edited(context: &CommandContext) -> Vec<String> {
    let engine = working_engine(&context.workspace);
    engine
        .and_then(|pid| in_force::edited_since_start(&context.workspace, &pid))
        .unwrap_or_default()
}

/// Prints on stderr the files whose edits are not in force, if any.
pub fn remark(edited: &[String]) {
    if !edited.is_empty() {
        let files = edited.join(", ");
        screen::remark(&format!(
            "not in force before the engine that works here is started again: {files}"
        ));
    }
}
