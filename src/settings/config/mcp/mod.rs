//! `configs/mcp.json`: servers of the Model Context Protocol whose tools the personas may use, and what of them is approved.

mod login;
mod pins;
mod typed;

pub use pins::{McpPins, McpServerPin, McpToolPin, PinnedFile, definition_sha256};
pub use typed::{McpHeader, McpOAuth, McpTool, TypedMcp};

use crate::config::TOOL_TIMEOUT_MAX;
use crate::config::file::{MCP_FILE, MCP_LOCK_FILE};
use crate::config::values::section::*;
use crate::domain::{Address, PersonaId, Readers};
use crate::web::private_target;
use serde::Serializer;
use std::path::PathBuf;
use typed::{AudienceWord, TypedAudience, TypedMcpServer};

const SERVERS_MAX: usize = 20;
/// Most tools of all servers: the model reads them all.
const TOOLS_MAX: usize = 100;
/// Most characters of a tool's name that every provider takes.
const NAME_CHARS_MAX: usize = 64;
/// Most bytes of an approved schema of arguments, and of the results.
pub const SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// Most bytes of an approved description.
pub const DESCRIPTION_BYTES_MAX: usize = 2048;
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
    #[serde(with = "TypedDuration")]
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
    let place = &mut ctx.place(file, "/servers");
    if servers.len() > SERVERS_MAX || tools > TOOLS_MAX {
        let what = format!("names more than {SERVERS_MAX} servers or {TOOLS_MAX} tools");
        let hint = "a model that reads so many chooses badly; keep the ones in use";
        place.refuse("", what, hint);
    }
    let resolved = servers.iter().map(|(name, typed)| {
        let pin = files.pins.servers.get(name);
        server(name, typed, pin, &mut place.under(name))
    });
    resolved.collect()
}

fn server(
    name: &str,
    typed: &TypedMcpServer,
    pin: Option<&McpServerPin>,
    place: &mut CheckPlace<'_, '_>,
) -> McpServer {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= NAME_CHARS_MAX / 2
        && name.chars().all(legal)
        && !name.contains("__")
        && !name.ends_with('_');
    if !is_name {
        let hint = "lower-case letters, digits and single `_`, from a letter on, at most 32";
        place.refuse_key("", format!("`{name}` is no name of a server"), hint);
    }
    check_way(typed, place);
    place.check_timeout(typed.timeout, TOOL_TIMEOUT_MAX, "tools");
    let command = typed.command.clone().unwrap_or_default();
    // What was approved of another program or address says nothing about this one.
    let pin = pin.filter(|pin| pin.command == command && pin.url == typed.url);
    let tools = typed.tools.iter().map(|(tool, typed)| {
        let offered = offered_name(name, tool);
        check_offered(&offered, &mut place.under("tools").under(tool));
        let pin = pin.and_then(|pin| {
            let pin = pin.tools.get(tool)?;
            Some(ApprovedTool {
                sha256: pin.sha256.clone(),
                // A pin that was changed by hand approves nothing.
                definition: pin.read()?,
            })
        });
        let declared = McpTool {
            offered,
            pin,
            ..typed.clone()
        };
        (tool.clone(), declared)
    });
    let tools = tools.collect();
    McpServer {
        name: name.to_owned(),
        url: typed.url.clone(),
        environment: typed.environment.clone(),
        headers: headers(&typed.headers, place),
        oauth: oauth(typed, place),
        tools,
        audience: audience(&typed.audience, place),
        personas: place.personas(&typed.personas),
        timeout: typed.timeout,
        folder: place.ctx.workspace.to_owned(),
        values: place.environment(&typed.environment),
        files: pin.map(|pin| pin.files.clone()).unwrap_or_default(),
        command,
    }
}

/// Reports a name of a tool that is too long, or that another tool has.
fn check_offered(offered: &str, place: &mut CheckPlace<'_, '_>) {
    if offered.len() > NAME_CHARS_MAX {
        let what = format!("`{offered}` has more than {NAME_CHARS_MAX} characters");
        place.refuse_key("", what, "choose a shorter name for the server");
    } else if place
        .ctx
        .tool_names()
        .filter(|name| *name == offered)
        .count()
        > 1
    {
        let what = format!("another tool is called `{offered}` already");
        place.refuse_key("", what, "choose another name for the server");
    }
}

/// Reports a server that is neither one program nor one address, or whose program a persona might write.
fn check_way(typed: &TypedMcpServer, place: &mut CheckPlace<'_, '_>) {
    match (&typed.command, &typed.url) {
        (Some(command), None) => {
            let hints = CommandHints {
                example: "such as `[\"npx\", \"-y\", \"PACKAGE@VERSION\"]`",
                elsewhere: "put it where no persona writes",
                folder: "workspace",
            };
            let workspace = place.ctx.workspace;
            place.check_command(command, workspace, &hints);
        }
        (None, Some(url)) if origin(url).is_none() => place.refuse(
            "url",
            format!("`{url}` is no address"),
            "write `https://` or `http://`, a host, and a path",
        ),
        (None, Some(_)) => {}
        (Some(_), Some(_)) => place.refuse(
            "",
            "has a `command` and a `url`",
            "take one of them out: a server is a program of this machine, or at an address",
        ),
        (None, None) => place.refuse(
            "",
            "needs a `command` or a `url`",
            "one of both: a program of this machine, or an address",
        ),
    }
}

fn headers(typed: &[McpHeader], place: &mut CheckPlace<'_, '_>) -> Vec<McpHeader> {
    let mut headers = typed.to_vec();
    for (
        index,
        McpHeader {
            name,
            variable,
            value,
        },
    ) in headers.iter_mut().enumerate()
    {
        let at = format!("headers/{index}");
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            place.complain(&at, format!("`{name}` is no name of a header field"));
        }
        *value = place.secret(&at, variable);
    }
    headers
}

fn oauth(typed: &TypedMcpServer, place: &mut CheckPlace<'_, '_>) -> Option<McpOAuth> {
    login::check(typed, place);
    let mut oauth = typed.oauth.clone()?;
    let variable = oauth.client_secret_variable.as_deref();
    oauth.client_secret =
        variable.and_then(|variable| place.secret("oauth/client_secret_variable", variable));
    Some(oauth)
}

fn audience(typed: &TypedAudience, place: &mut CheckPlace<'_, '_>) -> Readers {
    let typed = match typed {
        TypedAudience::Word(AudienceWord::Everyone) => return Readers::Everyone,
        TypedAudience::Word(AudienceWord::Owner) => return Readers::OWNERS,
        TypedAudience::Addresses(typed) => typed,
    };
    if typed.is_empty() {
        let hint = "write `\"owner\"`, `\"everyone\"`, or at least one address";
        place.refuse("audience", "names nobody", hint);
    }
    let addresses = place.each("audience", typed, |text| {
        let bad = |_| (format!("`{text}` is no address"), String::new());
        Address::parse(text)
            .map(|address| address.key())
            .map_err(bad)
    });
    Readers::Only(addresses.into_iter().collect())
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
