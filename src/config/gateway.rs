//! `configs/gateway.json`: incoming and outgoing mail.

use super::check::ConfigFile;
use super::document::child;
use super::limits;
use super::listeners;
use super::load::CheckContext;
use super::mailboxes;
use super::net::{address_hint, domain, domain_hint};
use super::notices;
use super::outbound;
use super::settings::{Gateway, Limits, RetryPolicy, Transport, WatchedFolder};
use super::span::Span;
use crate::domain::{Address, PersonaId};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

pub use outbound::PASSWORD_VARIABLE;

pub const FILE: &str = "configs/gateway.json";

/// Incoming and outgoing mail.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/gateway.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Domain of persona addresses that name no domain, and of generated Message-IDs.
    #[schemars(required)]
    mail_domain: Option<String>,
    /// Host name in the SMTP banner and EHLO. Default: `mail_domain`.
    host_name: Option<String>,
    /// Addresses of the owners of this engine.
    owners: Option<Vec<String>>,
    /// Sockets that accept mail.
    listeners: Option<Vec<listeners::Typed>>,
    /// The listeners' certificate. Read again when its files change.
    tls: Option<listeners::TypedTls>,
    /// Users that may log in where a listener offers AUTH.
    submission: Option<Vec<listeners::TypedSubmitter>>,
    /// Folders whose `*.eml` files are letters.
    folders: Option<Vec<TypedFolder>>,
    /// IMAP mailboxes from which letters are fetched.
    mailboxes: Option<Vec<mailboxes::Typed>>,
    /// Transport of outgoing mail. Left out, no mail can be sent.
    outbound: Option<outbound::Typed>,
    /// Retries of outgoing mail.
    retry: Option<TypedRetry>,
    /// Mails to the owners about failures.
    notices: Option<notices::Typed>,
    /// Limits; each that is left out has its default.
    limits: Option<limits::Typed>,
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedFolder {
    /// Path, relative to the workspace.
    #[schemars(length(min = 1))]
    path: String,
    /// Persona that gets letters without a local recipient.
    fallback: Option<String>,
    /// Interval between two polls. Default: 2s.
    poll: Option<Span>,
}

/// Retries of outgoing mail.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRetry {
    /// Age of a mail after which its unfinished recipients fail. Default: 5d.
    give_up_after: Option<Span>,
}

impl Typed {
    /// Returns the mail domain if it is valid: addresses of personas need it before the file is
    /// resolved.
    pub fn mail_domain(&self) -> Option<String> {
        domain(self.mail_domain.as_deref()?)
    }
    /// JSON pointer of an owner's address.
    pub fn owner_pointer(&self, owner: &Address) -> String {
        let is_owner = |text: &String| Address::parse(text).is_ok_and(|address| address == *owner);
        let index = self.owners.iter().flatten().position(is_owner);
        index.map_or("/owners".to_owned(), |index| child("/owners", index))
    }
    /// Names of the variables with the passwords of the submission users.
    pub fn submission_variables(&self) -> impl Iterator<Item = &str> {
        self.submission
            .iter()
            .flatten()
            .map(|submitter| submitter.password_variable.as_str())
    }
    /// Name of the variable with the smarthost's password.
    pub fn password_variable(&self) -> &str {
        self.outbound
            .as_ref()
            .map_or(PASSWORD_VARIABLE, outbound::Typed::password_variable)
    }
    /// Names of the variables that the mailboxes read.
    pub fn mailbox_variables(&self) -> impl Iterator<Item = &str> {
        self.mailboxes
            .iter()
            .flatten()
            .flat_map(mailboxes::Typed::variables)
    }
}

