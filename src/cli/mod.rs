//! The command line: one file or folder per command, and the list of them.
//!
//! - `process`: protection of the process, log lines, exit codes
//! - `args`: arguments that several commands share; `screen`: tables, JSON, colours
//! - setup: `init`, `setup`, `config`, `persona`, `workspace`, `schedule`, `providers`
//! - work: `demo`, `serve`, `nodes`, `reload`, `ingest`, `import`, `migrate`, `drain`, `ask`, `chat`
//! - inspection: `status`, `tail`, `threads`, `runs`, `usage`, `replay`, `outbox`, `notices`, `mailboxes`
//! - maintenance: `doctor`, `backup`, `restore`, `upgrade`, `export`, `gc`, `erase`
//! - permission: `approvals`, `drafts`, `memory`, `policy`, `hooks`; `tools`, `skills`; the kill switch: `halt`
//! - for browsers and programs: `web`, `webhooks`; for agents: `mcp`; for packages: `packaging`
//!
//! Absent on purpose: work. A command reads its arguments, calls a lower floor, and prints.

mod process;
mod config;
mod init;
mod setup;
mod notices;
mod mcp;
mod outbox;
mod persona;
mod workspace;
mod schedule;
mod ingest;
mod import;
mod migrate;
mod mailboxes;
mod providers;
mod drain;
mod ask;
mod chat;
mod serve;
mod nodes;
mod reload;
mod tail;
mod status;
mod threads;
mod runs;
mod usage;
mod replay;
mod demo;
mod doctor;
mod backup;
mod restore;
mod upgrade;
mod erase;
mod export;
mod gc;
mod halt;
mod approvals;
mod drafts;
mod memory;
mod policy;
mod hooks;
mod tools;
mod skills;
mod web;
mod webhooks;
mod packaging;
pub mod screen;
mod args;

pub use crate::runs::preflight::name_catalog;
pub use doctor::WorkspaceExaminer;
pub use init::sample;
pub use process::exit::{Exit, Failure, refuse};
pub use process::protection::protect;

use crate::clock::SystemClock;
use crate::config::{Config, ConfigErrors};
use crate::extract;
use crate::shell;
use crate::store::{DatabasePlace, OpenError, Store, archive_refusal, refuse_leftovers};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use futures_util::future::LocalBoxFuture;
use screen::{Columns, Screen, Unwritten};
use serde::Serialize;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Does the work of a child process of the engine's own, before any thread is made; `None`: this is no such process.
pub fn worker(arguments: &[OsString]) -> Option<std::process::ExitCode> {
    let (first, others) = arguments.split_first()?;
    match first.to_str()? {
        extract::WORKER => Some(extract::work(others)),
        shell::STAGE => Some(shell::work()),
        _ => None,
    }
}

/// An email-native persona engine: a letter arrives, a persona answers it
#[derive(clap::Parser)]
#[command(version)]
struct AttacheArgs {
    /// Workspace to work on [default: the current folder]
    #[arg(long, value_name = "DIR", env = "ATTACHE_WORKSPACE", global = true, help_heading = EVERYWHERE)]
    workspace: Option<PathBuf>,
    /// Print one JSON value instead of text
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    json: bool,
    /// Begin lists in a pipe with the names of their columns
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    header: bool,
    /// Log lines to show on stderr, such as `info` or `attache::gateway=debug,warn`
    #[arg(long, value_name = "FILTER", env = "ATTACHE_LOG", global = true, help_heading = EVERYWHERE)]
    log: Option<String>,
    /// Shape of log lines [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], global = true, help_heading = EVERYWHERE)]
    log_format: Option<String>,
    #[command(subcommand)]
    command: AnyCommand,
}

/// Heading of the options that every command takes, so that a command's own options stand together.
const EVERYWHERE: &str = "Everywhere";

