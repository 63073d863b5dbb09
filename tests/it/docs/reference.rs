//! The generated pages: commands from the command line's own tree, configuration from the schemas, exit codes from their
//! enum, tools and providers from their lists.

use super::schema;
use crate::readme::{read, root};
use crate::sql::source::rust_files;
use attache::cli;
use attache::http::{ROUTES, RouteAccess, RouteMethod};
use attache::providers::adapters;
use attache::tools::{RegisteredTool, ToolClass, builtin};
use serde_json::Value;
use std::fmt::Write as _;

/// Set to write the generated pages instead of comparing them.
const BLESS: &str = "ATTACHE_BLESS";
const HOW: &str = "*Generated: `ATTACHE_BLESS=1 cargo test --test it docs::` writes this page anew, and a test compares it.*";

#[test]
fn generated_pages_are_what_the_program_says() {
    let pages = [
        ("commands", commands()),
        ("configuration", configuration()),
        ("exit-codes", exit_codes()),
        ("tools", tools()),
        ("providers", providers()),
        ("leaving", leaving()),
        ("api", api()),
    ];
    for (name, generated) in pages {
        let path = format!("docs/reference/{name}.md");
        if std::env::var_os(BLESS).is_some() {
            std::fs::write(root().join(&path), &generated).expect("a written page");
        }
        let committed = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        let different = committed
            .lines()
            .zip(generated.lines())
            .position(|(a, b)| a != b);
        assert!(
            committed == generated,
            "{path} differs, first behind line {different:?}: write it with {BLESS}=1 cargo test --test it docs::"
        );
    }
}

/// The paths for programs, from the table of routes.
fn api() -> String {
    let mut page = format!(
        "# The API\n\n{HOW}\n\nPaths of a listener of kind `http`. A key stands in `Authorization: Bearer att_…`; \
         [`attache web tokens create`](commands.md) makes one. Answers are the JSON that `--json` prints, and \
         `/api/v1/openapi.json` describes each member. A word that a path does not know is an error.\n\n\
         | | path | | words | who |\n| --- | --- | --- | --- | --- |\n"
    );
    for route in ROUTES.iter().filter(|route| route.is_for_programs()) {
        let method = match route.method {
            RouteMethod::Get => "GET",
            RouteMethod::Post => "POST",
        };
        let who = match route.access {
            RouteAccess::Anyone => "anybody".to_owned(),
            RouteAccess::Session => "an owner's session".to_owned(),
            RouteAccess::Read => "`read`, or a session".to_owned(),
            RouteAccess::Operate => "`admin`, or a session".to_owned(),
            RouteAccess::Key(right) => format!("`{}:PERSONA`", right.as_str()),
            RouteAccess::Agent => "`send:PERSONA` or `read`".to_owned(),
        };
        let words: Vec<String> = route
            .words()
            .iter()
            .map(|word| format!("`{word}`"))
            .collect();
        let about = match route.described() {
            "" => "as OpenAI's API",
            about => about,
        };
        let _written = writeln!(
            page,
            "| {method} | `{}` | {} | {} | {who} |",
            route.path,
            cell(about),
            words.join(" ")
        );
    }
    page += "\nErrors have a `code`, a `message`, a `hint` and `retryable`. [Pages in a browser](../guide/pages.md) says how keys \
        are made and repeated requests told apart, [programs that talk to a persona](../guide/programs.md) what `/v1` and `/mcp` take, \
        [letters over HTTP](../guide/receive-http.md) what `/ingest` takes.\n";
    page
}

