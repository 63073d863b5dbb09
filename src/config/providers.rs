//! `providers` in `configs/inference.json`: one block for each provider that needs other than its defaults.
//!
//! A provider is named by its adapter; `compat:NAME` names a server of its own that speaks OpenAI's chat completions.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::net::{check_base_url, is_near_url};
use super::problem::Problem;
use super::settings::{
    AgentSettings, ChatSwitches, DataCollection, Effort, Inference, ProviderSettings, StructuredOutput,
    Think, Tier,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The adapter whose providers are named in the configuration: `compat:groq`.
pub const COMPAT: &str = "compat";
/// What an agent sees of the environment without being told: enough to find programs and its own login.
const ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// One provider's block. Its key comes from the environment or `.secrets`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedProvider {
    /// Another server of the same dialect: `https`, or `http` for loopback hosts (see `plain_http`); the version is added to a URL without a path.
    /// Default: the vendor's own.
    base_url: Option<String>,
    /// Whether `base_url` may be `http` in a private network: an address of RFC 1918 or `fc00::/7`, or a name under `.local`.
    /// Everybody in that network can then read keys and mail. Default: false.
    plain_http: Option<bool>,
    /// Name of the environment variable, or of the line in `.secrets`, that holds the key. Default: the vendor's usual one.
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    api_key_variable: Option<String>,
    /// `scripted`: the file with its answers, relative to the workspace.
    #[schemars(length(min = 1))]
    script: Option<String>,
    /// Chat completions (`openai`, `grok`, `openrouter`, `compat:NAME`): send `max_tokens` instead of
    /// `max_completion_tokens`. Default: false.
    legacy_max_tokens: Option<bool>,
    /// Chat completions: leave `stream_options` out, for servers that refuse it. Default: false.
    no_stream_usage: Option<bool>,
    /// `ollama`: tokens that the model's memory has room for, question and answer together; more of them take more RAM.
    /// Default: 16384.
    #[schemars(range(min = 1024, max = 10_000_000))]
    context_tokens: Option<u32>,
    /// `ollama`: how long the model stays loaded after an answer, such as `30m`; `-1` is for ever. Default: the server's own.
    #[schemars(regex(pattern = r"^(-1|0|[1-9][0-9]{0,8}(s|m|h))$"))]
    keep_alive: Option<String>,
    /// `gemini` and `ollama`: whether, or how hard, the model thinks before it answers. Default: as the model does by itself.
    think: Option<Think>,
    /// Chat completions: leave `temperature` out, for reasoning models, which refuse it. Default: false.
    no_temperature: Option<bool>,
    /// Chat completions: send `store: false`, so that the vendor keeps nothing of the conversation. Default: false.
    no_store: Option<bool>,
    /// Chat completions: give the system prompt the role `developer`. Default: false.
    developer_role: Option<bool>,
    /// Chat completions: send the tool's name with its result. Default: false.
    named_tool_results: Option<bool>,
    /// Chat completions: let the assistant speak between the results of tools and the user's next message. Default: false.
    assistant_after_tools: Option<bool>,
    /// Chat completions: send `tools: []` where tools were called before and none is offered now. Default: false, those
    /// tools are described once more.
    empty_tools: Option<bool>,
    /// Chat completions: send `strict: true` with tools and schemas; every schema must then name all properties as
    /// required and allow no others. Default: false.
    strict_schemas: Option<bool>,
    /// Chat completions: how hard the model thinks. Default: not sent.
    reasoning_effort: Option<Effort>,
    /// Chat completions: how a form of the answer is asked for. Default: `json_schema`.
    structured_output: Option<StructuredOutput>,
    /// `openrouter`: `deny` leaves out vendors that keep what they are sent. Default: as the account says.
    data_collection: Option<DataCollection>,
    /// `openrouter`: the site to be named as the origin of the calls. Default: none.
    #[schemars(regex(pattern = r"^https?://[!-~]+$"))]
    attribution_url: Option<String>,
    /// Agents: the program. Default: the agent's own name, looked for on `PATH`.
    #[schemars(length(min = 1))]
    binary: Option<String>,
    /// Agents: what they may do by themselves. Default: `read_only`.
    tier: Option<Tier>,
    /// Agents: further variables of the environment, or lines of `.secrets`, that the program may see.
    environment: Option<Vec<String>>,
}

impl TypedProvider {
    /// Names of secrets that this block speaks of.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.api_key_variable.iter().chain(self.environment.iter().flatten()).map(String::as_str)
    }
}

/// Settings for every known provider, so that a persona may choose any; keys come with them.
pub fn settle<'p, T>(
    page: &Page<T>,
    blocks: impl Iterator<Item = (&'p String, &'p TypedProvider)>,
    desk: &mut Desk<'_>,
) -> BTreeMap<String, ProviderSettings> {
    let blocks: BTreeMap<&str, &TypedProvider> = blocks.map(|(name, typed)| (name.as_str(), typed)).collect();
    let mut providers = BTreeMap::new();
    for name in desk.provider_names() {
        let typed = blocks.get(name.as_str()).copied();
        let settings = one(page, &name, typed, desk);
        providers.insert(name, settings);
    }
    for name in blocks.keys().filter(|name| !providers.contains_key(**name)) {
        let problem = page.blame_key(&child("/providers", *name), format!("no provider `{name}`"));
        let problem = explained(problem, name, desk);
        desk.report(problem);
    }
    providers
}

