//! `mailboxes` in `configs/gateway.json`: IMAP mailboxes from which letters are fetched.

use crate::config::file::duration::{self, TypedDuration, spell};
use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use crate::config::values::net::{check_base_url, domain, is_loopback_host};
use crate::domain::PersonaId;
use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Default variable of a mailbox's password.
const PASSWORD_VARIABLE: &str = "ATTACHE_IMAP_PASSWORD";
/// Maximum number of mailboxes of one engine; each has its own connection.
const MAILBOXES_MAX: usize = 100;
const POLL_MIN: Duration = Duration::from_secs(1);

/// An IMAP mailbox from which letters are fetched. Its password or tokens come from the environment
/// or `.secrets`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedMailbox {
    /// Name of the mailbox in listings and in the log. If another mailbox gets the name, reading
    /// starts anew.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    host: String,
    /// Port. Default: 993 for `implicit`, 143 otherwise.
    #[schemars(range(min = 1))]
    port: Option<u16>,
    /// TLS mode. Default: `implicit`; `none` is for loopback hosts only.
    tls: Option<TypedMailboxTls>,
    /// PEM file, relative to the workspace, with a certificate authority to trust in addition to
    /// the system's.
    #[schemars(length(min = 1))]
    ca_file: Option<String>,
    #[schemars(length(min = 1))]
    user: String,
    /// The variable that holds the password. Default: `ATTACHE_IMAP_PASSWORD`.
    password_variable: Option<String>,
    /// Logs in by XOAUTH2 instead of a password.
    oauth: Option<TypedOAuth>,
    /// Folder from which letters are fetched. Default: `INBOX`.
    #[schemars(length(min = 1))]
    folder: Option<String>,
    /// Action on the server after a letter is taken that a run answers. Default: `{"flag": "\\Seen"}`.
    after: Option<TypedAfter>,
    /// Applies `after` also to letters that nobody answers, refused or filed, which otherwise stay unchanged and unread.
    #[serde(default)]
    mark_unanswered: bool,
    /// Letters to fetch: `now` for letters that arrive after the first connection, or `all`.
    #[serde(default)]
    since: TypedSince,
    /// Persona that gets letters without a local recipient.
    fallback: Option<String>,
    /// Interval between two polls, also when the server announces new letters.
    #[serde(default = "default_poll", with = "duration::text")]
    #[schemars(with = "TypedDuration")]
    poll: Duration,
    /// The authserv-id of the server whose `Authentication-Results` in these letters are trusted.
    /// Default: none.
    #[schemars(length(min = 1))]
    authserv_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedMailboxTls {
    None,
    StartTls,
    Implicit,
}

/// Source of access tokens (RFC 6749 section 6). It holds names of variables, never the tokens
/// themselves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypedOAuth {
    /// URL of the token endpoint, `https`.
    token_url: String,
    client_id: String,
    /// The variable that holds the client's secret, if it has one.
    client_secret_variable: Option<String>,
    /// The variable that holds the refresh token.
    refresh_token_variable: String,
    /// Scope that the request asks for. Default: not sent.
    scope: Option<String>,
}

/// Action on the server after a letter is stored.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedAfter {
    /// Sets this flag or keyword, such as `\Seen` or `$Attache`.
    Flag(String),
    /// Moves the letter to this folder, which is created if it is missing.
    Move(String),
}

const fn default_poll() -> Duration {
    Duration::from_secs(300)
}

#[derive(Debug, Default, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TypedSince {
    #[default]
    Now,
    All,
}

/// An IMAP mailbox from which letters are fetched.
#[derive(Debug, Clone)]
pub struct ImapMailbox {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub tls: MailboxTls,
    /// Absolute path.
    pub ca_file: Option<PathBuf>,
    pub user: String,
    pub login: MailboxLogin,
    pub folder: String,
    pub after: AfterStored,
    /// `true`: [`Self::after`] also applies to letters that nobody answers, refused or filed.
    pub mark_unanswered: bool,
    /// `true`: letters that are there at the first connection are not fetched.
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

/// Parameters of refreshing an access token (RFC 6749 section 6).
#[derive(Debug, Clone)]
pub struct OAuth {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Option<SecretString>,
    pub refresh_token: SecretString,
    pub scope: Option<String>,
}

/// Action on the server after a letter is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterStored {
    Flag(String),
    Move(String),
}

