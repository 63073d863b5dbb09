//! `attache web tokens`: keys of programs for the API.

use super::super::args::{number, text, user};
use super::super::ask::persona_named;
use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure, screen};
use crate::domain::Timestamp;
use crate::store::{NewWebToken, WebScope, WebToken};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use serde::Serialize;
use std::time::Duration;

/// Most keys that are listed.
const SHOWN_MAX: u32 = 200;
/// Longest name of a key.
const NAME_CHARS_MAX: usize = 80;

pub fn command() -> clap::Command {
    clap::Command::new("tokens")
        .about("Make, list and revoke keys by which programs use the API")
        .after_help("No key lets a program decide on an approval: a person does that, in a browser, by mail or here.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            clap::Command::new("create")
                .about("Make a key and print it, this once")
                .arg(Arg::new("name").value_name("NAME").required(true).help("What it is for"))
                .arg(
                    Arg::new("scope")
                        .long("scope")
                        .value_name("SCOPE")
                        .value_parser(WebScope::parse)
                        .action(ArgAction::Append)
                        .default_value("read")
                        .help("What it may do: `read`, `admin`, `metrics`, `chat:PERSONA`, `send:PERSONA`, `ingest:PERSONA`; may be given several times"),
                )
                .arg(
                    Arg::new("days")
                        .long("days")
                        .value_name("N")
                        .value_parser(value_parser!(u32).range(1..=366))
                        .default_value("90")
                        .help("Days for which it is good"),
                ),
        )
        .subcommand(clap::Command::new("list").about("List the keys, without their secrets"))
        .subcommand(
            clap::Command::new("revoke")
                .about("End a key at once")
                .arg(Arg::new("id").value_name("ID").required(true).help("Its id, or the last characters of it")),
        )
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

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    match args.subcommand() {
        Some(("create", args)) => create(context, args).await,
        Some(("revoke", args)) => revoke(context, args).await,
        _ => list(context).await,
    }
}

async fn create(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.store_of_engine().await?;
    let scopes: Vec<WebScope> = args
        .get_many("scope")
        .map(|scopes| scopes.cloned().collect())
        .unwrap_or_default();
    let config = context.config()?;
    for persona in scopes.iter().filter_map(WebScope::persona) {
        persona_named(&config, persona.as_str())?;
    }
    let days = Duration::from_secs(u64::from(number(args, "days")) * 24 * 3600);
    let secret = format!("att_{}", store.clock().new_secret());
    let expires_at = store.clock().now().plus(days);
    let new = NewWebToken {
        name: crate::text::truncated(&crate::text::one_line(text(args, "name")), NAME_CHARS_MAX),
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
    if context.json() {
        context.screen.json(&tokens)?;
        return Ok(Exit::Ok);
    }
    let now = store.clock().now();
    let rows: Vec<Vec<String>> = tokens.iter().map(|token| cells(token, now)).collect();
    let columns = Columns::of(&["ID", "NAME", "SCOPES", "MADE", "ENDS", "USED", "STATE"])
        .main("NAME")
        .optional(&["MADE", "USED"]);
    context.screen.listing(columns, &rows, "there is no key")?;
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

async fn revoke(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let typed = text(args, "id");
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
