//! `providers` in `configs/inference.json`: one block for each provider with settings that differ
//! from its defaults.
//!
//! A provider has the name of its adapter, or of one of its instances: see `instances`.

use super::agents::{AgentSettings, Tier};
use super::chat::{CHAT_ONLY, ChatApi, ChatSwitches, DataCollection, Effort, StructuredOutput};
use super::headers::{self, ProviderHeader, TypedHeader};
use super::instances;
use super::run_settings::{self, TypedOwnTimeouts};
use super::think::Think;
use crate::config::values::net::{check_base_url, is_near_url};
use crate::config::values::section::*;
use crate::domain::{RunSettings, Temperature};
use std::path::PathBuf;

/// Variables of the environment that an agent sees by default: enough to find programs and its own
/// login.
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

/// Settings of one provider. Its key comes from the environment or `.secrets`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedProvider {
    /// URL of another server with the same API: `https`, or `http` for loopback hosts (see
    /// `plain_http`); the version is appended to a URL without a path. Default: the vendor's own.
    base_url: Option<String>,
    /// Permits `http` in `base_url` in a private network: an address of RFC 1918 or `fc00::/7`, or
    /// a name under `.local`. Every host in that network can then read keys and mail.
    #[serde(default)]
    plain_http: bool,
    /// Name of the environment variable, or of the line in `.secrets`, that holds the key. Default:
    /// the vendor's usual one.
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    api_key_variable: Option<String>,
    /// `openai`, `grok`, `compat:NAME`: form of the API, `chat` for chat completions or `responses`
    /// for the Responses API. Default: `chat`.
    api: Option<ChatApi>,
    /// Model that is asked where a persona, a duty or a fallback names this provider and no model.
    #[schemars(length(min = 1))]
    model: Option<String>,
    /// Maximum output tokens of one call, instead of the value at the top of the file.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Sampling temperature, instead of the value at the top of the file.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// Timeouts of its calls, instead of those at the top of the file.
    timeouts: Option<TypedOwnTimeouts>,
    /// Further headers of every request to the server, by name: a text, or `{"variable": "NAME"}` for
    /// one that holds a secret. The engine's own, and those that carry keys, stay as they are.
    headers: Option<BTreeMap<String, TypedHeader>>,
    /// `scripted`: the file with its answers, relative to the workspace.
    #[schemars(length(min = 1))]
    script: Option<String>,
    /// Chat completions (`openai`, `grok`, `openrouter`, `compat:NAME`): send `max_tokens` instead
    /// of `max_completion_tokens`.
    #[serde(default)]
    legacy_max_tokens: bool,
    /// Chat completions: leave `stream_options` out, for servers that refuse it.
    #[serde(default)]
    no_stream_usage: bool,
    /// Tokens of the model's window, question and answer together: what is longer is shortened before it is sent. Default: the
    /// window that the server named when it refused a request. `ollama` sets it; a larger value takes more RAM. Its
    /// default: 16384.
    #[schemars(range(min = 1024, max = 10_000_000))]
    context_tokens: Option<u32>,
    /// `ollama`: time that the model stays loaded after an answer, such as `30m`; `-1` is for ever.
    /// Default: the server's own.
    #[schemars(regex(pattern = r"^(-1|0|[1-9][0-9]{0,8}(s|m|h))$"))]
    keep_alive: Option<String>,
    /// `gemini` and `ollama`: switches the model's thinking before the answer on or off, or sets
    /// its level. Default: the model's own.
    think: Option<Think>,
    /// Chat completions: leave `temperature` out, for reasoning models, which refuse it.
    #[serde(default)]
    no_temperature: bool,
    /// Chat completions: send `store: false`, so that the vendor keeps nothing of the conversation.
    #[serde(default)]
    no_store: bool,
    /// Chat completions: give the system prompt the role `developer`.
    #[serde(default)]
    developer_role: bool,
    /// Chat completions: send the tool's name with its result.
    #[serde(default)]
    named_tool_results: bool,
    /// Chat completions: insert an assistant message between the results of tools and the next user
    /// message.
    #[serde(default)]
    assistant_after_tools: bool,
    /// `compat:NAME`: sends PNG and JPEG images as parts of messages, for a server whose model sees
    /// them; otherwise they are described in words.
    #[serde(default)]
    images: bool,
    /// `compat:NAME`: sends `prompt_cache_key`, a digest that is the same for every letter of a thread, to a server that knows
    /// it; `openai` and `grok` send it by themselves.
    #[serde(default)]
    prompt_cache_key: bool,
    /// Chat completions: send `tools: []` where tools were called before and none is offered now.
    /// Otherwise those tools are described again.
    #[serde(default)]
    empty_tools: bool,
    /// Chat completions: send `strict: true` with tools and schemas; every schema must then name
    /// all properties as required and permit no others.
    #[serde(default)]
    strict_schemas: bool,
    /// Chat completions: reasoning effort of the model. Default: not sent.
    reasoning_effort: Option<Effort>,
    /// Chat completions: method by which JSON output is requested. Default: `json_schema`.
    structured_output: Option<StructuredOutput>,
    /// `openrouter`: `deny` excludes vendors that keep the data sent to them. Default: the
    /// account's setting.
    data_collection: Option<DataCollection>,
    /// `openrouter`: URL of the site that is named as the origin of the calls. Default: none.
    #[schemars(regex(pattern = r"^https?://[!-~]+$"))]
    attribution_url: Option<String>,
    /// Agents: name or path of the program. Default: the agent's own name, looked up on `PATH`.
    #[schemars(length(min = 1))]
    binary: Option<String>,
    /// Agents: actions that are permitted without our tools. Default: `read_only`.
    tier: Option<Tier>,
    /// Agents: permits a `tier` at which nothing of this program keeps the agent in its workspace,
    /// because a sandbox of yours does, or you bear what it does with your rights. It may then read
    /// everything that you can read, in runs of correspondents too.
    #[serde(default)]
    accept_unsandboxed: bool,
    /// Agents: further variables of the environment, or lines of `.secrets`, that the program may
    /// see.
    environment: Option<Vec<String>>,
}

