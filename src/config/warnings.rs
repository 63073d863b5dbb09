//! What is legal and surely unmeant: the engine works with it, and hardly as somebody wanted.
//!
//! Looked for only in a configuration that has no problems. Absent on purpose: what needs the standing texts
//! (`harness/preflight.rs`) or the responsibilities (`scheduler/survey.rs`).

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::problem::Problem;
use super::settings::{Gateway, Inference, ListenAddress, Persona, Security};
use super::{gateway, inference, persona, security};
use crate::domain::Address;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Domains whose mail only their own provider can receive and send.
const MAILBOX_DOMAINS: &[&str] = &[
    "gmail.com",
    "googlemail.com",
    "outlook.com",
    "hotmail.com",
    "live.com",
    "msn.com",
    "yahoo.com",
    "icloud.com",
    "me.com",
    "aol.com",
    "gmx.de",
    "gmx.net",
    "gmx.com",
    "web.de",
    "t-online.de",
    "fastmail.com",
    "proton.me",
    "mailbox.org",
    "posteo.de",
];
/// How the models of a vendor begin, and the provider that has them.
const MODEL_FAMILIES: &[(&str, &str)] = &[
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o3", "openai"),
    ("o4-", "openai"),
    ("chatgpt-", "openai"),
    ("gemini-", "gemini"),
    ("grok-", "grok"),
];

/// The files that were read, what they mean, and where else to look.
pub struct Seen<'a> {
    pub gateway: (&'a Page<gateway::Typed>, &'a Gateway),
    pub inference: (&'a Page<inference::Typed>, &'a Inference),
    pub security: (&'a Page<security::Typed>, &'a Security),
    pub personas: &'a [(Page<persona::Typed>, Persona)],
    pub desk: &'a Desk<'a>,
}

/// Every check, in the order of the files.
const CHECKS: &[fn(&Seen<'_>) -> Vec<Problem>] = &[
    nobody_owns,
    nobody_lives,
    nothing_leaves,
    folders,
    listeners,
    tls_key,
    models,
    variables,
    allowed_and_denied,
    mailbox_domains,
];

/// Everything that is surely unmeant.
pub fn all(seen: &Seen<'_>) -> Vec<Problem> {
    // Whoever reads a configuration of the past looks at no disk, and warns nobody.
    if !seen.desk.shelf.has_world() {
        return Vec::new();
    }
    CHECKS.iter().flat_map(|check| check(seen)).collect()
}

fn nobody_owns(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, gateway) = seen.gateway;
    let problem = || {
        page.blame("/owners", "nobody owns this engine: no notice and no digest reaches anybody")
            .hint("write `\"owners\": [\"you@your.domain\"]`")
    };
    gateway.owners.is_empty().then(problem).into_iter().collect()
}

fn nobody_lives(seen: &Seen<'_>) -> Vec<Problem> {
    let problem = || {
        Problem::of_file("personas", "no persona lives here: every letter is refused")
            .hint("`attache persona create ID --name NAME` writes one")
    };
    seen.personas.is_empty().then(problem).into_iter().collect()
}

fn nothing_leaves(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, gateway) = seen.gateway;
    let problem = || {
        page.blame("/outbound", "no way out: answers are stored and not sent")
            .hint("describe your smarthost in `outbound`, or a folder for trying: `{\"kind\": \"folder\", \"path\": \"data/outbox\"}`")
    };
    gateway.outbound.is_none().then(problem).into_iter().collect()
}

/// A watched folder is made when it is missing, so that a misspelt one would be empty for ever.
fn folders(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, gateway) = seen.gateway;
    let missing = gateway.folders.iter().enumerate().filter(|(_, folder)| !folder.path.is_dir());
    let warnings = missing.filter_map(|(index, folder)| {
        let beside = neighbour(&folder.path);
        // What lies in `data` is the engine's own, and made at its first start.
        if beside.is_none() && folder.path.starts_with(seen.desk.workspace.join("data")) {
            return None;
        }
        let shown = folder.path.strip_prefix(seen.desk.workspace).unwrap_or(&folder.path).display();
        let problem = page.blame(
            &format!("/folders/{index}/path"),
            format!("there is no folder `{shown}`; it will be made, empty"),
        );
        Some(problem.hint(match beside {
            Some(name) => format!("`{name}` lies beside it: is that the one?"),
            None => format!("make it with `mkdir -p {shown}`, if that is the one"),
        }))
    });
    warnings.collect()
}

/// A folder whose name is nearly the one that is missing.
fn neighbour(missing: &Path) -> Option<String> {
    let wanted = missing.file_name()?.to_str()?;
    let entries = std::fs::read_dir(missing.parent()?).ok()?.flatten().filter(|entry| entry.path().is_dir());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut near = names.filter_map(|name| {
        let slips = strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
        (slips <= wanted.chars().count() / 3).then_some((slips, name))
    });
    near.by_ref().min().map(|(_, name)| name)
}

