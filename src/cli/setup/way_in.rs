//! The way in: a listener, a mailbox or a folder. Ways that are there and are not asked for stay.

use super::asker::{Asker, NONE};
use super::draft::{GATEWAY, SECURITY, WorkspaceDraft};
use super::flags::{
    AUTHSERV_ID, HOST_NAME, IMAP_HOST, IMAP_PASSWORD, IMAP_PORT, IMAP_TLS, IMAP_USER, IN,
    IN_FOLDER, LISTEN, MAIL_PROVIDER, OTHER, PERSONA,
};
use super::{parse, rented};
use crate::cli::{Exit, Failure, mailboxes, refuse};
use crate::config::{Config, ListenAddress};
use crate::store::working_engine;
use rustix::fs::{Access, access};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const KINDS: &[&str] = &["smtp", "lmtp", "imap", "folder"];
const PROVIDERS: &[&str] = &["gmail", "fastmail", "mailbox.org", "migadu", OTHER];
const TLS: &[&str] = &["implicit", "starttls", "none"];
/// Variable of the mailbox's password, unless the mailbox names another.
const PASSWORD_VARIABLE: &str = "ATTACHE_IMAP_PASSWORD";

pub async fn ask(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    match asker.answer(IN, None, parse::word(KINDS)).await? {
        "imap" => imap(asker, draft).await,
        "folder" => {
            let path = asker.answer(IN_FOLDER, Some("inbox"), parse::some).await?;
            let fallback = asker.default_of(PERSONA);
            let folder = json!({ "path": path, "fallback": fallback });
            Ok(set_item(draft, "folders", |_| true, &folder)?)
        }
        kind => listener(asker, draft, kind).await,
    }
}

async fn listener(
    asker: &mut Asker<'_>,
    draft: &mut WorkspaceDraft,
    kind: &'static str,
) -> anyhow::Result<()> {
    let usual = if kind == "lmtp" {
        "127.0.0.1:2424"
    } else {
        "127.0.0.1:2525"
    };
    let address = asker.answer(LISTEN, Some(usual), parse::listen).await?;
    let domain = draft.json(GATEWAY)?["mail_domain"].clone();
    let host_name = asker
        .answer(HOST_NAME, domain.as_str(), parse::mail_domain)
        .await?;
    draft.set_or_default(GATEWAY, "/host_name", Some(json!(host_name)), domain)?;
    let is_kind = |item: &Value| item["kind"].as_str().unwrap_or("smtp") == kind;
    let listener = json!({ "kind": kind, "address": address });
    set_item(draft, "listeners", is_kind, &listener)?;
    if address.starts_with("unix:") {
        // It has no address by which a relay could be trusted.
        return Ok(());
    }
    let relay = asker
        .answer(AUTHSERV_ID, Some(NONE), parse::some_or_none)
        .await?;
    if let Some(authserv_id) = relay {
        let relays = "/authentication/trusted_relays";
        let there = draft.json(SECURITY)?;
        let listed = there.pointer(relays).and_then(Value::as_array);
        let is_listed = listed.is_some_and(|list| {
            list.iter()
                .any(|relay| relay["authserv_id"] == authserv_id.as_str())
        });
        if !is_listed {
            let relay = json!({ "peers": ["127.0.0.1", "::1"], "authserv_id": authserv_id });
            let at = listed.map_or(0, Vec::len);
            if at == 0 {
                draft.set(SECURITY, relays, &json!([relay]))?;
            } else {
                draft.set(SECURITY, &format!("{relays}/{at}"), &relay)?;
            }
        }
    }
    Ok(())
}

async fn imap(asker: &mut Asker<'_>, draft: &mut WorkspaceDraft) -> anyhow::Result<()> {
    let provider = asker
        .answer(MAIL_PROVIDER, Some(OTHER), parse::word(PROVIDERS))
        .await?;
    rented::settle(asker, provider);
    let host = asker.answer(IMAP_HOST, None, parse::host).await?;
    let tls = asker
        .answer(IMAP_TLS, Some("implicit"), parse::word(TLS))
        .await?;
    let port = asker.answer(IMAP_PORT, Some(NONE), parse::port).await?;
    let user = asker.answer(IMAP_USER, None, parse::some).await?;
    let trusted = asker
        .answer(AUTHSERV_ID, Some(NONE), parse::some_or_none)
        .await?;
    let there = draft.json(GATEWAY)?;
    let mailboxes = there["mailboxes"].as_array().map_or(0, Vec::len);
    let is_it = |item: &Value| {
        mailboxes == 1 || (item["host"] == host.as_str() && item["user"] == user.as_str())
    };
    let found = there["mailboxes"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| is_it(item));
    if mailboxes > 1 && found.is_none() {
        return refuse(
            Exit::BadData,
            format!("there are {mailboxes} mailboxes, and none of `{user}` at `{host}`"),
            "setup changes one that is there; add another in configs/gateway.json",
        );
    }
    let variable = found.and_then(|item| item["password_variable"].as_str());
    let variable = variable.unwrap_or(PASSWORD_VARIABLE).to_owned();
    let fallback = asker.default_of(PERSONA);
    let mut mailbox = json!({ "host": host, "user": user });
    if found.is_none() {
        mailbox = json!({ "name": "inbox", "host": host, "user": user, "fallback": fallback });
    }
    let usual = if tls == "implicit" { 993 } else { 143 };
    let optional = [
        ("tls", Some(json!(tls)), json!("implicit")),
        ("port", port.map(Value::from), json!(usual)),
        ("authserv_id", trusted.map(Value::from), Value::Null),
    ];
    for (key, value, usual) in optional {
        let is_there = found.is_some_and(|item| item.get(key).is_some());
        match value {
            Some(value) if is_there || value != usual => mailbox[key] = value,
            None if is_there => mailbox[key] = usual,
            _ => {}
        }
    }
    set_item(draft, "mailboxes", is_it, &mailbox)?;
    let has_oauth = found.is_some_and(|item| item.get("oauth").is_some());
    if !has_oauth
        && let Some(password) = asker
            .secret(IMAP_PASSWORD, draft.has_secret(&variable))
            .await?
    {
        draft.set_secret(&variable, password);
    }
    Ok(())
}

