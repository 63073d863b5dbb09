//! `attache web`: access to the pages and the API.

pub(super) mod login;
mod sessions;
mod tokens;

use super::{CommandContext, Exit, Failure};
use crate::config::HttpListener;

/// Log in to the pages, and make keys for programs
#[derive(clap::Subcommand)]
pub enum WebCommand {
    Login(login::WebLogin),
    #[command(subcommand)]
    Sessions(sessions::SessionsCommand),
    #[command(subcommand)]
    Tokens(tokens::TokensCommand),
}

impl WebCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Login(it) => it.run(context).await,
            Self::Sessions(it) => it.run(context).await,
            Self::Tokens(it) => it.run(context).await,
        }
    }
}

/// Returns the listener of the pages, by its address where there are several.
fn listener(listeners: &[HttpListener], typed: Option<&str>) -> Result<HttpListener, Failure> {
    let found: Vec<&HttpListener> = listeners
        .iter()
        .filter(|listener| typed.is_none_or(|typed| listener.address.to_string() == typed))
        .collect();
    let addresses = || {
        let addresses: Vec<String> = listeners
            .iter()
            .map(|listener| listener.address.to_string())
            .collect();
        addresses.join(", ")
    };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] if listeners.is_empty() => Err(Failure::new(Exit::BadData, "the pages are not switched on").hint(
            "add `{ \"kind\": \"http\", \"address\": \"127.0.0.1:8025\" }` to `listeners` in configs/gateway.json, and start the engine again",
        )),
        [] => Err(
            Failure::new(Exit::Usage, format!("no pages are served at `{}`", typed.unwrap_or_default()))
                .hint(format!("they are at {}", addresses())),
        ),
        _ => Err(Failure::new(Exit::Usage, "the pages are served at several addresses")
            .hint(format!("name one with --listener: {}", addresses()))),
    }
}
