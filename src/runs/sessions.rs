//! Preparation of an agent's call: its options for this run, the session that it resumes, and the
//! calls that an earlier attempt has made already.

use super::deps::RunError;
use super::work::Work;
use crate::config::{AGENT_FOLDER, Tier};
use crate::domain::{ErrorClass, sha256_hex};
use crate::providers::{
    AgentOptions, AgentSession, LoopOwner, ProviderError, TOOL_SERVER_NAME, TokenUsage, ToolServer,
};
use crate::store::{SessionKey, Step, StepKind};

/// Characters of one call, and of its result, in the list of earlier calls.
const DONE_CHARS_MAX: usize = 300;
/// Calls in that list; the last ones, because unfinished work counts most.
const DONE_CALLS_MAX: usize = 30;

/// State of the agent that the next call goes to.
#[derive(Default)]
pub struct AgentState {
    /// Options; `None` where the engine owns the loop.
    pub options: Option<AgentOptions>,
    /// Key under which the session of the next call is kept; `None` as `options`.
    pub key: Option<SessionKey>,
    /// `true`: a session was lost and replaced already; the next loss is an error.
    renewed: bool,
}

/// Sets the agent's options for the present route. Called before every call.
pub async fn prepare(work: &mut Work<'_>) -> Result<(), RunError> {
    (work.agent.options, work.agent.key) = match work.route.loop_owner() {
        LoopOwner::Engine => (None, None),
        LoopOwner::Agent => {
            let key = key(work)?;
            (Some(options(work, &key).await?), Some(key))
        }
    };
    Ok(())
}

async fn options(work: &Work<'_>, key: &SessionKey) -> Result<AgentOptions, RunError> {
    let (budget, spent) = (work.budget(), work.counters.usage.cost_micros.unwrap_or(0));
    Ok(AgentOptions {
        session: session(work, key).await?,
        tier: tier(work),
        folder: folder(work),
        turns_max: budget.turns_max,
        tool_calls_max: budget.tool_calls_max,
        // Less what earlier attempts have spent.
        cost_micros_max: budget.cost_micros_max.map(|max| (max - spent).max(0)),
        tool_server: tool_server(work),
    })
}

/// Returns the note on the folder for an agent that may write.
pub fn where_to_write(options: &AgentOptions) -> Option<String> {
    let only = match options.tier {
        Tier::None | Tier::ReadOnly => return None,
        Tier::Write => ", and nowhere else",
        Tier::Full => "",
    };
    Some(format!(
        "[engine] You may write files in `{}/{AGENT_FOLDER}`{only}. `PERSONA.md`, `persona.json`, `active.md`, `.memory`, \
         `responsibilities`, `schemas` and `knowledge` are for reading: a run in which they change fails.",
        options.folder
    ))
}

fn tier(work: &Work<'_>) -> Tier {
    let settings = work.deps.config.inference.providers.get(&work.route.name);
    work.label
        .tier(settings.map_or(Tier::default(), |settings| settings.agent.tier))
}

fn folder(work: &Work<'_>) -> String {
    work.persona.folder.display().to_string()
}

/// Returns our own program as tool server for this run; an agent that does not support our tools
/// does not start it.
fn tool_server(work: &Work<'_>) -> Option<ToolServer> {
    let config = &work.deps.config;
    let workspace = config.workspace.display().to_string();
    let args = [
        "mcp",
        "serve",
        "--run",
        work.run.id.as_str(),
        "--workspace",
        &workspace,
    ];
    (!work.tools.is_empty()).then(|| ToolServer {
        name: TOOL_SERVER_NAME.to_owned(),
        program: config.program.display().to_string(),
        args: args.map(str::to_owned).to_vec(),
    })
}

async fn session(work: &Work<'_>, key: &SessionKey) -> Result<AgentSession, RunError> {
    if work.route.provider.capabilities(&work.route.model).sessions
        && let Some(known) = work.deps.run_store.resumable_session(work.run, key).await?
    {
        let used = known
            .usage_json
            .as_deref()
            .and_then(|json| serde_json::from_str::<TokenUsage>(json).ok());
        return Ok(AgentSession::Resume { id: known.id, used });
    }
    // A fresh id for every call: an agent refuses a used one.
    Ok(AgentSession::New(work.deps.clock.new_id()))
}

