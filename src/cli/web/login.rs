//! `attache web login`: a one-time code for a browser.

use super::super::args::user;
use super::super::{CommandContext, Exit, screen};
use crate::config::HttpListener;
use crate::domain::Timestamp;
use crate::store::LOGIN_CODE_MAX;
use serde::Serialize;

/// Seconds for which a code is good.
pub const SECONDS: u64 = LOGIN_CODE_MAX.as_secs();
/// Characters of a code: 48 bits, which nobody guesses in a minute with ten tries.
const CODE_CHARS: usize = 12;

/// Make a code by which a browser logs in, once, within a minute
#[derive(clap::Args)]
pub struct WebLogin {
    /// The address of the pages, where there are several
    #[arg(long, value_name = "ADDRESS")]
    listener: Option<String>,
}

/// A code that was made.
#[derive(Serialize)]
pub struct LoginCode {
    pub url: String,
    code: String,
    expires_at: Timestamp,
}

impl WebLogin {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let listener = super::listener(&config.gateway.http_listeners, self.listener.as_deref())?;
        let code = code(context, &listener).await?;
        if context.json() {
            context.screen.json(&code)?;
            return Ok(Exit::Ok);
        }
        context.screen.line(&code.url)?;
        screen::remark(&format!(
            "open it within {SECONDS} seconds; it works once. Or open {}/login and type {}",
            listener.url(),
            code.code
        ));
        Ok(Exit::Ok)
    }
}

/// Makes a code for the pages of a listener.
pub async fn code(context: &CommandContext, listener: &HttpListener) -> anyhow::Result<LoginCode> {
    let store = context.store_of_engine().await?;
    let token = store.clock().new_secret();
    let code = crate::text::truncated(&token, CODE_CHARS);
    let address = listener.address.to_string();
    store.add_web_login(&code, &address, &user()).await?;
    let expires_at = store.clock().now().plus(LOGIN_CODE_MAX);
    store.close().await;
    let typed = format!("{}-{}-{}", &code[..4], &code[4..8], &code[8..]);
    Ok(LoginCode {
        // A fragment stays in the browser: no server, proxy or log sees it.
        url: format!("{}/login#{typed}", listener.url()),
        code: typed,
        expires_at,
    })
}
