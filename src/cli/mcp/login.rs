//! `attache mcp login NAME`: the owner logs in at a server, in a browser on this machine or another.

use super::super::{CommandContext, Exit, Failure, screen};
use super::{browser, look};
use crate::clock::SystemClock;
use crate::config::spell;
use crate::mcp_client::{CallbackListener, LoginAttempt, LoginError, RedirectVerdict, ServerLogin};
use serde::Serialize;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest line that is pasted.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// Most lines that are read.
const LINES_MAX: usize = 100;

/// A login that was done.
#[derive(Serialize)]
struct DoneLogin<'a> {
    server: &'a str,
    issuer: String,
    /// End of the first token; `None`: the server does not say.
    expires_at: Option<String>,
    /// `true`: it is renewed without the owner.
    renews: bool,
}

pub async fn run(
    context: &CommandContext,
    name: &str,
    no_browser: bool,
    wait: u32,
) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let server = look::server(&config, name)?;
    let clock = Arc::new(SystemClock::new());
    let mut listener = CallbackListener::bind().await?;
    let begun = LoginAttempt::begin(server, listener.redirect()?, clock.clone()).await;
    let attempt = begun.map_err(failed)?;
    screen::remark(&format!(
        "Log in at {} with this page:\n{}",
        attempt.issuer(),
        attempt.question()
    ));
    if !no_browser && !browser::open(attempt.question()) {
        screen::remark("no browser could be opened: open the page yourself");
    }
    let within = Duration::from_secs(wait.into());
    let answered = tokio::time::timeout(within, code(&mut listener, &attempt)).await;
    let code = answered.map_err(|_| {
        let what = format!("nobody logged in within {}", spell(within));
        Failure::new(Exit::Failed, what).hint("`--wait SECONDS` waits longer")
    })??;
    let issuer = attempt.issuer().to_owned();
    attempt.finish(&code).await.map_err(failed)?;
    let state = ServerLogin::of(server, clock).state().await;
    let done = DoneLogin {
        server: name,
        issuer,
        expires_at: state.expires_at,
        renews: state.renews,
    };
    if context.json() {
        context.screen.json(&done)?;
    } else {
        context.screen.line(format!("logged in at `{name}`"))?;
        if !done.renews {
            let until = done.expires_at.as_deref().unwrap_or("an unknown time");
            screen::remark(&format!(
                "the server gave nothing to renew the login with: it ends at {until}; some servers renew it if \
                 `oauth.scope` holds `offline_access`"
            ));
        }
    }
    Ok(Exit::Ok)
}

/// Waits for the code: from the browser, or from a pasted address.
async fn code(listener: &mut CallbackListener, attempt: &LoginAttempt) -> anyhow::Result<String> {
    let mut pasted = pasted_lines();
    loop {
        let (verdict, request) = tokio::select! {
            request = listener.next() => {
                let request = request?;
                (attempt.judge(&request.address), Some(request))
            }
            Some(line) = pasted.recv() => (attempt.judge(&line), None),
        };
        let is_right = matches!(verdict, RedirectVerdict::Code(_));
        if let Some(request) = request {
            request.answer(is_right).await;
        }
        match verdict {
            RedirectVerdict::Code(code) => return Ok(code),
            RedirectVerdict::Failed(error) => return Err(failed(error).into()),
            RedirectVerdict::Stray => {
                screen::remark("that is not the answer to this login; waiting for it");
            }
        }
    }
}

/// Reads lines of standard input on a thread that ends with the process.
fn pasted_lines() -> mpsc::Receiver<String> {
    let (lines, pasted) = mpsc::channel(1);
    let read = move || {
        let mut input = std::io::stdin().lock();
        for _ in 0..LINES_MAX {
            let mut line = String::new();
            let read = input.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let is_over = read.map_or(true, |bytes| bytes == 0);
            if is_over || (!line.trim().is_empty() && lines.blocking_send(line).is_err()) {
                return;
            }
        }
    };
    // Without the thread nothing can be pasted, and the browser is waited for all the same.
    let _started = std::thread::Builder::new()
        .name("pasted".to_owned())
        .spawn(read);
    pasted
}

fn failed(error: LoginError) -> Failure {
    Failure::new(Exit::Failed, "there is no login").because(error)
}