/// Settings of one provider. Each adapter reads the fields that concern it.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Name in the configuration, for example `openai` or `compat:groq`; empty outside one.
    pub name: String,
    /// `https`, or `http` for loopback hosts and, with `plain_http`, for private networks.
    pub base_url: Option<String>,
    pub plain_http: bool,
    /// Key from the environment or `.secrets`, never from a config file.
    pub api_key: Option<SecretString>,
    /// Variable that holds the key; `None`: the provider needs none.
    pub key_variable: Option<String>,
    /// Model where a choice of this provider names none.
    pub model: Option<String>,
    /// Settings of its calls.
    pub settings: RunSettings,
    /// Further headers of every request.
    pub headers: Vec<ProviderHeader>,
    /// `scripted`: absolute path of the answers.
    pub script: Option<PathBuf>,
    /// Deviations of `openai`, `grok`, `openrouter` and `compat:NAME` from OpenAI's API.
    pub chat: ChatSwitches,
    /// `ollama`: tokens of question and answer together; `None` is the adapter's default.
    pub context_tokens: Option<u32>,
    /// `ollama`: time that the model stays loaded, in the vendor's syntax.
    pub keep_alive: Option<String>,
    /// `gemini`, `ollama`: `None` is the model's own default.
    pub think: Option<Think>,
    pub agent: AgentSettings,
    /// Keys of its block that its adapter reads.
    pub reads: Vec<&'static str>,
}

impl ProviderSettings {
    /// Returns the name in the configuration; outside one, the adapter's.
    pub fn name_or<'a>(&'a self, adapter: &'a str) -> &'a str {
        match self.name.as_str() {
            "" => adapter,
            name => name,
        }
    }

    /// Returns everything that is sent to it, or given to its program, in secret.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        let headers = self.headers.iter().filter_map(ProviderHeader::secret);
        let environment = self.agent.environment.iter().map(|(_, secret)| secret);
        self.api_key.iter().chain(headers).chain(environment)
    }
}

impl TypedProvider {
    /// Model of the block.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
    /// The variable of its key, where the block names one.
    pub fn key_variable(&self) -> Option<&str> {
        self.api_key_variable.as_deref()
    }
    /// Names of secrets in this block.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.api_key_variable
            .iter()
            .chain(self.environment.iter().flatten())
            .map(String::as_str)
            .chain(self.header_variables())
    }
    /// Names of secrets that are whole values of headers, their scheme included.
    pub fn header_variables(&self) -> impl Iterator<Item = &str> {
        headers::variables(self.headers.iter().flatten())
    }
}

