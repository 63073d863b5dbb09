//! Long work on a terminal: how far it is. Drawn on stderr, and nowhere when stderr is no terminal or `--json` was given.

use super::Context;
use indicatif::{ProgressBar, ProgressStyle};
use std::future::Future;
use std::path::Path;
use std::time::Duration;

/// Between two looks at work that does not tell by itself how far it is.
const GLANCE: Duration = Duration::from_millis(200);

/// A bar over a known number of things, such as `runs`.
pub fn bar(context: &Context, total: u64, things: &str) -> ProgressBar {
    shaped(context, ProgressBar::new(total), &format!("{{bar:24}} {{pos}}/{{len}} {things}, {{eta}} left"))
}

/// A bar over bytes, with a message behind them.
pub fn bytes(context: &Context, total: u64) -> ProgressBar {
    shaped(context, ProgressBar::new(total), "{bar:16} {binary_bytes}/{binary_total_bytes} {msg}, {eta} left")
}

/// Something that turns, with what is done now, while nobody knows how long it takes.
pub fn spinner(context: &Context, doing: impl Into<String>) -> ProgressBar {
    let spinner = shaped(context, ProgressBar::new_spinner(), "{spinner} {msg}, {elapsed}");
    spinner.set_message(doing.into());
    spinner
}

fn shaped(context: &Context, bar: ProgressBar, shape: &str) -> ProgressBar {
    match ProgressStyle::with_template(shape) {
        _ if context.json() => ProgressBar::hidden(),
        Ok(style) => bar.with_style(style),
        // The shapes are constants, and right.
        Err(_) => bar,
    }
}

/// Does work beside a spinner.
pub async fn turning<T>(context: &Context, doing: &str, work: impl Future<Output = T>) -> T {
    let spinner = spinner(context, doing);
    beside(&spinner, ProgressBar::tick, work).await
}

/// Copies into a file that grows, beside a bar that shows how far it is.
pub async fn growing<T>(
    context: &Context,
    (file, total): (&Path, u64),
    doing: &str,
    work: impl Future<Output = T>,
) -> T {
    let bar = bytes(context, total);
    bar.set_message(doing.to_owned());
    let look = |bar: &ProgressBar| bar.set_position(std::fs::metadata(file).map_or(0, |found| found.len()));
    beside(&bar, look, work).await
}

async fn beside<T>(bar: &ProgressBar, look: impl Fn(&ProgressBar), work: impl Future<Output = T>) -> T {
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