/// Addresses that this machine does not have; whether a port is free is known when it is asked for.
fn listeners(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, gateway) = seen.gateway;
    let foreign = gateway.listeners.iter().enumerate().filter_map(|(index, listener)| {
        let ListenAddress::Tcp(address) = &listener.address else { return None };
        let error = TcpListener::bind(SocketAddr::new(address.ip(), 0)).err()?;
        (error.kind() == std::io::ErrorKind::AddrNotAvailable).then(|| {
            let message = format!("this machine has no address `{}`", address.ip());
            page.blame(&format!("/listeners/{index}/address"), message).hint(
                "`ip address` lists those it has; `0.0.0.0` and `[::]` stand for all of them, `127.0.0.1` for this machine alone",
            )
        })
    });
    foreign.collect()
}

fn tls_key(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, gateway) = seen.gateway;
    let Some(tls) = &gateway.tls else { return Vec::new() };
    // A group may read it: Debian's `ssl-cert` is for that.
    let mode = super::secrets::open_to_others(&tls.key).filter(|mode| mode & 0o007 != 0);
    let problem = |mode| {
        page.blame(
            "/tls/key",
            format!("everybody on this machine may read the private key: its mode is {mode:04o}"),
        )
        .hint(format!("run `chmod 640 {}`, and make a new key if others had access", tls.key.display()))
    };
    mode.map(problem).into_iter().collect()
}

/// A model by whose name another vendor has it: the first letter would fail.
fn models(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, inference) = seen.inference;
    let foreign = |provider: &str, model: &str| {
        let (_, vendor) = MODEL_FAMILIES.iter().find(|(family, _)| model.starts_with(family))?;
        let is_vendor = MODEL_FAMILIES.iter().any(|(_, vendor)| *vendor == provider);
        // With a base URL of its own, a server may call its models as it likes.
        let is_elsewhere =
            inference.providers.get(provider).is_some_and(|settings| settings.base_url.is_some());
        let message = format!("`{model}` is a model of `{vendor}`, and the provider is `{provider}`");
        let hint = format!("write `\"provider\": \"{vendor}\"`, or a model of `{provider}`");
        (is_vendor && !is_elsewhere && *vendor != provider).then_some((message, hint))
    };
    let blame = |pointer: &str, (message, hint): (String, String)| page.blame(pointer, message).hint(hint);
    let mut warnings: Vec<Problem> = foreign(&inference.provider, &inference.model)
        .map(|found| blame("/model", found))
        .into_iter()
        .collect();
    for (index, choice) in inference.fallback.iter().enumerate() {
        let found = foreign(&choice.provider, &choice.model);
        warnings.extend(found.map(|found| blame(&format!("/fallback/{index}/model"), found)));
    }
    for (page, persona) in seen.personas {
        let Some(model) = &persona.model else { continue };
        let found = foreign(persona.provider.as_ref().unwrap_or(&inference.provider), model);
        warnings.extend(found.map(|(message, hint)| page.blame("/model", message).hint(hint)));
    }
    warnings
}

/// A variable that is named and not set: the call would go out without a key.
fn variables(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, _) = seen.inference;
    let blocks = page.document.value.pointer("/providers").and_then(Value::as_object).into_iter().flatten();
    let unset = blocks.filter_map(|(provider, block)| {
        let name = block.get("api_key_variable")?.as_str()?;
        let pointer = child(&child("/providers", provider), "api_key_variable");
        seen.desk.secrets.get(name).is_none().then(|| {
            page.blame(&pointer, format!("`{name}` is not set: `{provider}` is called without a key")).hint(
                format!(
                    "write `{name}=…` into `.secrets` (mode 0600), or take this line out if it needs none"
                ),
            )
        })
    });
    unset.collect()
}

/// `deny` wins, so that what stands in both lists is denied.
fn allowed_and_denied(seen: &Seen<'_>) -> Vec<Problem> {
    let (page, security) = seen.security;
    let access = &security.access;
    let denied = |pattern: &&String| access.deny.iter().any(|other| other.eq_ignore_ascii_case(pattern));
    let both = access.allow.iter().enumerate().filter(|(_, pattern)| denied(pattern));
    let warnings = both.map(|(index, pattern)| {
        let message = format!("`{pattern}` stands in `allow` and in `deny`, and `deny` wins");
        page.blame(&format!("/access/allow/{index}"), message).hint("take it out of one of the two lists")
    });
    warnings.collect()
}

/// A persona in the domain of a mailbox provider, whose mail nobody fetches.
fn mailbox_domains(seen: &Seen<'_>) -> Vec<Problem> {
    let (_, gateway) = seen.gateway;
    let fetches = |address: &Address| {
        gateway.mailboxes.iter().any(|mailbox| {
            let user = Address::parse(&mailbox.user).ok();
            user.is_none_or(|user| user.base_local() == address.base_local() || user.key() == address.key())
        })
    };
    let stranded = seen.personas.iter().filter(|(_, persona)| {
        let domain = persona.address.domain();
        MAILBOX_DOMAINS.contains(&domain) && !fetches(&persona.address)
    });
    let warnings = stranded.map(|(page, persona)| {
        let message = format!("mail to `{}` goes to its provider, and nothing here fetches it", persona.address);
        page.blame("/address", message).hint("add that mailbox to `mailboxes` of configs/gateway.json, or choose an address of your own domain")
    });
    warnings.collect()
}