/// Resolves the settings of every known provider, so that a persona may choose any of them; keys
/// are included.
pub fn resolve<'p>(
    blocks: impl Iterator<Item = (&'p String, &'p TypedProvider)>,
    place: &mut CheckPlace<'_, '_>,
) -> BTreeMap<String, ProviderSettings> {
    let blocks: BTreeMap<&String, &TypedProvider> = blocks.collect();
    let mut providers = BTreeMap::new();
    for name in place.ctx.provider_names() {
        let typed = blocks.get(&name).copied();
        let settings = one(&name, typed, &mut place.under(&name));
        providers.insert(name, settings);
    }
    for name in blocks.keys().filter(|name| !providers.contains_key(**name)) {
        let at = child(&place.pointer, name);
        let problem = place
            .file
            .problem_at_key(&at, format!("no provider `{name}`"));
        let problem = instances::explained(problem, name, place.ctx);
        place.ctx.report(problem);
    }
    providers
}

fn one(
    name: &str,
    typed: Option<&TypedProvider>,
    place: &mut CheckPlace<'_, '_>,
) -> ProviderSettings {
    let none = TypedProvider::default();
    let (is_there, typed) = (typed.is_some(), typed.unwrap_or(&none));
    let plain_http = typed.plain_http;
    let check = |url| check_base_url(url, plain_http);
    if let Some(Err((message, hint))) = typed.base_url.as_deref().map(check) {
        place.refuse("base_url", message, hint);
    }
    if is_there && typed.base_url.is_none() && name.starts_with(COMPAT) {
        let hint = "write the URL below which the server has `chat/completions`";
        place.refuse_key("", format!("provider `{name}` has no `base_url`"), hint);
    }
    if is_there {
        check_readers(name, place);
        check_chat_only(typed, place);
    }
    let (tier, tier_for_others) = tiers(name, typed, place);
    let (names, workspace, secrets) = (place.ctx.names, place.ctx.workspace, place.ctx.secrets);
    let own = typed.environment.iter().flatten().map(String::as_str);
    let visible = ENVIRONMENT.iter().copied().chain(own);
    let environment =
        visible.filter_map(|name| secrets.get(name).map(|value| (name.to_owned(), value)));
    let reads = names.settings.iter();
    let reads = reads.filter(|(id, _)| *id == adapter_of(name));
    let key_variable = place.ctx.key_variable(name);
    let settings = RunSettings {
        max_output_tokens: typed.max_output_tokens,
        temperature: typed.temperature.and_then(Temperature::from_number),
        ..RunSettings::default()
    };
    ProviderSettings {
        name: name.to_owned(),
        reads: reads.flat_map(|(_, keys)| keys.iter().copied()).collect(),
        base_url: typed.base_url.clone(),
        plain_http,
        api_key: key_variable
            .as_ref()
            .and_then(|variable| secrets.get(variable)),
        key_variable,
        model: typed.model.clone(),
        settings: run_settings::resolve(settings, typed.timeouts, place),
        headers: headers::resolve(typed.headers.iter().flatten(), &mut place.under("headers")),
        script: typed.script.as_ref().map(|script| workspace.join(script)),
        chat: switches(typed),
        context_tokens: typed.context_tokens,
        keep_alive: typed.keep_alive.clone(),
        think: typed.think,
        agent: AgentSettings {
            binary: typed.binary.clone(),
            found: None,
            tier,
            tier_for_others,
            accept_unsandboxed: typed.accept_unsandboxed,
            environment: environment.collect(),
            workspace: Some(workspace.to_path_buf()),
            stop_grace: None,
        },
    }
}

/// Returns the tier of an agent in runs of its owner, and in those of others. A tier at which nothing
/// keeps it from writing elsewhere is a problem, unless it is accepted.
fn tiers(name: &str, typed: &TypedProvider, place: &mut CheckPlace<'_, '_>) -> (Tier, Tier) {
    let tier = typed.tier.unwrap_or_default();
    let mut known = place.ctx.names.agents.iter();
    let known = known.find(|(id, _)| *id == adapter_of(name));
    let Some((_, bounds)) = known.filter(|_| !typed.accept_unsandboxed) else {
        return (tier, tier);
    };
    let bounds = *bounds;
    let held = match typed.base_url {
        Some(_) => bounds.writes_of_server,
        None => bounds.writes,
    };
    if tier > held {
        let message = format!(
            "at the tier `{}`, `{name}` can be told to write wherever you can write, and nothing here holds it",
            tier.as_str()
        );
        let hint = format!(
            "write `\"tier\": \"{}\"`; or run it in a sandbox of the operating system, and say so by \
             `\"accept_unsandboxed\": true`",
            held.as_str()
        );
        place.refuse("tier", message, hint);
    }
    match tier > bounds.reads {
        true => (tier, Tier::None),
        false => (tier, tier),
    }
}