impl TypedMailbox {
    /// Names of the variables that this mailbox reads.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let password = self
            .password_variable
            .as_deref()
            .or(self.oauth.is_none().then_some(PASSWORD_VARIABLE));
        let oauth = self.oauth.iter();
        let tokens = oauth.flat_map(|oauth| {
            [
                Some(oauth.refresh_token_variable.as_str()),
                oauth.client_secret_variable.as_deref(),
            ]
        });
        password.into_iter().chain(tokens.flatten())
    }
}

/// Resolves the list. Mailboxes with problems are left out.
pub fn resolve(
    file: &Document,
    list: &[TypedMailbox],
    ctx: &mut CheckContext<'_>,
) -> Vec<ImapMailbox> {
    if list.len() > MAILBOXES_MAX {
        ctx.complain(
            file,
            "/mailboxes",
            format!("more than {MAILBOXES_MAX} mailboxes"),
        );
    }
    let mut mailboxes: Vec<ImapMailbox> = Vec::new();
    for (index, typed) in list.iter().enumerate() {
        let position = MailboxPosition {
            file,
            pointer: child("/mailboxes", index),
        };
        if mailboxes.iter().any(|other| other.name == typed.name) {
            position.problem_at(
                "name",
                format!("there is another mailbox `{}`", typed.name),
                ctx,
            );
        }
        let Some(mailbox) = resolve_one(&position, typed, ctx) else {
            continue;
        };
        let same = |other: &ImapMailbox| {
            (&other.host, other.port, &other.user, &other.folder)
                == (&mailbox.host, mailbox.port, &mailbox.user, &mailbox.folder)
        };
        if let Some(other) = mailboxes.iter().find(|other| same(other)) {
            position.problem_at(
                "folder",
                format!("mailbox `{}` reads this folder already", other.name),
                ctx,
            );
        }
        mailboxes.push(mailbox);
    }
    mailboxes
}

/// Position of a mailbox in the file.
struct MailboxPosition<'p> {
    file: &'p Document,
    pointer: String,
}

impl MailboxPosition<'_> {
    fn problem_at(&self, key: &str, message: impl Into<String>, ctx: &mut CheckContext<'_>) {
        ctx.complain(self.file, self.at(key), message);
    }
    fn at(&self, key: &str) -> String {
        key.split('/')
            .fold(self.pointer.clone(), |pointer, part| child(&pointer, part))
    }
}

fn resolve_one(
    position: &MailboxPosition<'_>,
    typed: &TypedMailbox,
    ctx: &mut CheckContext<'_>,
) -> Option<ImapMailbox> {
    if !is_name(&typed.name) {
        position.problem_at(
            "name",
            format!(
                "`{}` is not a name: use letters, digits, `.`, `_` and `-`",
                typed.name
            ),
            ctx,
        );
    }
    let (tls, port) = match typed.tls {
        None | Some(TypedMailboxTls::Implicit) => (MailboxTls::Implicit, 993),
        Some(TypedMailboxTls::StartTls) => (MailboxTls::StartTls, 143),
        Some(TypedMailboxTls::None) => (MailboxTls::None, 143),
    };
    if typed.host.parse::<std::net::IpAddr>().is_err() && domain(&typed.host).is_none() {
        position.problem_at("host", format!("`{}` is not a host name", typed.host), ctx);
    }
    if tls == MailboxTls::None && !is_loopback_host(&typed.host) {
        let message = format!(
            "`none` would send password and mail in plain text from `{}`",
            typed.host
        );
        ctx.refuse(
            position.file,
            position.at("tls"),
            message,
            "use `implicit` or `starttls`; `none` is for this machine only",
        );
    }
    let texts = [
        ("user", Some(&typed.user)),
        ("folder", typed.folder.as_ref()),
        ("authserv_id", typed.authserv_id.as_ref()),
    ];
    for (key, text) in texts {
        if text.is_some_and(|text| text.contains(char::is_control)) {
            position.problem_at(key, "must be one line of text", ctx);
        }
    }
    if typed.poll < POLL_MIN {
        position.problem_at("poll", format!("must be at least {}", spell(POLL_MIN)), ctx);
    }
    let login = resolve_login(position, typed, ctx);
    let fallback = typed.fallback.as_deref();
    let fallback =
        fallback.and_then(|name| ctx.persona(position.file, &position.at("fallback"), name));
    Some(ImapMailbox {
        name: typed.name.clone(),
        host: typed.host.clone(),
        port: typed.port.unwrap_or(port),
        tls,
        ca_file: typed.ca_file.as_ref().map(|file| ctx.workspace.join(file)),
        user: typed.user.clone(),
        folder: typed.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
        after: resolve_after(position, typed, ctx),
        mark_unanswered: typed.mark_unanswered,
        from_now_on: !matches!(typed.since, TypedSince::All),
        fallback,
        poll: typed.poll,
        authserv_id: typed.authserv_id.as_ref().map(|id| id.to_ascii_lowercase()),
        login: login?,
    })
}

