//! `mailboxes` in `configs/gateway.json`: IMAP mailboxes that letters are fetched from.

use super::check::Page;
use super::document::child;
use super::load::Desk;
use super::net::{check_base_url, domain, is_loopback_host};
use super::span::Span;
use super::{gateway, span};
use crate::domain::PersonaId;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Where a mailbox's password is looked up unless the file names another variable.
const PASSWORD_VARIABLE: &str = "ATTACHE_IMAP_PASSWORD";
/// Mailboxes that one engine attends to; each has a connection of its own.
const MAILBOXES_MAX: usize = 100;
const POLL_DEFAULT: Duration = Duration::from_secs(300);
const POLL_MIN: Duration = Duration::from_secs(1);

/// An IMAP mailbox that letters are fetched from. Its password or tokens come from the environment or `.secrets`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// What it is called here, in listings and in the log. Given to another mailbox, reading begins anew.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    host: String,
    /// Default: 993 for `implicit`, 143 otherwise.
    #[schemars(range(min = 1))]
    port: Option<u16>,
    /// Default: `implicit`; `none` is for loopback hosts only.
    tls: Option<TypedTls>,
    /// PEM file, relative to the workspace, with a certificate authority to be trusted beside the system's.
    #[schemars(length(min = 1))]
    ca_file: Option<String>,
    #[schemars(length(min = 1))]
    user: String,
    /// The variable that holds the password. Default: `ATTACHE_IMAP_PASSWORD`.
    password_variable: Option<String>,
    /// Log in by XOAUTH2 instead of a password.
    oauth: Option<TypedOAuth>,
    /// Default: `INBOX`.
    #[schemars(length(min = 1))]
    folder: Option<String>,
    /// What is done to a letter that is stored. Default: `{"flag": "\\Seen"}`.
    after: Option<TypedAfter>,
    /// Whether `after` is done to letters that are refused for good, too. Default: false, they stay as they are.
    mark_refused: Option<bool>,
    /// Which letters count: `now`, those that come after the first contact, or `all`. Default: `now`.
    since: Option<TypedSince>,
    /// Persona that gets letters that name nobody here.
    fallback: Option<String>,
    /// How often to look, also when the server promises to tell of new letters. Default: 5m.
    poll: Option<Span>,
    /// The server whose `Authentication-Results` in these letters may be believed, as it calls itself there. Default:
    /// none is.
    #[schemars(length(min = 1))]
    authserv_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedTls {
    None,
    StartTls,
    Implicit,
}

/// Where access tokens come from (RFC 6749 section 6). The names of variables, never the tokens themselves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedOAuth {
    /// The token endpoint, `https`.
    token_url: String,
    client_id: String,
    /// The variable that holds the client's secret, if it has one.
    client_secret_variable: Option<String>,
    /// The variable that holds the refresh token.
    refresh_token_variable: String,
    /// Sent with the request when given.
    scope: Option<String>,
}

/// What is done to a letter that is stored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedAfter {
    /// Set this flag or keyword, such as `\Seen` or `$Attache`.
    Flag(String),
    /// Move it to this folder, which is made when it is missing.
    Move(String),
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedSince {
    Now,
    All,
}

/// An IMAP mailbox that letters are fetched from.
#[derive(Debug, Clone)]
pub struct ImapMailbox {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub tls: MailboxTls,
    /// Absolute.
    pub ca_file: Option<PathBuf>,
    pub user: String,
    pub login: MailboxLogin,
    pub folder: String,
    pub after: AfterStored,
    /// Whether [`Self::after`] is done to refused letters, too.
    pub mark_refused: bool,
    /// Letters that lie there at the first contact are left alone.
    pub from_now_on: bool,
    pub fallback: Option<PersonaId>,
    pub poll: Duration,
    pub authserv_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailboxTls {
    /// Plain text; allowed for loopback hosts only.
    None,
    StartTls,
    Implicit,
}

#[derive(Debug, Clone)]
pub enum MailboxLogin {
    Password(SecretString),
    OAuth(OAuth),
}

/// What a refreshed access token costs (RFC 6749 section 6).
#[derive(Debug, Clone)]
pub struct OAuth {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Option<SecretString>,
    pub refresh_token: SecretString,
    pub scope: Option<String>,
}

/// What is done to a letter on its server once it is stored here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterStored {
    Flag(String),
    Move(String),
}

impl Typed {
    /// The variables that this mailbox reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let password =
            self.password_variable.as_deref().or(self.oauth.is_none().then_some(PASSWORD_VARIABLE));
        let oauth = self.oauth.iter();
        let tokens = oauth.flat_map(|oauth| {
            [Some(oauth.refresh_token_variable.as_str()), oauth.client_secret_variable.as_deref()]
        });
        password.into_iter().chain(tokens.flatten())
    }
}