/// Reports settings that only other adapters read: they would be ignored although an operator
/// relies on them.
fn check_readers(name: &str, place: &mut CheckPlace<'_, '_>) {
    let names = place.ctx.names;
    let (adapter, known) = (adapter_of(name), &names.settings);
    let block = place.file.value.pointer(&place.pointer);
    for (key, value) in block.and_then(Value::as_object).into_iter().flatten() {
        let readers = known
            .iter()
            .filter(|(_, keys)| keys.contains(&key.as_str()));
        let readers: Vec<&str> = readers.map(|(id, _)| *id).collect();
        // A setting without any reader is an unknown key, which is reported elsewhere.
        if readers.is_empty() || readers.contains(&adapter) || value.is_null() {
            continue;
        }
        let own = known.iter().find(|(id, _)| *id == adapter);
        let own = own.map(|(_, keys)| keys.join(", ")).unwrap_or_default();
        let message = format!(
            "`{adapter}` does not read it; it is a setting of {}",
            readers.join(", ")
        );
        place.refuse_key(key, message, &format!("`{adapter}` reads: {own}"));
    }
}

/// Reports settings of chat completions where the Responses API is chosen.
fn check_chat_only(typed: &TypedProvider, place: &mut CheckPlace<'_, '_>) {
    for key in CHAT_ONLY {
        let value = place.file.value.pointer(&place.at(key));
        if typed.api == Some(ChatApi::Responses) && value.is_some_and(|value| *value == true) {
            place.refuse_key(
                key,
                "it is a setting of chat completions, and `api` is `responses`",
                &format!("remove `{key}`, or write `\"api\": \"chat\"`"),
            );
        }
    }
}

fn switches(typed: &TypedProvider) -> ChatSwitches {
    ChatSwitches {
        api: typed.api.unwrap_or_default(),
        legacy_max_tokens: typed.legacy_max_tokens,
        no_stream_usage: typed.no_stream_usage,
        no_temperature: typed.no_temperature,
        no_store: typed.no_store,
        developer_role: typed.developer_role,
        named_tool_results: typed.named_tool_results,
        assistant_after_tools: typed.assistant_after_tools,
        images: typed.images,
        prompt_cache_key: typed.prompt_cache_key,
        empty_tools: typed.empty_tools,
        strict_schemas: typed.strict_schemas,
        reasoning_effort: typed.reasoning_effort,
        structured_output: typed.structured_output.unwrap_or_default(),
        data_collection: typed.data_collection,
        attribution_url: typed.attribution_url.clone(),
    }
}

/// Adds the names, key variables and models of the blocks, before the files are resolved.
pub fn introduce<'p>(
    blocks: impl Iterator<Item = (&'p String, &'p TypedProvider)>,
    ctx: &mut CheckContext<'_>,
) {
    for (name, typed) in blocks {
        if instances::is_name(name, ctx) {
            ctx.instances.push(name.clone());
        }
        if let Some(variable) = typed.key_variable() {
            ctx.key_variables.insert(name.clone(), variable.to_owned());
        }
        if let Some(model) = typed.model() {
            ctx.models.insert(name.clone(), model.to_owned());
        }
    }
}

/// Checks that a provider in use can answer; else returns a message (no key, no script) and a hint.
pub fn unready(
    name: &str,
    providers: &BTreeMap<String, ProviderSettings>,
    ctx: &CheckContext<'_>,
) -> Option<(String, String)> {
    let settings = providers.get(name)?;
    if adapter_of(name) == "scripted" && settings.script.is_none() {
        let hint = format!(
            "write `\"providers\": {{\"{name}\": {{\"script\": \"configs/script.json\"}}}}`"
        );
        return Some((format!("provider `{name}` has no script"), hint));
    }
    let variable = ctx.key_variable(name)?;
    let local = settings
        .base_url
        .as_deref()
        .is_some_and(|url| is_near_url(url, settings.plain_http));
    (settings.api_key.is_none() && !local).then(|| {
        let hint = ctx.how_to_set(&variable);
        (
            format!("provider `{name}` has no key: `{variable}` is not set"),
            hint,
        )
    })
}