fn resolve_login(
    position: &MailboxPosition<'_>,
    typed: &TypedMailbox,
    ctx: &mut CheckContext<'_>,
) -> Option<MailboxLogin> {
    let Some(oauth) = &typed.oauth else {
        let variable = typed
            .password_variable
            .as_deref()
            .unwrap_or(PASSWORD_VARIABLE);
        return secret(position, "user", variable, ctx).map(MailboxLogin::Password);
    };
    if typed.password_variable.is_some() {
        position.problem_at("password_variable", "has no meaning beside `oauth`", ctx);
    }
    if let Err((message, hint)) = check_base_url(&oauth.token_url, false) {
        ctx.report(
            position
                .file
                .problem_at(&position.at("oauth/token_url"), message)
                .hint(hint),
        );
    }
    let client_secret = match &oauth.client_secret_variable {
        None => None,
        Some(variable) => Some(secret(
            position,
            "oauth/client_secret_variable",
            variable,
            ctx,
        )?),
    };
    Some(MailboxLogin::OAuth(OAuth {
        token_url: oauth.token_url.clone(),
        client_id: oauth.client_id.clone(),
        client_secret,
        refresh_token: secret(
            position,
            "oauth/refresh_token_variable",
            &oauth.refresh_token_variable,
            ctx,
        )?,
        scope: oauth.scope.clone(),
    }))
}

fn secret(
    position: &MailboxPosition<'_>,
    key: &str,
    variable: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<SecretString> {
    let found = ctx.secrets.get(variable);
    if found.is_none() {
        ctx.refuse(
            position.file,
            position.at(key),
            format!("there is nothing in `{variable}`"),
            ctx.how_to_set(variable),
        );
    }
    found
}

fn resolve_after(
    position: &MailboxPosition<'_>,
    typed: &TypedMailbox,
    ctx: &mut CheckContext<'_>,
) -> AfterStored {
    match &typed.after {
        None => AfterStored::Flag("\\Seen".to_owned()),
        Some(TypedAfter::Flag(flag)) => {
            if !is_flag(flag) {
                ctx.refuse(
                    position.file,
                    position.at("after/flag"),
                    format!("`{flag}` is not a flag to set"),
                    "use `\\\\Seen`, `\\\\Flagged`, `\\\\Answered` or a keyword such as `$Attache`",
                );
            }
            AfterStored::Flag(flag.clone())
        }
        Some(TypedAfter::Move(folder)) => {
            if folder.is_empty() || folder.contains(char::is_control) {
                position.problem_at("after/move", "must be the name of a folder", ctx);
            }
            if Some(folder) == typed.folder.as_ref()
                || (typed.folder.is_none() && folder.eq_ignore_ascii_case("inbox"))
            {
                position.problem_at(
                    "after/move",
                    "letters would be moved to where they are",
                    ctx,
                );
            }
            AfterStored::Move(folder.clone())
        }
    }
}

fn is_name(name: &str) -> bool {
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Reports whether a flag may be set (RFC 9051 section 2.3.2): not `\Deleted`, because other
/// programs would then remove the letter.
fn is_flag(flag: &str) -> bool {
    const SYSTEM: [&str; 3] = ["\\Seen", "\\Flagged", "\\Answered"];
    let is_keyword = |c: char| c.is_ascii_graphic() && !"(){%*\"\\]".contains(c);
    SYSTEM
        .iter()
        .any(|system| flag.eq_ignore_ascii_case(system))
        || (!flag.is_empty() && flag.len() <= 64 && flag.chars().all(is_keyword))
}

/// JSON of one mailbox for `attache config show`.
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
        "mark_unanswered": mailbox.mark_unanswered,
        "since": if mailbox.from_now_on { "now" } else { "all" },
        "fallback": mailbox.fallback.as_ref().map(PersonaId::as_str),
        "poll": spell(mailbox.poll),
        "authserv_id": mailbox.authserv_id,
    })
}