/// Returns the key of this call's session: it covers the instructions of now, whatever becomes of
/// the files meanwhile.
fn key(work: &Work<'_>) -> Result<SessionKey, RunError> {
    let text = work.deps.env.persona_text(work.run)?;
    let tools: Vec<&str> = work.tools.iter().map(|tool| tool.name()).collect();
    let described = [
        text.as_bytes(),
        work.persona.name.as_bytes(),
        tier(work).as_str().as_bytes(),
    ];
    // A session knows what its readers could read when it was begun; with other readers it must not
    // be resumed.
    let readers = work.subject.readers.join(" ");
    // Nor for a sender of lower trust: tools gave it what they give to its sender only.
    let trust = work.label.sender.as_str();
    let tools = tools.join(" ");
    Ok(SessionKey {
        thread: work.subject.message.thread.clone(),
        provider: work.route.name.clone(),
        model: work.route.model.clone(),
        folder: folder(work),
        options_sha256: sha256_hex(&[
            described[0],
            b"\0",
            described[1],
            b"\0",
            described[2],
            b"\0",
            tools.as_bytes(),
            b"\0",
            readers.as_bytes(),
            b"\0",
            trust.as_bytes(),
        ]),
    })
}

/// Reports whether a session id of an agent is safe in an argument: `^[A-Za-z0-9_-]{1,128}$`, and
/// no option.
pub fn is_session_id(id: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.chars().all(legal)
}

/// Reports whether the call failed only because its session is gone or in use: then it is retried
/// once with a new session, and the failure does not count.
pub async fn starts_anew(work: &mut Work<'_>, error: &ProviderError) -> Result<bool, RunError> {
    let is_lost = matches!(
        error.class,
        ErrorClass::SessionMissing | ErrorClass::SessionBusy
    );
    if !is_lost || error.acted || work.agent.renewed {
        return Ok(false);
    }
    work.agent.renewed = true;
    work.deps
        .run_store
        .session_lost(work.run, &work.subject.message.thread, &work.route.name)
        .await?;
    tracing::info!(run = %work.run.id, class = %error.class, "an agent's session is gone; it begins anew with our history");
    Ok(true)
}

/// Lists what an interrupted attempt of this run has done, so that the agent does not repeat it
/// unknowingly; `None` when there is nothing. Calls of our own loop are not listed: they stand in
/// the conversation.
pub fn done_before(steps: &[Step]) -> Option<String> {
    let of_agent =
        |step: &&Step| step.kind == StepKind::Call && !step.tool_call_id.starts_with('c');
    let calls: Vec<&Step> = steps.iter().filter(of_agent).collect();
    let left_out = calls.len().saturating_sub(DONE_CALLS_MAX);
    let lines = calls.iter().skip(left_out).map(|call| {
        let is_result =
            |step: &&Step| step.kind == StepKind::Result && step.tool_call_id == call.tool_call_id;
        let result = steps
            .iter()
            .find(is_result)
            .map_or("no result", |step| step.payload_json.as_str());
        format!(
            "- {} {} -> {}\n",
            call.tool_name,
            short(&call.payload_json),
            short(result)
        )
    });
    let lines: String = lines.collect();
    (!calls.is_empty()).then(|| {
        let more = if left_out > 0 { format!("- ({left_out} calls before these)\n") } else { String::new() };
        format!(
            "[engine] An earlier attempt at this answer was interrupted. These tools were called in it, so do not \
             repeat what is done, and look before you repeat what is unknown:\n{more}{lines}"
        )
    })
}

fn short(text: &str) -> String {
    match text.char_indices().nth(DONE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Executor;

    #[test]
    fn an_id_that_could_be_an_option_or_a_path_is_no_session() {
        for good in ["ses_01ABC", "0199-aa", "a", &"x".repeat(128)] {
            assert!(is_session_id(good), "{good}");
        }
        for bad in [
            "",
            "-p",
            "--resume",
            "../x",
            "a b",
            "a/b",
            "ü",
            "a\n",
            &"x".repeat(129),
        ] {
            assert!(!is_session_id(bad), "{bad}");
        }
    }

    #[test]
    fn what_was_done_is_listed_with_its_results_and_our_own_loop_is_not() {
        let step = |kind, id: &str, payload: &str| Step {
            kind,
            executor: Executor::Agent,
            tool_name: "Bash".into(),
            tool_call_id: id.into(),
            payload_json: payload.into(),
        };
        assert_eq!(done_before(&[step(StepKind::Call, "c0_0", "{}")]), None);
        let steps = [
            step(StepKind::Call, "a0", "{\"args\":{\"command\":\"make\"}}"),
            step(StepKind::Result, "a0", "{\"ok\":true}"),
            step(StepKind::Call, "a1", &"x".repeat(1000)),
        ];
        let described = done_before(&steps).unwrap_or_default();
        assert!(
            described.contains("- Bash {\"args\":{\"command\":\"make\"}} -> {\"ok\":true}\n"),
            "{described}"
        );
        assert!(
            described.contains("… -> no result\n") && described.len() < 1000,
            "{described}"
        );
    }
}
