//! `attache skills approve`: pins a skill as it is, and says what differs from the last approval.

use super::found::FoundSkill;
use crate::cli::{CommandContext, Exit, Failure};
use crate::config::{Config, PinnedSkill, SKILLS_FILE, TypedSkills, write_private};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Differences of a skill from its last approval.
#[derive(Serialize)]
struct SkillDifference<'s> {
    folder: &'s str,
    added: Vec<&'s str>,
    changed: Vec<&'s str>,
    removed: Vec<&'s str>,
}

pub fn run(
    context: &CommandContext,
    config: &Config,
    found: &[FoundSkill],
    name: &str,
) -> anyhow::Result<Exit> {
    let skill = named(found, name)?;
    if let [first, ..] = &skill.problems[..] {
        let failure = Failure::new(Exit::BadData, format!("`{}`: {first}", skill.folder));
        return Err(failure
            .hint("`attache skills check` says all that is wrong")
            .into());
    }
    let before = config
        .skills
        .iter()
        .find(|other| other.folder == skill.folder);
    let none = BTreeMap::new();
    let before = before.map_or(&none, |skill| &skill.files);
    let only = |of: &'_ BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let paths = of.keys().filter(|path| !other.contains_key(*path));
        paths.cloned().collect::<Vec<String>>()
    };
    let (added, removed) = (only(&skill.files, before), only(before, &skill.files));
    let is_changed =
        |(path, digest): &(&String, &String)| before.get(*path).is_some_and(|then| then != *digest);
    let changed = skill.files.iter().filter(is_changed);
    let difference = SkillDifference {
        folder: &skill.folder,
        added: added.iter().map(String::as_str).collect(),
        changed: changed.map(|(path, _)| path.as_str()).collect(),
        removed: removed.iter().map(String::as_str).collect(),
    };
    write(&context.workspace, config, skill)?;
    if context.json() {
        context.screen.json(&difference)?;
        return Ok(Exit::Ok);
    }
    for (mark, paths) in [
        ("+", &difference.added),
        ("~", &difference.changed),
        ("-", &difference.removed),
    ] {
        for path in paths {
            context
                .screen
                .line(format!("{mark} {}/{path}", skill.folder))?;
        }
    }
    let line = format!(
        "`{}` is approved as it is now; it is in force within seconds",
        skill.name
    );
    context.screen.line(line)?;
    Ok(Exit::Ok)
}

/// Finds one skill by its name or its folder.
pub fn named<'f>(found: &'f [FoundSkill], name: &str) -> anyhow::Result<&'f FoundSkill> {
    let name = name.trim_end_matches('/');
    let is_it = |skill: &&FoundSkill| skill.folder == name || skill.name == name;
    let all: Vec<&FoundSkill> = found.iter().filter(is_it).collect();
    match all[..] {
        [one] => Ok(one),
        [] => Err(Failure::new(Exit::NoInput, format!("no skill `{name}`"))
            .hint(
                "a skill is a folder `skills/NAME` or `personas/ID/skills/NAME` with a `SKILL.md`",
            )
            .into()),
        _ => {
            let folders: Vec<&str> = all.iter().map(|skill| skill.folder.as_str()).collect();
            let failure = Failure::new(Exit::Usage, format!("several skills are named `{name}`"));
            Err(failure
                .hint(format!("name its folder: {}", folders.join(", ")))
                .into())
        }
    }
}

/// Writes the approvals with this one, whole or not at all.
fn write(workspace: &Path, config: &Config, skill: &FoundSkill) -> io::Result<()> {
    let others = config
        .skills
        .iter()
        .filter(|other| other.folder != skill.folder);
    let mut skills: Vec<PinnedSkill> = others.cloned().collect();
    skills.push(PinnedSkill {
        folder: skill.folder.clone(),
        description: skill.description.clone(),
        tools: skill.tools.clone(),
        files: skill.files.clone(),
    });
    skills.sort_by(|a, b| a.folder.cmp(&b.folder));
    let file = TypedSkills {
        schema: Some("schema/skills.json".to_owned()),
        skills,
    };
    let text = serde_json::to_string_pretty(&file)? + "\n";
    write_private(&workspace.join(SKILLS_FILE), text.as_bytes())
}
