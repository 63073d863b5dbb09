//! `schedule_create`: proposes a responsibility, as a file that is disabled. Only its owner can
//! enable it.
//!
//! Absent on purpose: enabling, changing or removing anything, and every key that could widen a
//! run's permissions or recipients.

use super::files::folder::{cannot_use, lock, on_disk, path_error, remove_unfinished, write_new};
use crate::domain::{Timestamp, sha256_hex};
use crate::schedule_file::{ParseContext, Responsibility, WorkspaceNames, file, prompt};
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;
use std::io::{self, ErrorKind, Read};

const FOLDER: &str = "responsibilities";
/// Most proposals that are neither enabled nor removed.
const OPEN_MAX: usize = 10;
const PROMPT_BYTES_MAX: usize = 8 * 1024;
const SLUG_CHARS_MAX: usize = 60;
/// Number of slots shown.
const SHOWN: usize = 5;

/// Proposes a schedule: what you should do by the clock. Give exactly one of `schedule`, `at` and `every`. It stays off
/// until your owner enables it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleCreate {
    name: String,
    #[schemars(description = "What you are to do each time.")]
    prompt: String,
    /// Such as `Europe/Berlin`.
    timezone: String,
    /// Cron: minute hour day month weekday, such as `0 9 * * mon-fri`.
    schedule: Option<String>,
    /// Once: `2026-12-24 18:00`.
    at: Option<String>,
    /// Such as `90m` or `6h`.
    every: Option<String>,
    #[schemars(description = "Missed times: `latest` (default), `skip` or `all`.")]
    catch_up: Option<String>,
    #[schemars(description = "Oldest missed time. Default: `7d`.")]
    catch_up_window: Option<String>,
    #[schemars(description = "While the last run goes on: `skip` (default) or `buffer_one`.")]
    overlap: Option<String>,
    /// Most seconds or minutes of delay, such as `5m`.
    jitter: Option<String>,
    /// Your owner hears of longer runs. Default: `1h`.
    grace: Option<String>,
}

impl TypedTool for ScheduleCreate {
    const NAME: &str = "schedule_create";
    const CLASS: ToolClass = ToolClass::Verifiable;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Orders];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let proposal = Proposal::read(call)?;
        let result = proposal.to_json();
        on_disk(call.env.files()?, move |folder| proposal.write(folder)).await?;
        Ok(result.into())
    }

    async fn expected_effects(self, call: &ToolCall<'_>) -> Result<Value, ToolError> {
        let proposal = Proposal::read(call)?;
        let after = sha256_hex(&[proposal.text.as_bytes()]);
        let before = on_disk(call.env.files()?, move |folder| {
            digest(folder, &proposal.path)
        })
        .await?;
        Ok(json!({ "before": before, "after": after }))
    }

    async fn verify(call: &ToolCall<'_>, expected: &Value) -> Result<CallTrace, ToolError> {
        let proposal = Proposal::read(call)?;
        let result = proposal.to_json();
        let now = on_disk(call.env.files()?, move |folder| {
            digest(folder, &proposal.path)
        })
        .await?;
        Ok(CallTrace::of_digest(&json!(now), expected, || result))
    }
}

/// A valid file that is disabled.
struct Proposal {
    /// Path relative to the persona's folder.
    path: String,
    text: String,
    responsibility: Responsibility,
    now: Timestamp,
}

impl Proposal {
    fn read(call: &ToolCall<'_>) -> Result<Self, ToolError> {
        let args: ScheduleCreate = read_args(call.args)?;
        let refused = |hint: String| ToolError::mendable("bad_responsibility", hint);
        if args.prompt.len() > PROMPT_BYTES_MAX {
            let bytes = args.prompt.len();
            return Err(refused(format!(
                "`prompt` has {bytes} bytes, and at most {PROMPT_BYTES_MAX} are allowed"
            )));
        }
        if !is_plain(&args.prompt) {
            return Err(refused(
                "`prompt` has control characters; write plain Markdown".to_owned(),
            ));
        }
        prompt::check(args.prompt.trim()).map_err(|error| {
            let line = error
                .line
                .map_or(String::new(), |line| format!("line {line} of the prompt: "));
            refused(format!("{line}{error}"))
        })?;
        let (path, text) = (
            format!("{FOLDER}/{}.md", slug(&args.name)),
            written(&args, call.run.as_str()),
        );
        // A proposal cannot name anything of the workspace, so no names are offered.
        let names = WorkspaceNames::default();
        let bounds = ParseContext {
            zone: chrono_tz::UTC,
            tools: None,
            names: &names,
            mails_answers: true,
        };
        let responsibility =
            file::parse(text.as_bytes(), &bounds).map_err(|error| refused(error.problem))?;
        let now = call.clock.now();
        if responsibility.timing.next_after(now).is_none() {
            return Err(refused(
                "`at` lies in the past; give an instant that is still to come".to_owned(),
            ));
        }
        if responsibility.enabled {
            return Err(refused("a proposal cannot be enabled".to_owned()));
        }
        Ok(Self {
            path,
            text,
            responsibility,
            now,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.path,
            "enabled": false,
            "next": self.responsibility.upcoming(self.now, SHOWN),
            "note": "it is only proposed: your owner has to set `enabled: true` in this file before it runs",
        })
    }

