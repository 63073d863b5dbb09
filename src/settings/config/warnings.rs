//! Warnings about values that are valid but probably unintended.
//!
//! Only a configuration without problems is checked for them. Absent on purpose: checks that need
//! the standing texts (`runs/preflight.rs`) or the responsibilities (`scheduler/survey.rs`).

use super::gateway::listeners::ListenAddress;
use super::values::net::{is_loopback_host, is_near_url};
use crate::config::file::{Document, Problem, misspelled};
use crate::config::gateway::{Gateway, TypedGateway};
use crate::config::inference::{Inference, TypedInference};
use crate::config::persona::{Persona, TypedPersona};
use crate::config::security::{Security, TypedSecurity};
use crate::config::values::section::*;
use crate::domain::{Address, Allowance, is_mail_provider};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Prefixes of a vendor's models, and the provider of these models.
const MODEL_FAMILIES: &[(&str, &str)] = &[
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o3", "openai"),
    ("o4-", "openai"),
    ("chatgpt-", "openai"),
    ("gemini-", "gemini"),
    ("grok-", "grok"),
];

/// Domains of the vendors' own servers.
const VENDOR_DOMAINS: &[(&str, &str)] = &[
    ("anthropic", "anthropic.com"),
    ("openai", "openai.com"),
    ("gemini", "googleapis.com"),
    ("grok", "x.ai"),
    ("openrouter", "openrouter.ai"),
];

/// The typed files, their resolved settings, and the check context.
pub struct CheckedFiles<'a> {
    pub gateway: (&'a ConfigFile<TypedGateway>, &'a Gateway),
    pub inference: (&'a ConfigFile<TypedInference>, &'a Inference),
    pub security: (&'a ConfigFile<TypedSecurity>, &'a Security),
    pub personas: &'a [(ConfigFile<TypedPersona>, Persona)],
    pub ctx: &'a CheckContext<'a>,
}

type Warnings = Vec<Problem>;

/// Every check, in the order of the files.
const CHECKS: &[fn(&CheckedFiles<'_>, &mut Warnings)] = &[
    missing_basics,
    folders,
    listeners,
    tls_key,
    models,
    unbounded_days,
    letters_that_leave,
    variables,
    allowed_and_denied,
    keys_elsewhere,
    without_key,
    mailbox_domains,
];

/// All warnings.
pub fn all(files: &CheckedFiles<'_>) -> Warnings {
    let mut found = Warnings::new();
    // A snapshot is checked without access to the disk and gets no warnings.
    if files.ctx.source.has_world() {
        for check in CHECKS {
            check(files, &mut found);
        }
        found.extend(files.ctx.doubtful_secrets.iter().cloned());
        found.extend(misspelled(files.ctx.workspace));
    }
    found
}

fn missing_basics(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, gateway) = files.gateway;
    if gateway.owners.is_empty() {
        let message = "nobody owns this engine: no notice and no digest reaches anybody";
        let problem = file.problem_at("/owners", message);
        found.push(problem.hint("write `\"owners\": [\"you@your.domain\"]`"));
    }
    if files.personas.is_empty() {
        let problem =
            Problem::in_file("personas", "no persona lives here: every letter is refused");
        found.push(problem.hint("`attache persona create ID --name NAME` writes one"));
    }
    if gateway.outbound.is_none() {
        let message = "no way out: answers are stored and not sent";
        found.push(file.problem_at("/outbound", message).hint("describe your smarthost in `outbound`, or a folder for trying: `{\"kind\": \"folder\", \"path\": \"data/outbox\"}`"));
    }
}

