//! `attache halt` and `attache resume`: the kill switch, beside a working engine or without one.

use super::args::persona_of;
use super::{CommandContext, Exit, screen};
use crate::domain::PersonaId;
use crate::store::PersonaHalt;

/// Stop all runs and their mail, or one persona's, until `attache resume`
#[derive(clap::Args)]
#[command(
    after_help = "Letters are still taken and wait; so do scheduled runs. A run at work is stopped within a second and goes on \
                  where it was. A mail that a server is being given goes out; notices to the owner do, too."
)]
pub struct HaltCommand {
    /// Only this persona
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Kept with it, for whoever asks later
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what is halted
    #[arg(long, conflicts_with_all = ["persona", "reason"])]
    list: bool,
}

impl HaltCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.store_of_engine().await?;
        if self.list {
            return show(context, &store.halts().await?);
        }
        let persona = persona_of(context, &store, self.persona).await?;
        let reason = self.reason.unwrap_or_default();
        let is_new = store.halt(persona.as_ref(), &reason).await?;
        show(context, &store.halts().await?)?;
        if !context.json() {
            let persona = option_of(persona.as_ref());
            let next = format!("`attache resume{persona}` lets work go on");
            screen::remark(if is_new {
                &next
            } else {
                "it was halted before"
            });
        }
        Ok(Exit::Ok)
    }
}

/// Lift what `attache halt` stopped
#[derive(clap::Args)]
pub struct ResumeCommand {
    /// Only this persona's halt
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
}

impl ResumeCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.store_of_engine().await?;
        let persona = persona_of(context, &store, self.persona).await?;
        let was_halted = store.lift_halt(persona.as_ref()).await?;
        let left = store.halts().await?;
        show(context, &left)?;
        if !context.json() && !was_halted {
            let remark = match left.first() {
                Some(other) => format!(
                    "there was no such halt; `attache resume{}` lifts what is shown",
                    option_of(other.persona.as_ref())
                ),
                None => "nothing was halted".to_owned(),
            };
            screen::remark(&remark);
        }
        Ok(Exit::Ok)
    }
}

/// The option that names the persona in a command; empty for every persona.
fn option_of(persona: Option<&PersonaId>) -> String {
    persona.map_or(String::new(), |persona| format!(" --persona {persona}"))
}

fn show(context: &CommandContext, halts: &[PersonaHalt]) -> anyhow::Result<Exit> {
    context.report(&halts, |screen| {
        for halt in halts {
            screen.line(sentence(halt))?;
        }
        if halts.is_empty() {
            screen.line("nothing is halted")?;
        }
        Ok(())
    })
}

/// `every persona is halted since …: REASON`, for a person.
pub(super) fn sentence(halt: &PersonaHalt) -> String {
    let who = halt
        .persona
        .as_ref()
        .map_or("every persona".to_owned(), |persona| format!("`{persona}`"));
    let reason = match halt.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", screen::one_line(reason)),
    };
    format!("{who} is halted since {}{reason}", halt.halted_at)
}
