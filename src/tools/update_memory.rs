//! `update_memory`: rewrites the persona's `active.md`, atomically, and keeps the earlier versions.
//! Each line that a run writes ends with its origin (`lines.rs`), and a run replaces lines of its own origin or lower.

mod lines;

use super::contract::arguments::read_args;
use super::files::folder::{on_disk, open_regular, path_error};
use super::{
    CallTrace, Effects, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolNeed, ToolOutcome, arguments_schema,
};
use crate::domain::{
    MemoryAudience, Timestamp, Trust, VisibleMemory, may_replace, sha256_hex, visible_to,
};
use cap_std::fs_utf8::{Dir, File, OpenOptions};
use futures_util::future::BoxFuture;
use lines::{MemoryLines, mark};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Read, Write};

const MEMORY: &str = "active.md";
/// Folder of earlier versions and the unfinished next one.
const HISTORY: &str = ".memory";
const VERSIONS_KEPT: usize = 20;

/// Text that the model reads.
const DESCRIPTION: &str = "Changes your working memory (`active.md`), which you see in later runs: facts and open tasks, no \
         transcripts. `content` replaces the lines that are yours to replace, `append` adds to the end. Leave out `<!-- \
         from … -->`; it is added by itself.";

pub struct UpdateMemory;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateMemoryArgs {
    content: Option<String>,
    append: Option<String>,
}

impl Tool for UpdateMemory {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Orders]
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "update_memory".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<UpdateMemoryArgs>(),
            class: ToolClass::Verifiable,
            effects: Effects {
                changes_state: true,
                ..Effects::NONE
            },
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                page: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let change = MarkedChange::of(&call)?;
            let (now, bytes_max) = (call.clock.now(), call.limits.memory_bytes_max);
            let result = on_disk(call.env.page()?, move |folder| {
                update(folder, &change, now, bytes_max)
            })
            .await?;
            Ok(ToolOutcome {
                result,
                ..ToolOutcome::default()
            })
        })
    }

    fn expected_effects<'a>(
        &'a self,
        call: ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let change = MarkedChange::of(&call)?;
            let before = on_disk(call.env.page()?, read_memory).await?;
            let was = before.as_deref().unwrap_or_default();
            let kept = change.change.kept(&change.visible(was).shown, change.by);
            let after = digest(Some(&change.applied_to(was)));
            Ok(json!({ "before": digest(before.as_deref()), "after": after, "kept": kept }))
        })
    }

    fn verify<'a>(
        &'a self,
        call: ToolCall<'a>,
        expected: &'a Value,
    ) -> BoxFuture<'a, Result<CallTrace, ToolError>> {
        Box::pin(async move {
            let now = on_disk(call.env.page()?, read_memory).await?;
            let digest = digest(now.as_deref());
            // A call that changes nothing has equal digests before and after: it is run, and says
            // so.
            Ok(if digest == expected["before"] && expected.is_object() {
                CallTrace::Untouched
            } else if digest == expected["after"] {
                let origin = call.origin;
                let now = now.unwrap_or_default();
                let shown = visible_to(&now, &origin.audience, origin.sender).shown;
                let kept = expected["kept"].as_u64().unwrap_or_default() as usize;
                let result = result_json(true, (shown.len(), call.limits.memory_bytes_max), kept);
                CallTrace::Done(Box::new(ToolOutcome {
                    result,
                    ..ToolOutcome::default()
                }))
            } else {
                CallTrace::Neither
            })
        })
    }
}

/// Returns the digest; `null` when there is no memory.
fn digest(memory: Option<&str>) -> Value {
    memory.map_or(Value::Null, |memory| {
        Value::String(sha256_hex(&[memory.as_bytes()]))
    })
}

/// Returns what the model reads; `kept`: how many lines were not its to replace.
fn result_json(changed: bool, (bytes, bytes_max): (usize, usize), kept: usize) -> Value {
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
    fn read(args: UpdateMemoryArgs) -> Result<Self, ToolError> {
        let change = match (args.content, args.append) {
            (Some(content), None) => MemoryChange::Replace(content),
            (None, Some(append)) if append.trim().is_empty() => {
                return Err(ToolError::mendable(
                    "nothing_to_append",
                    "field `append` is empty",
                ));
            }
            (None, Some(append)) => MemoryChange::Append(append),
            _ => {
                return Err(ToolError::mendable(
                    "bad_arguments",
                    "give exactly one of: content, append",
                ));
            }
        };
        let (MemoryChange::Replace(text) | MemoryChange::Append(text)) = &change;
        if text
            .chars()
            .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        {
            let hint = "the text has control characters; write plain Markdown";
            return Err(ToolError::mendable("bad_text", hint));
        }
        Ok(change)
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
            let hint = format!(
                "the memory would have {} bytes with the marks of where its lines came from, and at most {bytes_max} are \
                 allowed; it has {} now: shorten it with `content`",
                self.visible(after).shown.len(),
                self.visible(before).shown.len(),
            );
            return Err(ToolError::mendable("memory_too_large", hint));
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
            let hint = format!(
                "lines that runs for others than your owner wrote would have {is} bytes with their marks, and at most {most} are \
                 allowed: shorten yours with `content`"
            );
            return Err(ToolError::mendable("memory_too_large", hint));
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
    let failed = |error: io::Error| path_error(MEMORY, &error);
    folder.create_dir_all(HISTORY).map_err(failed)?;
    // Two runs of one persona may write at once; closing the file releases the lock.
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .to_owned();
    let lock = folder
        .open_with(format!("{HISTORY}/lock"), &lock)
        .map_err(failed)?
        .into_std();
    lock.lock().map_err(failed)?;

    let before = read_memory(folder)?;
    let was = before.as_deref().unwrap_or_default();
    let after = change.applied_to(was);
    change.check_size(was, &after, bytes_max)?;
    let (shown, kept) = (
        change.visible(&after).shown,
        change.change.kept(&change.visible(was).shown, change.by),
    );
    let changed = before.as_deref() != Some(after.as_str());
    if changed {
        if let Some(before) = &before {
            keep(folder, before, now).map_err(failed)?;
        }
        replace(folder, &after).map_err(failed)?;
    }
    Ok(result_json(changed, (shown.len(), bytes_max), kept))
}

/// Reads the memory; `None` when there is no such file.
fn read_memory(folder: &Dir) -> Result<Option<String>, ToolError> {
    let failed = |error: io::Error| path_error(MEMORY, &error);
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
    let mut kept = create_new(folder, &format!("{HISTORY}/active-{stamp}.md"));
    // Two versions in one millisecond: the later one sorts after the earlier.
    for again in 1..100 {
        match &kept {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                kept = create_new(folder, &format!("{HISTORY}/active-{stamp}-{again:02}.md"));
            }
            _ => break,
        }
    }
    write_synced(kept?, memory)?;
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

/// Writes and syncs the new memory under another name, then renames it: a reader sees the old or
/// the new one.
fn replace(folder: &Dir, memory: &str) -> io::Result<()> {
    let unfinished = format!("{HISTORY}/active.tmp");
    match folder.remove_file(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write_synced(create_new(folder, &unfinished)?, memory)?;
    folder.rename(&unfinished, folder, MEMORY)?;
    // The rename itself is durable only once the folder is.
    folder.open(".")?.sync_all()
}

fn create_new(folder: &Dir, path: &str) -> io::Result<File> {
    folder.open_with(path, OpenOptions::new().write(true).create_new(true))
}

fn write_synced(mut file: File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
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
