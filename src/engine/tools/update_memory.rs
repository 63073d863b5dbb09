//! `update_memory`: rewrites the persona's `active.md`, atomically, and keeps the earlier versions.
//! Each line that a run writes ends with its origin (`lines.rs`), and a run replaces lines of its own origin or lower.

mod lines;

use super::files::folder::{cannot_use, digest, lock, on_disk, open_regular, replace, write_new};
use crate::domain::{MemoryAudience, Timestamp, Trust, VisibleMemory, may_replace, visible_to};
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use lines::{MemoryLines, mark};
use std::io::{self, ErrorKind, Read};

const MEMORY: &str = "active.md";
/// Folder of earlier versions and the unfinished next one.
const HISTORY: &str = ".memory";
const VERSIONS_KEPT: usize = 20;

/// Changes your working memory (`active.md`), which you see in later runs: facts and open tasks, no transcripts.
/// `content` replaces the lines that are yours to replace, `append` adds to the end. Leave out `<!-- from … -->`; it is
/// added by itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateMemory {
    content: Option<String>,
    append: Option<String>,
}

impl TypedTool for UpdateMemory {
    const NAME: &str = "update_memory";
    const CLASS: ToolClass = ToolClass::Verifiable;
    const EFFECTS: Effects = Effects {
        changes_state: true,
        ..Effects::NONE
    };
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(page);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let change = MarkedChange::of(call)?;
        let (now, bytes_max) = (call.clock.now(), call.limits.memory_bytes_max);
        let result = on_disk(call.env.page()?, move |folder| {
            update(folder, &change, now, bytes_max)
        })
        .await?;
        Ok(result.into())
    }

    async fn expected_effects(self, call: &ToolCall<'_>) -> Result<Value, ToolError> {
        let change = MarkedChange::of(call)?;
        let before = on_disk(call.env.page()?, read_memory).await?;
        let was = before.as_deref().unwrap_or_default();
        let kept = change.change.kept(&change.visible(was).shown, change.by);
        let after = digest(Some(&change.applied_to(was)));
        Ok(json!({ "before": digest(before.as_deref()), "after": after, "kept": kept }))
    }

    async fn verify(call: &ToolCall<'_>, expected: &Value) -> Result<CallTrace, ToolError> {
        let now = on_disk(call.env.page()?, read_memory).await?;
        // A call that changes nothing has equal digests before and after: it is run, and says so.
        Ok(CallTrace::of_digest(
            &digest(now.as_deref()),
            expected,
            || {
                let memory = now.as_deref().unwrap_or_default();
                let shown = visible_to(memory, &call.origin.audience, call.origin.sender).shown;
                let kept = expected["kept"].as_u64().unwrap_or_default() as usize;
                result_json(true, shown.len(), call.limits.memory_bytes_max, kept)
            },
        ))
    }
}

/// Returns what the model reads; `kept`: how many lines were not its to replace.
fn result_json(changed: bool, bytes: usize, bytes_max: usize, kept: usize) -> Value {
    let mut result = json!({ "changed": changed, "bytes": bytes, "bytes_max": bytes_max });
    if kept > 0 {
        result["kept_lines"] = json!(kept);
        result["note"] = json!(
            "lines of your owner, or of runs that were trusted more, stay as they are; yours stand below them"
        );
    }
    result
}

enum MemoryChange {
    Replace(String),
    Append(String),
}

impl MemoryChange {
    fn read(args: UpdateMemory) -> Result<Self, ToolError> {
        let (text, change): (_, fn(String) -> Self) = match (args.content, args.append) {
            (Some(content), None) => (content, MemoryChange::Replace),
            (None, Some(append)) if append.trim().is_empty() => {
                return refuse("nothing_to_append", "field `append` is empty");
            }
            (None, Some(append)) => (append, MemoryChange::Append),
            _ => return refuse("bad_arguments", "give exactly one of: content, append"),
        };
        match is_plain(&text) {
            true => Ok(change(text)),
            false => refuse(
                "bad_text",
                "the text has control characters; write plain Markdown",
            ),
        }
    }

    /// Returns the memory after the change, whose new lines have this mark. Appending text that is
    /// at the end already changes nothing, so that a call that is run again after a crash does not
    /// double it.
    fn applied_to(&self, before: &str, mark: &str, by: (Trust, Trust)) -> String {
        let before = MemoryLines::read(before);
        match self {
            MemoryChange::Replace(content) => {
                before.replaced_by(content, mark, |mark| may_replace(mark, by))
            }
            MemoryChange::Append(text) => before.followed_by(text, mark),
        }
    }

    /// Returns the number of lines that it would replace and may not.
    fn kept(&self, before: &str, by: (Trust, Trust)) -> usize {
        match self {
            MemoryChange::Replace(_) => {
                MemoryLines::read(before).kept(|mark| may_replace(mark, by))
            }
            MemoryChange::Append(_) => 0,
        }
    }
}

/// A change with the mark of its new lines. It changes what the run sees; other lines stay, at the end.
struct MarkedChange {
    change: MemoryChange,
    mark: String,
    audience: MemoryAudience,
    /// Trust of the run's sender, and the lowest of what it has read.
    by: (Trust, Trust),
}

impl MarkedChange {
    fn of(call: &ToolCall<'_>) -> Result<Self, ToolError> {
        Ok(Self {
            change: MemoryChange::read(read_args(call.args)?)?,
            mark: mark(call.origin, call.run),
            audience: call.origin.audience.clone(),
            by: (call.origin.sender, call.origin.lowest),
        })
    }