fn one<T>(
    page: &Page<T>,
    name: &str,
    typed: Option<&TypedProvider>,
    desk: &mut Desk<'_>,
) -> ProviderSettings {
    let none = TypedProvider::default();
    let (is_there, typed) = (typed.is_some(), typed.unwrap_or(&none));
    let pointer = child("/providers", name);
    let plain_http = typed.plain_http.unwrap_or(false);
    let check = |url| check_base_url(url, plain_http);
    if let Some(Err((message, hint))) = typed.base_url.as_deref().map(check) {
        desk.report(page.blame(&child(&pointer, "base_url"), message).hint(hint));
    }
    if is_there && typed.base_url.is_none() && name.starts_with(COMPAT) {
        let problem = page.blame_key(&pointer, format!("provider `{name}` has no `base_url`"));
        desk.report(problem.hint("write the URL below which the server has `chat/completions`"));
    }
    if is_there {
        check_readers(page, name, desk);
    }
    let visible = ENVIRONMENT.iter().copied().chain(typed.environment.iter().flatten().map(String::as_str));
    let environment = visible.filter_map(|name| desk.secrets.get(name).map(|value| (name.to_owned(), value)));
    ProviderSettings {
        name: name.to_owned(),
        base_url: typed.base_url.clone(),
        plain_http,
        key_variable: desk.key_variable(name),
        api_key: desk.key_variable(name).and_then(|variable| desk.secrets.get(&variable)),
        script: typed.script.as_ref().map(|script| desk.workspace.join(script)),
        chat: switches(typed),
        context_tokens: typed.context_tokens,
        keep_alive: typed.keep_alive.clone(),
        think: typed.think,
        agent: AgentSettings {
            binary: typed.binary.clone(),
            found: None,
            tier: typed.tier.unwrap_or_default(),
            environment: environment.collect(),
            workspace: Some(desk.workspace.to_path_buf()),
            stop_grace: None,
        },
    }
}

/// A setting that only other adapters read would be ignored, and somebody relies on it.
fn check_readers<T>(page: &Page<T>, name: &str, desk: &mut Desk<'_>) {
    let pointer = child("/providers", name);
    let adapter = name.split_once(':').map_or(name, |(adapter, _)| adapter);
    let block = page.document.value.pointer(&pointer).and_then(Value::as_object);
    for (key, value) in block.into_iter().flatten() {
        let known = &desk.vocabulary.settings;
        let readers = known.iter().filter(|(_, keys)| keys.contains(&key.as_str())).map(|(id, _)| *id);
        let readers: Vec<_> = readers.collect();
        // What nobody reads is an unknown key, which is told elsewhere.
        if readers.is_empty() || readers.contains(&adapter) || value.is_null() {
            continue;
        }
        let own = known.iter().find(|(id, _)| *id == adapter).map(|(_, keys)| keys.join(", "));
        let message = format!("`{adapter}` does not read it; it is a setting of {}", readers.join(", "));
        let problem = page.blame_key(&child(&pointer, key), message);
        desk.report(problem.hint(format!("`{adapter}` reads: {}", own.unwrap_or_default())));
    }
}

fn switches(typed: &TypedProvider) -> ChatSwitches {
    let on = |switch: Option<bool>| switch.unwrap_or(false);
    ChatSwitches {
        legacy_max_tokens: on(typed.legacy_max_tokens),
        no_stream_usage: on(typed.no_stream_usage),
        no_temperature: on(typed.no_temperature),
        no_store: on(typed.no_store),
        developer_role: on(typed.developer_role),
        named_tool_results: on(typed.named_tool_results),
        assistant_after_tools: on(typed.assistant_after_tools),
        empty_tools: on(typed.empty_tools),
        strict_schemas: on(typed.strict_schemas),
        reasoning_effort: typed.reasoning_effort,
        structured_output: typed.structured_output.unwrap_or_default(),
        data_collection: typed.data_collection,
        attribution_url: typed.attribution_url.clone(),
    }
}

/// The names and key variables that the blocks bring, before anything else is settled.
pub fn introduce<'p>(blocks: impl Iterator<Item = (&'p String, &'p TypedProvider)>, desk: &mut Desk<'_>) {
    for (name, typed) in blocks {
        if name.strip_prefix("compat:").is_some_and(is_compat_name) {
            desk.compat.push(name.clone());
        }
        if let Some(variable) = &typed.api_key_variable {
            desk.key_variables.insert(name.clone(), variable.clone());
        }
    }
}

/// What to write instead of a provider that is not there, or beside it.
pub fn explained(problem: Problem, name: &str, desk: &Desk<'_>) -> Problem {
    if name.strip_prefix("compat:").is_some_and(is_compat_name) {
        let block = format!("\"{name}\": {{\"base_url\": \"…\"}}");
        return problem
            .hint(format!("describe it in `providers` of `{}`: `{block}`", super::inference::FILE));
    }
    problem.did_you_mean(name, desk.provider_names().iter().map(String::as_str))
}

/// A name behind `compat:`; it appears in listings, rows and logs.
fn is_compat_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 40 && name.chars().all(legal)
}

/// Why a provider that is in use could not answer: no key, no script.
pub fn unready(name: &str, inference: &Inference, desk: &Desk<'_>) -> Option<(String, String)> {
    let settings = inference.providers.get(name)?;
    if name == "scripted" && settings.script.is_none() {
        let hint = "write `\"providers\": {\"scripted\": {\"script\": \"configs/demo-script.json\"}}`";
        return Some(("provider `scripted` has no script".to_owned(), hint.to_owned()));
    }
    let variable = desk.key_variable(name)?;
    let local = settings.base_url.as_deref().is_some_and(|url| is_near_url(url, settings.plain_http));
    (settings.api_key.is_none() && !local).then(|| {
        let hint = format!("set {variable} in the environment or in `.secrets`");
        (format!("provider `{name}` has no key: `{variable}` is not set"), hint)
    })
}
