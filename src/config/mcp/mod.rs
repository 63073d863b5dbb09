//! `configs/mcp.json`: servers of the Model Context Protocol whose tools the personas may use, and what of them is approved.

mod login;
mod pins;
mod typed;

pub use login::McpOAuth;
pub use pins::{McpPins, McpServerPin, McpToolPin, PinnedFile, definition_sha256};
pub use typed::TypedMcp;

use super::secrets;
use super::values::check_context::CheckContext;
use crate::config::TOOL_TIMEOUT_MAX;
use crate::config::file::duration;
use crate::config::file::{ConfigFile, MCP_FILE, MCP_LOCK_FILE, child};
use crate::config::own_tools::{OwnToolClass, OwnToolEffects, ToolSenders};
use crate::domain::{Address, PersonaId, Readers};
use crate::web::private_target;
use secrecy::SecretString;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use typed::{AudienceWord, TypedAudience, TypedMcpServer, TypedMcpTool};

const SERVERS_MAX: usize = 20;
/// Most tools of all servers: the model reads them all.
const TOOLS_MAX: usize = 100;
/// Most characters of a tool's name that every provider takes.
const NAME_CHARS_MAX: usize = 64;
/// Most bytes of an approved schema of arguments, and of the results.
pub const SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Most bytes of an approved description.
pub const DESCRIPTION_BYTES_MAX: usize = 2048;
/// Variables of the engine's environment that every such program sees. Keys are not among them.
const ENVIRONMENT: &[&str] = &["PATH", "HOME", "LANG", "LC_ALL", "TZ"];

/// A server whose tools may be offered.
#[derive(Debug, Clone, Serialize)]
pub struct McpServer {
    #[serde(skip)]
    pub name: String,
    /// Empty: it is reached at `url`.
    pub command: Vec<String>,
    pub url: Option<String>,
    /// Names of the variables that its program sees beside the usual ones.
    pub environment: Vec<String>,
    pub headers: Vec<McpHeader>,
    /// Client by which its owner logs in, as far as it is named.
    pub oauth: Option<McpOAuth>,
    /// By the server's own names.
    pub tools: BTreeMap<String, McpTool>,
    /// Readers of what it is sent, and of what it answers.
    #[serde(serialize_with = "as_typed")]
    pub audience: Readers,
    /// Empty: all.
    pub personas: Vec<PersonaId>,
    #[serde(with = "duration::text")]
    pub timeout: Duration,
    /// Folder in which its program is started: the workspace.
    #[serde(skip)]
    pub folder: PathBuf,
    /// All variables that its program sees, with their values.
    #[serde(skip)]
    pub values: Vec<(String, SecretString)>,
    /// Files that must be as they were when its tools were approved.
    #[serde(skip)]
    pub files: Vec<PinnedFile>,
}

/// A header field with its secret.
#[derive(Debug, Clone, Serialize)]
pub struct McpHeader {
    pub name: String,
    pub variable: String,
    #[serde(skip)]
    pub value: Option<SecretString>,
}

/// A tool that may be offered.
#[derive(Debug, Clone, Serialize)]
pub struct McpTool {
    /// Name that the model calls it by.
    #[serde(skip)]
    pub offered: String,
    pub class: OwnToolClass,
    pub effects: OwnToolEffects,
    pub senders: ToolSenders,
    /// `None`: it is not approved, so it is not offered.
    #[serde(skip)]
    pub pin: Option<ApprovedTool>,
}

/// A definition that the owner has approved.
#[derive(Debug, Clone)]
pub struct ApprovedTool {
    pub sha256: String,
    /// Whole object that the server sent.
    pub definition: Value,
}

fn as_typed<S: Serializer>(audience: &Readers, to: S) -> Result<S::Ok, S::Error> {
    match audience {
        Readers::Everyone => AudienceWord::Everyone.serialize(to),
        Readers::Only(addresses) if addresses.is_empty() => AudienceWord::Owner.serialize(to),
        Readers::Only(addresses) => addresses.serialize(to),
    }
}

