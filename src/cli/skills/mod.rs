//! `attache skills list|check|approve`: skills of this workspace, the rules that they keep, and what the owner approved.

use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, refuse};
use crate::config::{
    Config, PinnedSkill, SKILL_FILE, SKILLS_FILE, SKILLS_FOLDER, TypedSkills, write_private,
};
use crate::tools::{SkillFile, parse_skill, skill_digests, skill_text};
use cap_std::fs_utf8::Dir;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

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
            Self::Approve { name } => approve(context, &config, &found, &name),
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
    context.list(found, columns, "there is no skill", row)
}

fn check(
    context: &CommandContext,
    found: &[FoundSkill],
    name: Option<String>,
) -> anyhow::Result<Exit> {
    let wanted: Vec<&FoundSkill> = match name {
        Some(name) => vec![named(found, &name)?],
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

fn approve(
    context: &CommandContext,
    config: &Config,
    found: &[FoundSkill],
    name: &str,
) -> anyhow::Result<Exit> {
    let skill = named(found, name)?;
    if let [first, ..] = &skill.problems[..] {
        return refuse(
            Exit::BadData,
            format!("`{}`: {first}", skill.folder),
            "`attache skills check` says all that is wrong",
        );
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
    let changed: Vec<String> = changed.map(|(path, _)| path.clone()).collect();
    let difference = json!({
        "folder": skill.folder,
        "added": added,
        "changed": changed,
        "removed": removed,
    });
    write_pins(&context.workspace, config, skill)?;
    context.report(&difference, |screen| {
        for (mark, paths) in [("+", &added), ("~", &changed), ("-", &removed)] {
            for path in paths {
                screen.line(format!("{mark} {}/{path}", skill.folder))?;
            }
        }
        let line = format!(
            "`{}` is approved as it is now; it is in force within seconds",
            skill.name
        );
        screen.line(line)?;
        Ok(())
    })
}

/// Finds one skill by its name or its folder.
fn named<'f>(found: &'f [FoundSkill], name: &str) -> anyhow::Result<&'f FoundSkill> {
    let name = name.trim_end_matches('/');
    let is_it = |skill: &&FoundSkill| skill.folder == name || skill.name == name;
    let all: Vec<&FoundSkill> = found.iter().filter(is_it).collect();
    match all[..] {
        [one] => Ok(one),
        [] => refuse(
            Exit::NoInput,
            format!("no skill `{name}`"),
            "a skill is a folder `skills/NAME` or `personas/ID/skills/NAME` with a `SKILL.md`",
        ),
        _ => {
            let folders: Vec<&str> = all.iter().map(|skill| skill.folder.as_str()).collect();
            refuse(
                Exit::Usage,
                format!("several skills are named `{name}`"),
                format!("name its folder: {}", folders.join(", ")),
            )
        }
    }
}

/// Writes the approvals with this one, whole or not at all.
fn write_pins(workspace: &Path, config: &Config, skill: &FoundSkill) -> io::Result<()> {
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

/// A skill that has a folder, or an approval.
#[derive(Debug, Serialize)]
pub struct FoundSkill {
    pub name: String,
    pub folder: String,
    /// Persona that alone has it; `null`: all.
    pub persona: Option<String>,
    /// `approved`, `changed` since, `new`, `gone`, or `broken`: it does not keep the rules.
    pub state: &'static str,
    pub description: String,
    pub problems: Vec<String>,
    #[serde(skip)]
    pub tools: Option<Vec<String>>,
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

/// Finds every skill of a workspace, by folder.
fn find(workspace: &Path, pinned: &[PinnedSkill]) -> Vec<FoundSkill> {
    let mut folders: BTreeSet<String> = folders_below(workspace, SKILLS_FOLDER);
    for persona in names(&workspace.join("personas")) {
        folders.extend(folders_below(
            workspace,
            &format!("personas/{persona}/{SKILLS_FOLDER}"),
        ));
    }
    folders.extend(pinned.iter().map(|skill| skill.folder.clone()));
    let of = |folder: String| {
        let approved = pinned.iter().find(|skill| skill.folder == folder);
        look(workspace, folder, approved)
    };
    folders.into_iter().map(of).collect()
}

fn look(workspace: &Path, folder: String, approved: Option<&PinnedSkill>) -> FoundSkill {
    let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
    let persona = folder
        .strip_prefix("personas/")
        .and_then(|rest| rest.split('/').next());
    let mut skill = FoundSkill {
        persona: persona.map(str::to_owned),
        state: "gone",
        description: approved
            .map(|skill| skill.description.clone())
            .unwrap_or_default(),
        problems: Vec::new(),
        tools: None,
        files: BTreeMap::new(),
        name,
        folder,
    };
    if !workspace.join(&skill.folder).is_dir() {
        skill.problems = vec!["its folder is gone".to_owned()];
        return skill;
    }
    match read(workspace, &skill) {
        Ok((files, file)) => {
            skill.state = match approved {
                None => "new",
                Some(approved) if approved.files == files => "approved",
                Some(_) => "changed",
            };
            (skill.description, skill.tools, skill.files) = (file.description, file.tools, files);
        }
        Err(problems) => (skill.state, skill.problems) = ("broken", problems),
    }
    skill
}

/// Reads the files of a skill. Errors: every rule that they break.
fn read(
    workspace: &Path,
    skill: &FoundSkill,
) -> Result<(BTreeMap<String, String>, SkillFile), Vec<String>> {
    let path = workspace.join(&skill.folder);
    let path = path
        .to_str()
        .ok_or_else(|| vec!["its path is no UTF-8".to_owned()])?;
    if std::fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink()) {
        return Err(vec!["its folder is a link".to_owned()]);
    }
    let folder = Dir::open_ambient_dir(path, cap_std::ambient_authority());
    let folder = folder.map_err(|error| vec![format!("it cannot be opened: {error}")])?;
    let files = skill_digests(&folder).map_err(|problem| vec![problem])?;
    if !files.contains_key(SKILL_FILE) {
        return Err(vec![format!("it has no `{SKILL_FILE}`")]);
    }
    let text = skill_text(&folder).map_err(|problem| vec![problem])?;
    let file = parse_skill(&text, &skill.name)?;
    Ok((files, file))
}

/// Returns the folders of skills below a folder.
fn folders_below(workspace: &Path, folder: &str) -> BTreeSet<String> {
    let found = names(&workspace.join(folder)).into_iter();
    found.map(|name| format!("{folder}/{name}")).collect()
}

/// Returns the names of folders in a folder, without hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = listed.filter(|entry| entry.path().is_dir());
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}