/// A text as one cell of a table.
pub fn cell(text: &str) -> String {
    let flat = text
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|");
    // Between backticks a bracket stays one.
    let outside = |(at, piece): (usize, &str)| {
        if at % 2 == 0 {
            piece.replace('<', "&lt;")
        } else {
            piece.to_owned()
        }
    };
    flat.split('`')
        .enumerate()
        .map(outside)
        .collect::<Vec<_>>()
        .join("`")
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn commands() -> String {
    let mut command = cli::command();
    command.build();
    let mut page = format!(
        "# Commands\n\n{HOW}\n\n{}\n",
        sentence(
            &command
                .get_about()
                .map_or(String::new(), ToString::to_string)
        )
    );
    page += "\n## Options of every command\n\n";
    arguments(
        &mut page,
        command.get_arguments().filter(|arg| arg.is_global_set()),
    );
    page += "\nOf an id its last characters are enough, as lists show them, or its first ones; `last` is the newest run. What\n\
        commands end with stands in [exit codes](exit-codes.md).\n";
    for below in command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
    {
        describe(&mut page, below, "attache");
    }
    page
}

fn describe(page: &mut String, command: &clap::Command, above: &str) {
    let name = format!("{above} {}", command.get_name());
    let level = if above == "attache" { "##" } else { "###" };
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map_or(String::new(), ToString::to_string);
    let _written = write!(page, "\n{level} {name}\n\n{}\n", sentence(&about));
    let usage = command.clone().render_usage().to_string();
    for line in usage
        .lines()
        .map(|line| line.trim_start_matches("Usage:").trim())
    {
        let _written = write!(page, "\n    {line}");
    }
    page.push('\n');
    let own = || {
        command
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && arg.get_id() != "help")
    };
    if own().next().is_some() {
        page.push('\n');
        arguments(page, own());
    }
    if let Some(more) = command.get_after_help() {
        let indented = more
            .to_string()
            .lines()
            .map(|line| format!("    {line}").trim_end().to_owned())
            .collect::<Vec<_>>();
        let _written = write!(page, "\n{}\n", indented.join("\n"));
    }
    for below in command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
    {
        describe(page, below, &name);
    }
}

fn arguments<'a>(page: &mut String, arguments: impl Iterator<Item = &'a clap::Arg>) {
    *page += "| option | says |\n| --- | --- |\n";
    for arg in arguments.filter(|arg| !arg.is_hide_set()) {
        let takes = arg.get_action().takes_values();
        let names = arg
            .get_value_names()
            .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
        let names = names.unwrap_or_else(|| vec![arg.get_id().to_string().to_uppercase()]);
        let label = match (arg.get_long(), takes) {
            (Some(long), true) => format!("--{long} {}", names.join(" ")),
            (Some(long), false) => format!("--{long}"),
            (None, _) => names.join(" "),
        };
        let mut says = sentence(&arg.get_help().map_or(String::new(), ToString::to_string));
        let defaults: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        if takes && !defaults.is_empty() {
            let _written = write!(says, " Default: `{}`.", defaults.join(" "));
        }
        let values: Vec<_> = arg
            .get_possible_values()
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if takes && !values.is_empty() {
            let _written = write!(says, " One of {}.", values.join(", "));
        }
        if let Some(variable) = arg.get_env() {
            let _written = write!(says, " Environment: `{}`.", variable.to_string_lossy());
        }
        if arg.is_required_set() {
            says.push_str(" Must be given.");
        }
        let _written = writeln!(page, "| `{label}` | {} |", cell(&says));
    }
}

fn configuration() -> String {
    let mut page = format!(
        "# Configuration\n\n{HOW}\n\nAn unknown key, a wrong type or a bad value is an error at the start, with file, line and path; a responsibility that\n\
        cannot be used stays out, with a warning. `attache config check` lists all of them, and texts that are missing or do not\n\
        render; `attache config show` prints every setting in effect. An editor completes keys by the schemas in `configs/schema/`. Durations are a number and `ms`, `s`, `m`, `h` or `d`. Secrets stand in the environment or in `.secrets`,\n\
        never here.\n\n`x[]` is each entry of a list, `x.NAME` each entry of a map.\n"
    );
    for file in attache::config::schema::KINDS.iter().map(|kind| kind.name) {
        let whole: Value =
            serde_json::from_str(&read(&format!("configs/schema/{file}.json"))).expect("a schema");
        let shown = whole["title"].as_str().expect("a title").to_owned();
        let _written = write!(page, "\n## {shown}\n\n{}\n\n", schema::says(&whole));
        page += &schema::table(&whole);
        if file == "context" {
            page += "\nThe steps, with the number of their arguments:\n\n| step | arguments |\n| --- | --- |\n";
            for (name, arguments) in cli::name_catalog().resolvers {
                let (least, most) = (arguments.start(), arguments.end());
                let count = if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                };
                let _written = writeln!(page, "| `{name}` | {count} |");
            }
        }
    }
    page
}