// Every command, in the order of `--help`. Fields are flags, and their comments are the help. A command prints through
// [`CommandContext::screen`] only (a closed pipe must not panic) and respects `--json` there. It returns errors as values:
// [`Failure`] where an exit code or a hint is known, any other error with anyhow context. To add one, copy `gc.rs`, add `mod x;`,
// a variant here, and its arm in `dispatch`.
#[derive(clap::Subcommand)]
enum AnyCommand {
    // Start
    Demo(demo::Demo),
    /// Ask for domain, ways in and out and model, check each at its server, and write the workspace
    Setup,
    Init(init::Init),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Serve(serve::Serve),
    Ask(ask::Ask),
    Chat(chat::Chat),
    #[command(subcommand)]
    Web(web::WebCommand),
    // Every day
    /// Say whether an engine serves, what waits, what failed and what it costs today; exits with 3 when none serves, or its database does not answer
    #[command(
        after_help = "It looks and changes nothing. `attache doctor` examines the installation."
    )]
    Status,
    #[command(subcommand)]
    Threads(threads::ThreadsCommand),
    #[command(subcommand)]
    Approvals(approvals::ApprovalsCommand),
    #[command(subcommand)]
    Drafts(drafts::DraftsCommand),
    #[command(subcommand)]
    Notices(notices::NoticesCommand),
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    #[command(subcommand)]
    Memory(memory::MemoryCommand),
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    Halt(halt::HaltCommand),
    Resume(halt::ResumeCommand),
    // Look back
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    Replay(Box<replay::ReplayCommand>),
    Tail(tail::TailCommand),
    Usage(usage::UsageCommand),
    // Personas and what they may do
    #[command(subcommand)]
    Persona(persona::PersonaCommand),
    #[command(subcommand)]
    Workspace(workspace::WorkspaceCommand),
    #[command(subcommand)]
    Providers(providers::ProvidersCommand),
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    #[command(subcommand)]
    Hooks(hooks::HooksCommand),
    #[command(subcommand)]
    Tools(tools::ToolsCommand),
    #[command(subcommand)]
    Skills(skills::SkillsCommand),
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    // Operate
    Doctor(doctor::Doctor),
    /// Let the engine that works here read its configuration again, now
    #[command(
        after_help = "It does so by itself within seconds after an edit; this command asks at once (SIGHUP) and says what became of \
                      it. A faulty file leaves what was good before in force: then each problem is printed, and the exit code is 65. \
                      It is 69 without an engine, and 75 when that does not answer within half a minute. \
                      Work that has begun goes on with what it began with."
    )]
    Reload,
    #[command(subcommand)]
    Nodes(nodes::NodesCommand),
    #[command(subcommand)]
    Mailboxes(mailboxes::MailboxesCommand),
    #[command(subcommand)]
    Webhooks(webhooks::WebhooksCommand),
    Ingest(ingest::Ingest),
    Import(import::Import),
    Migrate(migrate::MigrateCommand),
    /// Work off the runs and mails that are due, then end; exit code 1 if a run failed
    Drain,
    Backup(backup::Backup),
    Restore(restore::RestoreCommand),
    Upgrade(upgrade::UpgradeCommand),
    #[command(subcommand)]
    Export(export::Export),
    Gc(gc::Gc),
    Erase(erase::EraseCommand),
    Completions(packaging::Completions),
    Man(packaging::Man),
}

/// The groups of `--help`, each with its first command.
const GROUPS: &[(&str, &str)] = &[
    ("Start", "demo"),
    ("Every day", "status"),
    ("Look back", "runs"),
    ("Personas and what they may do", "persona"),
    ("Operate", "doctor"),
];

/// Values that every command may use.
pub struct CommandContext {
    /// Absolute path of the workspace; it may not exist yet.
    pub workspace: PathBuf,
    /// This program as it was called, so that recommended commands can be typed: `cargo run` puts
    /// nothing on `PATH`.
    pub program: String,
    pub screen: Arc<Screen>,
}

