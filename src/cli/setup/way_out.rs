//! The way out: a smarthost, or a folder.

use super::asker::{Asker, NONE};
use super::draft::{GATEWAY, WorkspaceDraft};
use super::flags::{
    BOUNCE, IN, OUT, OUT_FOLDER, PERSONA, REPLY, SMTP_HOST, SMTP_PASSWORD, SMTP_PORT, SMTP_TLS,
    SMTP_USER,
};
use super::{existing, parse};
use crate::cli::outbox;
use crate::config::{Config, TransportSettings};
use crate::domain::PersonaId;
use crate::gateway::outbound::{Obstacle, TransportPhase};
use serde_json::{Map, Value, json};

const KINDS: &[&str] = &["smarthost", "folder"];
const TLS: &[&str] = &["starttls", "implicit", "none"];
const BOUNCES: &[&str] = &["tagged", "plain"];
const REPLIES: &[&str] = &["draft", "final", "tool_only"];
/// What a persona does that does not say it.
const FINAL: &str = "final";
/// Variable of the password, unless the way out names another.
const PASSWORD_VARIABLE: &str = "ATTACHE_SMTP_PASSWORD";
/// Keys that one kind has and the other has not.
const OF_SMARTHOST: [&str; 6] = [
    "host",
    "port",
    "tls",
    "user",
    "password_variable",
    "connections_max",
];
const OF_FOLDER: [&str; 1] = ["path"];

pub async fn ask(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    reply(asker, draft).await?;
    let kind = asker.answer(OUT, None, parse::word(KINDS)).await?;
    let foreign: &[&str] = if kind == "folder" {
        &OF_SMARTHOST
    } else {
        &OF_FOLDER
    };
    let there = draft.json(GATEWAY)?["outbound"].as_object().cloned();
    let mut outbound = there.clone().unwrap_or_default();
    outbound.insert("kind".to_owned(), json!(kind));
    outbound.retain(|key, _| !foreign.contains(&key.as_str()));
    if kind == "folder" {
        let path = asker
            .answer(OUT_FOLDER, Some("data/outbox"), parse::some)
            .await?;
        outbound.insert("path".to_owned(), json!(path));
        return apply(draft, there.as_ref(), &outbound);
    }
    let host = asker.answer(SMTP_HOST, None, parse::host).await?;
    let tls = asker
        .answer(SMTP_TLS, Some("starttls"), parse::word(TLS))
        .await?;
    let port = asker.answer(SMTP_PORT, Some(NONE), parse::port).await?;
    let user = asker
        .answer(SMTP_USER, Some(NONE), parse::some_or_none)
        .await?;
    // A rented mailbox seldom takes mail for, or from, `user+token`.
    let is_rented = asker.default_of(IN) == "imap" && there.is_none();
    let usual = if is_rented { "plain" } else { "tagged" };
    let bounce = asker
        .answer(BOUNCE, Some(usual), parse::word(BOUNCES))
        .await?;
    outbound.insert("host".to_owned(), json!(host));
    let usual_port = match tls {
        "implicit" => 465,
        "none" => 25,
        _ => 587,
    };
    put(
        &mut outbound,
        "port",
        port.map(Value::from),
        &json!(usual_port),
    );
    put(&mut outbound, "tls", Some(json!(tls)), &json!("starttls"));
    put(
        &mut outbound,
        "bounce_address",
        Some(json!(bounce)),
        &json!("tagged"),
    );
    match &user {
        Some(user) => drop(outbound.insert("user".to_owned(), json!(user))),
        None => outbound.retain(|key, _| key != "user" && key != "password_variable"),
    }
    let variable = outbound.get("password_variable").and_then(Value::as_str);
    let variable = variable.unwrap_or(PASSWORD_VARIABLE).to_owned();
    apply(draft, there.as_ref(), &outbound)?;
    if user.is_some()
        && let Some(password) = asker
            .secret(SMTP_PASSWORD, draft.has_secret(&variable))
            .await?
    {
        draft.set_secret(&variable, password);
    }
    Ok(())
}

/// Asks whether answers wait for a yes: in somebody's own mailbox they do, unless its owner says otherwise.
async fn reply(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    let Ok(id) = PersonaId::parse(&asker.default_of(PERSONA)) else {
        return Ok(());
    };
    let there = existing::of_persona(&draft.folder, &id, "reply");
    // A workspace that took no mail out of a mailbox until now has nobody who is used to answers that leave at once.
    let is_new_mailbox = asker.default_of(IN) == "imap" && !existing::has_mailbox(&draft.folder);
    let usual = match there.as_deref() {
        Some("") | None if is_new_mailbox => "draft",
        Some("") | None => FINAL,
        Some(mode) => mode,
    };
    let mode = asker
        .answer(REPLY, Some(usual), parse::word(REPLIES))
        .await?;
    let settings = format!("personas/{id}/persona.json");
    Ok(draft.set_or_default(&settings, "/reply", Some(json!(mode)), json!(FINAL))?)
}

/// Puts a value where the engine's own default would be another, or where one is written already.
fn put(outbound: &mut Map<String, Value>, key: &str, value: Option<Value>, usual: &Value) {
    let is_there = outbound.contains_key(key);
    let value = value.unwrap_or_else(|| usual.clone());
    if is_there || value != *usual {
        outbound.insert(key.to_owned(), value);
    }
}

/// Sets single members where none is taken away, so that the text of all others stays as it is.
fn apply(
    draft: &mut WorkspaceDraft,
    there: Option<&Map<String, Value>>,
    outbound: &Map<String, Value>,
) -> anyhow::Result<()> {
    let is_kept = there.is_some_and(|there| there.keys().all(|key| outbound.contains_key(key)));
    if !is_kept {
        return Ok(draft.set(GATEWAY, "/outbound", &Value::Object(outbound.clone()))?);
    }
    for (key, value) in outbound {
        draft.set(GATEWAY, &format!("/outbound/{key}"), value)?;
    }
    Ok(())
}

/// Remedy in the words of the answers: no file is written yet.
fn remedy(obstacle: &Obstacle) -> &'static str {
    match obstacle.at {
        TransportPhase::Connect => {
            "see --smtp-host and --smtp-port, and whether a firewall or the provider of this machine closes that port"
        }
        TransportPhase::Login => {
            "see --smtp-user and its password; many providers want a password that is made for one program (an app password)"
        }
        TransportPhase::Sender => {
            "the server takes no mail from this address: allow it there as an alias of the user, or give `--bounce-address plain` \
             if it refuses only addresses with `+`"
        }
        TransportPhase::Folder => "make the folder writable, or name another one by --out-folder",
        TransportPhase::Greeting | TransportPhase::Tls => obstacle.remedy(),
    }
}

/// Asks the server whether the personas may send, sending nothing.
pub async fn check(config: &Config) -> anyhow::Result<Vec<String>> {
    match &config.gateway.outbound {
        Some(TransportSettings::Smarthost(_)) => {
            let checked = outbox::way_out(config, remedy).await?;
            Ok(vec![format!(
                "`{}` can be used: {}",
                checked.to,
                checked.seen.join("; ")
            )])
        }
        Some(TransportSettings::Folder(path)) => Ok(vec![format!(
            "mails are written to `{}`; nothing is sent",
            path.display()
        )]),
        None => Ok(Vec::new()),
    }
}
