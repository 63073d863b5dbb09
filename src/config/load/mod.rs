//! Loads the configuration: reads every file, checks every file, and only then returns a
//! [`Config`].

mod again;
mod consistency;
mod letters;
mod personas;

pub use again::{ReadAgain, load_again};

use super::gateway::limits::Limits;
use super::gateway::outbound::PASSWORD_VARIABLE;
use super::inference::prices;
use super::inference::prices::{Prices, TypedPrices};
use super::values::check_context::CheckContext;
use super::values::name_catalog::NameCatalog;
use crate::config::context::{ContextProfile, TypedContext};
use crate::config::file::{
    CONTEXT_FILE, ConfigErrors, ConfigFile, ConfigLocation, GATEWAY_FILE, HOOKS_FILE,
    INFERENCE_FILE, KEEPING_FILE, KeptFiles, POLICY_FILE, PRICES_FILE, Problem, SECURITY_FILE,
    SKILLS_FILE, Snapshot, WEB_FILE, open_files,
};
use crate::config::gateway::{Gateway, TypedGateway};
use crate::config::hooks::{Hook, TypedHooks};
use crate::config::inference::headers::ProviderHeader;
use crate::config::inference::{Inference, TypedInference, providers};
use crate::config::keeping::{KeepingSettings, TypedKeeping};
use crate::config::mcp::{McpFiles, McpServer};
use crate::config::own_tools::{OwnTool, OwnToolFiles};
use crate::config::persona::{Persona, TypedPersona};
use crate::config::personas::Personas;
use crate::config::policy::{PolicySettings, TypedPolicy};
use crate::config::secrets::{DATABASE_VARIABLE, STAND_IN, Secrets, is_stand_in};
use crate::config::security::{Security, TypedSecurity};
use crate::config::settings::Config;
use crate::config::skills::{PinnedSkill, TypedSkills};
use crate::config::values::check_context::adapter_of;
use crate::config::warnings::CheckedFiles;
use crate::config::web::{TypedWeb, WebSettings};
use crate::config::{
    context, gateway, hooks, inference, keeping, mcp, own_tools, policy, secrets, security, skills,
    warnings, web,
};
use crate::domain::LoopKey;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;
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
    load_given(location, workspace, names, (&secrets, Vec::new()))
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
    if let Some(errors) = ConfigErrors::of(problems) {
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
    load_given(location, workspace, names, (&secrets, problems))
}

