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

use super::values::net::{address_hint, domain, domain_hint};
use crate::config::values::section::*;
use crate::domain::{Address, PersonaId};
use crate::mime::Signers;
use commands::CommandSettings;
use http_listeners::HttpListener;
use ingest::HttpIngest;
use limits::Limits;
use listeners::{SmtpListener, TlsFiles, TypedCertificate, TypedListener};
use mailboxes::{ImapMailbox, TypedMailbox};
use notices::NoticeSettings;
use outbound::{BounceAddress, OnUnknown, PASSWORD_VARIABLE, TransportSettings, TypedOutbound};
use sender_notes::SenderNoteSettings;
use std::path::PathBuf;
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
    retry: MailRetry,
    /// Mails to the owners about failures.
    notices: Option<NoticeSettings>,
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
    ingest: Option<HttpIngest>,
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
    #[serde(default = "default_folder_poll", with = "TypedDuration")]
    poll: Duration,
}

const fn default_folder_poll() -> Duration {
    Duration::from_secs(2)
}

/// Retries of outgoing mail.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailRetry {
    /// Age of a mail after which its unfinished recipients fail.
    #[serde(with = "TypedDuration")]
    pub give_up_after: Duration,
    /// Set in `outbound`.
    #[serde(skip)]
    pub on_unknown: OnUnknown,
}

impl Default for MailRetry {
    fn default() -> Self {
        Self {
            give_up_after: Duration::from_secs(5 * 24 * 3600),
            on_unknown: OnUnknown::default(),
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
#[derive(Debug, Clone, Serialize)]
pub struct WatchedFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// Persona that gets letters without a persona in `Delivered-To`, `X-Original-To`, `To` or
    /// `Cc`.
    pub fallback: Option<PersonaId>,
    #[serde(with = "TypedDuration")]
    pub poll: Duration,
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
    /// Names of the variables that the file names.
    pub fn variables(&self) -> Vec<&str> {
        let mailboxes = self.mailboxes.iter().flatten();
        let submission = self.submission.iter().flatten();
        let webhooks = self.webhooks.iter().flatten();
        let telemetry = self.telemetry.iter();
        let outbound = self.outbound.as_ref();
        mailboxes
            .flat_map(TypedMailbox::variables)
            .chain(submission.map(|submitter| submitter.password_variable.as_str()))
            .chain(webhooks.flat_map(TypedWebhook::variables))
            .chain(telemetry.flat_map(TypedTelemetry::variables))
            .chain([outbound.map_or(PASSWORD_VARIABLE, TypedOutbound::password_variable)])
            .collect()
    }
    /// The variable that holds the whole value of a header, its scheme included.
    pub fn header_variable(&self) -> Option<&str> {
        self.telemetry.as_ref()?.header_variable()
    }
}

/// Resolves the file. Problems go to the context; the result is valid only without problems.
pub fn resolve(file: &ConfigFile<TypedGateway>, ctx: &mut CheckContext<'_>) -> (Gateway, Limits) {
    let typed = &file.typed;
    let place = &mut ctx.place(file, "");
    for (key, name) in [
        ("mail_domain", &typed.mail_domain),
        ("host_name", &typed.host_name),
    ] {
        if let Some(name) = name.as_deref().filter(|name| domain(name).is_none()) {
            place.refuse(
                key,
                format!("`{name}` is not a domain name"),
                domain_hint(name),
            );
        }
    }
    let mail_domain = typed
        .mail_domain()
        .unwrap_or_else(|| "unknown.invalid".to_owned());
    let host_name = typed.host_name.as_deref().and_then(domain);
    let folders = resolve_folders(list(&typed.folders), &mut place.under("folders"));
    let (mut outbound, mut signers) = (None, Signers::default());
    let (mut bounce_address, mut retry) = (BounceAddress::default(), typed.retry.clone());
    if let Some(typed) = &typed.outbound {
        let place = &mut place.under("outbound");
        outbound = outbound::resolve(typed, place);
        signers = outbound::resolve_dkim(typed, place);
        (bounce_address, retry.on_unknown) = (typed.bounce_address, typed.on_unknown);
    }
    // Every mail sent would come back in.
    if let Some(TransportSettings::Folder(out)) = &outbound
        && let Some(index) = folders.iter().position(|folder| folder.path == *out)
    {
        place.refuse(
            &format!("folders/{index}/path"),
            "this is also the outbound folder: every mail sent would come back in",
            "give one of the two another folder",
        );
    }
    let owners = place.each("owners", list(&typed.owners), |text| {
        Address::parse(text).map_err(|error| (error.to_string(), address_hint(text)))
    });
    let sockets = list(&typed.listeners);
    let listeners = listeners::resolve(sockets, &mut place.under("listeners"));
    let submission = list(&typed.submission);
    let submission = submission::resolve(submission, &owners, &mut place.under("submission"));
    listeners::check_submission(sockets, place);
    let tls = typed.tls.as_ref();
    let tls = tls.map(|tls| listeners::resolve_tls(tls, &mut place.under("tls")));
    let http_listeners =
        http_listeners::resolve(sockets, &listeners, &mut place.under("listeners"));
    commands::check(&typed.commands, &mut place.under("commands"));
    sender_notes::check(&typed.sender_notes, &mut place.under("sender_notes"));
    let gateway = Gateway {
        host_name: host_name.unwrap_or_else(|| mail_domain.clone()),
        mail_domain,
        listeners,
        http_listeners,
        tls,
        submission,
        owners,
        folders,
        mailboxes: mailboxes::resolve(list(&typed.mailboxes), &mut place.under("mailboxes")),
        outbound,
        signers,
        bounce_address,
        retry,
        notices: notices::resolve(typed.notices.as_ref(), &mut place.under("notices")),
        commands: typed.commands.clone(),
        sender_notes: typed.sender_notes.clone(),
        webhooks: webhooks::resolve(list(&typed.webhooks), &mut place.under("webhooks")),
        telemetry: telemetry::resolve(typed.telemetry.as_ref(), &mut place.under("telemetry")),
        ingest: ingest::resolve(typed.ingest.as_ref(), &mut place.under("ingest")),
    };
    (gateway, typed.limits.clone().unwrap_or_default())
}

fn list<T>(typed: &Option<Vec<T>>) -> &[T] {
    typed.as_deref().unwrap_or_default()
}

fn resolve_folders(typed: &[TypedFolder], place: &mut CheckPlace<'_, '_>) -> Vec<WatchedFolder> {
    let mut folders: Vec<WatchedFolder> = Vec::new();
    for (index, typed) in typed.iter().enumerate() {
        let place = &mut place.under(index);
        let path = below(place.ctx.workspace, &typed.path);
        if folders.iter().any(|other| other.path == path) {
            place.complain("path", format!("`{}` is watched twice", typed.path));
        }
        if typed.poll.is_zero() {
            place.complain("poll", "must be more than nothing");
        }
        folders.push(WatchedFolder {
            path,
            fallback: place.persona("fallback", typed.fallback.as_deref()),
            poll: typed.poll,
        });
    }
    folders
}
