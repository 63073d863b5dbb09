//! Loads the configuration: reads every file, checks every file, and only then returns a
//! [`Config`].

mod again;
mod consistency;
mod letters;
mod personas;

pub use again::{ReadAgain, load_again};

use super::gateway::outbound::PASSWORD_VARIABLE;
use super::inference::prices;
use super::values::check_context::{CheckContext, adapter_of};
use super::values::name_catalog::NameCatalog;
use crate::config::file::{
    CONTEXT_FILE, ConfigErrors, ConfigFile, ConfigLocation, GATEWAY_FILE, HOOKS_FILE,
    INFERENCE_FILE, KEEPING_FILE, KeptFiles, POLICY_FILE, PRICES_FILE, Problem, SECURITY_FILE,
    SKILLS_FILE, Snapshot, WEB_FILE, open_files,
};
use crate::config::gateway::TypedGateway;
use crate::config::inference::headers::ProviderHeader;
use crate::config::inference::{TypedInference, providers};
use crate::config::personas::Personas;
use crate::config::secrets::{DATABASE_VARIABLE, STAND_IN, Secrets, is_stand_in};
use crate::config::settings::Config;
use crate::config::warnings::CheckedFiles;
use crate::config::{
    context, gateway, hooks, inference, keeping, mcp, own_tools, policy, secrets, security, skills,
    warnings, web,
};
use crate::domain::LoopKey;
use secrecy::{ExposeSecret, SecretString};
use std::path::Path;
use std::sync::Arc;

/// Variable of the secret by which several engines recognise each other's mail.
const LOOP_KEY_VARIABLE: &str = "ATTACHE_LOOP_KEY";

/// Reads and checks `configs/*.json`, `personas/*/persona.json`, `.secrets` and the environment.
///
/// A persona with a faulty file is out of service ([`Personas::out_of_service`]) and stops no other
/// persona: less trusted programs than those that write `configs/` may write its folder.
/// `workspace` must be absolute. Errors: every problem of every file, at once, when any other file
/// is faulty or no persona is left.
pub fn load(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    load_with(workspace, names, &secrets::environment)
}

/// [`load`] for a process that calls no provider and therefore has no secrets: the tool server that
/// an agent starts, which sees only the agent's part of the environment. Other problems are errors
/// as in [`load`].
pub fn load_without_secrets(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    // Of all secrets only the key by which engines recognise each other's mail would be used:
    // unless it is in `.secrets` or in the agent's environment, the key of the database takes its
    // place.
    let environment = |name: &str| secrets::environment(name).or_else(|| stand_in(name));
    let mut config = load_with(workspace, names, &environment)?;
    if let Some(search) = &mut config.web.search {
        search.key.take_if(|key| is_stand_in(key));
    }
    for tool in &mut config.own_tools {
        tool.values.retain(|(_, value)| !is_stand_in(value));
    }
    for server in &mut config.mcp {
        server.values.retain(|(_, value)| !is_stand_in(value));
        for header in &mut server.headers {
            header.value.take_if(|value| is_stand_in(value));
        }
        if let Some(oauth) = &mut server.oauth {
            oauth.client_secret.take_if(|secret| is_stand_in(secret));
        }
    }
    Ok(config)
}

/// [`load`] as if nothing were wrong with `.secrets`, whose faulty values are placeholders: for a look at everything else.
pub fn load_beside_secrets(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    let location = ConfigLocation::Folder(workspace);
    let (secrets, _) = secrets_of(location, workspace, &secrets::environment);
    load_given(location, workspace, names, &secrets, Vec::new())
}

/// [`load`] for a process that calls one provider of its own choice: missing secrets of other
/// providers are no error. A missing key is `None`.
pub fn load_for_one(workspace: &Path, names: &NameCatalog) -> Result<Config, ConfigErrors> {
    let mut config = load_without_secrets(workspace, names)?;
    for settings in config.inference.providers.values_mut() {
        settings.api_key.take_if(|key| is_stand_in(key));
        let has_value = |header: &ProviderHeader| !header.secret().is_some_and(is_stand_in);
        settings.headers.retain(has_value);
        settings
            .agent
            .environment
            .retain(|(_, value)| !is_stand_in(value));
    }
    config.secrets.retain(|secret| !is_stand_in(secret));
    Ok(config)
}

