//! Listeners: whether their addresses are free, ours, or taken by another program.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::cli::process::addresses::{AddressHolder, AddressState, address_state, unbound_hint};
use crate::config::{Config, ListenAddress, Problem};
use std::io::ErrorKind;

/// An address of the configuration as it is found.
pub struct ListenerFacts {
    pub address: String,
    /// Its place in the configuration.
    pub place: Problem,
    pub state: AddressState,
    /// Process and user of the engine that works here.
    pub engine: Option<(u32, u32)>,
}

static CHECKS: &[InstallCheck<[ListenerFacts]>] = &[taken, no_sockets, unusable];

pub fn examine(config: Option<&Config>, engine: Option<(u32, u32)>) -> ExaminedArea {
    let facts = config.map(|config| gather(config, engine));
    ExaminedArea::of(CHECKS, facts.unwrap_or_default().as_slice())
}

fn gather(config: &Config, engine: Option<(u32, u32)>) -> Vec<ListenerFacts> {
    let gateway = &config.gateway;
    let mail = gateway
        .listeners
        .iter()
        .map(|one| (one.position, &one.address));
    let pages = gateway
        .http_listeners
        .iter()
        .map(|one| (one.position, &one.address));
    let facts = |(position, address): (usize, &ListenAddress)| {
        let pointer = format!("/listeners/{position}/address");
        ListenerFacts {
            address: address.to_string(),
            place: config
                .snapshot
                .problem_at("configs/gateway.json", &pointer, String::new()),
            state: address_state(address),
            engine,
        }
    };
    mail.chain(pages).map(facts).collect()
}

fn fault(facts: &ListenerFacts, what: String, remedy: impl Into<String>) -> InstallFinding {
    InstallFinding::new(FindingArea::Listeners, FindingSeverity::Fault, what, remedy)
        .at(&facts.place)
}

fn taken(all: &[ListenerFacts]) -> Vec<InstallFinding> {
    let found = all.iter().filter_map(|facts| {
        let AddressState::Taken(holder) = &facts.state else {
            return None;
        };
        if is_ours(holder.as_ref(), facts.engine) {
            return None;
        }
        let process = holder.as_ref().and_then(|holder| holder.process.as_ref());
        let who = match (process, holder) {
            (Some((pid, name)), _) => format!("`{name}` (process {pid})"),
            (None, Some(holder)) => format!("a process of the user with the number {}", holder.uid),
            (None, None) => "another program".to_owned(),
        };
        let remedy = match process {
            Some((pid, _)) => format!(
                "end process {pid}, or choose another address in `listeners` of configs/gateway.json"
            ),
            None => unbound_hint(Some(ErrorKind::AddrInUse)).to_owned(),
        };
        Some(fault(facts, format!("{who} listens on {}", facts.address), remedy))
    });
    found.collect()
}

/// Reports whether an address is that of the engine, whose files other processes of its user cannot look into.
fn is_ours(holder: Option<&AddressHolder>, engine: Option<(u32, u32)>) -> bool {
    let Some((pid, uid)) = engine else {
        return false;
    };
    match holder {
        Some(AddressHolder {
            process: Some((holder, _)),
            ..
        }) => *holder == pid,
        Some(holder) => holder.uid == uid,
        None => true,
    }
}

fn no_sockets(all: &[ListenerFacts]) -> Vec<InstallFinding> {
    let found = all
        .iter()
        .filter(|facts| facts.state == AddressState::NoSocket);
    let finding = |facts: &ListenerFacts| {
        let what = format!("the file at {} is no socket", facts.address);
        fault(
            facts,
            what,
            "move the file away, or choose another path in `listeners` of configs/gateway.json",
        )
    };
    found.map(finding).collect()
}

fn unusable(all: &[ListenerFacts]) -> Vec<InstallFinding> {
    let found = all.iter().filter_map(|facts| {
        let AddressState::Unusable(kind, error) = &facts.state else {
            return None;
        };
        let remedy = match (kind, facts.address.starts_with("unix:")) {
            (ErrorKind::PermissionDenied, true) => {
                "let the engine's user write in the folder of the socket"
            }
            _ => unbound_hint(Some(*kind)),
        };
        Some(fault(
            facts,
            format!("cannot listen on {}: {error}", facts.address),
            remedy,
        ))
    });
    found.collect()
}
