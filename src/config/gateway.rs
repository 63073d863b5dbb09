//! `configs/gateway.json`: how mail comes in and goes out.

use super::check::Page;
use super::document::child;
use super::limits;
use super::listeners;
use super::load::Desk;
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

/// How mail comes in and goes out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/gateway.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Domain of every persona whose address names none, and of our Message-IDs.
    #[schemars(required)]
    mail_domain: Option<String>,
    /// The name in our banner and EHLO. Default: `mail_domain`.
    host_name: Option<String>,
    /// Addresses of the person whose engine this is.
    owners: Option<Vec<String>>,
    /// Sockets that take mail.
    listeners: Option<Vec<listeners::Typed>>,
    /// The certificate that listeners show. Read again when its files change.
    tls: Option<listeners::TypedTls>,
    /// Who may log in where a listener offers AUTH.
    submission: Option<Vec<listeners::TypedSubmitter>>,
    /// Folders whose `*.eml` files are letters.
    folders: Option<Vec<TypedFolder>>,
    /// IMAP mailboxes that letters are fetched from.
    mailboxes: Option<Vec<mailboxes::Typed>>,
    /// How mail goes out. Without it nothing can be sent.
    outbound: Option<outbound::Typed>,
    retry: Option<TypedRetry>,
    notices: Option<notices::Typed>,
    /// Bounds, each with its default where it is left out.
    limits: Option<limits::Typed>,
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedFolder {
    /// Relative to the workspace.
    #[schemars(length(min = 1))]
    path: String,
    /// Persona that gets letters that name nobody here.
    fallback: Option<String>,
    /// How often to look. Default: 2s.
    poll: Option<Span>,
}

/// When an outbound mail is tried again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedRetry {
    /// After this age a recipient fails. Default: 5d.
    give_up_after: Option<Span>,
}

impl Typed {
    /// The mail domain, when it is one: addresses of personas need it before anything else is settled.
    pub fn mail_domain(&self) -> Option<String> {
        domain(self.mail_domain.as_deref()?)
    }
    /// JSON pointer of an owner's address.
    pub fn owner_pointer(&self, owner: &Address) -> String {
        let is_owner = |text: &String| Address::parse(text).is_ok_and(|address| address == *owner);
        let index = self.owners.iter().flatten().position(is_owner);
        index.map_or("/owners".to_owned(), |index| child("/owners", index))
    }
    /// The variables of the passwords of all who may log in.
    pub fn submission_variables(&self) -> impl Iterator<Item = &str> {
        self.submission.iter().flatten().map(|submitter| submitter.password_variable.as_str())
    }
    /// The variable of the smarthost's password.
    pub fn password_variable(&self) -> &str {
        self.outbound.as_ref().map_or(PASSWORD_VARIABLE, outbound::Typed::password_variable)
    }
    /// The variables that the mailboxes read.
    pub fn mailbox_variables(&self) -> impl Iterator<Item = &str> {
        self.mailboxes.iter().flatten().flat_map(mailboxes::Typed::variables)
    }
}

/// What the file means. Problems go to the desk; the result counts only if there were none.
pub fn settle(page: &Page<Typed>, desk: &mut Desk<'_>) -> (Gateway, Limits) {
    let typed = &page.typed;
    let mail_domain = typed.mail_domain().unwrap_or_else(|| "unknown.invalid".to_owned());
    let named = [("/mail_domain", &typed.mail_domain), ("/host_name", &typed.host_name)];
    for (pointer, name) in named {
        if let Some(name) = name.as_deref().filter(|name| domain(name).is_none()) {
            let problem = page.blame(pointer, format!("`{name}` is not a domain name"));
            desk.report(problem.hint(domain_hint(name)));
        }
    }
    let host_name = typed.host_name.as_deref().and_then(domain).unwrap_or_else(|| mail_domain.clone());
    let folders = settle_folders(page, desk);
    let outbound = typed.outbound.as_ref().and_then(|typed| outbound::settle(page, typed, desk));
    let signers = typed.outbound.as_ref().map(|typed| outbound::settle_dkim(page, typed, desk));
    let on_unknown = typed.outbound.as_ref().map(outbound::Typed::on_unknown);
    if let Some(Transport::Folder(out)) = &outbound {
        let loops = folders.iter().position(|folder| folder.path == *out);
        if let Some(index) = loops {
            let message = "this is also the outbound folder: every mail sent would come back in";
            let problem = page.blame(&format!("/folders/{index}/path"), message);
            desk.report(problem.hint("give one of the two another folder"));
        }
    }
    let owners = settle_owners(page, desk);
    let typed_sockets = listeners::Sockets {
        listeners: typed.listeners.as_deref().unwrap_or_default(),
        tls: typed.tls.as_ref(),
        submission: typed.submission.as_deref().unwrap_or_default(),
    };
    let sockets = listeners::settle(page, &typed_sockets, &owners, desk);
    let give_up_after = typed.retry.as_ref().and_then(|retry| retry.give_up_after);
    let gateway = Gateway {
        mail_domain,
        host_name,
        listeners: sockets.listeners,
        tls: sockets.tls,
        submission: sockets.submission,
        owners,
        folders,
        mailboxes: mailboxes::settle(page, typed.mailboxes.as_deref().unwrap_or_default(), desk),
        outbound,
        signers: signers.unwrap_or_default(),
        bounce_address: typed.outbound.as_ref().map(outbound::Typed::bounce_address).unwrap_or_default(),
        retry: RetryPolicy {
            give_up_after: give_up_after.map_or(Duration::from_secs(5 * 24 * 3600), |s| s.0),
            on_unknown: on_unknown.unwrap_or_default(),
        },
        notices: notices::settle(page, typed.notices.as_ref(), desk),
    };
    (gateway, typed.limits.as_ref().map_or_else(Limits::default, limits::settle))
}

fn settle_owners(page: &Page<Typed>, desk: &mut Desk<'_>) -> Vec<Address> {
    let mut owners = Vec::new();
    for (index, text) in page.typed.owners.iter().flatten().enumerate() {
        match Address::parse(text) {
            Ok(address) => owners.push(address),
            Err(error) => {
                let problem = page.blame(&child("/owners", index), error.to_string());
                desk.report(problem.hint(address_hint(text)));
            }
        }
    }
    owners
}

fn settle_folders(page: &Page<Typed>, desk: &mut Desk<'_>) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for (index, typed) in page.typed.folders.iter().flatten().enumerate() {
        let pointer = format!("/folders/{index}");
        let path = below(desk.workspace, &typed.path);
        if folders.iter().any(|other| other.path == path) {
            desk.report(page.blame(&child(&pointer, "path"), format!("`{}` is watched twice", typed.path)));
        }
        let poll = typed.poll.map_or(Duration::from_secs(2), |span| span.0);
        if poll.is_zero() {
            desk.report(page.blame(&child(&pointer, "poll"), "must be more than nothing"));
        }
        let fallback = typed.fallback.as_deref().and_then(|name| {
            let id = PersonaId::parse(name).ok().filter(|id| desk.persona_ids.contains(id));
            if id.is_none() {
                let problem = page.blame(&child(&pointer, "fallback"), format!("no persona `{name}`"));
                desk.report(problem.did_you_mean(name, desk.persona_ids.iter().map(PersonaId::as_str)));
            }
            id
        });
        folders.push(WatchedFolder { path, fallback, poll });
    }
    folders
}

/// An absolute path, without the `.` and `..` that would hide that two paths are one.
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
