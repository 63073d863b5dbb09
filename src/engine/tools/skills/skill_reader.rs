//! The approved skills of a persona as a capability: a folder that is not as it was approved gives nothing.

use super::skill_file::{self, SkillFile};
use super::skill_folder::{digests, read};
use crate::config::{PinnedSkill, SKILL_FILE, SKILL_FILE_BYTES_MAX, SKILLS_FOLDER};
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use tokio::task::spawn_blocking;

/// Skills of a run, and the folders in which they lie.
#[derive(Clone, Copy)]
pub struct SkillReader<'a> {
    pub skills: &'a [PinnedSkill],
    /// Folder of the workspace that holds `skills/`; `None`: a copy, which has none.
    pub shared: Option<&'a Dir>,
    /// Folder of the persona.
    pub persona: &'a Dir,
}

/// A skill whose files are those that were approved.
pub struct OpenedSkill<'a> {
    pub pinned: &'a PinnedSkill,
    folder: Dir,
}

impl<'a> SkillReader<'a> {
    /// Works with the skills on a thread that may block.
    pub async fn on_disk<T, F>(self, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(SkillReader<'_>) -> Result<T, ToolError> + Send + 'static,
    {
        let failed = |error: std::io::Error| {
            ToolError::mendable(
                "file_error",
                format!("the skills cannot be read: {}", error.kind()),
            )
        };
        let skills = self.skills.to_vec();
        let shared = self
            .shared
            .map(Dir::try_clone)
            .transpose()
            .map_err(failed)?;
        let persona = self.persona.try_clone().map_err(failed)?;
        let done = spawn_blocking(move || {
            work(SkillReader {
                skills: &skills,
                shared: shared.as_ref(),
                persona: &persona,
            })
        });
        let interrupted =
            |_| ToolError::mendable("file_error", "the file work was interrupted; try again");
        done.await.map_err(interrupted)?
    }

    /// Opens a skill by its name. Blocking. Errors: there is none, or it was changed since.
    pub fn open(self, name: &str) -> Result<OpenedSkill<'a>, ToolError> {
        let mut named = self.skills.iter().filter(|skill| skill.name() == name);
        // A persona's own skill stands before one of all.
        let found = named.clone().find(|skill| skill.persona().is_some());
        let Some(pinned) = found.or_else(|| named.next()) else {
            let names: Vec<&str> = self.skills.iter().map(PinnedSkill::name).collect();
            return refuse(
                "no_such_skill",
                format!("there is no such skill; there are: {}", names.join(", ")),
            );
        };
        let base = match pinned.persona() {
            Some(_) => Some(self.persona),
            None => self.shared,
        };
        let path = format!("{SKILLS_FOLDER}/{name}");
        let is_folder = |base: &Dir| base.symlink_metadata(&path).is_ok_and(|data| data.is_dir());
        let folder = base.filter(|base| is_folder(base));
        let folder = folder.and_then(|base| base.open_dir(&path).ok());
        match folder {
            Some(folder) if digests(&folder).as_ref() == Ok(&pinned.files) => {
                Ok(OpenedSkill { pinned, folder })
            }
            _ => refuse(
                "skill_changed",
                "this skill is not as your owner approved it, so it is off; finish without it, and say so",
            ),
        }
    }
}

impl SkillReader<'_> {
    /// Returns the skills that are as they were approved, each once by its name. Blocking.
    pub fn unchanged(self) -> Vec<PinnedSkill> {
        let mut names: Vec<&str> = self.skills.iter().map(PinnedSkill::name).collect();
        names.sort_unstable();
        names.dedup();
        let opened = names.into_iter().filter_map(|name| self.open(name).ok());
        opened.map(|skill| skill.pinned.clone()).collect()
    }
}

impl OpenedSkill<'_> {
    /// Reads `SKILL.md`. Blocking.
    pub fn file(&self) -> Result<SkillFile, ToolError> {
        let text = self.text(SKILL_FILE, SKILL_FILE_BYTES_MAX)?;
        let parsed = skill_file::parse(&text, self.pinned.name());
        parsed.map_err(|problems| ToolError::mendable("skill_broken", problems.join("; ")))
    }

    /// Reads a text file of the skill. Blocking.
    pub fn text(&self, path: &str, bytes_max: u64) -> Result<String, ToolError> {
        if !self.pinned.files.contains_key(path) {
            let files: Vec<&str> = self.pinned.files.keys().map(String::as_str).collect();
            return refuse(
                "file_not_found",
                format!("the skill has no such file; it has: {}", files.join(", ")),
            );
        }
        let (bytes, _) = read(&self.folder, path, bytes_max)
            .map_err(|hint| ToolError::mendable("file_error", hint))?;
        String::from_utf8(bytes).map_err(|_| {
            ToolError::mendable(
                "binary_file",
                "this file of the skill is no text; a command may use it",
            )
        })
    }
}
