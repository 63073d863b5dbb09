//! `attache skills list|check|approve`: skills of this workspace, the rules that they keep, and what the owner approved.

mod approve;
mod found;

use super::screen::{Columns, one_line};
use super::{CommandContext, Exit};
use found::{FoundSkill, find};

/// Show skills, check them, and approve them as they are
#[derive(clap::Subcommand)]
pub enum SkillsCommand {
    /// List all skills, and whether they are as you approved them
    List,
    /// Check skills by the rules of their format; exits with 1 when one breaks some
    Check {
        /// Only this skill, by its name or its folder
        name: Option<String>,
    },
    /// Pin every file of a skill as it is now; in force within seconds
    #[command(
        after_help = "What changes in its folder later turns the skill off until it is approved again. \
                      What differs from the last approval is printed."
    )]
    Approve {
        /// The skill, by its name or its folder
        name: String,
    },
}

impl SkillsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let found = find(&context.workspace, &config.skills);
        match self {
            Self::List => list(context, &found),
            Self::Check { name } => check(context, &found, name),
            Self::Approve { name } => approve::run(context, &config, &found, &name),
        }
    }
}

fn list(context: &CommandContext, found: &[FoundSkill]) -> anyhow::Result<Exit> {
    let row = |skill: &FoundSkill| {
        vec![
            skill.name.clone(),
            skill.state.to_owned(),
            skill.persona.clone().unwrap_or_else(|| "all".to_owned()),
            one_line(&skill.description),
        ]
    };
    let columns = Columns::of(&["SKILL", "STATE", "PERSONA", "DESCRIPTION"]).main("DESCRIPTION");
    context
        .screen
        .list(found, columns, "there is no skill", row)?;
    Ok(Exit::Ok)
}

fn check(
    context: &CommandContext,
    found: &[FoundSkill],
    name: Option<String>,
) -> anyhow::Result<Exit> {
    let wanted: Vec<&FoundSkill> = match name {
        Some(name) => vec![approve::named(found, &name)?],
        None => found.iter().collect(),
    };
    let is_good = wanted.iter().all(|skill| skill.problems.is_empty());
    if context.json() {
        context.screen.json(&wanted)?;
    } else {
        for skill in &wanted {
            match skill.problems.is_empty() {
                true => context
                    .screen
                    .line(format!("{}: keeps the rules", skill.folder))?,
                false => {
                    context.screen.heading(&skill.folder)?;
                    for problem in &skill.problems {
                        context.screen.line(format!("  {problem}"))?;
                    }
                }
            }
        }
        if wanted.is_empty() {
            context.screen.line("there is no skill")?;
        }
    }
    Ok(match is_good {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}
