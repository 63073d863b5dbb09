//! Folders of skills as they are, beside what was approved of them.

use crate::config::{PinnedSkill, SKILL_FILE, SKILLS_FOLDER};
use crate::tools::{SkillFile, parse_skill, skill_digests, skill_text};
use cap_std::fs_utf8::Dir;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
pub fn find(workspace: &Path, pinned: &[PinnedSkill]) -> Vec<FoundSkill> {
    let mut folders: BTreeSet<String> = below(workspace, SKILLS_FOLDER);
    for persona in names(&workspace.join("personas")) {
        folders.extend(below(
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
fn below(workspace: &Path, folder: &str) -> BTreeSet<String> {
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
