//! `attache web`: access to the pages and the API: codes for browsers, their sessions, keys of programs.

use super::args::user;
use super::ask::persona_named;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::config::HttpListener;
use crate::domain::Timestamp;
use crate::store::{LOGIN_CODE_MAX, NewWebToken, WebScope, WebSession, WebToken};
use clap::value_parser;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

/// Log in to the pages, and make keys for programs
#[derive(clap::Subcommand)]
pub enum WebCommand {
    Login(WebLogin),
    #[command(subcommand)]
    Sessions(SessionsCommand),
    #[command(subcommand)]
    Tokens(TokensCommand),
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
        .filter(|listener| {
            typed.is_none_or(|typed| typed.is_empty() || listener.address.to_string() == typed)
        })
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
        [] if listeners.is_empty() => refuse(
            Exit::BadData,
            "the pages are not switched on",
            "add `{ \"kind\": \"http\", \"address\": \"127.0.0.1:8025\" }` to `listeners` in configs/gateway.json, and start the engine again",
        ),
        [] => refuse(
            Exit::Usage,
            format!("no pages are served at `{}`", typed.unwrap_or_default()),
            format!("they are at {}", addresses()),
        ),
        _ => refuse(
            Exit::Usage,
            "the pages are served at several addresses",
            format!("name one with --listener: {}", addresses()),
        ),
    }
}

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
        let listener = listener(&config.gateway.http_listeners, self.listener.as_deref())?;
        let code = code(context, &listener).await?;
        context.report(&code, |screen| {
            screen.line(&code.url)?;
            screen::remark(&format!(
                "open it within {SECONDS} seconds; it works once. Or open {}/login and type {}",
                listener.url(),
                code.code
            ));
            Ok(())
        })
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

/// Most sessions and keys that are listed.
const SHOWN_MAX: u32 = 200;

/// List browsers that are logged in, and log them out
#[derive(clap::Subcommand)]
pub enum SessionsCommand {
    /// List the sessions that are good
    List,
    /// End a session, or all of them, at once
    Revoke {
        /// Its id, or the last characters of it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Every session
        #[arg(long)]
        all: bool,
    },
}

impl SessionsCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let now = store.clock().now();
        let mut sessions = store.web_sessions(SHOWN_MAX).await?;
        sessions.retain(|session| session.is_good(session.used_at, now));
        let ended = match self {
            Self::List => return list_sessions(context, &sessions),
            Self::Revoke { id: None, .. } => store.end_web_sessions().await?,
            Self::Revoke {
                id: Some(typed), ..
            } => {
                let found: Vec<&WebSession> = sessions
                    .iter()
                    .filter(|session| session.id.ends_with(&typed))
                    .collect();
                let [session] = found.as_slice() else {
                    return refuse(
                        Exit::NoInput,
                        format!("`{typed}` is not the end of one session's id"),
                        "`attache web sessions list` shows them",
                    );
                };
                u64::from(store.end_web_session(&session.id, "cli").await?)
            }
        };
        context.report(&json!({ "ended": ended }), |screen| {
            Ok(screen.line(format!("{} ended", crate::text::plural(ended, "session")))?)
        })
    }
}

fn list_sessions(context: &CommandContext, sessions: &[WebSession]) -> anyhow::Result<Exit> {
    let row = |session: &WebSession| {
        vec![
            session.id.clone(),
            session.listener.clone(),
            session.asked_by.clone(),
            session.created_at.to_string(),
            session.used_at.to_string(),
            session.expires_at.to_string(),
            session.browser.clone(),
        ]
    };
    let columns = Columns::of(&["ID", "AT", "BY", "SINCE", "USED", "ENDS", "BROWSER"])
        .main("BROWSER")
        .optional(&["USED", "AT"]);
    context.list(sessions, columns, "no browser is logged in", row)
}

/// Longest name of a key.
const NAME_CHARS_MAX: usize = 80;

