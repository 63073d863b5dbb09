//! Preparation of an agent's call: its options for this run, and the session that it resumes.

use crate::config::{AGENT_FOLDER, CORRESPONDENTS_FOLDER, Tier};
use crate::domain::{ErrorClass, sha256_hex};
use crate::providers::{
    AgentOptions, AgentSession, ProviderError, TOOL_SERVER_NAME, TokenUsage, ToolServer,
};
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::error::RunError;
use crate::runs::model_call::fallback::{Route, RouteState};
use crate::runs::state::{LoopState, RunInput};
use crate::store::SessionKey;
use crate::tools::Reader;

/// Characters of the digest that names the folder of a group of correspondents.
const WORKSPACE_NAME_CHARS: usize = 16;

/// Sets the agent's options for the present route. Called before every call.
pub async fn prepare(state: &mut LoopState<'_>) -> Result<(), RunError> {
    let LoopState {
        input,
        route: RouteState { present, agent, .. },
        spending,
        ..
    } = state;
    (agent.options, agent.key) = match present.is_model() {
        true => (None, None),
        false => {
            let key = key(input, present)?;
            let options = options(input, present, spending, &key).await?;
            (Some(options), Some(key))
        }
    };
    Ok(())
}

async fn options(
    input: &RunInput<'_>,
    route: &Route<'_>,
    spending: &RunSpending,
    key: &SessionKey,
) -> Result<AgentOptions, RunError> {
    let (budget, spent) = (
        &spending.budget,
        spending.counters.usage.cost_micros.unwrap_or(0),
    );
    Ok(AgentOptions {
        session: session(input, route, key).await?,
        tier: tier(input, &route.name),
        folder: folder(input),
        workspace: workspace(input),
        turns_max: budget.turns_max,
        tool_calls_max: budget.tool_calls_max,
        // Less what earlier attempts have spent.
        cost_micros_max: budget.cost_micros_max.map(|max| (max - spent).max(0)),
        tool_server: tool_server(input),
    })
}

fn tier(input: &RunInput<'_>, provider: &str) -> Tier {
    let settings = input.deps.config.inference.providers.get(provider);
    let configured = settings.map_or(Tier::default(), |settings| {
        match input.label.reader() {
            Reader::Owner => settings.agent.tier,
            // What it read would end in an answer to them.
            Reader::Correspondent | Reader::Unproven => settings.agent.tier_for_others,
        }
    });
    input.label.tier(configured)
}

/// Returns the working folder, relative to the persona's: of the owner's runs the workspace itself,
/// of others one that only runs with the same readers, of the same trust, in the same thread have.
fn workspace(input: &RunInput<'_>) -> String {
    if input.label.reader() == Reader::Owner {
        return AGENT_FOLDER.to_owned();
    }
    let readers = input.subject.readers.join(" ");
    let of = [
        input.subject.message.thread.as_str(),
        readers.as_str(),
        input.label.sender.as_str(),
    ];
    let digest = sha256_hex(&[of.join("\0").as_bytes()]);
    let name = digest.get(..WORKSPACE_NAME_CHARS).unwrap_or_default();
    format!("{AGENT_FOLDER}/{CORRESPONDENTS_FOLDER}/{name}")
}

fn folder(input: &RunInput<'_>) -> String {
    input.persona.folder.display().to_string()
}

/// Returns our own program as tool server for this run; an agent that does not support our tools
/// does not start it.
fn tool_server(input: &RunInput<'_>) -> Option<ToolServer> {
    let config = &input.deps.config;
    let workspace = config.workspace.display().to_string();
    let args = [
        "mcp",
        "serve",
        "--run",
        input.run.id.as_str(),
        "--workspace",
        &workspace,
    ];
    (!input.tools.is_empty()).then(|| ToolServer {
        name: TOOL_SERVER_NAME.to_owned(),
        program: config.program.display().to_string(),
        args: args.map(str::to_owned).to_vec(),
    })
}

async fn session(
    input: &RunInput<'_>,
    route: &Route<'_>,
    key: &SessionKey,
) -> Result<AgentSession, RunError> {
    if route.capabilities().sessions
        && let Some(known) = input.deps.env.resumable_session(input.run, key).await?
    {
        let used = known
            .usage_json
            .as_deref()
            .and_then(|json| serde_json::from_str::<TokenUsage>(json).ok());
        return Ok(AgentSession::Resume { id: known.id, used });
    }
    // A fresh id for every call: an agent refuses a used one.
    Ok(AgentSession::New(input.deps.clock.new_id()))
}

/// Returns the key of this call's session: it covers the instructions of now, whatever becomes of
/// the files meanwhile.
fn key(input: &RunInput<'_>, route: &Route<'_>) -> Result<SessionKey, RunError> {
    let text = input.deps.env.persona_text(input.run)?;
    let tools: Vec<&str> = input.tools.iter().map(|tool| tool.name()).collect();
    let described = [
        text.as_bytes(),
        input.persona.name.as_bytes(),
        tier(input, &route.name).as_str().as_bytes(),
    ];
    // A session knows what its readers could read when it was begun; with other readers it must not
    // be resumed.
    let readers = input.subject.readers.join(" ");
    // Nor for a sender of lower trust: tools gave it what they give to its sender only.
    let trust = input.label.sender.as_str();
    let tools = tools.join(" ");
    Ok(SessionKey {
        thread: input.subject.message.thread.clone(),
        provider: route.name.clone(),
        model: route.model.clone(),
        folder: format!("{}/{}", folder(input), workspace(input)),
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
    if !is_lost || error.acted || state.route.agent.renewed {
        return Ok(false);
    }
    state.route.agent.renewed = true;
    state
        .input
        .deps
        .env
        .session_lost(
            state.input.run,
            &state.input.subject.message.thread,
            &state.route.present.name,
        )
        .await?;
    tracing::info!(run = %state.input.run.id, class = %error.class, "an agent's session is gone; it begins anew with our history");
    Ok(true)
}
