//! `attache web login`: a one-time code for a browser.

use super::super::args::{text, user};
use super::super::{CommandContext, Exit, screen};
use crate::config::HttpListener;
use crate::domain::Timestamp;
use crate::store::LOGIN_CODE_MAX;
use clap::{Arg, ArgMatches};
use serde::Serialize;

/// Characters of a code: 48 bits, which nobody guesses in a minute with ten tries.
const CODE_CHARS: usize = 12;

pub fn command() -> clap::Command {
    clap::Command::new("login")
        .about("Make a code by which a browser logs in, once, within a minute")
        .arg(
            Arg::new("listener")
                .long("listener")
                .value_name("ADDRESS")
                .help("The address of the pages, where there are several"),
        )
}

/// A code that was made.
#[derive(Serialize)]
struct LoginCode<'a> {
    url: String,
    code: &'a str,
    expires_at: Timestamp,
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let listener = super::listener(&config.gateway.http_listeners, text(args, "listener"))?;
    let store = context.store_of_engine().await?;
    let token = store.clock().new_secret();
    let code = crate::text::truncated(&token, CODE_CHARS);
    let address = listener.address.to_string();
    store.add_web_login(&code, &address, &user()).await?;
    let typed = format!("{}-{}-{}", &code[..4], &code[4..8], &code[8..]);
    let page = format!("{}/login", origin(&listener));
    // A fragment stays in the browser: no server, proxy or log sees it.
    let url = format!("{page}#{typed}");
    if context.json() {
        context.screen.json(&LoginCode {
            url,
            code: &typed,
            expires_at: store.clock().now().plus(LOGIN_CODE_MAX),
        })?;
        return Ok(Exit::Ok);
    }
    context.screen.line(&url)?;
    let seconds = LOGIN_CODE_MAX.as_secs();
    screen::remark(&format!(
        "open it within {seconds} seconds; it works once. Or open {page} and type {typed}"
    ));
    Ok(Exit::Ok)
}

/// Returns the address that a browser uses: the configured one, or that of the socket.
fn origin(listener: &HttpListener) -> String {
    match listener.origins.first() {
        Some(origin) => origin.to_string(),
        None => {
            let scheme = if listener.is_tls { "https" } else { "http" };
            format!("{scheme}://{}", listener.address)
        }
    }
}
