//! `attache web tokens`: keys of programs for the API.

use super::super::args::user;
use super::super::ask::persona_named;
use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure, screen};
use crate::domain::Timestamp;
use crate::store::{NewWebToken, WebScope, WebToken};
use clap::value_parser;
use serde::Serialize;
use std::time::Duration;

/// Most keys that are listed.
const SHOWN_MAX: u32 = 200;
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

/// A key with its secret.
#[derive(Serialize)]
struct CreatedToken<'a> {
    id: &'a str,
    token: &'a str,
    expires_at: Timestamp,
}

/// A key that was revoked.
#[derive(Serialize)]
struct RevokedToken<'a> {
    id: &'a str,
    revoked: bool,
}

impl TokensCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Create { name, scope, days } => create(context, &name, scope, days).await,
            Self::List => list(context).await,
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
    if context.json() {
        context.screen.json(&CreatedToken {
            id: &id,
            token: &secret,
            expires_at,
        })?;
        return Ok(Exit::Ok);
    }
    context.screen.line(&secret)?;
    screen::remark(&format!(
        "it is not shown again, and is good until {expires_at}; send it as `Authorization: Bearer …`"
    ));
    Ok(Exit::Ok)
}

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let tokens = store.web_tokens(SHOWN_MAX).await?;
    let now = store.clock().now();
    let columns = Columns::of(&["ID", "NAME", "SCOPES", "MADE", "ENDS", "USED", "STATE"])
        .main("NAME")
        .optional(&["MADE", "USED"]);
    context
        .screen
        .list(&tokens, columns, "there is no key", |token| {
            cells(token, now)
        })?;
    Ok(Exit::Ok)
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
        let message = format!("`{typed}` is not the end of one key's id");
        return Err(Failure::new(Exit::NoInput, message)
            .hint("`attache web tokens list` shows them")
            .into());
    };
    let revoked = store.revoke_web_token(&token.id, "cli").await?;
    if context.json() {
        let record = RevokedToken {
            id: &token.id,
            revoked,
        };
        context.screen.json(&record)?;
        return Ok(Exit::Ok);
    }
    context.screen.line(match revoked {
        true => format!("{}: revoked", token.id),
        false => format!("{}: was revoked before", token.id),
    })?;
    Ok(Exit::Ok)
}
