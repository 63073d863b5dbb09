//! Progress of long work, drawn on stderr; not drawn when stderr is no terminal or `--json` was
//! given.

use crate::cli::CommandContext;
use indicatif::{ProgressBar, ProgressStyle};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

/// Interval between two polls of work that does not report its progress.
const GLANCE: Duration = Duration::from_millis(200);

/// A bar over a known number of items, such as `runs`.
pub fn bar(context: &CommandContext, total: u64, things: &str) -> ProgressBar {
    shaped(
        context,
        ProgressBar::new(total),
        &format!("{{bar:24}} {{pos}}/{{len}} {things}, {{eta}} left"),
    )
}

/// A bar over bytes, with a message behind them.
pub fn bytes(context: &CommandContext, total: u64) -> ProgressBar {
    shaped(
        context,
        ProgressBar::new(total),
        "{bar:16} {binary_bytes}/{binary_total_bytes} {msg}, {eta} left",
    )
}

/// A spinner with the current action, for work of unknown duration.
pub fn spinner(context: &CommandContext, doing: impl Into<String>) -> ProgressBar {
    let spinner = shaped(
        context,
        ProgressBar::new_spinner(),
        "{spinner} {msg}, {elapsed}",
    );
    spinner.set_message(doing.into());
    spinner
}

fn shaped(context: &CommandContext, bar: ProgressBar, shape: &str) -> ProgressBar {
    match ProgressStyle::with_template(shape) {
        _ if context.json() => ProgressBar::hidden(),
        Ok(style) => bar.with_style(style),
        // The templates are constants and valid.
        Err(_) => bar,
    }
}

/// Runs a future while a spinner turns.
pub async fn turning<T>(context: &CommandContext, doing: &str, work: impl Future<Output = T>) -> T {
    turning_on(&spinner(context, doing), work).await
}

/// Runs a future while a spinner turns, whose message the future may change.
pub async fn turning_on<T>(spinner: &ProgressBar, work: impl Future<Output = T>) -> T {
    beside(spinner, ProgressBar::tick, work).await
}

/// Copies into a file that grows, with a bar that shows the progress.
pub async fn growing<T>(
    context: &CommandContext,
    file: &Path,
    total: u64,
    doing: &str,
    work: impl Future<Output = T>,
) -> T {
    let bar = bytes(context, total);
    bar.set_message(doing.to_owned());
    let look = |bar: &ProgressBar| {
        bar.set_position(std::fs::metadata(file).map_or(0, |found| found.len()));
    };
    beside(&bar, look, work).await
}

async fn beside<T>(
    bar: &ProgressBar,
    look: impl Fn(&ProgressBar),
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            () = tokio::time::sleep(GLANCE) => look(bar),
        }
    }
}
