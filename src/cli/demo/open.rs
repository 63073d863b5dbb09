//! `attache demo --serve`: the workspace of the demo stays open, with the pages, until it is stopped.

use crate::app::NodeRoles;
use crate::cli::web::login;
use crate::cli::{CommandContext, Exit, Failure, screen, serve};
use crate::config::HttpListener;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// File that names the listeners.
static GATEWAY: &str = "configs/gateway.json";

/// Serves a workspace that the demo made, with pages at `address`.
pub async fn serve_pages(
    context: &CommandContext,
    workspace: PathBuf,
    address: SocketAddr,
) -> anyhow::Result<Exit> {
    let here = CommandContext {
        workspace,
        program: context.program.clone(),
        screen: context.screen.clone(),
    };
    add_listener(&here.workspace, address)?;
    let config = here.config()?;
    let listeners: &[HttpListener] = &config.gateway.http_listeners;
    let listener = listeners.first().context("the demo has no pages")?;
    let link = login::code(&here, listener).await?;
    screen::remark(&format!(
        "open {} within {} seconds; `{} --workspace {} web login` makes another link, and Ctrl-C ends it all",
        link.url,
        login::SECONDS,
        screen::quoted(&context.program),
        screen::quoted(&here.workspace.display().to_string()),
    ));
    serve::serve(&here, false, NodeRoles::all()).await
}

/// Adds the pages to the listeners of a fresh workspace.
fn add_listener(workspace: &Path, address: SocketAddr) -> anyhow::Result<()> {
    if address.port() == 0 || !address.ip().is_loopback() {
        let failure = Failure::new(
            Exit::Usage,
            format!("`{address}` is no address for the demo"),
        );
        return Err(failure
            .hint("name one of this machine, such as 127.0.0.1:8026")
            .into());
    }
    let path = workspace.join(GATEWAY);
    let text = std::fs::read_to_string(&path).context(GATEWAY)?;
    let mut gateway: Value = serde_json::from_str(&text).context(GATEWAY)?;
    if let Some(listeners) = gateway["listeners"].as_array_mut() {
        listeners.push(json!({ "kind": "http", "address": address.to_string() }));
    }
    let text = serde_json::to_string_pretty(&gateway).context(GATEWAY)?;
    std::fs::write(&path, text + "\n").context(GATEWAY)
}
