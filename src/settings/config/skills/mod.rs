//! `configs/skills.json`: skills that the owner has approved, each with the digests of its files. `attache skills approve`
//! writes it.

use crate::config::values::section::*;
use crate::domain::PersonaId;

/// Folder of skills: of the workspace, and of a persona.
pub const SKILLS_FOLDER: &str = "skills";
/// File with the front matter and the instructions of a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// Largest `SKILL.md`.
pub const SKILL_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Beginning of the digest of a file that may be executed.
pub const EXECUTABLE: &str = "x:";
/// Most skills of a workspace.
const SKILLS_MAX: usize = 500;

/// Skills that the owner has approved.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/skills.json")]
pub struct TypedSkills {
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Approved skills.
    #[serde(default)]
    pub skills: Vec<PinnedSkill>,
}

/// A skill as its owner approved it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedSkill {
    /// Its folder: `skills/NAME`, or `personas/ID/skills/NAME`.
    pub folder: String,
    /// What the model reads of it before it is used.
    pub description: String,
    /// Tools that a run may still call once it has used the skill (`allowed-tools`). Default: all that it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// SHA-256 of each file, by its path below the folder; one that may be executed begins with `x:`.
    pub files: BTreeMap<String, String>,
}

impl PinnedSkill {
    /// Returns the name: that of the folder.
    pub fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the SHA-256 of a file, whether or not it may be executed; `None`: the skill has no such file.
    pub fn sha256_of(&self, path: &str) -> Option<&str> {
        let digest = self.files.get(path)?;
        Some(digest.strip_prefix(EXECUTABLE).unwrap_or(digest))
    }

    /// Returns the persona that alone has it; `None`: all have it.
    pub fn persona(&self) -> Option<&str> {
        self.folder.strip_prefix("personas/")?.split('/').next()
    }

    /// Reports whether a persona has it.
    pub fn is_for(&self, persona: &PersonaId) -> bool {
        self.persona().is_none_or(|id| id == persona.as_str())
    }
}

/// Resolves the file. Problems go to the context.
pub fn resolve(file: &ConfigFile<TypedSkills>, ctx: &mut CheckContext<'_>) -> Vec<PinnedSkill> {
    let mut skills: Vec<PinnedSkill> = Vec::new();
    for (index, skill) in file.typed.skills.iter().enumerate() {
        let folder = &skill.folder;
        let is_known = skills.iter().any(|other| other.folder == *folder);
        let problem = match () {
            () if !is_folder(folder) => "is no folder of a skill",
            () if is_known => "stands here twice",
            () if index >= SKILLS_MAX => "is one skill too many",
            () => {
                skills.push(skill.clone());
                continue;
            }
        };
        ctx.place(file, "/skills").refuse(
            &format!("{index}/folder"),
            format!("`{folder}` {problem}"),
            "`attache skills approve NAME` writes this file",
        );
    }
    skills
}

fn is_folder(folder: &str) -> bool {
    let parts: Vec<&str> = folder.split('/').collect();
    match parts[..] {
        [SKILLS_FOLDER, name] => is_skill_name(name),
        ["personas", id, SKILLS_FOLDER, name] => {
            PersonaId::parse(id).is_ok() && is_skill_name(name)
        }
        _ => false,
    }
}

/// Reports whether a text is a name of a skill (agentskills.io): 1 to 64 of `a-z`, `0-9` and single hyphens within.
pub fn is_skill_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&name.len())
        && name.chars().all(legal)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_folders_are_no_folders_of_skills() {
        for good in ["skills/a", "personas/ada/skills/count-guests", "skills/2-x"] {
            assert!(is_folder(good), "{good}");
        }
        let bad = [
            "skills",
            "skills/",
            "skills/A",
            "skills/-a",
            "skills/a-",
            "skills/a--b",
            "skills/a/b",
            "skills/..",
            "personas/../skills/a",
            "personas/ada/knowledge/a",
            "/skills/a",
        ];
        for bad in bad {
            assert!(!is_folder(bad), "{bad}");
        }
    }
}