    fn applied_to(&self, before: &str) -> String {
        let visible = self.visible(before);
        let changed = self.change.applied_to(&visible.shown, &self.mark, self.by);
        // What the run does not see makes no difference to what it is told.
        match visible.hidden.is_empty() {
            true => self.change.applied_to(before, &self.mark, self.by),
            false if changed == visible.shown => before.to_owned(),
            false => join(changed, &visible.hidden),
        }
    }

    fn visible(&self, memory: &str) -> VisibleMemory {
        visible_to(memory, &self.audience, self.by.0)
    }

    /// Checks that a memory is small enough. What runs for others have written has half of it at most, so that the owner's
    /// runs can always write.
    fn check_size(&self, before: &str, after: &str, bytes_max: usize) -> Result<(), ToolError> {
        if after.len() > bytes_max {
            return refuse(
                "memory_too_large",
                format!(
                    "the memory would have {} bytes with the marks of where its lines came from, and at most {bytes_max} are \
                 allowed; it has {} now: shorten it with `content`",
                    self.visible(after).shown.len(),
                    self.visible(before).shown.len(),
                ),
            );
        }
        let of_others = |memory: &str| -> usize {
            let lines = memory.lines();
            lines
                .filter(|line| may_replace(Some(line), OTHERS))
                .map(str::len)
                .sum()
        };
        let (is, most) = (of_others(after), bytes_max / 2);
        if is > most && is > of_others(before) {
            return refuse(
                "memory_too_large",
                format!(
                    "lines that runs for others than your owner wrote would have {is} bytes with their marks, and at most {most} are \
                 allowed: shorten yours with `content`"
                ),
            );
        }
        Ok(())
    }
}

/// Highest sender, and highest of what a run has read, of lines that are not the owner's.
const OTHERS: (Trust, Trust) = (Trust::System, Trust::Contact);

/// Joins two texts of whole lines.
fn join(mut first: String, second: &str) -> String {
    if !first.is_empty() && !first.ends_with('\n') {
        first.push('\n');
    }
    first + second
}

fn update(
    folder: &Dir,
    change: &MarkedChange,
    now: Timestamp,
    bytes_max: usize,
) -> Result<Value, ToolError> {
    let failed = cannot_use(MEMORY);
    folder.create_dir_all(HISTORY).map_err(failed)?;
    // Two runs of one persona may write at once.
    let _lock = lock(folder, &format!("{HISTORY}/lock")).map_err(failed)?;

    let before = read_memory(folder)?;
    let was = before.as_deref().unwrap_or_default();
    let after = change.applied_to(was);
    change.check_size(was, &after, bytes_max)?;
    let shown = change.visible(&after).shown;
    let kept = change.change.kept(&change.visible(was).shown, change.by);
    let changed = before.as_deref() != Some(after.as_str());
    if changed {
        if let Some(before) = &before {
            keep(folder, before, now).map_err(failed)?;
        }
        replace(folder, &format!("{HISTORY}/active.tmp"), MEMORY, &after).map_err(failed)?;
    }
    Ok(result_json(changed, shown.len(), bytes_max, kept))
}

/// Reads the memory; `None` when there is no such file.
fn read_memory(folder: &Dir) -> Result<Option<String>, ToolError> {
    let failed = cannot_use(MEMORY);
    match folder.symlink_metadata(MEMORY) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(_) => {}
    }
    let (mut file, _size) = open_regular(folder, MEMORY)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Stores a version under its time, and prunes all but the newest versions.
fn keep(folder: &Dir, memory: &str, now: Timestamp) -> io::Result<()> {
    let stamp = now.to_utc().format("%Y%m%dT%H%M%S%3fZ");
    let mut kept = write_new(folder, &format!("{HISTORY}/active-{stamp}.md"), memory);
    // Two versions in one millisecond: the later one sorts after the earlier.
    for again in 1..100 {
        match &kept {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let path = format!("{HISTORY}/active-{stamp}-{again:02}.md");
                kept = write_new(folder, &path, memory);
            }
            _ => break,
        }
    }
    kept?;
    let names = folder
        .read_dir(HISTORY)?
        .filter_map(|entry| entry.ok()?.file_name().ok());
    let mut versions: Vec<String> = names
        .filter(|name| name.starts_with("active-") && name.ends_with(".md"))
        .collect();
    // Without the `.md`, so that `…Z` sorts before `…Z-01`.
    versions.sort_by(|a, b| a.trim_end_matches(".md").cmp(b.trim_end_matches(".md")));
    for old in versions.iter().rev().skip(VERSIONS_KEPT) {
        folder.remove_file(format!("{HISTORY}/{old}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appending_twice_is_appending_once() {
        let append = MemoryChange::Append("- call Bob\n- pay rent\n".into());
        let mark = "<!-- from a -->";
        let by = (Trust::Contact, Trust::Contact);
        let once = append.applied_to("# Tasks\n", mark, by);
        assert_eq!(
            once,
            format!("# Tasks\n- call Bob {mark}\n- pay rent {mark}\n")
        );
        assert_eq!(append.applied_to(&once, "<!-- from b -->", by), once);
        assert_eq!(
            append.applied_to("", mark, by),
            format!("- call Bob {mark}\n- pay rent {mark}\n")
        );
        // The end of a longer line is not that text.
        let other = MemoryChange::Append("rent".into()).applied_to("pay rent\n", mark, by);
        assert_eq!(other, format!("pay rent\nrent {mark}\n"));
    }
}
