//! Log lines on stderr: `--log FILTER`, `--log-format text|json`.

use super::exit::{Exit, Failure};
use super::log_writer::{Flush, LogWriter};
use anyhow::Context as _;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging; dropping the returned value writes the last lines. `filter` has `tracing`'s
/// syntax, such as `info` or `attache::gateway=debug,warn`; a room is named without its crate.
pub fn start(filter: &str, json: bool) -> anyhow::Result<Flush> {
    let parsed = EnvFilter::builder()
        .parse(with_crates(filter))
        .map_err(|source| {
            Failure::new(Exit::Usage, format!("`{filter}` is not a log filter"))
                .hint("write a level such as `info`, or `attache::gateway=debug,warn`")
                .because(source)
        })?;
    let (writer, flush) = LogWriter::to_stderr().context("cannot start logging")?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(writer);
    // The subscriber reports its own errors by `eprintln!`, which panics when stderr accepts
    // nothing more.
    let builder = builder.log_internal_errors(false);
    // A second start, as tests make it, keeps the first subscriber.
    let _already_started = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder
            .with_ansi(std::io::stderr().is_terminal())
            .try_init()
    };
    Ok(flush)
}

/// The root names each room behind its crate, and targets of log lines begin with that crate.
const ROOT: &str = include_str!("../../lib.rs");

/// Puts the crate of a room before it: `attache::runs=debug` is `attache_engine::runs=debug`.
fn with_crates(filter: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let crate_of = |room: &str| {
        let uses = ROOT
            .lines()
            .filter_map(|line| line.strip_prefix("pub use "));
        let mut uses = uses.filter_map(|line| line.split_once("::"));
        uses.find(|(_, rooms)| rooms.split(|c| !is_word(c)).any(|name| name == room))
    };
    let directives = filter.split(',').map(|directive| {
        let inner = directive.trim().strip_prefix("attache::");
        let of_crate = inner.and_then(|inner| {
            let (name, _) = crate_of(inner.split(|c| !is_word(c)).next()?)?;
            Some(format!("{name}::{inner}"))
        });
        of_crate.unwrap_or_else(|| directive.to_owned())
    });
    directives.collect::<Vec<_>>().join(",")
}

#[test]
fn a_room_is_named_without_its_crate() {
    let filters = [
        ("info", "info"),
        ("attache=debug,warn", "attache=debug,warn"),
        ("attache::runs=debug", "attache_engine::runs=debug"),
        (
            "warn, attache::webhooks::worker=trace",
            "warn,attache_gateway::webhooks::worker=trace",
        ),
        ("attache::web=info", "attache_settings::web=info"),
        ("attache::app=debug", "attache::app=debug"),
    ];
    for (typed, meant) in filters {
        assert_eq!(with_crates(typed), meant);
    }
}
