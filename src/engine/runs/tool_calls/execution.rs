//! Execution of a permitted tool call with the persona's store and folder.

use super::verdict::ToolVerdict;
use crate::clock::Clock;
use crate::config::{PinnedSkill, spell};
use crate::domain::{ErrorClass, TextLabel};
use crate::extract::Extractor;
use crate::runs::error::RunError;
use crate::shell::CommandSandbox;
use crate::store::{ClaimedRun, PersonaStore};
use crate::tools::{
    CallTrace, KeptWorkspace, MailPolicy, McpServers, MemoryPlace, OwnerPrograms, QuestionVectors,
    Reader, RegisteredTool, ResultWords, SkillReader, ToolCall, ToolClass, ToolEnv, ToolError,
    ToolLimits, ToolResources, WriteOrigin,
};
use crate::web::{RedirectRule, WebFetcher, WebSearcher};
use cap_std::fs_utf8::Dir;
use chrono_tz::Tz;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Error code of a call of which it is unknown whether it has happened.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// Time in which a tool ends what it has started.
const ENDING: Duration = Duration::from_secs(10);

/// A call of one tool, its arguments checked.
pub struct CallOrder<'a> {
    pub run: &'a ClaimedRun,
    /// Id of the call in the journal.
    pub id: &'a str,
    pub tool: &'a RegisteredTool,
    pub args: &'a Map<String, Value>,
    pub mail: &'a MailPolicy,
    pub limits: ToolLimits,
    /// Origin that is recorded with what the call writes.
    pub origin: WriteOrigin,
    pub reader: Reader,
    /// Decides on hosts to which a page redirects.
    pub redirects: &'a dyn RedirectRule,
    /// Result of [`expected_effects`], when an earlier attempt began this call.
    pub begun: Option<&'a Value>,
    pub cancel: &'a CancellationToken,
    /// Folder of the persona, and the quota of its workspace.
    pub workspace: KeptWorkspace<'a>,
    /// Time zone of the persona.
    pub zone: Tz,
    /// Approved skills of the persona.
    pub skills: &'a [PinnedSkill],
    /// People around the run, and its new text; `None`: nothing is remembered of them.
    pub memory: Option<MemoryPlace>,
}

/// Store, folder and time that tools work with.
#[derive(Clone, Copy)]
pub struct Workplace<'a> {
    pub store: &'a PersonaStore,
    pub folder: &'a Dir,
    pub clock: &'a dyn Clock,
    /// `false`: the folder is a copy.
    pub keeps_versions: bool,
    pub documents: &'a Extractor,
    /// `None`: no connection is opened.
    pub web: Option<&'a WebFetcher>,
    /// `None`: nothing is searched.
    pub web_search: Option<&'a WebSearcher>,
    /// `None`: no program is started.
    pub programs: Option<&'a dyn OwnerPrograms>,
    /// `None`: no command is run.
    pub commands: Option<&'a CommandSandbox>,
    /// The workspace's folder, for skills; `None`: there is none beside a copy.
    pub shared: Option<&'a Dir>,
    /// `None`: no server is reached.
    pub mcp: Option<&'a dyn McpServers>,
    /// `None`: searches go by words alone.
    pub question_vectors: Option<&'a dyn QuestionVectors>,
}

impl CallOrder<'_> {
    fn call<'a>(&'a self, on: Workplace<'a>) -> ToolCall<'a> {
        let resources = ToolResources {
            folder: on.folder,
            mail: self.mail,
            store: on.store,
            trigger: &self.run.trigger_message,
            thread: &self.run.thread,
            documents: on.documents,
            web: on.web,
            redirects: self.redirects,
            web_search: on.web_search,
            programs: on.programs,
            commands: on.commands,
            skills: SkillReader {
                skills: self.skills,
                shared: on.shared,
                persona: on.folder,
            },
            mcp: on.mcp,
            question_vectors: on.question_vectors,
            memory: self.memory.as_ref(),
            zone: self.zone,
            workspace: on.keeps_versions.then_some(self.workspace),
        };
        ToolCall {
            run: &self.run.id,
            args: self.args,
            env: ToolEnv::new(self.tool.declaration().capabilities, resources),
            limits: &self.limits,
            clock: on.clock,
            origin: &self.origin,
            reader: self.reader,
        }
    }
}

