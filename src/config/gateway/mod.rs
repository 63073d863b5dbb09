//! `configs/gateway.json`: incoming and outgoing mail, and the pages.
//!
//! - `listeners`, `submission`: sockets for mail, and who may log in there; `http_listeners`: sockets of the pages
//! - `mailboxes`: mail that is fetched; `outbound`: mail that is sent; `limits`: bounds of both
//! - `notices`, `commands`, `sender_notes`: mail between the engine and people
//! - `webhooks`: programs that are told what happens; `telemetry`: programs that watch over the engine; `ingest`: programs that hand in letters

pub mod commands;
pub mod limits;
pub mod listeners;
pub mod mailboxes;
pub mod notices;
pub mod outbound;
pub mod sender_notes;
pub mod submission;
pub mod http_listeners;
pub mod telemetry;
pub mod webhooks;
pub mod ingest;

use super::values::check_context::CheckContext;
use super::values::net::{address_hint, domain, domain_hint};
use crate::config::file::duration::{self, TypedDuration};
use crate::config::file::{ConfigFile, below, child};
use crate::domain::{Address, PersonaId};
use crate::mime::Signers;
use commands::CommandSettings;
use http_listeners::HttpListener;
use ingest::{HttpIngest, TypedIngest};
use limits::Limits;
use listeners::{SmtpListener, TlsFiles, TypedCertificate, TypedListener};
use mailboxes::{ImapMailbox, TypedMailbox};
use notices::{NoticeSettings, TypedNotices};
use outbound::{BounceAddress, OnUnknown, PASSWORD_VARIABLE, TransportSettings, TypedOutbound};
use schemars::JsonSchema;
use sender_notes::SenderNoteSettings;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use submission::{Submitter, TypedSubmitter};
use telemetry::{Telemetry, TypedTelemetry};
use webhooks::{TypedWebhook, Webhook};

/// Incoming and outgoing mail.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "configs/gateway.json")]
pub struct TypedGateway {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Domain of persona addresses that name no domain, and of generated Message-IDs.
    #[schemars(required)]
    mail_domain: Option<String>,
    /// Host name in the SMTP banner and EHLO. Default: `mail_domain`.
    host_name: Option<String>,
    /// Addresses of the owners of this engine.
    owners: Option<Vec<String>>,
    /// Sockets that accept mail, or serve the pages.
    listeners: Option<Vec<TypedListener>>,
    /// The listeners' certificate. Read again when its files change.
    tls: Option<TypedCertificate>,
    /// Users that may log in where a listener offers AUTH.
    submission: Option<Vec<TypedSubmitter>>,
    /// Folders whose `*.eml` files are letters.
    folders: Option<Vec<TypedFolder>>,
    /// IMAP mailboxes from which letters are fetched.
    mailboxes: Option<Vec<TypedMailbox>>,
    /// Transport of outgoing mail. Left out, no mail can be sent.
    outbound: Option<TypedOutbound>,
    /// Retries of outgoing mail.
    #[serde(default)]
    retry: TypedMailRetry,
    /// Mails to the owners about failures.
    notices: Option<TypedNotices>,
    /// Commands of owners in the first line of a letter.
    #[serde(default)]
    commands: CommandSettings,
    /// One short mail to the sender of a letter whose run failed or takes long.
    #[serde(default)]
    sender_notes: SenderNoteSettings,
    /// Addresses of other programs that are told what happens.
    webhooks: Option<Vec<TypedWebhook>>,
    /// What programs that watch over the engine are sent. Never anything of a letter.
    telemetry: Option<TypedTelemetry>,
    /// Letters that other programs hand in over HTTP.
    ingest: Option<TypedIngest>,
    /// Limits; each that is left out has its default.
    limits: Option<Limits>,
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
    /// Interval between two polls.
    #[serde(default = "default_folder_poll", with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    poll: Duration,
}

const fn default_folder_poll() -> Duration {
    Duration::from_secs(2)
}

/// Retries of outgoing mail.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TypedMailRetry {
    /// Age of a mail after which its unfinished recipients fail.
    #[serde(with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    give_up_after: Duration,
}

impl Default for TypedMailRetry {
    fn default() -> Self {
        Self {
            give_up_after: Duration::from_secs(5 * 24 * 3600),
        }
    }
}