/// Watched folders that do not exist: they are created, so that a misspelt path would stay empty
/// for ever.
fn folders(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, gateway) = files.gateway;
    let missing = gateway
        .folders
        .iter()
        .enumerate()
        .filter(|(_, folder)| !folder.path.is_dir());
    let warnings = missing.filter_map(|(index, folder)| {
        let beside = neighbour(&folder.path);
        // Folders below `data` are the engine's own and are created at its first start.
        if beside.is_none() && folder.path.starts_with(files.ctx.workspace.join("data")) {
            return None;
        }
        let shown = folder
            .path
            .strip_prefix(files.ctx.workspace)
            .unwrap_or(&folder.path)
            .display();
        let problem = file.problem_at(
            &format!("/folders/{index}/path"),
            format!("there is no folder `{shown}`; it will be made, empty"),
        );
        Some(problem.hint(match beside {
            Some(name) => format!("`{name}` lies beside it: is that the one?"),
            None => format!("make it with `mkdir -p {shown}`, if that is the one"),
        }))
    });
    found.extend(warnings);
}

/// A folder whose name is nearly that of the missing one.
fn neighbour(missing: &Path) -> Option<String> {
    let wanted = missing.file_name()?.to_str()?;
    let entries = std::fs::read_dir(missing.parent()?)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().is_dir());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut near = names.filter_map(|name| {
        let slips = strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
        (slips <= wanted.chars().count() / 3).then_some((slips, name))
    });
    near.by_ref().min().map(|(_, name)| name)
}

/// Addresses that this machine does not have; only binding tells whether a port is free.
fn listeners(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, gateway) = files.gateway;
    let mail = gateway.listeners.iter();
    let mail = mail.map(|one| (one.position, &one.address));
    let pages = gateway.http_listeners.iter();
    let pages = pages.map(|one| (one.position, &one.address));
    let foreign = mail.chain(pages).filter_map(|(index, address)| {
        let ListenAddress::Tcp(address) = address else {
            return None;
        };
        let error = TcpListener::bind(SocketAddr::new(address.ip(), 0)).err()?;
        (error.kind() == std::io::ErrorKind::AddrNotAvailable).then(|| {
            let message = format!("this machine has no address `{}`", address.ip());
            file.problem_at(&format!("/listeners/{index}/address"), message).hint(
                "`ip address` lists those it has; `0.0.0.0` and `[::]` stand for all of them, `127.0.0.1` for this machine alone",
            )
        })
    });
    found.extend(foreign);
}

fn tls_key(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, gateway) = files.gateway;
    let Some(tls) = &gateway.tls else {
        return;
    };
    // Its group may read it: Debian's `ssl-cert` exists for that.
    let mode = super::secrets::open_to_others(&tls.key).filter(|mode| mode & 0o007 != 0);
    let problem = |mode| {
        file.problem_at(
            "/tls/key",
            format!("everybody on this machine may read the private key: its mode is {mode:04o}"),
        )
        .hint(format!(
            "run `chmod 640 {}`, and make a new key if others had access",
            tls.key.display()
        ))
    };
    found.extend(mode.map(problem));
}

/// Calls that are paid, and no bound on what all of them may cost in a day or a month.
fn unbounded_days(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, inference) = files.inference;
    let budgets = &inference.budgets;
    let of_engine = [
        &budgets.day,
        &budgets.month,
        &budgets.persona_day,
        &budgets.persona_month,
    ];
    let is_bound = |bound: &Allowance| bound.cost_micros_max.or(bound.tokens_max).is_some();
    let are_personas_bound = !files.personas.is_empty()
        && files
            .personas
            .iter()
            .all(|(_, persona)| is_bound(&persona.budget.day) || is_bound(&persona.budget.month));
    let is_bounded = of_engine.into_iter().any(is_bound) || are_personas_bound;
    // Answers from a file cost nothing.
    let is_free = inference.provider == "scripted";
    if !is_bounded && !is_free {
        let message = "nothing bounds what a day or a month may cost: strangers who write cause calls that are paid";
        found.push(file.problem_at("/budget", message).hint("write `\"day_tokens_max\": 5000000` and `\"persona_day_mails_max\": 200` in `budget`, or other numbers"));
    }
}

