//! Servers elsewhere: the mail server, mailboxes, providers. Only `--online` asks them; else it counts what the engine has
//! recorded of them. No mail is sent, no model called.

use super::clock::{ServerClock, compare};
use super::database::DatabaseState;
use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallFinding};
use crate::cli::outbox;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::gateway::failing::FailingServer;
use crate::gateway::ingress::imap;
use crate::providers::LoopOwner;
use crate::runs::provider_health::status::{self, Seat};
use futures_util::future::join_all;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A server that did not do what is needed of it.
pub struct RefusingServer {
    pub what: String,
    pub remedy: String,
    pub file: &'static str,
}

const GATEWAY: &str = "configs/gateway.json";
const INFERENCE: &str = "configs/inference.json";

/// Asks every server of the configuration. The number of checks is that of the servers.
pub async fn examine(config: Option<&Config>, workspace: &Path) -> ExaminedArea {
    let Some(config) = config else {
        return ExaminedArea::default();
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let asks = |seat: &Seat| !seat.users.is_empty() && seat.loop_owner() == Some(LoopOwner::Engine);
    let seats: Vec<Seat> = status::seats(config).into_iter().filter(asks).collect();
    let mailboxes = config.gateway.mailboxes.iter().map(|mailbox| {
        let clock = clock.clone();
        async move {
            let probed = imap::probe(mailbox, workspace, clock).await;
            probed.err().map(|error| RefusingServer {
                what: format!(
                    "mailbox `{}` cannot be read: {}",
                    mailbox.name,
                    error.in_words()
                ),
                remedy: format!(
                    "{}; `attache mailboxes check {}` tries again",
                    error.remedy(),
                    mailbox.name
                ),
                file: GATEWAY,
            })
        }
    });
    let clocks = Mutex::new(Vec::new());
    let providers = seats
        .iter()
        .map(|seat| provider(seat, clock.as_ref(), &clocks));
    let (out, mailboxes, providers) =
        futures_util::join!(outbound(config), join_all(mailboxes), join_all(providers));
    let checks = usize::from(config.gateway.outbound.is_some()) + mailboxes.len() + providers.len();
    let refusing = out.into_iter().chain(mailboxes.into_iter().flatten());
    let refusing = refusing.chain(providers.into_iter().flatten());
    let clocks = compare(&clocks.into_inner().unwrap_or_else(PoisonError::into_inner));
    let findings = refusing.map(|server| finding(&server));
    ExaminedArea {
        checks: checks + clocks.checks,
        findings: findings.chain(clocks.findings).collect(),
    }
}

/// Servers that failed when the engine asked them last, without asking them anew. What no engine works on may be over.
pub fn recorded(database: &DatabaseState, has_engine: bool) -> ExaminedArea {
    let DatabaseState::Opened { failing, .. } = database else {
        return ExaminedArea::default();
    };
    let finding = |server: &FailingServer| {
        let (severity, file, ask) = match server.kind {
            "outbound" => (
                FindingSeverity::Fault,
                GATEWAY,
                "attache outbox check".to_owned(),
            ),
            "mailbox" => {
                let ask = format!("attache mailboxes check {}", server.name);
                (FindingSeverity::Fault, GATEWAY, ask)
            }
            _ => (
                FindingSeverity::Warning,
                INFERENCE,
                "attache providers check".to_owned(),
            ),
        };
        let severity = match has_engine {
            true => severity,
            false => FindingSeverity::Warning,
        };
        let reason = match server.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let remedy = format!("`{ask}` asks it now, and says what to do");
        InstallFinding::new(
            FindingArea::Servers,
            severity,
            format!("{server}{reason}"),
            remedy,
        )
        .of_file(file)
    };
    ExaminedArea {
        checks: 1,
        findings: failing.iter().map(finding).collect(),
    }
}

fn finding(server: &RefusingServer) -> InstallFinding {
    let fault = FindingSeverity::Fault;
    InstallFinding::new(FindingArea::Servers, fault, &server.what, &server.remedy)
        .of_file(server.file)
}

async fn outbound(config: &Config) -> Option<RefusingServer> {
    let transport = config.gateway.outbound.as_ref()?;
    let (what, remedy) = match outbox::probe(config, transport).await {
        Ok(Ok(_)) => return None,
        Ok(Err(obstacle)) => (
            format!(
                "mail cannot go out by `{}`: {}",
                obstacle.to, obstacle.reply
            ),
            obstacle.remedy().to_owned(),
        ),
        Err(error) => (
            format!("mail cannot go out: {error}"),
            "see `outbound` in configs/gateway.json".to_owned(),
        ),
    };
    Some(RefusingServer {
        what,
        remedy,
        file: GATEWAY,
    })
}

async fn provider(
    seat: &Seat,
    clock: &dyn Clock,
    clocks: &Mutex<Vec<ServerClock>>,
) -> Option<RefusingServer> {
    let found = status::check(seat, clock).await;
    if let Some((there, here)) = found.server_clock {
        let of = format!("provider `{}`", seat.name);
        let mut clocks = clocks.lock().unwrap_or_else(PoisonError::into_inner);
        clocks.push(ServerClock { of, there, here });
    }
    let refusing = |what, remedy| RefusingServer {
        what,
        remedy,
        file: INFERENCE,
    };
    if let Err(error) = &found.health {
        let what = format!("provider `{}`: {}: {error}", seat.name, error.class);
        return Some(refusing(what, status::advice(seat, error.class)));
    }
    let unlisted = found.models.iter().find(|model| !model.is_listed)?;
    let near = unlisted
        .near
        .as_ref()
        .map(|near| format!("did you mean `{near}`? "));
    let remedy = format!(
        "{}`attache providers models {}` lists its models",
        near.unwrap_or_default(),
        seat.name
    );
    let what = format!("provider `{}` has no model `{}`", seat.name, unlisted.model);
    Some(refusing(what, remedy))
}