/// `configs/gateway.json`.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Domain of persona addresses that name no domain, and of generated Message-IDs.
    pub mail_domain: String,
    /// Host name in the SMTP banner and EHLO.
    pub host_name: String,
    pub owners: Vec<Address>,
    pub listeners: Vec<SmtpListener>,
    /// Sockets that serve the pages and the API.
    pub http_listeners: Vec<HttpListener>,
    /// The listeners' certificate.
    pub tls: Option<TlsFiles>,
    /// Owners that may log in where a listener offers AUTH.
    pub submission: Vec<Submitter>,
    pub folders: Vec<WatchedFolder>,
    pub mailboxes: Vec<ImapMailbox>,
    /// `None`: no mail can be sent; a mail to be sent ends the run with `outbound_not_configured`.
    pub outbound: Option<TransportSettings>,
    /// DKIM keys for outgoing mail; none, or at least one for the domain of every persona.
    pub signers: Signers,
    /// Form of the envelope sender, by which bounces are recognised.
    pub bounce_address: BounceAddress,
    pub retry: MailRetry,
    pub notices: NoticeSettings,
    pub commands: CommandSettings,
    pub sender_notes: SenderNoteSettings,
    pub webhooks: Vec<Webhook>,
    pub telemetry: Telemetry,
    pub ingest: HttpIngest,
}

impl Gateway {
    /// Returns the public address of a page: below the first of the `origins` of the listeners. `None`: no listener has any, so
    /// nobody knows how people reach the pages.
    pub fn page(&self, path: &str) -> Option<String> {
        let mut origins = self.http_listeners.iter().flat_map(|one| &one.origins);
        origins.next().map(|origin| format!("{origin}{path}"))
    }
}

/// A folder whose `*.eml` files are letters.
#[derive(Debug, Clone)]
pub struct WatchedFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// Persona that gets letters without a persona in `Delivered-To`, `X-Original-To`, `To` or
    /// `Cc`.
    pub fallback: Option<PersonaId>,
    pub poll: Duration,
}

/// Retries of outgoing mail.
#[derive(Debug, Clone)]
pub struct MailRetry {
    /// Age of a mail after which its unfinished recipients fail.
    pub give_up_after: Duration,
    pub on_unknown: OnUnknown,
}

impl TypedGateway {
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
            .map_or(PASSWORD_VARIABLE, TypedOutbound::password_variable)
    }
    /// Names of the variables with the keys of the webhooks.
    pub fn webhook_variables(&self) -> impl Iterator<Item = &str> {
        let webhooks = self.webhooks.iter().flatten();
        webhooks.flat_map(TypedWebhook::variables)
    }
    /// Names of the variables that the telemetry reads.
    pub fn telemetry_variables(&self) -> impl Iterator<Item = &str> {
        self.telemetry.iter().flat_map(TypedTelemetry::variables)
    }
    /// The variable that holds the whole value of a header, its scheme included.
    pub fn header_variable(&self) -> Option<&str> {
        self.telemetry.as_ref()?.header_variable()
    }
    /// Names of the variables that the mailboxes read.
    pub fn mailbox_variables(&self) -> impl Iterator<Item = &str> {
        self.mailboxes
            .iter()
            .flatten()
            .flat_map(TypedMailbox::variables)
    }
}