/// Read from the source, because a number's doc comment is its description.
fn exit_codes() -> String {
    let source = read("src/cli/process/exit.rs");
    let body = source
        .split("pub enum Exit {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .expect("the enum");
    let mut page = format!(
        "# Exit codes\n\n{HOW}\n\nFrom 64 on they follow `sysexits.h` of BSD.\n\n| code | meaning |\n| --- | --- |\n"
    );
    let mut says = String::new();
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            says = format!("{says} {comment}");
        } else if let Some((_, code)) = line.trim_end_matches(',').split_once(" = ") {
            let _written = writeln!(page, "| {code} | {} |", cell(&says));
            says.clear();
        }
    }
    page
}

fn tools() -> String {
    let mut page = format!(
        "# Tools\n\n{HOW}\n\nWhat a model may call. `tools` in a persona's or a responsibility's file narrows the list, and a run that read unproven\n\
        or foreign words is offered fewer: see [who is believed](../guide/trust.md). The descriptions are those that the model reads.\n"
    );
    for tool in builtin().iter() {
        let _written = write!(
            page,
            "\n## {}\n\n{}\n\n",
            tool.name(),
            sentence(tool.description())
        );
        let _written = writeln!(page, "- effects: {}", effects(tool));
        let _written = write!(page, "- after a crash: {}\n\n", recovery(tool.class()));
        page += &schema::table(tool.input_schema());
    }
    page
}

fn effects(tool: &RegisteredTool) -> String {
    let effects = tool.effects();
    let named = [
        (effects.reads_private, "reads mail of other threads"),
        (effects.sends_out, "sends to somebody outside"),
        (effects.changes_state, "changes what later runs read"),
    ];
    let named: Vec<&str> = named
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect();
    if named.is_empty() {
        "reads the persona's own files".to_owned()
    } else {
        named.join(", ")
    }
}

fn recovery(class: ToolClass) -> &'static str {
    match class {
        ToolClass::Repeatable => "the call is made again",
        ToolClass::Transactional => {
            "without a stored result nothing has happened, so the call is made again"
        }
        ToolClass::Verifiable => {
            "the engine looks whether the effect is there, and makes the call again only if it is not"
        }
        ToolClass::Once => {
            "the call is never made again; the model is told `outcome_unknown`, and the owner is told"
        }
    }
}

fn providers() -> String {
    let mut page = format!(
        "# Providers\n\n{HOW}\n\nNames for `provider` in `configs/inference.json` and in a persona's `persona.json`, with the keys of their block under\n\
        `providers`, which [configuration](configuration.md) describes. How to choose one: [providers](../guide/providers.md),\n\
        [agents](../guide/agents.md).\n\n| provider | variable of its key | keys of its block |\n| --- | --- | --- |\n"
    );
    for adapter in adapters() {
        let name = if adapter.id == "compat" {
            "compat:NAME"
        } else {
            adapter.id
        };
        let key = adapter
            .key_variable
            .map_or("none".to_owned(), |key| format!("`{key}`"));
        let settings: Vec<String> = adapter
            .settings
            .concat()
            .iter()
            .map(|key| format!("`{key}`"))
            .collect();
        let _written = writeln!(page, "| `{name}` | {key} | {} |", settings.join(", "));
    }
    page
}

