//! `attache mailboxes list|check`: health of the IMAP mailboxes, and a test of their logins.
//!
//! `list` reads the database, also beside a running engine; `check` asks the servers and changes
//! nothing there.

use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::{ImapMailbox, MailTls};
use crate::domain::Timestamp;
use crate::gateway::ingress::imap::{self, MailboxProbe};
use crate::store::{MailboxHealth, RefusedLetter};
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// Show how the IMAP mailboxes fare, and check that they can be read
#[derive(clap::Subcommand)]
pub enum MailboxesCommand {
    /// List mailboxes: last good fetch, letters still to come, letters refused, what is wrong
    List,
    /// Log in to mailboxes and look at their folders, changing nothing
    Check {
        /// Only this one
        name: Option<String>,
    },
}

impl MailboxesCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::List => list(context).await,
            Self::Check { name } => check(context, name.as_ref()).await,
        }
    }
}

/// Maximum number of refused letters that `list --json` shows of each mailbox.
const REFUSED_SHOWN_MAX: u32 = 100;

async fn list(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let store = context.shared_store().await?;
    let now = store.clock().now();
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for mailbox in &config.gateway.mailboxes {
        let health = store.mailbox_health(&mailbox.name).await?;
        let refused = store
            .refused_mailbox_letters(&mailbox.name, REFUSED_SHOWN_MAX)
            .await?;
        values.push(record(mailbox, health.as_ref(), refused, now));
        lines.push(as_line(mailbox, health.as_ref(), now));
    }
    context.report(&values, |screen| {
        let headings = &[
            "MAILBOX",
            "SOURCE",
            "LAST FETCH",
            "BACKLOG",
            "REFUSED",
            "WRONG",
        ];
        screen.listing(headings, &lines, "no mailbox is configured")?;
        Ok(())
    })
}

fn as_line(mailbox: &ImapMailbox, health: Option<&MailboxHealth>, now: Timestamp) -> Vec<String> {
    let fetched = health.and_then(|health| health.last_fetch_at);
    let number =
        |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    vec![
        mailbox.name.clone(),
        source(mailbox),
        fetched.map_or_else(|| "never".to_owned(), |at| format!("{} ago", age(at, now))),
        number(health.and_then(|health| health.backlog)),
        number(health.map(|health| health.refused)),
        health.and_then(wrong_now).unwrap_or_default().to_owned(),
    ]
}

fn record(
    mailbox: &ImapMailbox,
    health: Option<&MailboxHealth>,
    refused: Vec<RefusedLetter>,
    now: Timestamp,
) -> Value {
    let fetched = health.and_then(|health| health.last_fetch_at);
    let age_ms = |at| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
    let letter = |letter: RefusedLetter| {
        json!({
            "uid_validity": letter.place.uid_validity,
            "uid": letter.place.uid,
            "reason": letter.reason,
            "noted_at": letter.noted_at,
        })
    };
    json!({
        "name": mailbox.name,
        "source": source(mailbox),
        "last_fetch_at": fetched,
        "last_fetch_age_ms": fetched.map(age_ms),
        "backlog": health.and_then(|health| health.backlog),
        "uid_validity": health.map(|health| health.uid_validity),
        "last_uid": health.map(|health| health.last_uid),
        "wrong": health.and_then(wrong_now).map(str::to_owned),
        "last_error": health.and_then(|health| health.last_error.clone()),
        "last_error_at": health.and_then(|health| health.last_error_at),
        "refused": health.map_or(0, |health| health.refused),
        "refused_letters": refused.into_iter().map(letter).collect::<Vec<_>>(),
    })
}

/// An error that no successful fetch has followed.
fn wrong_now(health: &MailboxHealth) -> Option<&str> {
    let followed = health.last_fetch_at > health.last_error_at;
    health.last_error.as_deref().filter(|_| !followed)
}

fn source(mailbox: &ImapMailbox) -> String {
    let port = mailbox.port;
    format!(
        "{} at {}:{port}, {}",
        mailbox.user, mailbox.host, mailbox.folder
    )
}

/// Formats an age in the largest unit that fits.
fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

async fn check(context: &CommandContext, name: Option<&String>) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let named = |mailbox: &&ImapMailbox| name.is_none_or(|name| mailbox.name == *name);
    let mailboxes: Vec<&ImapMailbox> = config.gateway.mailboxes.iter().filter(named).collect();
    if let (Some(name), []) = (name, mailboxes.as_slice()) {
        return refuse(
            Exit::NoInput,
            format!("no mailbox `{name}`"),
            "`attache mailboxes list` shows their names",
        );
    }
    if mailboxes.is_empty() {
        screen::remark("there is no mailbox: name one in `mailboxes` of configs/gateway.json");
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (mut values, mut exit) = (Vec::new(), Exit::Ok);
    for mailbox in mailboxes {
        let probed = imap::probe(mailbox, &context.workspace, clock.clone()).await;
        let probed = probed.map_err(|error| error.in_words());
        if probed.is_err() {
            exit = Exit::Unavailable;
        }
        if !context.json() {
            context.screen.line(format!(
                "{}\t{}",
                mailbox.name,
                probe_text(mailbox, probed.as_ref())
            ))?;
        }
        values.push(ProbeRecord::new(mailbox, &probed));
    }
    if context.json() {
        context.screen.json(&values)?;
    }
    Ok(exit)
}

/// Logs in to one mailbox and looks at its folder, changing nothing, as `check` does.
///
/// Errors: the server's words, with what to do.
pub(super) async fn probe(workspace: &Path, mailbox: &ImapMailbox) -> Result<String, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let probed = imap::probe(mailbox, workspace, clock).await;
    let said = |probed| format!("`{}` {}", source(mailbox), probe_text(mailbox, probed));
    match probed {
        Ok(probe) => Ok(said(Ok(&probe))),
        Err(error) => refuse(
            Exit::Unavailable,
            said(Err(&error.in_words())),
            error.remedy(),
        ),
    }
}

/// Formats the result of a probe; a missing extension is named with its substitute.
fn probe_text(mailbox: &ImapMailbox, probed: Result<&MailboxProbe, &String>) -> String {
    let probe = match probed {
        Ok(probe) => probe,
        Err(why) => return format!("cannot be read: {why}"),
    };
    let has = |capability: &str| probe.capabilities.iter().any(|known| known == capability);
    let idle = if has("IDLE") {
        "tells of new letters"
    } else {
        "has no IDLE, so it is polled"
    };
    let clear = if mailbox.tls == MailTls::None {
        ", in plain text"
    } else {
        ""
    };
    format!(
        "can be read{clear}: {} holds {} letters; the server {idle}",
        mailbox.folder, probe.letters
    )
}

/// Outcome of a probe of one mailbox.
#[derive(Serialize)]
struct ProbeRecord {
    name: String,
    ok: bool,
    error: Option<String>,
    letters: Option<u32>,
    uid_validity: Option<u32>,
    capabilities: Option<Vec<String>>,
}

impl ProbeRecord {
    fn new(mailbox: &ImapMailbox, probed: &Result<MailboxProbe, String>) -> Self {
        let probe = probed.as_ref().ok();
        Self {
            name: mailbox.name.clone(),
            ok: probe.is_some(),
            error: probed.as_ref().err().cloned(),
            letters: probe.map(|probe| probe.letters),
            uid_validity: probe.map(|probe| probe.uid_validity),
            capabilities: probe.map(|probe| probe.capabilities.clone()),
        }
    }
}