/// What the list means. Mailboxes with problems are left out.
pub fn settle(page: &Page<gateway::Typed>, list: &[Typed], desk: &mut Desk<'_>) -> Vec<ImapMailbox> {
    if list.len() > MAILBOXES_MAX {
        desk.report(page.blame("/mailboxes", format!("more than {MAILBOXES_MAX} mailboxes")));
    }
    let mut mailboxes: Vec<ImapMailbox> = Vec::new();
    for (index, typed) in list.iter().enumerate() {
        let place = Place { page, pointer: child("/mailboxes", index) };
        if mailboxes.iter().any(|other| other.name == typed.name) {
            place.blame("name", format!("there is another mailbox `{}`", typed.name), desk);
        }
        let Some(mailbox) = settle_one(&place, typed, desk) else { continue };
        let same = |other: &ImapMailbox| {
            (&other.host, other.port, &other.user, &other.folder)
                == (&mailbox.host, mailbox.port, &mailbox.user, &mailbox.folder)
        };
        if let Some(other) = mailboxes.iter().find(|other| same(other)) {
            place.blame("folder", format!("mailbox `{}` reads this folder already", other.name), desk);
        }
        mailboxes.push(mailbox);
    }
    mailboxes
}

/// Where a mailbox stands in the file.
struct Place<'p> {
    page: &'p Page<gateway::Typed>,
    pointer: String,
}

impl Place<'_> {
    fn blame(&self, key: &str, message: impl Into<String>, desk: &mut Desk<'_>) {
        desk.report(self.page.blame(&self.at(key), message));
    }
    fn at(&self, key: &str) -> String {
        key.split('/').fold(self.pointer.clone(), |pointer, part| child(&pointer, part))
    }
}

fn settle_one(place: &Place<'_>, typed: &Typed, desk: &mut Desk<'_>) -> Option<ImapMailbox> {
    if !is_name(&typed.name) {
        place.blame(
            "name",
            format!("`{}` is not a name: use letters, digits, `.`, `_` and `-`", typed.name),
            desk,
        );
    }
    let (tls, port) = match typed.tls {
        None | Some(TypedTls::Implicit) => (MailboxTls::Implicit, 993),
        Some(TypedTls::StartTls) => (MailboxTls::StartTls, 143),
        Some(TypedTls::None) => (MailboxTls::None, 143),
    };
    if typed.host.parse::<std::net::IpAddr>().is_err() && domain(&typed.host).is_none() {
        place.blame("host", format!("`{}` is not a host name", typed.host), desk);
    }
    if tls == MailboxTls::None && !is_loopback_host(&typed.host) {
        let message = format!("`none` would send password and mail in plain text from `{}`", typed.host);
        let problem = place.page.blame(&place.at("tls"), message);
        desk.report(problem.hint("use `implicit` or `starttls`; `none` is for this machine only"));
    }
    let texts = [
        ("user", Some(&typed.user)),
        ("folder", typed.folder.as_ref()),
        ("authserv_id", typed.authserv_id.as_ref()),
    ];
    for (key, text) in texts {
        if text.is_some_and(|text| text.contains(char::is_control)) {
            place.blame(key, "must be one line of text", desk);
        }
    }
    let poll = typed.poll.map_or(POLL_DEFAULT, |span| span.0);
    if poll < POLL_MIN {
        place.blame("poll", format!("must be at least {}", span::spell(POLL_MIN)), desk);
    }
    let login = settle_login(place, typed, desk);
    Some(ImapMailbox {
        name: typed.name.clone(),
        host: typed.host.clone(),
        port: typed.port.unwrap_or(port),
        tls,
        ca_file: typed.ca_file.as_ref().map(|file| desk.workspace.join(file)),
        user: typed.user.clone(),
        folder: typed.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
        after: settle_after(place, typed, desk),
        mark_refused: typed.mark_refused.unwrap_or(false),
        from_now_on: !matches!(typed.since, Some(TypedSince::All)),
        fallback: settle_fallback(place, typed, desk),
        poll,
        authserv_id: typed.authserv_id.as_ref().map(|id| id.to_ascii_lowercase()),
        login: login?,
    })
}