impl CommandContext {
    /// Reads and checks the whole configuration; the error holds every problem of every file.
    pub fn config(&self) -> Result<Config, ConfigErrors> {
        crate::config::load(&self.workspace, &name_catalog())
    }
    /// Reports whether `--json` was given.
    pub fn json(&self) -> bool {
        self.screen.wants_json()
    }
    /// Reports whether stdout is a terminal.
    pub fn terminal(&self) -> bool {
        self.screen.is_terminal()
    }
    /// Prints a value as JSON, or as text without `--json`.
    pub fn report(
        &self,
        value: &impl Serialize,
        text: impl FnOnce(&Screen) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        match self.json() {
            true => self.screen.json(value)?,
            false => text(&self.screen)?,
        }
        Ok(Exit::Ok)
    }
    /// Prints a listing, as [`Screen::list`] does.
    pub fn list<'c, T: Serialize>(
        &self,
        items: &[T],
        columns: impl Into<Columns<'c>>,
        nothing: &str,
        row: impl Fn(&T) -> Vec<String>,
    ) -> anyhow::Result<Exit> {
        self.screen.list(items, columns, nothing, row)?;
        Ok(Exit::Ok)
    }
    /// Refuses a folder that is no workspace, so that a typing error creates no empty database, and one in which a restore did
    /// not end, whose files may be some of those that it is to have.
    pub fn require_workspace(&self) -> Result<&Path, Failure> {
        self.refuse_half_restored()?;
        self.find_workspace()
    }

    fn refuse_half_restored(&self) -> Result<(), Failure> {
        match refuse_leftovers(&self.workspace.join("data")) {
            Err(error @ OpenError::HalfRestored { .. }) => {
                let (exit, hint) = process::exit::of_open(&error);
                let failure = Failure::new(exit, error.to_string());
                Err(hint.into_iter().fold(failure, Failure::hint))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a folder that is no workspace; [`Self::require_workspace`] for what says itself what is wrong with one.
    pub fn find_workspace(&self) -> Result<&Path, Failure> {
        match self.workspace.join("configs").metadata() {
            Ok(configs) if configs.is_dir() => {
                process::protection::refuse_root(&self.workspace)?;
                return Ok(&self.workspace);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let message = format!("`{}` cannot be opened: {error}", self.workspace.display());
                let owner = self.workspace.metadata().map(|folder| folder.uid());
                return refuse(
                    Exit::Workspace,
                    message,
                    match owner {
                        Ok(uid) => {
                            format!(
                                "it belongs to the user with the number {uid}: work as that user"
                            )
                        }
                        Err(_) => {
                            "`ls -ld` on the folders above it shows whose they are".to_owned()
                        }
                    },
                );
            }
            _ => {}
        }
        self.refuse_half_restored()?;
        refuse(
            Exit::Workspace,
            format!(
                "`{}` is not a workspace: it has no folder `configs`",
                self.workspace.display()
            ),
            "make one with `attache init DIR --domain DOMAIN --owner ADDRESS`, or name one with --workspace DIR",
        )
    }
    /// Returns the file of the database, for what copies or replaces it.
    ///
    /// Errors: the database is on a server.
    pub fn database_file(&self) -> anyhow::Result<PathBuf> {
        let place = DatabasePlace::of(&self.workspace)?;
        if let Some(file) = place.file() {
            return Ok(file.to_owned());
        }
        refuse(
            Exit::Usage,
            format!("the database is no file: it is {}", place.shown()),
            "copy it with the tools of PostgreSQL, such as `pg_dump` and pgBackRest, and the folders of the workspace beside it",
        )
    }

    /// Opens the database beside a running engine, for listings and requests.
    pub async fn shared_store(&self) -> anyhow::Result<Store> {
        let workspace = self.require_workspace()?;
        Ok(Store::open_shared(workspace, Arc::new(SystemClock::new())).await?)
    }

    /// Opens the database beside a running engine, to store work that only an engine can do.
    ///
    /// Errors: [`OpenError::Archive`], or where its rows went, where no engine ever works, so that no work is accepted that
    /// would stay undone.
    pub async fn store_of_engine(&self) -> anyhow::Result<Store> {
        let store = self.shared_store().await?;
        match store.archive_header().await? {
            Some(header) => Err(archive_refusal(&header).into()),
            None => {
                // What a restored backup asked may have been decided since.
                store.close_questions_of_copy().await?;
                Ok(store)
            }
        }
    }
}

/// Runs one command line, prints errors on stderr, and returns the exit code.
pub async fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    // Found before parsing, because parse errors are printed in the same format.
    let json = args
        .iter()
        .skip(1)
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--json");
    let program = args.first().map_or("attache".into(), |typed| {
        typed.to_string_lossy().into_owned()
    });
    let gone = gone(&args);
    let parsed = command().try_get_matches_from(args);
    if let (Err(_), Some(gone)) = (&parsed, gone) {
        return complained(&gone.into(), json);
    }
    let matches = match parsed {
        Ok(matches) => matches,
        Err(error) if json && error.use_stderr() => {
            let text = error.to_string();
            let (message, usage) = text.split_once("\n\n").unwrap_or((&text, ""));
            let failure = Failure::new(Exit::Usage, message.trim_start_matches("error: "));
            return complained(&failure.hint(usage.trim()).into(), json);
        }
        Err(error) => {
            // clap reports help and version as errors that go to stdout; a closed pipe there is no
            // fault.
            let printed = error
                .print()
                .map_err(|error| anyhow::Error::new(Unwritten::from(error)));
            return match printed {
                _ if error.use_stderr() => Exit::Usage,
                Ok(()) => Exit::Ok,
                Err(unwritten) => complained(&unwritten, json),
            };
        }
    };
    match dispatch(&matches, program).await {
        Ok(exit) => exit,
        Err(error) => complained(&error, json),
    }
}

/// Commands of earlier versions, each with what to do instead (D-161).
const GONE: &[(&[&str], &str)] = &[
    (
        &["migrate", "protege"],
        "copy the personas by hand, and import the mail with `attache import`",
    ),
    (&["objects"], "all bytes are in the database"),
    (
        &["persona", "move"],
        "copy its folder to the other cell, and import its mail there",
    ),
    (
        &["top"],
        "`attache status` shows the state, `attache tail` what happens",
    ),
];

/// Returns the refusal of a command that earlier versions had.
fn gone(args: &[OsString]) -> Option<Failure> {
    let (mut args, mut words) = (
        args.iter().skip(1).filter_map(|arg| arg.to_str()),
        Vec::new(),
    );
    while let Some(arg) = args.next() {
        match arg {
            // Their values are no words of the command.
            "--workspace" | "--log" | "--log-format" => drop(args.next()),
            option if option.starts_with('-') => {}
            word => words.push(word),
        }
    }
    let (name, instead) = GONE.iter().find(|(name, _)| words.starts_with(name))?;
    let message = format!("`attache {}` was removed in 0.2.0", name.join(" "));
    Some(Failure::new(Exit::Usage, message).hint(*instead))
}

/// Prints an error on stderr, unless it is only a closed pipe.
fn complained(error: &anyhow::Error, json: bool) -> Exit {
    let (exit, hint) = process::exit::judge(error);
    match json {
        _ if exit == Exit::Ok => {}
        true => screen::complain_json(error, hint.as_deref(), exit as u8),
        false => screen::complain(error, hint.as_deref()),
    }
    exit
}

async fn dispatch(matches: &ArgMatches, program: String) -> anyhow::Result<Exit> {
    let line = AttacheArgs::from_arg_matches(matches)?;
    let filter = line.log.as_deref().unwrap_or(match line.command {
        AnyCommand::Serve(_) => "info,tokio_cron_scheduler=warn",
        AnyCommand::Upgrade(_) => "attache::store=info,warn",
        // A resolver that is not reached is told in the report.
        AnyCommand::Setup => "error",
        _ => "warn",
    });
    let json_logs = line.log_format.is_some_and(|format| format == "json");
    let _flush = process::logging::start(filter, json_logs)?;
    let workspace = std::path::absolute(line.workspace.unwrap_or_else(|| ".".into()))
        .map_err(|source| Failure::new(Exit::Usage, "no such workspace path").because(source))?;
    let context = CommandContext {
        workspace,
        program,
        screen: Arc::new(Screen::stdout(line.json).with_header(line.header)),
    };
    let (name, args) = matches.subcommand().unwrap_or(("", matches));
    tracing::debug!(command = name, workspace = %context.workspace.display(), "command starts");
    // The futures are large: each is boxed.
    let work: LocalBoxFuture<'_, anyhow::Result<Exit>> = match line.command {
        AnyCommand::Demo(it) => Box::pin(it.run(&context)),
        AnyCommand::Setup => Box::pin(setup::setup(&context, args)),
        AnyCommand::Init(it) => Box::pin(it.run(&context)),
        AnyCommand::Config(it) => Box::pin(it.run(&context)),
        AnyCommand::Serve(it) => Box::pin(it.run(&context)),
        AnyCommand::Ask(it) => Box::pin(it.run(&context)),
        AnyCommand::Chat(it) => Box::pin(it.run(&context)),
        AnyCommand::Web(it) => Box::pin(it.run(&context)),
        AnyCommand::Status => Box::pin(status::status(&context)),
        AnyCommand::Threads(it) => Box::pin(it.run(&context)),
        AnyCommand::Approvals(it) => Box::pin(it.run(&context)),
        AnyCommand::Drafts(it) => Box::pin(it.run(&context)),
        AnyCommand::Notices(it) => Box::pin(it.run(&context)),
        AnyCommand::Outbox(it) => Box::pin(it.run(&context)),
        AnyCommand::Memory(it) => Box::pin(it.run(&context)),
        AnyCommand::Schedule(it) => Box::pin(it.run(&context)),
        AnyCommand::Halt(it) => Box::pin(it.run(&context)),
        AnyCommand::Resume(it) => Box::pin(it.run(&context)),
        AnyCommand::Runs(it) => Box::pin(it.run(&context)),
        AnyCommand::Replay(it) => Box::pin(it.run(&context)),
        AnyCommand::Tail(it) => Box::pin(it.run(&context)),
        AnyCommand::Usage(it) => Box::pin(it.run(&context)),
        AnyCommand::Persona(it) => Box::pin(it.run(&context)),
        AnyCommand::Workspace(it) => Box::pin(it.run(&context)),
        AnyCommand::Providers(it) => Box::pin(it.run(&context)),
        AnyCommand::Policy(it) => Box::pin(it.run(&context)),
        AnyCommand::Hooks(it) => Box::pin(it.run(&context)),
        AnyCommand::Tools(it) => Box::pin(it.run(&context)),
        AnyCommand::Skills(it) => Box::pin(it.run(&context)),
        AnyCommand::Mcp(it) => Box::pin(it.run(&context)),
        AnyCommand::Doctor(it) => Box::pin(it.run(&context)),
        AnyCommand::Reload => Box::pin(reload::reload(&context)),
        AnyCommand::Nodes(it) => Box::pin(it.run(&context)),
        AnyCommand::Mailboxes(it) => Box::pin(it.run(&context)),
        AnyCommand::Webhooks(it) => Box::pin(it.run(&context)),
        AnyCommand::Ingest(it) => Box::pin(it.run(&context)),
        AnyCommand::Import(it) => Box::pin(it.run(&context)),
        AnyCommand::Migrate(it) => Box::pin(it.run(&context)),
        AnyCommand::Drain => Box::pin(drain::drain(&context)),
        AnyCommand::Backup(it) => Box::pin(it.run(&context)),
        AnyCommand::Restore(it) => Box::pin(it.run(&context)),
        AnyCommand::Upgrade(it) => Box::pin(it.run(&context)),
        AnyCommand::Export(it) => Box::pin(it.run(&context)),
        AnyCommand::Gc(it) => Box::pin(it.run(&context)),
        AnyCommand::Erase(it) => Box::pin(it.run(&context)),
        AnyCommand::Completions(it) => Box::pin(it.run(&context)),
        AnyCommand::Man(it) => Box::pin(it.run(&context)),
    };
    work.await
}

/// The whole command line, with its commands listed by their groups.
pub fn command() -> clap::Command {
    // A terminal asks by the table of its flags, too.
    let command = AttacheArgs::command().mut_subcommands(|command| match command.get_name() {
        "setup" => setup::arguments(command),
        _ => command,
    });
    let mut listed = String::new();
    for command in command.get_subcommands() {
        let name = command.get_name();
        if let Some((group, _)) = GROUPS.iter().find(|(_, first)| *first == name) {
            listed.push_str(&format!("\n{group}:\n"));
        }
        let about = command.get_about().map(ToString::to_string);
        listed.push_str(&format!("  {name:11}  {}\n", about.unwrap_or_default()));
    }
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{listed}\nOptions:\n{{options}}"
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