/// The two files about servers.
pub struct McpFiles {
    servers: Option<ConfigFile<TypedMcp>>,
    pins: McpPins,
}

impl McpFiles {
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().flat_map(|file| file.typed.variables())
    }
    /// Names of the variables that are whole values of headers, their scheme included.
    pub fn header_variables(&self) -> impl Iterator<Item = &str> {
        let files = self.servers.iter();
        files.flat_map(|file| file.typed.header_variables())
    }
}

/// Reads the files. The names of the tools count for the other files from here on.
pub fn read(ctx: &mut CheckContext<'_>) -> McpFiles {
    let servers = ctx.read_if_there::<TypedMcp>(MCP_FILE);
    let pins = ctx.read_if_there::<McpPins>(MCP_LOCK_FILE);
    for (server, typed) in servers.iter().flat_map(|file| &file.typed.servers) {
        let names = typed.tools.keys().map(|tool| offered_name(server, tool));
        ctx.own_tools.extend(names);
    }
    McpFiles {
        servers,
        pins: pins.map(|file| file.typed).unwrap_or_default(),
    }
}

/// Returns the name by which the model calls a tool: with its server before it, in the letters that every provider takes.
fn offered_name(server: &str, tool: &str) -> String {
    let legal = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        _ => '_',
    };
    format!("{server}__{}", tool.chars().map(legal).collect::<String>())
}

/// Resolves the files. Problems go to the context.
pub fn resolve(files: &McpFiles, ctx: &mut CheckContext<'_>) -> Vec<McpServer> {
    let Some(file) = &files.servers else {
        return Vec::new();
    };
    let servers = &file.typed.servers;
    let tools: usize = servers.values().map(|server| server.tools.len()).sum();
    if servers.len() > SERVERS_MAX || tools > TOOLS_MAX {
        let what = format!("names more than {SERVERS_MAX} servers or {TOOLS_MAX} tools");
        ctx.refuse(
            file,
            "/servers",
            what,
            "a model that reads so many chooses badly; keep the ones in use",
        );
    }
    let resolved = servers.iter().map(|(name, typed)| {
        let pin = files.pins.servers.get(name);
        Resolving { file, name, typed }.server(pin, ctx)
    });
    resolved.collect()
}

/// One server of the file.
struct Resolving<'f> {
    file: &'f ConfigFile<TypedMcp>,
    name: &'f str,
    typed: &'f TypedMcpServer,
}