fn settle_login(place: &Place<'_>, typed: &Typed, desk: &mut Desk<'_>) -> Option<MailboxLogin> {
    let Some(oauth) = &typed.oauth else {
        let variable = typed.password_variable.as_deref().unwrap_or(PASSWORD_VARIABLE);
        return secret(place, "user", variable, desk).map(MailboxLogin::Password);
    };
    if typed.password_variable.is_some() {
        place.blame("password_variable", "has no meaning beside `oauth`", desk);
    }
    if let Err((message, hint)) = check_base_url(&oauth.token_url, false) {
        desk.report(place.page.blame(&place.at("oauth/token_url"), message).hint(hint));
    }
    let client_secret = match &oauth.client_secret_variable {
        None => None,
        Some(variable) => Some(secret(place, "oauth/client_secret_variable", variable, desk)?),
    };
    Some(MailboxLogin::OAuth(OAuth {
        token_url: oauth.token_url.clone(),
        client_id: oauth.client_id.clone(),
        client_secret,
        refresh_token: secret(place, "oauth/refresh_token_variable", &oauth.refresh_token_variable, desk)?,
        scope: oauth.scope.clone(),
    }))
}

fn secret(place: &Place<'_>, key: &str, variable: &str, desk: &mut Desk<'_>) -> Option<SecretString> {
    let found = desk.secrets.get(variable);
    if found.is_none() {
        let problem = place.page.blame(&place.at(key), format!("there is nothing in `{variable}`"));
        desk.report(problem.hint(format!("set {variable} in the environment or in `.secrets`")));
    }
    found
}

fn settle_after(place: &Place<'_>, typed: &Typed, desk: &mut Desk<'_>) -> AfterStored {
    match &typed.after {
        None => AfterStored::Flag("\\Seen".to_owned()),
        Some(TypedAfter::Flag(flag)) => {
            if !is_flag(flag) {
                let problem =
                    place.page.blame(&place.at("after/flag"), format!("`{flag}` is not a flag to set"));
                desk.report(
                    problem.hint(
                        "use `\\\\Seen`, `\\\\Flagged`, `\\\\Answered` or a keyword such as `$Attache`",
                    ),
                );
            }
            AfterStored::Flag(flag.clone())
        }
        Some(TypedAfter::Move(folder)) => {
            if folder.is_empty() || folder.contains(char::is_control) {
                place.blame("after/move", "must be the name of a folder", desk);
            }
            if Some(folder) == typed.folder.as_ref()
                || (typed.folder.is_none() && folder.eq_ignore_ascii_case("inbox"))
            {
                place.blame("after/move", "letters would be moved to where they are", desk);
            }
            AfterStored::Move(folder.clone())
        }
    }
}

fn settle_fallback(place: &Place<'_>, typed: &Typed, desk: &mut Desk<'_>) -> Option<PersonaId> {
    let name = typed.fallback.as_deref()?;
    let id = PersonaId::parse(name).ok().filter(|id| desk.persona_ids.contains(id));
    if id.is_none() {
        let problem = place.page.blame(&place.at("fallback"), format!("no persona `{name}`"));
        desk.report(problem.did_you_mean(name, desk.persona_ids.iter().map(PersonaId::as_str)));
    }
    id
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// A flag that may be set (RFC 9051 section 2.3.2): not `\Deleted`, by which other programs would remove the letter.
fn is_flag(flag: &str) -> bool {
    const SYSTEM: [&str; 3] = ["\\Seen", "\\Flagged", "\\Answered"];
    let is_keyword = |c: char| c.is_ascii_graphic() && !"(){%*\"\\]".contains(c);
    SYSTEM.iter().any(|system| flag.eq_ignore_ascii_case(system))
        || (!flag.is_empty() && flag.len() <= 64 && flag.chars().all(is_keyword))
}

/// One mailbox for `attache config show`.
pub fn show(mailbox: &ImapMailbox) -> Value {
    let set = |secret: Option<&SecretString>| secret.map(|_| "[set]");
    let (password, oauth) = match &mailbox.login {
        MailboxLogin::Password(password) => (set(Some(password)), None),
        MailboxLogin::OAuth(oauth) => {
            let shown = json!({
                "token_url": oauth.token_url, "client_id": oauth.client_id, "scope": oauth.scope,
                "client_secret": set(oauth.client_secret.as_ref()), "refresh_token": set(Some(&oauth.refresh_token)),
            });
            (None, Some(shown))
        }
    };
    json!({
        "name": mailbox.name, "host": mailbox.host, "port": mailbox.port,
        "tls": match mailbox.tls {
            MailboxTls::None => "none",
            MailboxTls::StartTls => "starttls",
            MailboxTls::Implicit => "implicit",
        },
        "ca_file": mailbox.ca_file, "user": mailbox.user, "password": password, "oauth": oauth,
        "folder": mailbox.folder,
        "after": match &mailbox.after {
            AfterStored::Flag(flag) => json!({"flag": flag}),
            AfterStored::Move(folder) => json!({"move": folder}),
        },
        "mark_refused": mailbox.mark_refused,
        "since": if mailbox.from_now_on { "now" } else { "all" },
        "fallback": mailbox.fallback.as_ref().map(PersonaId::as_str),
        "poll": span::spell(mailbox.poll),
        "authserv_id": mailbox.authserv_id,
    })
}
