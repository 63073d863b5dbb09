//! `shell`: a command in the sandbox.

use crate::domain::TextLabel;
use crate::shell::{CapturedText, CommandEnd, CommandLimits, CommandResult, StopCause};
use crate::tools::contract::commands::{EndedCommand, WantedCommand};
use crate::tools::contract::*;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Longest command line.
const ARGV_BYTES_MAX: usize = 32 * 1024;
/// Most removed links that a result names.
const LINKS_NAMED_MAX: usize = 20;
/// Shell of a `command`.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// Runs a program in a sandbox: it sees the folder `workspace/` of your own folder as /workspace, where it starts, the
/// programs of the system, and an empty /tmp. It has no network and no standard input, and everything that it started
/// ends with it. Give `argv`; a `command` for `sh` only where you need one. Your owner may be asked for exactly these
/// words first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// Program and its arguments, e.g. `["python3", "count.py", "guests.csv"]`. No shell reads them.
    argv: Option<Vec<String>>,
    /// Instead of `argv`: a text for `sh -c`.
    command: Option<String>,
    /// Folder to start in, relative to `workspace/`. Default: `workspace/` itself.
    folder: Option<String>,
}

impl Shell {
    fn wanted(self) -> Result<WantedCommand, ToolError> {
        let argv = match (self.argv, self.command) {
            (Some(argv), None) if !argv.is_empty() && !argv[0].is_empty() => argv,
            (None, Some(command)) => {
                let words = SHELL.map(str::to_owned).into_iter();
                words.chain([command]).collect()
            }
            _ => {
                return Err(bad(
                    "give either `argv`, which begins with a program, or `command`",
                ));
            }
        };
        if argv.iter().map(String::len).sum::<usize>() > ARGV_BYTES_MAX {
            return Err(bad(
                "the command is too long; write a script with write_file, and run it",
            ));
        }
        let folder = self.folder.unwrap_or_default();
        let folder = folder.trim_start_matches("./").trim_end_matches('/');
        let is_inside = folder.is_empty()
            || folder
                .split('/')
                .all(|name| !matches!(name, "" | "." | ".."));
        if !is_inside {
            return Err(bad(
                "`folder` is a path below `workspace/`, such as `reports`",
            ));
        }
        if argv.iter().any(|word| word.contains('\0')) || folder.contains('\0') {
            return Err(bad("a command holds no NUL"));
        }
        Ok(WantedCommand {
            argv,
            folder: folder.to_owned(),
        })
    }
}

fn bad(hint: &str) -> ToolError {
    ToolError::mendable("bad_command", hint)
}

impl TypedTool for Shell {
    const NAME: &str = "shell";
    const CLASS: ToolClass = ToolClass::Once;
    const EFFECTS: Effects = Effects {
        changes_state: true,
        runs_code: true,
        ..Effects::NONE
    };
    // What it can read are files of the workspace, which only runs of the owner that have read nothing of others, and
    // the owner, write; no tool reads what others' runs left there, and no command sees it.
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(commands);

    fn timeout() -> Option<Duration> {
        Some(Duration::from_millis(CommandLimits::default().wall_ms_max))
    }

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let wanted = self.wanted()?;
        let runner = call.env.commands()?;
        let (run, now) = (call.run, call.clock.now());
        let within = call.limits.duration_max;
        let ended = runner.run(run, now, wanted, within).await?;
        // The workspace is for the owner alone.
        Ok(ToolOutcome::labelled(
            result(ended, call.limits.result_bytes_max)?,
            TextLabel::PRIVATE,
        ))
    }
}

/// Returns what the model reads. Errors: the program was not started.
fn result(ended: EndedCommand, bytes_max: usize) -> Result<Value, ToolError> {
    let CommandResult {
        end,
        stdout,
        stderr,
    } = ended.result;
    let mut result = Map::new();
    match end {
        CommandEnd::NotStarted(why) => return refuse("not_started", why),
        CommandEnd::Exited(code) => result.insert("exit_code".to_owned(), json!(code)),
        CommandEnd::Signalled(signal) => result.insert("signal".to_owned(), json!(signal)),
        CommandEnd::Stopped(cause) => result.insert("stopped".to_owned(), json!(words(cause))),
    };
    // JSON escapes: a text that fits may not fit as written.
    let room = bytes_max / 2;
    for (name, text, most) in [
        ("stdout", stdout, room / 4 * 3),
        ("stderr", stderr, room / 4),
    ] {
        let (shown, is_cut) = shown(&text, most);
        if is_cut {
            result.insert(format!("{name}_bytes"), json!(text.bytes));
            result.insert(format!("{name}_truncated"), json!(true));
        }
        result.insert(name.to_owned(), json!(shown));
    }
    if !ended.removed_links.is_empty() {
        result.insert("links".to_owned(), json!(removed(&ended.removed_links)));
    }
    if let Some(message) = ended.over_quota {
        result.insert("workspace".to_owned(), json!(message));
    }
    Ok(Value::Object(result))
}

/// Returns what is said of links that were removed.
fn removed(links: &[String]) -> String {
    let named: Vec<&str> = links
        .iter()
        .take(LINKS_NAMED_MAX)
        .map(String::as_str)
        .collect();
    let more = match links.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "removed, because they led out of the workspace: {}{more}; copy the files instead",
        named.join(", ")
    )
}

fn words(cause: StopCause) -> &'static str {
    match cause {
        StopCause::Time => {
            "it took longer than it may, and everything that it had started was ended"
        }
        StopCause::Memory => "it took more memory than it may, and was ended",
        StopCause::Processes => "it started more processes than it may, and was ended",
        StopCause::Workspace => "it filled the workspace beyond its quota, and was ended",
    }
}

/// Returns an output as the model reads it, and whether something was left out.
fn shown(text: &CapturedText, bytes_max: usize) -> (String, bool) {
    let (head_max, tail_max) = (bytes_max / 4 * 3, bytes_max / 4);
    if text.left_out == 0 && text.head.len() <= bytes_max {
        return (text.head.clone(), false);
    }
    let all = format!("{}{}", text.head, text.tail);
    let head = &all[..all.floor_char_boundary(head_max)];
    let tail = &all[all.ceil_char_boundary(all.len().saturating_sub(tail_max).max(head.len()))..];
    (format!("{head}\n[…]\n{tail}"), true)
}
