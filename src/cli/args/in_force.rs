//! What of the files is not in force in the engine that works beside this command, and why.

use crate::cli::{CommandContext, screen};
use crate::config::GATEWAY_FILE;
use crate::config::in_force::{InForce, after_restart};
use crate::store::working_engine;
use serde::Serialize;

/// Edits that are not in force; all empty when no engine works here.
#[derive(Debug, Default, Serialize)]
pub struct NotInForce {
    /// Files whose content differs from the content in force.
    #[serde(rename = "not_in_force")]
    pub files: Vec<String>,
    /// Why the engine keeps what was in force before, as far as it has read them.
    pub refused: Vec<String>,
    /// Settings that count after a restart.
    pub after_restart: Vec<String>,
}

/// Compares the files with what the working engine has in force.
pub fn compare(context: &CommandContext) -> NotInForce {
    let workspace = &context.workspace;
    let engine = working_engine(workspace);
    let found = engine.and_then(|pid| InForce::read(workspace, &pid));
    found.map_or_else(NotInForce::default, |in_force| {
        let files = in_force.edited(workspace);
        let is_edited = files.iter().any(|file| file == GATEWAY_FILE);
        // What the engine has not read yet needs a restart all the same.
        let edited = is_edited.then(|| context.config().ok()).flatten();
        let after_restart = match edited {
            Some(config) => after_restart(&in_force.started, &config.gateway),
            None => in_force.after_restart,
        };
        NotInForce {
            files,
            refused: in_force.refused,
            after_restart,
        }
    })
}

/// Prints on stderr what is not in force, if anything.
pub fn remark(found: &NotInForce) {
    let files = found.files.join(", ");
    match found.refused.first() {
        _ if files.is_empty() => {}
        None => screen::remark(&format!(
            "not in force yet: {files}; the engine that works here reads edited files within seconds"
        )),
        Some(first) => screen::remark(&format!(
            "not in force: {files}; the engine that works here keeps what was good before: {first}"
        )),
    }
    remark_restart(&found.after_restart);
}

/// Prints on stderr the settings that count after a restart.
pub fn remark_restart(settings: &[String]) {
    for setting in settings {
        screen::remark(&format!(
            "in force after a restart of the engine that works here: {setting}"
        ));
    }
}
