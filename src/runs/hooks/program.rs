//! One program of the owner: started without a shell, given JSON, read until it ends.

use crate::config::Hook;
use crate::domain::{HookDecision, sha256_hex};
use crate::providers::child::process::Output;
use crate::providers::child::program::Program;
use crate::providers::transport::lines::OutputLimits;
use crate::text::truncated;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes that a hook may write.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 500;
/// Time between SIGTERM and SIGKILL of a hook whose time is over.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// Answer as a hook writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAnswer {
    decision: WrittenDecision,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenDecision {
    Allow,
    Deny,
    Ask,
}

/// Answer of a hook.
#[derive(Debug, Clone, Serialize)]
pub struct HookAnswer {
    pub decision: HookDecision,
    /// Reason in the hook's words, or why it has failed.
    pub reason: String,
}

impl HookAnswer {
    fn failed(reason: impl Into<String>) -> Self {
        Self {
            decision: HookDecision::Failed,
            reason: reason.into(),
        }
    }
}

/// Returns the digest of a hook: its command line, and every file of the workspace that it names.
pub fn digest(hook: &Hook, workspace: &Path) -> String {
    let mut parts = Vec::new();
    for part in &hook.command {
        parts.push(part.as_bytes().to_vec());
        parts.push(vec![0]);
        let path = workspace.join(part);
        if path.starts_with(workspace) && path.is_file() {
            // A file that cannot be read fails its hook, too.
            parts.push(std::fs::read(path).unwrap_or_default());
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    sha256_hex(&parts)
}

/// Asks a hook: gives it `occasion` as one line of JSON and waits for its answer, for its time limit at most.
///
/// A program that cannot be started, hangs, fails, or writes something else than an answer has failed.
pub async fn ask(hook: &Hook, workspace: &Path, occasion: &Value) -> HookAnswer {
    let asked = served(hook, workspace, occasion);
    let answer = match timeout(hook.timeout, asked).await {
        Ok(answer) => answer,
        Err(_late) => HookAnswer::failed(format!(
            "it gave no answer within {}",
            crate::config::spell(hook.timeout)
        )),
    };
    if answer.decision == HookDecision::Ask && !hook.event.may_ask() {
        return HookAnswer::failed(format!("`ask` is no answer to `{}`", hook.event));
    }
    answer
}

/// Dropped at the time limit, which kills the program with everything that it has started.
async fn served(hook: &Hook, workspace: &Path, occasion: &Value) -> HookAnswer {
    let own = ("ATTACHE_HOOK".to_owned(), hook.id.clone());
    let environment = hook.environment.iter().cloned().chain([own]);
    let environment = environment.map(|(name, value)| (name, value.into()));
    let environment = environment.collect();
    let [program, args @ ..] = hook.command.as_slice() else {
        return HookAnswer::failed("it names no program");
    };
    let Some(mut program) = Program::at(program, workspace, environment) else {
        return HookAnswer::failed(format!("`{program}` is not a program"));
    };
    program.limits = OutputLimits {
        line_bytes_max: ANSWER_BYTES_MAX,
        total_bytes_max: ANSWER_BYTES_MAX,
    };
    program.grace = STOP_GRACE;
    let mut process = match program.start(args, workspace) {
        Ok(process) => process,
        Err(error) => return HookAnswer::failed(error.to_string()),
    };
    process.send(&format!("{occasion}\n"));
    process.close_stdin();
    let mut written = String::new();
    loop {
        match process.next().await {
            Ok(Output::Line(line)) => {
                written.push_str(&line);
                written.push('\n');
            }
            Ok(Output::End(ending)) if ending.code == Some(0) => return read(&written),
            Ok(Output::End(ending)) => {
                return HookAnswer::failed(truncated(&ending.to_string(), REASON_CHARS_MAX));
            }
            Err(error) => {
                process.stop().await;
                return HookAnswer::failed(error.to_string());
            }
        }
    }
}

fn read(written: &str) -> HookAnswer {
    match serde_json::from_str::<WrittenAnswer>(written) {
        Ok(answer) => HookAnswer {
            decision: match answer.decision {
                WrittenDecision::Allow => HookDecision::Allow,
                WrittenDecision::Deny => HookDecision::Deny,
                WrittenDecision::Ask => HookDecision::Ask,
            },
            reason: truncated(&answer.reason, REASON_CHARS_MAX),
        },
        Err(error) => HookAnswer::failed(format!(
            "its answer is not `{{\"decision\": \"allow\"|\"deny\"|\"ask\", \"reason\": TEXT}}`: {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        assert_eq!(
            read(r#"{"decision":"allow"}"#).decision,
            HookDecision::Allow
        );
        let no = read("{\"decision\": \"deny\",\n \"reason\": \"not him\"}");
        assert_eq!(
            (no.decision, no.reason.as_str()),
            (HookDecision::Deny, "not him")
        );
        let garbage = [
            "",
            "allow",
            "{}",
            r#"{"decision":"yes"}"#,
            r#"{"decision":"allow"} x"#,
            r#"{"decision":"allow","x":1}"#,
        ];
        for text in garbage {
            assert_eq!(read(text).decision, HookDecision::Failed, "{text}");
        }
    }
}