/// Everything that leaves the machine: from the lists of providers, the declarations of tools and the schemas, so that nothing new is
/// forgotten.
fn leaving() -> String {
    let mut page = format!(
        "# What leaves this machine\n\n{HOW}\n\nNothing is sent to the makers of Attaché. What is sent to others is here, by who sends it. \
         Without a model's provider and a transport for mail, nothing leaves.\n\n## To a model's provider\n\nEach call sends the whole context of its run: \
         the persona's texts, notes, knowledge, the letters of the thread, results of tools, and the images and files that the model takes. \
         `attache replay show RUN --context` shows it.\n\n| provider | goes to |\n| --- | --- |\n"
    );
    for adapter in adapters() {
        let settings = adapter.settings.concat();
        let to = match () {
            () if adapter.id == "scripted" => "nobody: a script answers".to_owned(),
            () if adapter.bounds.is_some() => {
                "a program on this machine, which sends it on by its own settings, with whatever its tools do".to_owned()
            }
            () if adapter.key_variable.is_none() => "the server at `base_url`, on this machine unless you name another".to_owned(),
            () if settings.contains(&"base_url") => "its vendor, or the server at `base_url`".to_owned(),
            () => "its vendor".to_owned(),
        };
        let _written = writeln!(page, "| `{}` | {to} |", adapter.id);
    }
    page += "\n## By tools\n\nA tool that sends out does so for the run that calls it. A mail is decided on by its recipients; \
        everything else waits for the owner once the run has read words of somebody below `contact`, and once it has read what not \
        everybody may read ([policy](../guide/policy.md)).\n\n| tool | sends | with words of low trust read |\n| --- | --- | --- |\n";
    for tool in builtin().iter().filter(|tool| tool.effects().sends_out) {
        let capabilities = tool.declaration().capabilities;
        let (what, low) = match () {
            () if capabilities.mail => (
                "a mail, by the way that `outbound` names",
                "denied to somebody new",
            ),
            () if capabilities.web => (
                "a URL, to its server and to name servers",
                "asked, but for a host that the sender names and for further pages of one that was read",
            ),
            () if capabilities.web_search => ("a query, to the service of `search`", "asked"),
            () => ("its arguments", "asked"),
        };
        let _written = writeln!(page, "| `{}` | {what} | {low} |", tool.name());
    }
    page += "| an [own tool](../guide/own-tools.md) that declares `sends_out` | its arguments, to whoever its program sends them | asked, unless its `senders` say otherwise |\n\
        | a tool of an [MCP server](../guide/mcp.md) | its arguments, to the server | asked where it declares `sends_out`, unless its `senders` say otherwise |\n\
        \nPrograms of yours (own tools, hooks, MCP servers, agents) are not confined: what they send is theirs to say. A command of the \
        [sandbox](../guide/shell.md) has no network.\n\n## By settings\n\nEach of these settings names a machine that the engine connects to by itself. Without the setting it \
        does not, but for mail to the servers of its recipients and for questions to the system's name servers.\n\n| file | setting | says |\n| --- | --- | --- |\n";
    for file in ["gateway", "inference", "keeping", "mcp", "security", "web"] {
        let text = read(&format!("configs/schema/{file}.json"));
        let schema: Value = serde_json::from_str(&text).expect("a schema");
        for line in schema::table(&schema).lines().skip(2) {
            let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
            let (Some(key), _, Some(says)) = (cells.next(), cells.next(), cells.next()) else {
                continue;
            };
            if names_a_machine(key.trim_matches('`')) {
                let _written = writeln!(page, "| `configs/{file}.json` | {key} | {says} |");
            }
        }
    }
    page += "\nA [webhook](../guide/webhooks.md) is sent kinds and ids, a collector of traces and a ping no text at all ([watching](../guide/watching.md)), and \
        a database on a server everything that is stored ([PostgreSQL](../guide/postgresql.md)).\n";
    page
}

/// Reports whether a setting holds the address of a machine that is connected to, by the end of its name.
fn names_a_machine(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or_default();
    let is_url = last == "url" || last.ends_with("_url") || last == "url_variable";
    let is_resolver = key.ends_with("resolver.servers");
    is_url && last != "attribution_url"
        || is_resolver
        || ["endpoint", "host", "issuer"].contains(&last)
}

#[test]
fn every_command_that_may_succeed_later_stands_beside_its_exit_code() {
    let page = exit_codes();
    let row = page
        .lines()
        .find(|line| line.starts_with("| 75 |"))
        .expect("a row");
    let folder = root().join("src/cli");
    let mut files = Vec::new();
    rust_files(&folder, &mut files);
    let mut commands = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source");
        let inside = file.strip_prefix(&folder).expect("below it");
        let unit = inside.iter().next().expect("a name").to_string_lossy();
        if source.contains("Exit::TryAgain") || source.contains("EngineWait::new") {
            commands.push(unit.trim_end_matches(".rs").to_owned());
        }
    }
    // What all commands share.
    commands.retain(|unit| unit != "process");
    assert!(commands.iter().any(|unit| unit == "erase"), "{commands:?}");
    for unit in commands {
        let is_named = row.contains(&format!("`{unit}`")) || row.contains(&format!("`{unit} "));
        assert!(is_named, "`{unit}` is missing in {row}");
    }
}