impl Resolving<'_> {
    fn at(&self, member: &str) -> String {
        let of_server = child("/servers", self.name);
        match member {
            "" => of_server,
            member => format!("{of_server}/{member}"),
        }
    }

    fn server(&self, pin: Option<&McpServerPin>, ctx: &mut CheckContext<'_>) -> McpServer {
        self.check_name(ctx);
        self.check_way(ctx);
        if self.typed.timeout.is_zero() || self.typed.timeout > TOOL_TIMEOUT_MAX {
            let span = duration::spell(self.typed.timeout);
            let what = format!("`{span}` is out of range");
            ctx.refuse(
                self.file,
                self.at("timeout"),
                what,
                "write a time from `1ms` to `10m`: a run waits for its tools",
            );
        }
        let command = self.typed.command.clone().unwrap_or_default();
        // What was approved of another program or address says nothing about this one.
        let pin = pin.filter(|pin| pin.command == command && pin.url == self.typed.url);
        let personas = self.typed.personas.iter().enumerate();
        let personas = personas.filter_map(|(index, persona)| {
            let pointer = child(&self.at("personas"), index);
            ctx.persona(&self.file.document, &pointer, persona)
        });
        let personas = personas.collect();
        let tools = self.typed.tools.iter();
        let tools = tools.map(|(tool, typed)| {
            let pin = pin.and_then(|pin| pin.tools.get(tool));
            (tool.clone(), self.tool((tool, typed), pin, ctx))
        });
        let tools = tools.collect();
        McpServer {
            name: self.name.to_owned(),
            url: self.typed.url.clone(),
            environment: self.typed.environment.clone(),
            headers: self.headers(ctx),
            oauth: self.oauth(ctx),
            tools,
            audience: self.audience(ctx),
            personas,
            timeout: self.typed.timeout,
            folder: ctx.workspace.to_owned(),
            values: self.values(ctx),
            files: pin.map(|pin| pin.files.clone()).unwrap_or_default(),
            command,
        }
    }

    fn tool(
        &self,
        (tool, typed): (&str, &TypedMcpTool),
        pin: Option<&McpToolPin>,
        ctx: &mut CheckContext<'_>,
    ) -> McpTool {
        let offered = offered_name(self.name, tool);
        let pointer = child(&self.at("tools"), tool);
        if offered.len() > NAME_CHARS_MAX {
            let what = format!("`{offered}` has more than {NAME_CHARS_MAX} characters");
            ctx.report(
                self.file
                    .problem_at_key(&pointer, what)
                    .hint("choose a shorter name for the server"),
            );
        } else if ctx.tool_names().filter(|name| *name == offered).count() > 1 {
            let what = format!("another tool is called `{offered}` already");
            ctx.report(
                self.file
                    .problem_at_key(&pointer, what)
                    .hint("choose another name for the server"),
            );
        }
        let approved = pin.and_then(|pin| {
            let sha256 = pin.sha256.clone();
            // A pin that was changed by hand approves nothing.
            let definition = pin.read()?;
            Some(ApprovedTool { sha256, definition })
        });
        McpTool {
            offered,
            class: typed.class,
            effects: typed.effects,
            senders: typed.senders,
            pin: approved,
        }
    }

    fn check_name(&self, ctx: &mut CheckContext<'_>) {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_name = self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.len() <= NAME_CHARS_MAX / 2
            && self.name.chars().all(legal)
            && !self.name.contains("__")
            && !self.name.ends_with('_');
        if !is_name {
            let what = format!("`{}` is no name of a server", self.name);
            ctx.report(
                self.file.problem_at_key(&self.at(""), what).hint(
                    "lower-case letters, digits and single `_`, from a letter on, at most 32",
                ),
            );
        }
    }

    /// Reports a server that is neither one program nor one address, or whose program a persona might write.
    fn check_way(&self, ctx: &mut CheckContext<'_>) {
        let problem = match (&self.typed.command, &self.typed.url) {
            (Some(command), None) => self.command_problem(command, ctx),
            (None, Some(url)) if origin(url).is_none() => {
                let problem = self
                    .file
                    .problem_at(&self.at("url"), format!("`{url}` is no address"));
                Some(problem.hint("write `https://` or `http://`, a host, and a path"))
            }
            (None, Some(_)) => None,
            (Some(_), Some(_)) => {
                let problem = self
                    .file
                    .problem_at(&self.at(""), "has a `command` and a `url`");
                Some(problem.hint(
                    "take one of them out: a server is a program of this machine, or at an address",
                ))
            }
            (None, None) => {
                let problem = self
                    .file
                    .problem_at(&self.at(""), "needs a `command` or a `url`");
                Some(problem.hint("one of both: a program of this machine, or an address"))
            }
        };
        if let Some(problem) = problem {
            ctx.report(problem);
        }
    }

    fn command_problem(
        &self,
        command: &[String],
        ctx: &CheckContext<'_>,
    ) -> Option<crate::config::file::Problem> {
        let pointer = self.at("command");
        let personas = ctx.workspace.join("personas");
        let is_below =
            |part: &&String| super::file::below(ctx.workspace, part).starts_with(&personas);
        let program = command.first().filter(|program| !program.is_empty());
        let Some(program) = program else {
            let problem = self.file.problem_at(&pointer, "names no program");
            return Some(problem.hint("such as `[\"npx\", \"-y\", \"PACKAGE@VERSION\"]`"));
        };
        if let Some(part) = command.iter().find(is_below) {
            let what = format!("`{part}` is in a persona's folder");
            let problem = self.file.problem_at(&pointer, what);
            return Some(problem.hint("put it where no persona writes"));
        }
        let is_missing = program.contains('/')
            && ctx.source.has_world()
            && !super::file::is_program(&ctx.workspace.join(program));
        is_missing.then(|| {
            let problem = self
                .file
                .problem_at(&pointer, format!("`{program}` is not a program"));
            problem.hint("its path begins at the workspace; `chmod +x` makes a script one")
        })
    }

    fn headers(&self, ctx: &mut CheckContext<'_>) -> Vec<McpHeader> {
        let typed = self.typed.headers.iter().enumerate();
        let headers = typed.map(|(index, header)| {
            let pointer = child(&self.at("headers"), index);
            if !header
                .name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-')
            {
                let what = format!("`{}` is no name of a header field", header.name);
                ctx.complain(self.file, &pointer, what);
            }
            McpHeader {
                name: header.name.clone(),
                variable: header.variable.clone(),
                value: self.secret(&pointer, &header.variable, ctx),
            }
        });
        headers.collect()
    }

    fn oauth(&self, ctx: &mut CheckContext<'_>) -> Option<McpOAuth> {
        for (member, what, hint) in login::mistakes(self.typed) {
            ctx.refuse(self.file, self.at(member), what, hint);
        }
        let typed = self.typed.oauth.as_ref()?;
        let secret = typed.client_secret_variable.as_ref();
        let secret = secret.and_then(|variable| {
            self.secret(&self.at("oauth/client_secret_variable"), variable, ctx)
        });
        Some(McpOAuth::of(typed, secret))
    }

    fn values(&self, ctx: &mut CheckContext<'_>) -> Vec<(String, SecretString)> {
        let usual = ENVIRONMENT
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), secrets::environment(name)?.into())));
        let mut values: Vec<(String, SecretString)> = usual.collect();
        for (index, variable) in self.typed.environment.iter().enumerate() {
            let pointer = child(&self.at("environment"), index);
            let value = self.secret(&pointer, variable, ctx);
            values.extend(value.map(|value| (variable.clone(), value)));
        }
        values
    }

    fn secret(
        &self,
        pointer: &str,
        variable: &str,
        ctx: &mut CheckContext<'_>,
    ) -> Option<SecretString> {
        let value = ctx.secrets.get(variable);
        if value.is_none() {
            let problem = self
                .file
                .problem_at(pointer, format!("`{variable}` is not set"));
            ctx.report(problem.hint("set it in `.secrets`, or in the engine's environment"));
        }
        value
    }

    fn audience(&self, ctx: &mut CheckContext<'_>) -> Readers {
        let typed = match &self.typed.audience {
            TypedAudience::Word(AudienceWord::Everyone) => return Readers::Everyone,
            TypedAudience::Word(AudienceWord::Owner) => return Readers::OWNERS,
            TypedAudience::Addresses(typed) => typed,
        };
        let mut addresses = std::collections::BTreeSet::new();
        for (index, text) in typed.iter().enumerate() {
            match Address::parse(text) {
                Ok(address) => drop(addresses.insert(address.key())),
                Err(_) => {
                    let pointer = child(&self.at("audience"), index);
                    let problem = self
                        .file
                        .problem_at(&pointer, format!("`{text}` is no address"));
                    ctx.report(problem);
                }
            }
        }
        if typed.is_empty() {
            ctx.refuse(
                self.file,
                self.at("audience"),
                "names nobody",
                "write `\"owner\"`, `\"everyone\"`, or at least one address",
            );
        }
        Readers::Only(addresses)
    }
}

/// Returns host and port of a server's address, in the form of private targets; `None`: it is no address of one.
pub fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    private_target(authority).or_else(|| private_target(&format!("{authority}:{usual}")))
}

/// Formats the file of approvals.
pub fn lock_text(pins: &McpPins) -> String {
    // Maps of texts always serialize.
    serde_json::to_string_pretty(&json!(pins)).unwrap_or_default() + "\n"
}