/// Make, list and revoke keys by which programs use the API
#[derive(clap::Subcommand)]
#[command(
    after_help = "No key lets a program decide on an approval: a person does that, in a browser, by mail or here."
)]
pub enum TokensCommand {
    /// Make a key and print it, this once
    Create {
        /// What it is for
        name: String,
        /// What it may do: `read`, `admin`, `metrics`, `chat:PERSONA`, `send:PERSONA`, `ingest:PERSONA`; may be given several times
        #[arg(long, value_parser = WebScope::parse, default_value = "read")]
        scope: Vec<WebScope>,
        /// Days for which it is good
        #[arg(long, value_name = "N", default_value_t = 90, value_parser = value_parser!(u32).range(1..=366))]
        days: u32,
    },
    /// List the keys, without their secrets
    List,
    /// End a key at once
    Revoke {
        /// Its id, or the last characters of it
        id: String,
    },
}

impl TokensCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Create { name, scope, days } => create(context, &name, scope, days).await,
            Self::List => list_tokens(context).await,
            Self::Revoke { id } => revoke(context, &id).await,
        }
    }
}

async fn create(
    context: &CommandContext,
    name: &str,
    scopes: Vec<WebScope>,
    days: u32,
) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let config = context.config()?;
    for persona in scopes.iter().filter_map(WebScope::persona) {
        persona_named(&config, persona.as_str())?;
    }
    let days = Duration::from_secs(u64::from(days) * 24 * 3600);
    let secret = format!("att_{}", store.clock().new_secret());
    let expires_at = store.clock().now().plus(days);
    let new = NewWebToken {
        name: crate::text::truncated(&crate::text::one_line(name), NAME_CHARS_MAX),
        scopes,
        created_by: user(),
        expires_at,
        secret: secret.clone(),
    };
    let id = store.add_web_token(new).await?;
    context.report(&json!({
            "id": id,
            "token": secret,
            "expires_at": expires_at,
        }), |screen| {
    screen.line(&secret)?;
    screen::remark(&format!(
        "it is not shown again, and is good until {expires_at}; send it as `Authorization: Bearer …`"
    ));
     Ok(())
})
}

async fn list_tokens(context: &CommandContext) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let tokens = store.web_tokens(SHOWN_MAX).await?;
    let now = store.clock().now();
    let columns = Columns::of(&["ID", "NAME", "SCOPES", "MADE", "ENDS", "USED", "STATE"])
        .main("NAME")
        .optional(&["MADE", "USED"]);
    context.list(&tokens, columns, "there is no key", |token| {
        cells(token, now)
    })
}

fn cells(token: &WebToken, now: Timestamp) -> Vec<String> {
    let scopes: Vec<String> = token.scopes.iter().map(WebScope::to_string).collect();
    let state = match token.revoked_at {
        Some(_) => "revoked",
        None if token.is_good(now) => "good",
        None => "over",
    };
    vec![
        token.id.clone(),
        token.name.clone(),
        scopes.join(", "),
        token.created_at.to_string(),
        token.expires_at.to_string(),
        token.used_at.map(|at| at.to_string()).unwrap_or_default(),
        state.to_owned(),
    ]
}

async fn revoke(context: &CommandContext, typed: &str) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let tokens = store.web_tokens(SHOWN_MAX).await?;
    let found: Vec<&WebToken> = tokens
        .iter()
        .filter(|token| token.id.ends_with(typed))
        .collect();
    let [token] = found.as_slice() else {
        return refuse(
            Exit::NoInput,
            format!("`{typed}` is not the end of one key's id"),
            "`attache web tokens list` shows them",
        );
    };
    let revoked = store.revoke_web_token(&token.id, "cli").await?;
    if context.json() {
        let record = json!({
            "id": token.id,
            "revoked": revoked,
        });
        context.screen.json(&record)?;
        return Ok(Exit::Ok);
    }
    context.screen.line(match revoked {
        true => format!("{}: revoked", token.id),
        false => format!("{}: was revoked before", token.id),
    })?;
    Ok(Exit::Ok)
}