/// Resolves the file. Problems go to the context; the result is valid only without problems.
pub fn resolve(file: &ConfigFile<Typed>, ctx: &mut CheckContext<'_>) -> (Gateway, Limits) {
    let typed = &file.typed;
    let mail_domain = typed
        .mail_domain()
        .unwrap_or_else(|| "unknown.invalid".to_owned());
    let named = [
        ("/mail_domain", &typed.mail_domain),
        ("/host_name", &typed.host_name),
    ];
    for (pointer, name) in named {
        if let Some(name) = name.as_deref().filter(|name| domain(name).is_none()) {
            let problem = file.problem_at(pointer, format!("`{name}` is not a domain name"));
            ctx.report(problem.hint(domain_hint(name)));
        }
    }
    let host_name = typed
        .host_name
        .as_deref()
        .and_then(domain)
        .unwrap_or_else(|| mail_domain.clone());
    let folders = resolve_folders(file, ctx);
    let outbound = typed
        .outbound
        .as_ref()
        .and_then(|typed| outbound::resolve(file, typed, ctx));
    let signers = typed
        .outbound
        .as_ref()
        .map(|typed| outbound::resolve_dkim(file, typed, ctx));
    let on_unknown = typed.outbound.as_ref().map(outbound::Typed::on_unknown);
    if let Some(Transport::Folder(out)) = &outbound {
        let loops = folders.iter().position(|folder| folder.path == *out);
        if let Some(index) = loops {
            let message = "this is also the outbound folder: every mail sent would come back in";
            let problem = file.problem_at(&format!("/folders/{index}/path"), message);
            ctx.report(problem.hint("give one of the two another folder"));
        }
    }
    let owners = settle_owners(file, ctx);
    let typed_sockets = listeners::Sockets {
        listeners: typed.listeners.as_deref().unwrap_or_default(),
        tls: typed.tls.as_ref(),
        submission: typed.submission.as_deref().unwrap_or_default(),
    };
    let sockets = listeners::resolve(file, &typed_sockets, &owners, ctx);
    let give_up_after = typed.retry.as_ref().and_then(|retry| retry.give_up_after);
    let gateway = Gateway {
        mail_domain,
        host_name,
        listeners: sockets.listeners,
        tls: sockets.tls,
        submission: sockets.submission,
        owners,
        folders,
        mailboxes: mailboxes::resolve(file, typed.mailboxes.as_deref().unwrap_or_default(), ctx),
        outbound,
        signers: signers.unwrap_or_default(),
        bounce_address: typed
            .outbound
            .as_ref()
            .map(outbound::Typed::bounce_address)
            .unwrap_or_default(),
        retry: RetryPolicy {
            give_up_after: give_up_after.map_or(Duration::from_secs(5 * 24 * 3600), |s| s.0),
            on_unknown: on_unknown.unwrap_or_default(),
        },
        notices: notices::resolve(file, typed.notices.as_ref(), ctx),
    };
    (
        gateway,
        typed
            .limits
            .as_ref()
            .map_or_else(Limits::default, limits::resolve),
    )
}

fn settle_owners(file: &ConfigFile<Typed>, ctx: &mut CheckContext<'_>) -> Vec<Address> {
    let mut owners = Vec::new();
    for (index, text) in file.typed.owners.iter().flatten().enumerate() {
        match Address::parse(text) {
            Ok(address) => owners.push(address),
            Err(error) => {
                let problem = file.problem_at(&child("/owners", index), error.to_string());
                ctx.report(problem.hint(address_hint(text)));
            }
        }
    }
    owners
}

fn resolve_folders(file: &ConfigFile<Typed>, ctx: &mut CheckContext<'_>) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for (index, typed) in file.typed.folders.iter().flatten().enumerate() {
        let pointer = format!("/folders/{index}");
        let path = below(ctx.workspace, &typed.path);
        if folders.iter().any(|other| other.path == path) {
            ctx.report(file.problem_at(
                &child(&pointer, "path"),
                format!("`{}` is watched twice", typed.path),
            ));
        }
        let poll = typed.poll.map_or(Duration::from_secs(2), |span| span.0);
        if poll.is_zero() {
            ctx.report(file.problem_at(&child(&pointer, "poll"), "must be more than nothing"));
        }
        let fallback = typed.fallback.as_deref().and_then(|name| {
            let id = PersonaId::parse(name)
                .ok()
                .filter(|id| ctx.persona_ids.contains(id));
            if id.is_none() {
                let problem =
                    file.problem_at(&child(&pointer, "fallback"), format!("no persona `{name}`"));
                ctx.report(
                    problem.did_you_mean(name, ctx.persona_ids.iter().map(PersonaId::as_str)),
                );
            }
            id
        });
        folders.push(WatchedFolder {
            path,
            fallback,
            poll,
        });
    }
    folders
}

/// Builds an absolute path without `.` and `..`, so that equal paths compare equal.
pub(super) fn below(workspace: &Path, typed: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in workspace.join(typed).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}
