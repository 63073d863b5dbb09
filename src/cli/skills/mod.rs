//! `attache skills list|check|approve`: skills of this workspace, the rules that they keep, and what the owner approved.

mod approve;
mod found;

use super::screen::{Columns, one_line};
use super::{Command, CommandContext, Exit};
use clap::{Arg, ArgMatches};
use found::{FoundSkill, find};
use futures_util::future::BoxFuture;

pub struct SkillsCommand;

impl Command for SkillsCommand {
    fn clap(&self) -> clap::Command {
        let name = |help| Arg::new("name").value_name("NAME").help(help);
        clap::Command::new("skills")
            .about("Show skills, check them, and approve them as they are")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List all skills, and whether they are as you approved them"),
            )
            .subcommand(
                clap::Command::new("check")
                    .about("Check skills by the rules of their format; exits with 1 when one breaks some")
                    .arg(name("Only this skill, by its name or its folder")),
            )
            .subcommand(
                clap::Command::new("approve")
                    .about("Pin every file of a skill as it is now; in force within seconds")
                    .after_help(
                        "What changes in its folder later turns the skill off until it is approved again. \
                         What differs from the last approval is printed.",
                    )
                    .arg(name("The skill, by its name or its folder").required(true)),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            context.require_workspace()?;
            let config = context.config()?;
            let found = find(&context.workspace, &config.skills);
            match args.subcommand() {
                Some(("check", args)) => check(context, &found, args),
                Some(("approve", args)) => approve::run(context, &config, &found, args),
                Some(_) => list(context, &found),
                None => Ok(Exit::Usage),
            }
        })
    }
}

fn list(context: &CommandContext, found: &[FoundSkill]) -> anyhow::Result<Exit> {
    if context.json() {
        context.screen.json(&found)?;
        return Ok(Exit::Ok);
    }
    let rows = found.iter().map(|skill| {
        vec![
            skill.name.clone(),
            skill.state.to_owned(),
            skill.persona.clone().unwrap_or_else(|| "all".to_owned()),
            one_line(&skill.description),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = Columns::of(&["SKILL", "STATE", "PERSONA", "DESCRIPTION"]).main("DESCRIPTION");
    context
        .screen
        .listing(columns, &rows, "there is no skill")?;
    Ok(Exit::Ok)
}

fn check(
    context: &CommandContext,
    found: &[FoundSkill],
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let only = args.get_one::<String>("name").map(String::as_str);
    let wanted: Vec<&FoundSkill> = match only {
        Some(name) => vec![approve::named(found, name)?],
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
