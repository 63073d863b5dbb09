//! One program of the owner: started without a shell, given JSON, read until it ends.

use crate::config::Hook;
use crate::domain::{HookDecision, sha256_hex};
use crate::runs::programs::{self, OwnerProgram};
use crate::text::truncated;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// Most bytes that a hook may write.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 500;

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
    let answer = asked(hook, workspace, occasion).await;
    if answer.decision == HookDecision::Ask && !hook.event.may_ask() {
        return HookAnswer::failed(format!("`ask` is no answer to `{}`", hook.event));
    }
    answer
}

async fn asked(hook: &Hook, workspace: &Path, occasion: &Value) -> HookAnswer {
    let own = ("ATTACHE_HOOK".to_owned(), hook.id.clone());
    let environment = hook.environment.iter().cloned().chain([own]);
    let program = OwnerProgram {
        command: &hook.command,
        folder: workspace,
        workspace,
        environment: environment
            .map(|(name, value)| (name, value.into()))
            .collect(),
        output_bytes_max: ANSWER_BYTES_MAX,
        timeout: hook.timeout,
    };
    match programs::run(program, occasion).await {
        Ok(written) => read(&written),
        Err(failure) => HookAnswer::failed(failure.to_string()),
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