/// [`load`] with secrets that were read, and the problems of their file.
fn load_given(
    location: ConfigLocation<'_>,
    workspace: &Path,
    names: &NameCatalog,
    (secrets, problems): (&Secrets<'_>, Vec<Problem>),
) -> Result<Config, ConfigErrors> {
    let mut ctx = CheckContext::new(location, workspace, names, (secrets, problems));
    ctx.persona_ids = personas::list(&mut ctx);
    let files = TypedFiles::read(&mut ctx);
    if let Some(file) = &files.inference {
        providers::introduce(file.typed.provider_blocks(), &mut ctx);
    }
    let known_secrets = files.known_secrets(&mut ctx);
    let settings = files.resolve(&mut ctx);
    let open = check_modes(&settings, &mut ctx);
    let gateway = settings.gateway.as_ref().map(|(gateway, _)| gateway);
    // Without a mail domain, addresses are checked in a reserved one (RFC 2606 section 2).
    let domain = gateway.map_or("unknown.invalid", |gateway| gateway.mail_domain.as_str());
    let policy = settings.policy.clone().unwrap_or_default();
    let persona_files = personas::read(domain, (&policy.rules, &settings.skills), &mut ctx);
    consistency::check_addresses(files.gateway.as_ref(), gateway, &persona_files, &mut ctx);
    if let (Some(file), Some(inference)) = (&files.inference, &settings.inference) {
        consistency::check_providers(file, inference, &persona_files, &mut ctx);
    }
    let people = gateway.zip(settings.security.as_ref());
    letters::check(&persona_files, settings.context.as_ref(), people, &mut ctx);
    let mut warnings = files.warnings(&settings, &persona_files, &ctx);
    warnings.extend(open);
    let (personas, out_of_service) = personas::split(persona_files, domain, &mut ctx)?;
    let personas = Personas::new(personas).map(|personas| personas.without(out_of_service, domain));
    let unsaid = |what: &str| ConfigErrors {
        problems: vec![Problem::of_file("configs", what)],
    };
    let missing = |file: &str| unsaid(&format!("the {file} file is missing"));
    let (gateway, limits) = settings.gateway.ok_or_else(|| missing("gateway's"))?;
    Ok(Config {
        workspace: workspace.to_owned(),
        program: std::env::current_exe().unwrap_or_default(),
        gateway,
        inference: settings.inference.ok_or_else(|| missing("inference"))?,
        prices: settings.prices.unwrap_or_default(),
        context: settings.context.ok_or_else(|| missing("context"))?,
        security: settings.security.ok_or_else(|| missing("security"))?,
        policy,
        hooks: settings.hooks,
        keeping: settings.keeping,
        web: settings.web,
        skills: settings.skills,
        own_tools: settings.own_tools,
        mcp: settings.mcp,
        limits,
        personas: personas.map_err(|error| unsaid(&error.to_string()))?,
        warnings,
        secrets: known_secrets,
        names: names.clone(),
        snapshot: Arc::new(ctx.source.snapshot()),
        loop_key: secrets
            .get(LOOP_KEY_VARIABLE)
            .map(|key| LoopKey::new(key.expose_secret().as_bytes())),
    })
}

/// Reports files of the configuration, and programs, that other users of the machine may write; returns the warnings.
fn check_modes(settings: &ResolvedFiles, ctx: &mut CheckContext<'_>) -> Vec<Problem> {
    if !ctx.source.has_world() {
        return Vec::new();
    }
    let workspace = ctx.workspace;
    let hooks = settings.hooks.iter();
    let hooks = hooks.map(|hook| (hook.command.as_slice(), workspace));
    let tools = settings.own_tools.iter();
    let tools = tools.map(|tool| (tool.command.as_slice(), tool.folder.as_path()));
    let servers = settings.mcp.iter();
    let servers = servers.map(|server| (server.command.as_slice(), server.folder.as_path()));
    let (problems, warnings) = open_files::problems(workspace, hooks.chain(tools).chain(servers));
    for problem in problems {
        ctx.report(problem);
    }
    warnings
}

/// The files of `configs/`; `None`: the file could not be read, or an optional one does not exist.
struct TypedFiles {
    gateway: Option<ConfigFile<TypedGateway>>,
    inference: Option<ConfigFile<TypedInference>>,
    prices: Option<ConfigFile<TypedPrices>>,
    context: Option<ConfigFile<TypedContext>>,
    security: Option<ConfigFile<TypedSecurity>>,
    policy: Option<ConfigFile<TypedPolicy>>,
    hooks: Option<ConfigFile<TypedHooks>>,
    keeping: Option<ConfigFile<TypedKeeping>>,
    web: Option<ConfigFile<TypedWeb>>,
    skills: Option<ConfigFile<TypedSkills>>,
    own_tools: OwnToolFiles,
    mcp: McpFiles,
}

/// Resolved settings of [`TypedFiles`].
struct ResolvedFiles {
    gateway: Option<(Gateway, Limits)>,
    inference: Option<Inference>,
    prices: Option<Prices>,
    context: Option<BTreeMap<String, ContextProfile>>,
    security: Option<Security>,
    policy: Option<PolicySettings>,
    hooks: Vec<Hook>,
    keeping: KeepingSettings,
    web: WebSettings,
    skills: Vec<PinnedSkill>,
    own_tools: Vec<OwnTool>,
    mcp: Vec<McpServer>,
}

impl TypedFiles {
    fn read(ctx: &mut CheckContext<'_>) -> Self {
        Self {
            gateway: ctx.read(GATEWAY_FILE),
            inference: ctx.read(INFERENCE_FILE),
            prices: ctx.read_if_there(PRICES_FILE),
            context: ctx.read(CONTEXT_FILE),
            security: ctx.read(SECURITY_FILE),
            policy: ctx.read_if_there(POLICY_FILE),
            hooks: ctx.read_if_there(HOOKS_FILE),
            keeping: ctx.read_if_there(KEEPING_FILE),
            web: ctx.read_if_there(WEB_FILE),
            skills: ctx.read_if_there(SKILLS_FILE),
            own_tools: own_tools::read(ctx),
            mcp: mcp::read(ctx),
        }
    }

    fn resolve(&self, ctx: &mut CheckContext<'_>) -> ResolvedFiles {
        ResolvedFiles {
            gateway: self
                .gateway
                .as_ref()
                .map(|file| gateway::resolve(file, ctx)),
            inference: self
                .inference
                .as_ref()
                .map(|file| inference::resolve(file, ctx)),
            prices: self.prices.as_ref().map(|file| prices::resolve(file, ctx)),
            context: self
                .context
                .as_ref()
                .map(|file| context::resolve(file, ctx)),
            security: self
                .security
                .as_ref()
                .map(|file| security::resolve(file, ctx)),
            policy: self.policy.as_ref().map(|file| policy::resolve(file, ctx)),
            hooks: (self.hooks.as_ref()).map_or_else(Vec::new, |file| hooks::resolve(file, ctx)),
            keeping: (self.keeping.as_ref())
                .map_or_else(KeepingSettings::default, |file| keeping::resolve(file, ctx)),
            web: (self.web.as_ref())
                .map_or_else(WebSettings::default, |file| web::resolve(file, ctx)),
            skills: (self.skills.as_ref()).map_or_else(Vec::new, |file| skills::resolve(file, ctx)),
            own_tools: own_tools::resolve(&self.own_tools, ctx),
            mcp: mcp::resolve(&self.mcp, ctx),
        }
    }

    /// Values of all secrets that a file names; names in `.secrets` that no file uses are warnings.
    fn known_secrets(&self, ctx: &mut CheckContext<'_>) -> Vec<SecretString> {
        let gateway = self.gateway.as_ref().map(|file| &file.typed);
        let inference = self.inference.as_ref().map(|file| &file.typed);
        let password = gateway.map_or(PASSWORD_VARIABLE, TypedGateway::password_variable);
        let keys = ctx
            .names
            .key_variables
            .iter()
            .map(|(_, variable)| *variable);
        let mailboxes = gateway
            .into_iter()
            .flat_map(TypedGateway::mailbox_variables);
        let submission = gateway
            .into_iter()
            .flat_map(TypedGateway::submission_variables);
        let webhooks = gateway
            .into_iter()
            .flat_map(TypedGateway::webhook_variables);
        let telemetry = gateway
            .into_iter()
            .flat_map(TypedGateway::telemetry_variables);
        let search = self.web.iter().filter_map(|file| file.typed.variables());
        let own_tools = self.own_tools.iter();
        let own_tools = own_tools.flat_map(|(_, file)| file.typed.variables());
        let blocks = inference
            .into_iter()
            .flat_map(TypedInference::provider_blocks);
        let named = blocks.flat_map(|(_, typed)| typed.variables());
        let known = keys
            .chain(named)
            .chain([password, LOOP_KEY_VARIABLE, DATABASE_VARIABLE])
            .chain(mailboxes)
            .chain(submission)
            .chain(webhooks)
            .chain(telemetry)
            .chain(own_tools)
            .chain(self.mcp.variables())
            .chain(search)
            .collect::<Vec<_>>();
        ctx.doubtful_secrets = ctx.secrets.doubtful(&known, &self.header_variables());
        ctx.doubtful_secrets.extend(ctx.secrets.unknown(&known));
        ctx.known_secrets = known.iter().map(|name| (*name).to_owned()).collect();
        known
            .iter()
            .filter_map(|name| ctx.secrets.get(name))
            .collect()
    }

    /// Names of the secrets that are whole values of headers, their scheme included.
    fn header_variables(&self) -> Vec<&str> {
        let gateway = self.gateway.iter();
        let inference = self.inference.iter();
        let blocks = inference.flat_map(|file| file.typed.provider_blocks());
        let of_providers = blocks.flat_map(|(_, typed)| typed.header_variables());
        gateway
            .filter_map(|file| file.typed.header_variable())
            .chain(of_providers)
            .chain(self.mcp.header_variables())
            .collect()
    }

    fn warnings(
        &self,
        settings: &ResolvedFiles,
        personas: &[(ConfigFile<TypedPersona>, Persona)],
        ctx: &CheckContext<'_>,
    ) -> Vec<Problem> {
        let gateway = self.gateway.as_ref().zip(settings.gateway.as_ref());
        let inference = self.inference.as_ref().zip(settings.inference.as_ref());
        let security = self.security.as_ref().zip(settings.security.as_ref());
        let (Some((file, (gateway, _))), Some(inference), Some(security)) =
            (gateway, inference, security)
        else {
            return Vec::new();
        };
        warnings::all(&CheckedFiles {
            gateway: (file, gateway),
            inference,
            security,
            personas,
            ctx,
        })
    }
}