/// Sets the members of the first item that is meant, or adds an item.
fn set_item(
    draft: &mut WorkspaceDraft,
    list: &str,
    is_it: impl Fn(&Value) -> bool,
    members: &Value,
) -> Result<(), Failure> {
    let there = draft.json(GATEWAY)?;
    let items = there[list].as_array();
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return draft.set(GATEWAY, &format!("/{list}"), &json!([members]));
    };
    let Some(at) = items.iter().position(is_it) else {
        return draft.set(GATEWAY, &format!("/{list}/{}", items.len()), members);
    };
    for (key, value) in members.as_object().into_iter().flatten() {
        // An `smtp` that is only meant stays so; nobody's choice of a persona is changed.
        let is_usual = key == "kind" && value == "smtp" && items[at].get(key).is_none();
        let is_chosen = key == "fallback" && items[at].get(key).is_some();
        if !is_usual && !is_chosen {
            draft.set(GATEWAY, &format!("/{list}/{at}/{key}"), value)?;
        }
    }
    Ok(())
}

/// Asks whether letters can come in: logs in to the mailboxes, listens for a moment.
pub async fn check(draft: &WorkspaceDraft, config: &Config) -> anyhow::Result<Vec<String>> {
    let mut said = Vec::new();
    for mailbox in &config.gateway.mailboxes {
        said.push(mailboxes::probe(&draft.folder, mailbox).await?);
    }
    for listener in &config.gateway.listeners {
        said.push(match &listener.address {
            ListenAddress::Tcp(address) => can_listen(draft, *address)?,
            ListenAddress::Unix { path, .. } => can_make_socket(draft, path)?,
        });
    }
    for folder in &config.gateway.folders {
        said.push(format!(
            "letters are taken from `{}`",
            folder.path.display()
        ));
    }
    Ok(said)
}

/// Checks that a socket can be made where it is to be, without making it.
fn can_make_socket(draft: &WorkspaceDraft, path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let wrong = |why: &str, hint: &str| {
        let message = format!("cannot listen on `unix:{shown}`: {why}");
        Failure::new(Exit::Unavailable, message).hint(hint)
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    // The engine makes the folders of a socket, and one of the workspace is where it should be.
    if folder.starts_with(&draft.folder) && !folder.exists() {
        return Ok(format!("a socket will be made at `{shown}`"));
    }
    if !folder.is_dir() {
        return Err(wrong(
            &format!("there is no folder `{}`", folder.display()),
            "make it, for the user of the engine and the mail server to write and read, or take a path in a folder that is there",
        ));
    }
    if access(folder, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Err(wrong(
            &format!("this user may not write to `{}`", folder.display()),
            "take another folder, or run the setup as the user of the engine",
        ));
    }
    let is_other = path
        .symlink_metadata()
        .is_ok_and(|there| !there.file_type().is_socket());
    if is_other {
        return Err(wrong("something else has that name", "take another name"));
    }
    Ok(format!("a socket can be made at `{shown}`"))
}

fn can_listen(draft: &WorkspaceDraft, address: SocketAddr) -> Result<String, Failure> {
    let wrong = |why: &str, hint: &str| {
        Failure::new(
            Exit::Unavailable,
            format!("cannot listen on {address}: {why}"),
        )
        .hint(hint)
    };
    match TcpListener::bind(address) {
        Ok(_) => Ok(format!("{address} is free to listen on")),
        Err(error) => match error.kind() {
            ErrorKind::AddrInUse if working_engine(&draft.folder).is_some() => Ok(format!(
                "{address} is in use, by the engine of this workspace as it seems"
            )),
            ErrorKind::AddrInUse => Err(wrong(
                "another program listens there",
                "stop it, or take another port: `ss -ltnp` shows whose it is",
            )),
            ErrorKind::AddrNotAvailable => Err(wrong(
                "this machine has no such address",
                "take one that `ip address` shows, or 0.0.0.0 for all",
            )),
            ErrorKind::PermissionDenied => Ok(format!(
                "{address} needs a right that this user lacks: give the engine CAP_NET_BIND_SERVICE"
            )),
            _ => Err(wrong(&error.to_string(), "take another address")),
        },
    }
}
