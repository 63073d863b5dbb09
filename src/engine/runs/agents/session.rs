//! Preparation of an agent's call: its options for this run, and the session that it resumes.

use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, Tier};
use crate::domain::{ErrorClass, sha256_hex};
use crate::providers::{
    AgentOptions, AgentSession, LoopOwner, ProviderError, TOOL_SERVER_NAME, TokenUsage, ToolServer,
};
use crate::runs::error::RunError;
use crate::runs::state::LoopState;
use crate::store::SessionKey;
use crate::tools::Reader;

/// Characters of the digest that names the folder of a group of correspondents.
const WORKSPACE_NAME_CHARS: usize = 16;

/// Sets the agent's options for the present route. Called before every call.
pub async fn prepare(state: &mut LoopState<'_>) -> Result<(), RunError> {
    (state.agent.options, state.agent.key) = match state.route.loop_owner() {
        LoopOwner::Engine => (None, None),
        LoopOwner::Agent => {
            let key = key(state)?;
            (Some(options(state, &key).await?), Some(key))
        }
    };
    Ok(())
}

async fn options(state: &LoopState<'_>, key: &SessionKey) -> Result<AgentOptions, RunError> {
    let (budget, spent) = (
        state.budget(),
        state.counters.usage.cost_micros.unwrap_or(0),
    );
    Ok(AgentOptions {
        session: session(state, key).await?,
        tier: tier(state),
        folder: folder(state),
        workspace: workspace(state),
        turns_max: budget.turns_max,
        tool_calls_max: budget.tool_calls_max,
        // Less what earlier attempts have spent.
        cost_micros_max: budget.cost_micros_max.map(|max| (max - spent).max(0)),
        tool_server: tool_server(state),
    })
}

fn tier(state: &LoopState<'_>) -> Tier {
    let settings = state.deps.config.inference.providers.get(&state.route.name);
    let configured = settings.map_or(Tier::default(), |settings| {
        match state.label.reader() {
            Reader::Owner => settings.agent.tier,
            // What it read would end in an answer to them.
            Reader::Correspondent | Reader::Unproven => settings.agent.tier_for_others,
        }
    });
    state.label.tier(configured)
}

/// Returns the working folder, relative to the persona's: of the owner's runs the workspace itself,
/// of others one that only runs with the same readers, of the same trust, in the same thread have.
fn workspace(state: &LoopState<'_>) -> String {
    if state.label.reader() == Reader::Owner {
        return AGENT_FOLDER.to_owned();
    }
    let readers = state.subject.readers.join(" ");
    let of = [
        state.subject.message.thread.as_str(),
        readers.as_str(),
        state.label.sender.as_str(),
    ];
    let digest = sha256_hex(&[of.join("\0").as_bytes()]);
    let name = digest.get(..WORKSPACE_NAME_CHARS).unwrap_or_default();
    format!("{AGENT_FOLDER}/{CORRESPONDENTS_FOLDER}/{name}")
}

fn folder(state: &LoopState<'_>) -> String {
    state.persona.folder.display().to_string()
}

/// Returns our own program as tool server for this run; an agent that does not support our tools
/// does not start it.
fn tool_server(state: &LoopState<'_>) -> Option<ToolServer> {
    let config = &state.deps.config;
    let workspace = config.workspace.display().to_string();
    let args = [
        "mcp",
        "serve",
        "--run",
        state.run.id.as_str(),
        "--workspace",
        &workspace,
    ];
    (!state.tools.is_empty()).then(|| ToolServer {
        name: TOOL_SERVER_NAME.to_owned(),
        program: config.program.display().to_string(),
        args: args.map(str::to_owned).to_vec(),
    })
}

async fn session(state: &LoopState<'_>, key: &SessionKey) -> Result<AgentSession, RunError> {
    if state
        .route
        .provider
        .capabilities(&state.route.model)
        .sessions
        && let Some(known) = state.deps.env.resumable_session(state.run, key).await?
    {
        let used = known
            .usage_json
            .as_deref()
            .and_then(|json| serde_json::from_str::<TokenUsage>(json).ok());
        return Ok(AgentSession::Resume { id: known.id, used });
    }
    // A fresh id for every call: an agent refuses a used one.
    Ok(AgentSession::New(state.deps.clock.new_id()))
}

/// Returns the key of this call's session: it covers the instructions of now, whatever becomes of
/// the files meanwhile.
fn key(state: &LoopState<'_>) -> Result<SessionKey, RunError> {
    let text = state.deps.env.persona_text(state.run)?;
    let tools: Vec<&str> = state.tools.iter().map(|tool| tool.name()).collect();
    let described = [
        text.as_bytes(),
        state.persona.name.as_bytes(),
        tier(state).as_str().as_bytes(),
    ];
    // A session knows what its readers could read when it was begun; with other readers it must not
    // be resumed.
    let readers = state.subject.readers.join(" ");
    // Nor for a sender of lower trust: tools gave it what they give to its sender only.
    let trust = state.label.sender.as_str();
    let tools = tools.join(" ");
    Ok(SessionKey {
        thread: state.subject.message.thread.clone(),
        provider: state.route.name.clone(),
        model: state.route.model.clone(),
        folder: format!("{}/{}", folder(state), workspace(state)),
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

/// Reports whether the call failed only because its session is gone or in use: then it is retried
/// once with a new session, and the failure does not count.
pub async fn starts_anew(
    state: &mut LoopState<'_>,
    error: &ProviderError,
) -> Result<bool, RunError> {
    let is_lost = matches!(
        error.class,
        ErrorClass::SessionMissing | ErrorClass::SessionBusy
    );
    if !is_lost || error.acted || state.agent.renewed {
        return Ok(false);
    }
    state.agent.renewed = true;
    state
        .deps
        .env
        .session_lost(state.run, &state.subject.message.thread, &state.route.name)
        .await?;
    tracing::info!(run = %state.run.id, class = %error.class, "an agent's session is gone; it begins anew with our history");
    Ok(true)
}
