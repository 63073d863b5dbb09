//! `use_skill`: the instructions of a skill, and its files.

use super::skill_reader::SkillReader;
use crate::tools::contract::*;

/// Name of the tool.
pub const USE_SKILL: &str = "use_skill";
/// Opens one of your skills: instructions of your owner for a kind of work, and files that belong to them. Call it
/// before such work and follow what it says; with `file`, it returns a file of the skill.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UseSkill {
    /// Name of the skill.
    name: String,
    /// A text file of it, e.g. `references/prices.md`. Default: its instructions.
    file: Option<String>,
    /// First byte to read. Default: 0.
    #[schemars(with = "Option<i64>")]
    offset: Option<f64>,
}

impl TypedTool for UseSkill {
    const NAME: &str = USE_SKILL;
    // The owner approved every byte of it.
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(skills);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let limits = call.limits.clone();
        let opened = call
            .env
            .skills()?
            .on_disk(move |skills| opened(skills, &self, &limits));
        let result = opened.await?;
        Ok(result.into())
    }
}

/// Returns what the model reads of a skill.
fn opened(
    skills: SkillReader<'_>,
    args: &UseSkill,
    limits: &ToolLimits,
) -> Result<Value, ToolError> {
    let skill = skills.open(&args.name)?;
    let (text, tools, files) = match &args.file {
        Some(path) => (skill.text(path, limits.file_bytes_max as u64)?, None, None),
        None => {
            let files: Vec<&String> = skill.pinned.files.keys().collect();
            (skill.file()?.body, skill.pinned.tools.as_ref(), Some(files))
        }
    };
    let (offset, max) = (count(args.offset, 0), limits.result_bytes_max);
    Ok(fitting_piece(&text, offset, max, max, |piece| {
        let mut result = json!({
            "skill": args.name,
            "content": piece.content,
            "truncated": piece.next_offset.is_some(),
            "next_offset": piece.next_offset,
        });
        if let Some(file) = &args.file {
            result["file"] = json!(file);
        }
        if let Some(files) = &files {
            result["files"] = json!(files);
        }
        if let Some(tools) = tools {
            result["allowed_tools"] = json!(tools);
        }
        result
    }))
}