/// [`load_snapshot`] of an imported run, to call a provider with our own keys. Base URLs, headers, the
/// agents' programs and variable names come from the snapshot's author and are not used: our keys
/// go only to the vendors' own addresses.
///
/// Errors: every problem, including those of `.secrets` in `workspace`.
pub fn load_foreign(
    workspace: &Path,
    names: &NameCatalog,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    let mut config = load_snapshot(workspace, names, snapshot)?;
    let mut problems = Vec::new();
    let secrets = Secrets::read(workspace, &secrets::environment, &mut problems);
    if let Some(errors) = ConfigErrors::from_problems(problems) {
        return Err(errors);
    }
    for (name, settings) in &mut config.inference.providers {
        let mut usual = names.key_variables.iter();
        settings.key_variable = usual
            .find(|(provider, _)| *provider == adapter_of(name))
            .map(|(_, variable)| (*variable).to_owned());
        settings.api_key = settings
            .key_variable
            .as_ref()
            .and_then(|variable| secrets.get(variable));
        settings.base_url = None;
        settings.headers.clear();
        settings.agent.binary = None;
        settings.agent.environment.clear();
    }
    config.secrets = config
        .inference
        .providers
        .values()
        .filter_map(|settings| settings.api_key.clone())
        .collect();
    Ok(config)
}

/// Loads the configuration of a snapshot from its files alone: without secrets and signing keys.
///
/// Errors: every problem, as this version of the program finds it.
pub fn load_snapshot(
    workspace: &Path,
    names: &NameCatalog,
    snapshot: &Snapshot,
) -> Result<Config, ConfigErrors> {
    load_from(
        ConfigLocation::Snapshot(snapshot),
        workspace,
        names,
        &stand_in,
    )
}

/// Returns a placeholder for a secret that this process has no access to.
fn stand_in(name: &str) -> Option<String> {
    (name != LOOP_KEY_VARIABLE).then(|| STAND_IN.to_owned())
}

/// [`load`] with another environment, a function from variable names to values.
pub fn load_with(
    workspace: &Path,
    names: &NameCatalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    load_from(
        ConfigLocation::Folder(workspace),
        workspace,
        names,
        environment,
    )
}

/// [`load_with`] as if these texts, by path, stood in the workspace, in place of its files or beside them.
pub fn load_staged(
    workspace: &Path,
    names: &NameCatalog,
    texts: &KeptFiles,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    let location = ConfigLocation::FolderWith(workspace, texts);
    load_from(location, workspace, names, environment)
}

/// [`load_staged`] for a process that calls no provider: a secret that this process does not see is no problem.
pub fn load_staged_without_secrets(
    workspace: &Path,
    names: &NameCatalog,
    texts: &KeptFiles,
) -> Result<Config, ConfigErrors> {
    let environment = |name: &str| secrets::environment(name).or_else(|| stand_in(name));
    load_staged(workspace, names, texts, &environment)
}

/// Reads the secrets and the problems of their file; a snapshot has none.
fn secrets_of<'e>(
    location: ConfigLocation<'_>,
    workspace: &Path,
    environment: &'e dyn Fn(&str) -> Option<String>,
) -> (Secrets<'e>, Vec<Problem>) {
    let mut problems = Vec::new();
    let secrets = match location {
        ConfigLocation::Folder(_) | ConfigLocation::FolderWith(..) => {
            Secrets::read(workspace, environment, &mut problems)
        }
        ConfigLocation::Snapshot(_) => Secrets::only(environment),
    };
    (secrets, problems)
}

