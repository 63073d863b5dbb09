//! Whether a run can run commands: a matter of the machine, which is recorded.

use super::RunEnv;
use crate::config::Persona;
use crate::shell::CommandSandbox;

impl RunEnv {
    /// Tries, once in the life of an engine, whether commands can be run; a record and a fork start nothing.
    pub async fn try_commands(&self, persona: &Persona) {
        if let RunEnv::Live(live) = self
            && persona.shell
            && let Some(commands) = live.commands()
            && let Err(why) = commands.trial().await
        {
            tracing::warn!(
                why,
                "no command can be run; `attache doctor` says what to do"
            );
        }
    }

    /// Reports whether commands can be run, as far as [`Self::try_commands`] has found, or as it was recorded. A fork offers
    /// what a run would have been offered, and its calls are refused.
    pub fn runs_commands(&self) -> bool {
        match self {
            RunEnv::Live(live) => live.commands().is_some_and(CommandSandbox::is_usable),
            RunEnv::Fork(_) => true,
            RunEnv::Recorded(record) => record.runs_commands(),
        }
    }
}