/// Resolves the file. Problems go to the context; the result is valid only without problems.
pub fn resolve(file: &ConfigFile<TypedGateway>, ctx: &mut CheckContext<'_>) -> (Gateway, Limits) {
    let typed = &file.typed;
    let mail_domain = typed
        .mail_domain()
        .unwrap_or_else(|| "unknown.invalid".to_owned());
    check_domains(file, ctx);
    let host_name = typed
        .host_name
        .as_deref()
        .and_then(domain)
        .unwrap_or_else(|| mail_domain.clone());
    let folders = resolve_folders(file, ctx);
    let typed_outbound = typed.outbound.as_ref();
    let outbound = typed_outbound.and_then(|typed| outbound::resolve(file, typed, ctx));
    let signers = typed_outbound.map(|typed| outbound::resolve_dkim(file, typed, ctx));
    check_outbound_folder(file, outbound.as_ref(), &folders, ctx);
    let owners = resolve_owners(file, ctx);
    let typed_sockets = listeners::Sockets {
        listeners: typed.listeners.as_deref().unwrap_or_default(),
        tls: typed.tls.as_ref(),
        submission: typed.submission.as_deref().unwrap_or_default(),
    };
    let sockets = listeners::resolve(file, &typed_sockets, &owners, ctx);
    let http_listeners =
        http_listeners::resolve(file, typed_sockets.listeners, &sockets.listeners, ctx);
    let mailboxes = typed.mailboxes.as_deref().unwrap_or_default();
    let typed_webhooks = typed.webhooks.as_deref().unwrap_or_default();
    commands::check(file, &typed.commands, ctx);
    sender_notes::check(file, &typed.sender_notes, ctx);
    let gateway = Gateway {
        mail_domain,
        host_name,
        listeners: sockets.listeners,
        http_listeners,
        tls: sockets.tls,
        submission: sockets.submission,
        owners,
        folders,
        mailboxes: mailboxes::resolve(file, mailboxes, ctx),
        outbound,
        signers: signers.unwrap_or_default(),
        bounce_address: typed_outbound
            .map(|outbound| outbound.bounce_address)
            .unwrap_or_default(),
        retry: MailRetry {
            give_up_after: typed.retry.give_up_after,
            on_unknown: typed_outbound
                .map(|outbound| outbound.on_unknown)
                .unwrap_or_default(),
        },
        notices: notices::resolve(file, typed.notices.as_ref(), ctx),
        commands: typed.commands.clone(),
        sender_notes: typed.sender_notes.clone(),
        webhooks: webhooks::resolve(file, typed_webhooks, ctx),
        telemetry: telemetry::resolve(file, typed.telemetry.as_ref(), ctx),
        ingest: ingest::resolve(file, typed.ingest.as_ref(), ctx),
    };
    let limits = typed.limits.clone();
    (gateway, limits.unwrap_or_default())
}

fn check_domains(file: &ConfigFile<TypedGateway>, ctx: &mut CheckContext<'_>) {
    let named = [
        ("/mail_domain", &file.typed.mail_domain),
        ("/host_name", &file.typed.host_name),
    ];
    for (pointer, name) in named {
        if let Some(name) = name.as_deref().filter(|name| domain(name).is_none()) {
            ctx.refuse(
                file,
                pointer,
                format!("`{name}` is not a domain name"),
                domain_hint(name),
            );
        }
    }
}

/// Reports an outbound folder that is watched: every mail sent would come back in.
fn check_outbound_folder(
    file: &ConfigFile<TypedGateway>,
    outbound: Option<&TransportSettings>,
    folders: &[WatchedFolder],
    ctx: &mut CheckContext<'_>,
) {
    let Some(TransportSettings::Folder(out)) = outbound else {
        return;
    };
    if let Some(index) = folders.iter().position(|folder| folder.path == *out) {
        let message = "this is also the outbound folder: every mail sent would come back in";
        ctx.refuse(
            file,
            format!("/folders/{index}/path"),
            message,
            "give one of the two another folder",
        );
    }
}

fn resolve_owners(file: &ConfigFile<TypedGateway>, ctx: &mut CheckContext<'_>) -> Vec<Address> {
    let mut owners = Vec::new();
    for (index, text) in file.typed.owners.iter().flatten().enumerate() {
        match Address::parse(text) {
            Ok(address) => owners.push(address),
            Err(error) => {
                ctx.refuse(
                    file,
                    child("/owners", index),
                    error.to_string(),
                    address_hint(text),
                );
            }
        }
    }
    owners
}

fn resolve_folders(
    file: &ConfigFile<TypedGateway>,
    ctx: &mut CheckContext<'_>,
) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for (index, typed) in file.typed.folders.iter().flatten().enumerate() {
        let pointer = format!("/folders/{index}");
        let path = below(ctx.workspace, &typed.path);
        if folders.iter().any(|other| other.path == path) {
            ctx.complain(
                file,
                child(&pointer, "path"),
                format!("`{}` is watched twice", typed.path),
            );
        }
        if typed.poll.is_zero() {
            ctx.complain(file, child(&pointer, "poll"), "must be more than nothing");
        }
        let at = child(&pointer, "fallback");
        let fallback = typed.fallback.as_deref();
        let fallback = fallback.and_then(|name| ctx.persona(file, &at, name));
        folders.push(WatchedFolder {
            path,
            fallback,
            poll: typed.poll,
        });
    }
    folders
}
