//! Log lines on stderr: `--log FILTER`, `--log-format text|json`.

use super::exit::{Exit, Failure};
use super::log_writer::{Flush, LogWriter};
use anyhow::Context as _;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging; dropping the returned value writes the last lines. `filter` has `tracing`'s
/// syntax, such as `info` or `attache::gateway=debug,warn`.
pub fn start(filter: &str, json: bool) -> anyhow::Result<Flush> {
    let parsed = EnvFilter::builder().parse(filter).map_err(|source| {
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
