//! What was edited since the engine beside this command began: it is in force there after a start.

use super::{Context, output};
use crate::config::in_force;
use crate::store::working_engine;

/// Files that the working engine was told otherwise; empty when none works here, or all is in force.
pub fn edited(context: &Context) -> Vec<String> {
    let engine = working_engine(&context.workspace);
    engine.and_then(|pid| in_force::edited_since_start(&context.workspace, &pid)).unwrap_or_default()
}

/// Says on stderr what is not in force, if anything.
pub fn remark(edited: &[String]) {
    if !edited.is_empty() {
        let files = edited.join(", ");
        output::remark(&format!("not in force before the engine that works here is started again: {files}"));
    }
}