    /// Writes the file, unless a file of its name exists. A reader sees all of it or nothing.
    fn write(&self, folder: &Dir) -> Result<(), ToolError> {
        let failed = cannot_use(&self.path);
        folder.create_dir_all(FOLDER).map_err(failed)?;
        // Two runs of one persona may propose at once.
        let _lock = lock(folder, &format!("{FOLDER}/.proposals.lock")).map_err(failed)?;
        if digest(folder, &self.path)? == Some(sha256_hex(&[self.text.as_bytes()])) {
            return Ok(()); // A repeated call.
        }
        let open = open_proposals(folder).map_err(failed)?;
        if open >= OPEN_MAX {
            return refuse(
                "too_many_proposals",
                format!(
                    "{open} proposals wait for your owner already; no more can be made until some are decided"
                ),
            );
        }
        let unfinished = format!("{FOLDER}/.proposal.tmp");
        remove_unfinished(folder, &unfinished)
            .and_then(|()| write_new(folder, &unfinished, &self.text))
            .map_err(failed)?;
        // A link does not replace an existing file, a rename would.
        let linked = folder.hard_link(&unfinished, folder, &self.path);
        folder.remove_file(&unfinished).map_err(failed)?;
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => refuse(
                "file_exists",
                format!(
                    "`{}` exists already, and you cannot change it; choose another name",
                    self.path
                ),
            ),
            linked => linked
                .and_then(|()| folder.open(FOLDER)?.sync_all())
                .map_err(failed),
        }
    }
}

/// Formats the file. Every value is quoted: JSON strings are YAML strings too (YAML 1.2.2, section
/// 1.2).
fn written(args: &ScheduleCreate, run: &str) -> String {
    let quoted = |text: &str| Value::from(text.trim()).to_string();
    let keys = [
        ("name", Some(&args.name)),
        ("schedule", args.schedule.as_ref()),
        ("at", args.at.as_ref()),
        ("every", args.every.as_ref()),
        ("timezone", Some(&args.timezone)),
        ("catch_up", args.catch_up.as_ref()),
        ("catch_up_window", args.catch_up_window.as_ref()),
        ("overlap", args.overlap.as_ref()),
        ("jitter", args.jitter.as_ref()),
        ("grace", args.grace.as_ref()),
    ];
    let said = keys
        .into_iter()
        .filter_map(|(key, value)| Some(format!("{key}: {}\n", quoted(value?))));
    let front: String = said.collect();
    let (run, prompt) = (quoted(run), args.prompt.trim());
    format!("---\n{front}enabled: false\nproposed_by: {run}\n---\n\n{prompt}\n")
}

/// Makes a file's name of words: letters and digits of ASCII, joined by `-`.
fn slug(name: &str) -> String {
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let mut slug = plain
        .split('-')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    slug.truncate(SLUG_CHARS_MAX);
    match slug.trim_end_matches('-') {
        "" | "readme" => "proposal".to_owned(),
        slug => slug.to_owned(),
    }
}

/// Returns the digest of a file; `None`: there is none. A file that is larger than any
/// responsibility has a digest of its own.
fn digest(folder: &Dir, path: &str) -> Result<Option<String>, ToolError> {
    match read(folder, path) {
        Ok(bytes) => Ok(Some(sha256_hex(&[&bytes]))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(path_error(path, &error)),
    }
}

/// Counts proposals of a persona that are neither enabled nor removed; a file that cannot be read
/// counts too.
fn open_proposals(folder: &Dir) -> io::Result<usize> {
    let mut open = 0;
    for entry in folder.read_dir(FOLDER)? {
        let Ok(name) = entry?.file_name() else {
            continue;
        };
        if !name.ends_with(".md") || name.starts_with('.') {
            continue;
        }
        let Ok(bytes) = read(folder, &format!("{FOLDER}/{name}")) else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes);
        let mut front = text
            .lines()
            .skip(1)
            .take_while(|line| line.trim_end() != "---");
        let mut front_again = front.clone();
        let is_proposed = front.any(|line| line.starts_with("proposed_by:"));
        open += usize::from(is_proposed && !front_again.any(|line| line.trim() == "enabled: true"));
    }
    Ok(open)
}

fn read(folder: &Dir, path: &str) -> io::Result<Vec<u8>> {
    if !folder.symlink_metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    folder
        .open(path)?
        .take(file::FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn a_slug_is_a_file_name_whatever_the_name_is() {
        let rows = [
            ("Morning digest", "morning-digest"),
            ("../../etc/passwd", "etc-passwd"),
            ("README", "proposal"),
            ("日本", "proposal"),
            ("  A -- B.md ", "a-b-md"),
        ];
        for (name, expected) in rows {
            assert_eq!(slug(name), expected);
        }
        assert_eq!(slug(&"x".repeat(200)).len(), 60);
    }
}