/// Returns values for a later verification of a call that may not simply be run again: its start,
/// and its expected effects.
pub async fn expected_effects(order: &CallOrder<'_>, on: Workplace<'_>) -> Option<Value> {
    match order.tool.class() {
        ToolClass::Once => Some(json!({ "at": on.clock.now().to_string() })),
        ToolClass::Verifiable => {
            // A call without expected effects fails when it is executed, with the reason.
            let expected = order.tool.expected_effects(order.call(on)).await.ok()?;
            Some(json!({ "foreseen": expected }))
        }
        ToolClass::Repeatable | ToolClass::Transactional => None,
    }
}

/// Executes a call; an interrupted one only as its class permits.
pub async fn carry_out(order: &CallOrder<'_>, on: Workplace<'_>) -> Result<ToolVerdict, RunError> {
    if let Some(begun) = order.begun {
        match order.tool.class() {
            ToolClass::Repeatable | ToolClass::Transactional => {}
            ToolClass::Once => return Ok(unknown(begun)),
            ToolClass::Verifiable => {
                match order.tool.verify(order.call(on), &begun["foreseen"]).await {
                    Ok(CallTrace::Untouched) => {}
                    Ok(CallTrace::Done(outcome)) => return Ok(ToolVerdict::Done(*outcome)),
                    Ok(CallTrace::Neither) | Err(_) => return Ok(unknown(begun)),
                }
            }
        }
    }
    let within = longest(order);
    let outcome = tokio::select! {
        outcome = timeout(within, order.tool.call(order.call(on))) => {
            outcome.unwrap_or_else(|_late| Err(late(order.limits.duration_max)))
        }
        () = order.cancel.cancelled() => {
            let message = "the run was cancelled while this call was running".to_owned();
            return Ok(ToolVerdict::Terminal { class: ErrorClass::Cancelled, message });
        }
    };
    Ok(match outcome {
        Ok(mut outcome) => {
            if order.tool.declaration().result_words == ResultWords::Unknown {
                outcome.label = outcome.label.and(TextLabel::UNKNOWN);
            }
            ToolVerdict::Done(outcome)
        }
        Err(ToolError::Mendable { code, message }) => ToolVerdict::Failed { code, message },
        Err(ToolError::UnsupportedAction(action)) => ToolVerdict::Terminal {
            class: ErrorClass::UnsupportedAction,
            message: format!("this engine does not offer {action}"),
        },
        Err(ToolError::OutboundNotConfigured) => ToolVerdict::Terminal {
            class: ErrorClass::OutboundNotConfigured,
            message: "no outbound transport is configured".to_owned(),
        },
        Err(ToolError::Store(error)) => return Err(RunError::Store(error)),
    })
}

/// Returns the time after which a call is ended here. A tool that keeps to its time by itself gets twice of it and a little: it may
/// have waited for another call to end, and what it started has to be ended in order.
fn longest(order: &CallOrder<'_>) -> Duration {
    let within = order.limits.duration_max;
    match order.tool.timeout() {
        Some(_) => within.saturating_mul(2) + ENDING,
        None => within,
    }
}

fn late(within: Duration) -> ToolError {
    let message = format!(
        "the call was not over within {} and was ended; it may or may not have done its work. Ask for less at a time, or finish \
         without it",
        spell(within)
    );
    ToolError::mendable("tool_timeout", message)
}

/// Returns the verdict on an interrupted call that may not be run again.
fn unknown(begun: &Value) -> ToolVerdict {
    let at = begun["at"]
        .as_str()
        .map(|at| format!(", begun at {at},"))
        .unwrap_or_default();
    let message = format!(
        "the engine stopped while this call{at} was running; it may or may not have taken effect. Find out \
         by other means; it is not run again"
    );
    ToolVerdict::Failed {
        code: OUTCOME_UNKNOWN,
        message,
    }
}
