//! `mailboxes` in `configs/gateway.json`: IMAP mailboxes from which letters are fetched.

use crate::config::values::net::{MailTls, check_base_url, domain, is_loopback_host};
use crate::config::values::section::*;
use crate::domain::PersonaId;
use std::path::PathBuf;

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
    tls: Option<MailTls>,
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
    after: Option<AfterStored>,
    /// Applies `after` also to letters that nobody answers, refused or filed, which otherwise stay unchanged and unread.
    #[serde(default)]
    mark_unanswered: bool,
    /// Letters to fetch: `now` for letters that arrive after the first connection, or `all`.
    #[serde(default)]
    since: TypedSince,
    /// Persona that gets letters without a local recipient.
    fallback: Option<String>,
    /// Interval between two polls, also when the server announces new letters.
    #[serde(default = "default_poll", with = "TypedDuration")]
    poll: Duration,
    /// The authserv-id of the server whose `Authentication-Results` in these letters are trusted.
    /// Default: none.
    #[schemars(length(min = 1))]
    authserv_id: Option<String>,
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterStored {
    /// Sets this flag or keyword, such as `\Seen` or `$Attache`.
    Flag(String),
    /// Moves the letter to this folder, which is created if it is missing.
    Move(String),
}

const fn default_poll() -> Duration {
    Duration::from_secs(300)
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    pub tls: MailTls,
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
pub fn resolve(list: &[TypedMailbox], place: &mut CheckPlace<'_, '_>) -> Vec<ImapMailbox> {
    if list.len() > MAILBOXES_MAX {
        place.complain("", format!("more than {MAILBOXES_MAX} mailboxes"));
    }
    let mut mailboxes: Vec<ImapMailbox> = Vec::new();
    for (index, typed) in list.iter().enumerate() {
        let place = &mut place.under(index);
        if mailboxes.iter().any(|other| other.name == typed.name) {
            place.complain("name", format!("there is another mailbox `{}`", typed.name));
        }
        let Some(mailbox) = resolve_one(typed, place) else {
            continue;
        };
        let same = |other: &&ImapMailbox| {
            (&other.host, other.port, &other.user, &other.folder)
                == (&mailbox.host, mailbox.port, &mailbox.user, &mailbox.folder)
        };
        if let Some(ImapMailbox { name, .. }) = mailboxes.iter().find(same) {
            place.complain(
                "folder",
                format!("mailbox `{name}` reads this folder already"),
            );
        }
        mailboxes.push(mailbox);
    }
    mailboxes
}

fn resolve_one(typed: &TypedMailbox, place: &mut CheckPlace<'_, '_>) -> Option<ImapMailbox> {
    let TypedMailbox { name, host, .. } = typed;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.chars().all(is_name) {
        let message = format!("`{name}` is not a name: use letters, digits, `.`, `_` and `-`");
        place.complain("name", message);
    }
    let tls = typed.tls.unwrap_or(MailTls::Implicit);
    if host.parse::<std::net::IpAddr>().is_err() && domain(host).is_none() {
        place.complain("host", format!("`{host}` is not a host name"));
    }
    if tls == MailTls::None && !is_loopback_host(host) {
        place.refuse(
            "tls",
            format!("`none` would send password and mail in plain text from `{host}`"),
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
            place.complain(key, "must be one line of text");
        }
    }
    if typed.poll < POLL_MIN {
        place.complain("poll", format!("must be at least {}", spell(POLL_MIN)));
    }
    let login = resolve_login(typed, place);
    let fallback = place.persona("fallback", typed.fallback.as_deref());
    let ca_file = typed.ca_file.as_ref();
    Some(ImapMailbox {
        name: name.clone(),
        host: host.clone(),
        port: typed.port.unwrap_or(match tls {
            MailTls::Implicit => 993,
            MailTls::StartTls | MailTls::None => 143,
        }),
        tls,
        ca_file: ca_file.map(|file| place.ctx.workspace.join(file)),
        user: typed.user.clone(),
        folder: typed.folder.clone().unwrap_or_else(|| "INBOX".to_owned()),
        after: resolve_after(typed, place),
        mark_unanswered: typed.mark_unanswered,
        from_now_on: typed.since == TypedSince::Now,
        fallback,
        poll: typed.poll,
        authserv_id: typed.authserv_id.as_ref().map(|id| id.to_ascii_lowercase()),
        login: login?,
    })
}

fn resolve_login(typed: &TypedMailbox, place: &mut CheckPlace<'_, '_>) -> Option<MailboxLogin> {
    let secret = |place: &mut CheckPlace<'_, '_>, key: &str, variable: &str| {
        let message = format!("there is nothing in `{variable}`");
        place.secret_or(key, variable, message, place.ctx.how_to_set(variable))
    };
    let password = typed.password_variable.as_deref();
    let Some(oauth) = &typed.oauth else {
        let variable = password.unwrap_or(PASSWORD_VARIABLE);
        return secret(place, "user", variable).map(MailboxLogin::Password);
    };
    if password.is_some() {
        place.complain("password_variable", "has no meaning beside `oauth`");
    }
    if let Err((message, hint)) = check_base_url(&oauth.token_url, false) {
        place.refuse("oauth/token_url", message, hint);
    }
    let client_secret = match &oauth.client_secret_variable {
        None => None,
        Some(variable) => Some(secret(place, "oauth/client_secret_variable", variable)?),
    };
    let variable = &oauth.refresh_token_variable;
    Some(MailboxLogin::OAuth(OAuth {
        token_url: oauth.token_url.clone(),
        client_id: oauth.client_id.clone(),
        client_secret,
        refresh_token: secret(place, "oauth/refresh_token_variable", variable)?,
        scope: oauth.scope.clone(),
    }))
}

fn resolve_after(typed: &TypedMailbox, place: &mut CheckPlace<'_, '_>) -> AfterStored {
    match &typed.after {
        Some(AfterStored::Flag(flag)) if !is_flag(flag) => place.refuse(
            "after/flag",
            format!("`{flag}` is not a flag to set"),
            "use `\\\\Seen`, `\\\\Flagged`, `\\\\Answered` or a keyword such as `$Attache`",
        ),
        Some(AfterStored::Move(folder)) => {
            if folder.is_empty() || folder.contains(char::is_control) {
                place.complain("after/move", "must be the name of a folder");
            }
            if Some(folder) == typed.folder.as_ref()
                || (typed.folder.is_none() && folder.eq_ignore_ascii_case("inbox"))
            {
                place.complain("after/move", "letters would be moved to where they are");
            }
        }
        _ => {}
    }
    let seen = || AfterStored::Flag("\\Seen".to_owned());
    typed.after.clone().unwrap_or_else(seen)
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
    let set = |is_set: bool| is_set.then_some("[set]");
    let oauth = match &mailbox.login {
        MailboxLogin::Password(_) => None,
        MailboxLogin::OAuth(oauth) => Some(json!({
            "token_url": oauth.token_url, "client_id": oauth.client_id, "scope": oauth.scope,
            "client_secret": set(oauth.client_secret.is_some()), "refresh_token": "[set]",
        })),
    };
    json!({
        "name": mailbox.name, "host": mailbox.host, "port": mailbox.port, "tls": mailbox.tls,
        "ca_file": mailbox.ca_file, "user": mailbox.user, "password": set(oauth.is_none()), "oauth": oauth,
        "folder": mailbox.folder, "after": mailbox.after, "mark_unanswered": mailbox.mark_unanswered,
        "since": if mailbox.from_now_on { "now" } else { "all" },
        "fallback": mailbox.fallback, "poll": spell(mailbox.poll), "authserv_id": mailbox.authserv_id,
    })
}