fn load_from(
    location: ConfigLocation<'_>,
    workspace: &Path,
    names: &NameCatalog,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, ConfigErrors> {
    let (secrets, problems) = secrets_of(location, workspace, environment);
    load_given(location, workspace, names, &secrets, problems)
}

/// [`load`] with secrets that were read, and the problems of their file.
fn load_given(
    location: ConfigLocation<'_>,
    workspace: &Path,
    names: &NameCatalog,
    secrets: &Secrets<'_>,
    problems: Vec<Problem>,
) -> Result<Config, ConfigErrors> {
    let mut checks = CheckContext::new(location, workspace, names, (secrets, problems));
    let ctx = &mut checks;
    ctx.persona_ids = personas::list(ctx);
    let files = TypedFiles::read(ctx);
    if let Some(file) = &files.inference {
        providers::introduce(file.typed.provider_blocks(), ctx);
    }
    let known_secrets = files.known_secrets(ctx);
    let gateway = files.gateway.as_ref();
    let gateway = gateway.map(|file| (file, gateway::resolve(file, ctx)));
    let inference = files.inference.as_ref();
    let inference = inference.map(|file| (file, inference::resolve(file, ctx)));
    let context = files.context.as_ref();
    let context = context.map(|file| context::resolve(file, ctx));
    let security = files.security.as_ref();
    let security = security.map(|file| (file, security::resolve(file, ctx)));
    let prices = prices::resolve(&files.prices, ctx);
    let policy = policy::resolve(&files.policy, ctx);
    let hooks = hooks::resolve(&files.hooks, ctx);
    let keeping = keeping::resolve(&files.keeping, ctx);
    let web = web::resolve(&files.web, ctx);
    let skills = skills::resolve(&files.skills, ctx);
    let own_tools = own_tools::resolve(&files.own_tools, ctx);
    let mcp = mcp::resolve(&files.mcp, ctx);
    let open = open_to_others(&hooks, &own_tools, &mcp, ctx);
    // Without a mail domain, addresses are checked in a reserved one (RFC 2606 section 2).
    let resolved = gateway
        .as_ref()
        .map(|(file, (gateway, _))| (*file, gateway));
    let domain = resolved.map_or("unknown.invalid", |(_, gateway)| {
        gateway.mail_domain.as_str()
    });
    let persona_files = personas::read(domain, (&policy.rules, &skills), ctx);
    consistency::check_addresses(resolved, &persona_files, ctx);
    if let Some((file, inference)) = &inference {
        consistency::check_providers(file, inference, &persona_files, ctx);
    }
    let people = resolved.zip(security.as_ref());
    let people = people.map(|((_, gateway), (_, security))| (gateway, security));
    letters::check(&persona_files, context.as_ref(), people, ctx);
    let mut warnings = match (resolved, &inference, &security) {
        (Some(gateway), Some((file, inference)), Some((of_security, security))) => {
            warnings::all(&CheckedFiles {
                gateway,
                inference: (file, inference),
                security: (of_security, security),
                personas: &persona_files,
                ctx,
            })
        }
        _ => Vec::new(),
    };
    warnings.extend(open);
    let (personas, out_of_service) = personas::split(persona_files, domain, ctx)?;
    let personas = Personas::new(personas).map(|personas| personas.without(out_of_service, domain));
    let unsaid = |what: &str| ConfigErrors {
        problems: vec![Problem::in_file("configs", what)],
    };
    let missing = |file: &str| unsaid(&format!("the {file} file is missing"));
    let (_, (gateway, limits)) = gateway.ok_or_else(|| missing("gateway's"))?;
    Ok(Config {
        workspace: workspace.to_owned(),
        program: std::env::current_exe().unwrap_or_default(),
        gateway,
        inference: inference.ok_or_else(|| missing("inference"))?.1,
        prices,
        context: context.ok_or_else(|| missing("context"))?,
        security: security.ok_or_else(|| missing("security"))?.1,
        policy,
        hooks,
        keeping,
        web,
        skills,
        own_tools,
        mcp,
        limits,
        personas: personas.map_err(|error| unsaid(&error.to_string()))?,
        warnings,
        secrets: known_secrets,
        names: names.clone(),
        snapshot: Arc::new(checks.source.snapshot()),
        loop_key: secrets
            .get(LOOP_KEY_VARIABLE)
            .map(|key| LoopKey::new(key.expose_secret().as_bytes())),
    })
}

/// Reports files of the configuration, and programs, that other users of the machine may write; returns the warnings.
fn open_to_others(
    hooks: &[hooks::Hook],
    own_tools: &[own_tools::OwnTool],
    mcp: &[mcp::McpServer],
    ctx: &mut CheckContext<'_>,
) -> Vec<Problem> {
    let workspace = ctx.workspace;
    let commands = (hooks
        .iter()
        .map(|hook| (hook.command.as_slice(), workspace)))
    .chain(
        own_tools
            .iter()
            .map(|tool| (tool.command.as_slice(), tool.folder.as_path())),
    )
    .chain(
        mcp.iter()
            .map(|server| (server.command.as_slice(), server.folder.as_path())),
    );
    if !ctx.source.has_world() {
        return Vec::new();
    }
    let (problems, warnings) = open_files::problems(workspace, commands);
    ctx.problems.extend(problems);
    warnings
}

/// The files of `configs/`; `None`: the file could not be read. An optional one that does not exist is empty.
struct TypedFiles {
    gateway: Option<ConfigFile<TypedGateway>>,
    inference: Option<ConfigFile<TypedInference>>,
    context: Option<ConfigFile<context::TypedContext>>,
    security: Option<ConfigFile<security::TypedSecurity>>,
    prices: ConfigFile<prices::TypedPrices>,
    policy: ConfigFile<policy::TypedPolicy>,
    hooks: ConfigFile<hooks::TypedHooks>,
    keeping: ConfigFile<keeping::TypedKeeping>,
    web: ConfigFile<web::TypedWeb>,
    skills: ConfigFile<skills::TypedSkills>,
    own_tools: own_tools::OwnToolFiles,
    mcp: mcp::McpFiles,
}

impl TypedFiles {
    fn read(ctx: &mut CheckContext<'_>) -> Self {
        Self {
            gateway: ctx.read(GATEWAY_FILE),
            inference: ctx.read(INFERENCE_FILE),
            prices: ctx.read_optional(PRICES_FILE),
            context: ctx.read(CONTEXT_FILE),
            security: ctx.read(SECURITY_FILE),
            policy: ctx.read_optional(POLICY_FILE),
            hooks: ctx.read_optional(HOOKS_FILE),
            keeping: ctx.read_optional(KEEPING_FILE),
            web: ctx.read_optional(WEB_FILE),
            skills: ctx.read_optional(SKILLS_FILE),
            own_tools: own_tools::read(ctx),
            mcp: mcp::read(ctx),
        }
    }

    /// Values of all secrets that a file names; names in `.secrets` that no file uses are warnings.
    fn known_secrets(&self, ctx: &mut CheckContext<'_>) -> Vec<SecretString> {
        let names = ctx.names;
        let of_gateway = self.gateway.as_ref().map(|file| file.typed.variables());
        let inference = self.inference.as_ref();
        let blocks = || {
            inference
                .into_iter()
                .flat_map(|file| file.typed.provider_blocks())
        };
        let own_tools = self.own_tools.iter();
        let known: Vec<&str> = (names.key_variables.iter().map(|(_, variable)| *variable))
            .chain(blocks().flat_map(|(_, typed)| typed.variables()))
            .chain([LOOP_KEY_VARIABLE, DATABASE_VARIABLE])
            .chain(of_gateway.unwrap_or_else(|| vec![PASSWORD_VARIABLE]))
            .chain(own_tools.flat_map(|(_, file)| file.typed.variables()))
            .chain(self.mcp.variables())
            .chain(self.web.typed.variables())
            .collect();
        // Those that are whole values of headers, their scheme included.
        let gateway = self.gateway.iter();
        let headers: Vec<&str> = gateway
            .filter_map(|file| file.typed.header_variable())
            .chain(blocks().flat_map(|(_, typed)| typed.header_variables()))
            .chain(self.mcp.header_variables())
            .collect();
        ctx.doubtful_secrets = ctx.secrets.doubtful(&known, &headers);
        ctx.doubtful_secrets.extend(ctx.secrets.unknown(&known));
        ctx.known_secrets = known.iter().map(|name| (*name).to_owned()).collect();
        let values = known.iter().filter_map(|name| ctx.secrets.get(name));
        values.collect()
    }
}
