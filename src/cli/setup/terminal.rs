//! Lines that are typed on a terminal, a secret among them without echo.

use crate::cli::screen::prompt;
use anyhow::Context as _;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{BufRead, Read};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Standard input, when it is a terminal.
pub struct Terminal {
    interrupts: Signal,
}

impl Terminal {
    pub fn open() -> anyhow::Result<Self> {
        // Without a handler Ctrl-C would end the process while the terminal does not echo.
        let interrupts = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
        Ok(Self { interrupts })
    }

    /// Asks for a line; `None`: the input ended, or Ctrl-C.
    pub async fn line(&mut self, asked: &str) -> anyhow::Result<Option<String>> {
        prompt(asked);
        // It may never return: the end of the process does not wait for it (`main.rs`).
        let reading = tokio::task::spawn_blocking(read_line);
        tokio::select! {
            line = reading => line.context("reading standard input")?,
            _ = self.interrupts.recv() => Ok(None),
        }
    }

    /// Asks for a line that the terminal does not show.
    pub async fn secret(&mut self, asked: &str) -> anyhow::Result<Option<String>> {
        let _silence = Silence::begin()?;
        let line = self.line(asked).await;
        // The line end was not shown either.
        prompt("\n");
        line
    }
}

/// A terminal that does not echo, until this is dropped.
struct Silence(Termios);

impl Silence {
    fn begin() -> anyhow::Result<Self> {
        let before = tcgetattr(std::io::stdin()).context("cannot ask without echo")?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent)
            .context("cannot ask without echo")?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that is gone needs no echo.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Reads one line without its end; `None`: there is no more.
fn read_line() -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    let mut input = std::io::stdin().lock().take(LINE_BYTES_MAX);
    let read = input
        .read_line(&mut line)
        .context("reading standard input")?;
    Ok((read > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}