/// A model whose name belongs to another vendor: the first letter would fail.
fn models(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, inference) = files.inference;
    let foreign = |provider: &str, model: &str| {
        let (_, vendor) = MODEL_FAMILIES
            .iter()
            .find(|(family, _)| model.starts_with(family))?;
        let adapter = adapter_of(provider);
        let is_vendor = MODEL_FAMILIES.iter().any(|(_, vendor)| *vendor == adapter);
        // A server with its own base URL may use any model names.
        let is_elsewhere = inference
            .providers
            .get(provider)
            .is_some_and(|settings| settings.base_url.is_some());
        let message =
            format!("`{model}` is a model of `{vendor}`, and the provider is `{provider}`");
        let hint = format!("write `\"provider\": \"{vendor}\"`, or a model of `{provider}`");
        (is_vendor && !is_elsewhere && *vendor != adapter).then_some((message, hint))
    };
    let mut check = |file: &Document, pointer: &str, provider: &str, model: &str| {
        let foreign = foreign(provider, model);
        found.extend(foreign.map(|(message, hint)| file.problem_at(pointer, message).hint(hint)));
    };
    check(file, "/model", &inference.provider, &inference.model);
    for (index, choice) in inference.fallback.iter().enumerate() {
        let pointer = format!("/fallback/{index}/model");
        check(file, &pointer, &choice.provider, &choice.model);
    }
    for (file, persona) in files.personas {
        let provider = persona.provider.as_ref().unwrap_or(&inference.provider);
        if let Some(model) = &persona.model {
            check(file, "/model", provider, model);
        }
    }
}

/// Letters of which another machine gets the text, for vectors.
fn letters_that_leave(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, inference) = files.inference;
    let provider = inference.embeddings.as_ref().map(|of| &of.provider);
    let remote = provider.filter(|provider| {
        let settings = inference.providers.get(*provider);
        let url = settings.and_then(|settings| settings.base_url.as_deref());
        let url = url.and_then(|url| reqwest::Url::parse(url).ok());
        let is_here = url.as_ref().and_then(|url| url.host_str());
        !is_here.map_or(adapter_of(provider) == "ollama", is_loopback_host)
    });
    let problem = |provider: &String| {
        let message = format!("the beginning of every letter is sent to `{provider}`, for vectors");
        file.problem_at("/embeddings", message).hint(
            "take `embeddings` out, or name a server on this machine, if your correspondents would not want that",
        )
    };
    found.extend(remote.map(problem));
}

/// A key variable that is named but not set: the call would go out without a key.
fn variables(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, _) = files.inference;
    let blocks = file
        .value
        .pointer("/providers")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let unset = blocks.filter_map(|(provider, block)| {
        let name = block.get("api_key_variable")?.as_str()?;
        let pointer = child(&child("/providers", provider), "api_key_variable");
        files.ctx.secrets.get(name).is_none().then(|| {
            file.problem_at(&pointer, format!("`{name}` is not set: `{provider}` is called without a key"))
                .hint(match files.ctx.usual_key_variable(provider).filter(|usual| *usual != name) {
                    Some(usual) => format!(
                        "write `{name}=…` into `.secrets` (mode 0600), any text if it needs none; without this line it would get \
                         the key in `{usual}`"
                    ),
                    None => format!(
                        "write `{name}=…` into `.secrets` (mode 0600), or take this line out if it needs none"
                    ),
                })
        })
    });
    found.extend(unset);
}

/// A vendor's key that goes to a server elsewhere because its provider names no variable of its own.
fn keys_elsewhere(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, inference) = files.inference;
    let sent = inference.providers.iter().filter_map(|(provider, settings)| {
        let (url, variable) = (settings.base_url.as_ref()?, settings.key_variable.as_ref()?);
        let (_, domain) = VENDOR_DOMAINS
            .iter()
            .find(|(vendor, _)| *vendor == adapter_of(provider))?;
        let block = child("/providers", provider);
        let is_chosen = file.value.pointer(&child(&block, "api_key_variable"));
        let url = reqwest::Url::parse(url).ok()?;
        let host = url.host_str()?;
        let is_vendor = host == *domain || host.ends_with(&format!(".{domain}"));
        let is_sent = settings.api_key.is_some() && is_chosen.is_none();
        (is_sent && !is_vendor && !is_loopback_host(host)).then(|| {
            let message = format!("the key in `{variable}` is sent to `{host}`");
            let hint = format!(
                "name the variable of that server's key in `api_key_variable`; `{variable}` there says that it is meant so"
            );
            file.problem_at(&child(&block, "base_url"), message).hint(hint)
        })
    });
    found.extend(sent);
}

/// A server that is asked without a key: one that is not near, or one with the API of a vendor, who wants a key.
fn without_key(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, inference) = files.inference;
    let asked = inference.providers.iter().filter_map(|(provider, settings)| {
        let url = settings.base_url.as_ref()?;
        let block = child("/providers", provider);
        // One whose variable is named is told by `variables`.
        let is_chosen = file.has(&child(&block, "api_key_variable"));
        let has_header = settings.headers.iter().any(|one| one.secret().is_some());
        if is_chosen || settings.api_key.is_some() || has_header {
            return None;
        }
        let is_near = is_near_url(url, settings.plain_http);
        let is_of = |(vendor, _): &&(&str, &str)| *vendor == adapter_of(provider);
        let message = format!("`{provider}` is asked without a key");
        let hint = match VENDOR_DOMAINS.iter().find(is_of) {
            // One that is in use elsewhere without a key is a problem.
            Some(_) if is_near => format!(
                "its API wants one: write `{}=…` into `.secrets` (mode 0600), any text if this server needs none",
                settings.key_variable.as_ref()?
            ),
            None if !is_near && adapter_of(provider) == COMPAT => {
                "name the variable of its key in `api_key_variable`, with any text in it if this server needs none".to_owned()
            }
            _ => return None,
        };
        Some(file.problem_at(&child(&block, "base_url"), message).hint(hint))
    });
    found.extend(asked);
}

/// Patterns in both lists: `deny` wins.
fn allowed_and_denied(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (file, security) = files.security;
    let access = &security.access;
    let denied = |pattern: &&String| {
        access
            .deny
            .iter()
            .any(|other| other.eq_ignore_ascii_case(pattern))
    };
    let both = access
        .allow
        .iter()
        .enumerate()
        .filter(|(_, pattern)| denied(pattern));
    let warnings = both.map(|(index, pattern)| {
        let message = format!("`{pattern}` stands in `allow` and in `deny`, and `deny` wins");
        file.problem_at(&format!("/access/allow/{index}"), message)
            .hint("take it out of one of the two lists")
    });
    found.extend(warnings);
}

/// A persona in the domain of a mailbox provider without a mailbox from which its mail is fetched.
fn mailbox_domains(files: &CheckedFiles<'_>, found: &mut Warnings) {
    let (_, gateway) = files.gateway;
    let fetches = |address: &Address| {
        gateway.mailboxes.iter().any(|mailbox| {
            let user = Address::parse(&mailbox.user).ok();
            user.is_none_or(|user| {
                user.base_local() == address.base_local() || user.key() == address.key()
            })
        })
    };
    let stranded = files.personas.iter().filter(|(_, persona)| {
        let domain = persona.address.domain();
        is_mail_provider(domain) && !fetches(&persona.address)
    });
    let warnings = stranded.map(|(file, persona)| {
        let message = format!("mail to `{}` goes to its provider, and nothing here fetches it", persona.address);
        file.problem_at("/address", message).hint("add that mailbox to `mailboxes` of configs/gateway.json, or choose an address of your own domain")
    });
    found.extend(warnings);
}
