//! Listeners: whether their addresses are free, ours, or taken by another program.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::cli::process::addresses::{AddressHolder, AddressState, address_state, unbound_hint};
use crate::config::{Config, ListenAddress, Problem};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An address of the configuration as it is found.
pub struct ListenerFacts {
    pub address: String,
    /// Its place in the configuration.
    pub place: Problem,
    pub state: AddressState,
    /// Process and user of the engine that works here.
    pub engine: Option<(u32, u32)>,
    /// Unit of the service that gives the right to ports below 1024, for an address that this user may not bind.
    pub granting_unit: Option<PathBuf>,
}

/// First port that every user may bind, unless the machine was told otherwise.
const FIRST_FREE_PORT: u16 = 1024;
/// Folders of units, the strongest first (systemd.unit(5)), and the unit of the package.
const UNITS: [&str; 3] = [
    "etc/systemd/system/attache.service",
    "usr/lib/systemd/system/attache.service",
    "lib/systemd/system/attache.service",
];

static CHECKS: &[InstallCheck<[ListenerFacts]>] = &[taken, no_sockets, granted, unusable];

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
        let state = address_state(address);
        ListenerFacts {
            granting_unit: needs_right(address, &state)
                .then(|| granting_unit(Path::new("/")))
                .flatten()
                .filter(|_| !rustix::process::geteuid().is_root()),
            address: address.to_string(),
            place: config
                .snapshot
                .problem_at("configs/gateway.json", &pointer, String::new()),
            state,
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

/// Reports whether an address is refused because its port needs a right.
fn needs_right(address: &ListenAddress, state: &AddressState) -> bool {
    let is_refused = matches!(
        state,
        AddressState::Unusable(ErrorKind::PermissionDenied, _)
    );
    is_refused && matches!(address, ListenAddress::Tcp(address) if address.port() < FIRST_FREE_PORT)
}

/// Returns the unit in force below a folder, if it gives its service the right to ports below 1024.
fn granting_unit(root: &Path) -> Option<PathBuf> {
    let mut units = UNITS.iter().map(|unit| root.join(unit));
    let unit = units.find(|unit| unit.exists())?;
    let text = std::fs::read_to_string(&unit).ok()?;
    grants(&text).then_some(unit)
}

/// Reports whether a unit gives the right. An empty assignment takes back the earlier ones (systemd.exec(5)).
fn grants(unit: &str) -> bool {
    let values = unit.lines().filter_map(|line| {
        let value = line.trim().strip_prefix("AmbientCapabilities")?;
        Some(value.trim_start().strip_prefix('=')?.trim())
    });
    values.fold(false, |grants, value| match value {
        "" => false,
        value if value.starts_with('~') => grants,
        value => {
            grants
                || value
                    .split_whitespace()
                    .any(|one| one == "CAP_NET_BIND_SERVICE")
        }
    })
}

fn granted(all: &[ListenerFacts]) -> Vec<InstallFinding> {
    let found = all.iter().filter_map(|facts| {
        let unit = facts.granting_unit.as_ref()?.display();
        let what = format!(
            "this user may not listen on {}, and the service may: {unit} gives it the right",
            facts.address
        );
        let remedy = "nothing, if systemd starts the engine: `systemctl start attache`";
        let finding =
            InstallFinding::new(FindingArea::Listeners, FindingSeverity::Note, what, remedy);
        Some(finding.at(&facts.place))
    });
    found.collect()
}

fn unusable(all: &[ListenerFacts]) -> Vec<InstallFinding> {
    let refused = all.iter().filter(|facts| facts.granting_unit.is_none());
    let found = refused.filter_map(|facts| {
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

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTING: &str = "[Service]\nAmbientCapabilities=CAP_CHOWN CAP_NET_BIND_SERVICE\n";

    fn refused(address: &str, kind: ErrorKind, root: &Path) -> ListenerFacts {
        let address = ListenAddress::Tcp(address.parse().expect("an address"));
        let state = AddressState::Unusable(kind, "refused".to_owned());
        ListenerFacts {
            granting_unit: needs_right(&address, &state)
                .then(|| granting_unit(root))
                .flatten(),
            address: address.to_string(),
            place: Problem::in_file("configs/gateway.json", String::new()),
            state,
            engine: None,
        }
    }

    #[test]
    fn a_port_that_the_unit_gives_the_right_to_is_no_fault() {
        use ErrorKind::{AddrNotAvailable, PermissionDenied};
        use FindingSeverity::{Fault, Note};
        let table = [
            ("0.0.0.0:25", PermissionDenied, Some((0, GRANTING)), Note),
            ("0.0.0.0:25", PermissionDenied, Some((1, GRANTING)), Note),
            ("0.0.0.0:25", PermissionDenied, Some((2, GRANTING)), Note),
            // The control: the same without a unit, and with one that does not give it.
            ("0.0.0.0:25", PermissionDenied, None, Fault),
            (
                "0.0.0.0:25",
                PermissionDenied,
                Some((0, "[Service]\n")),
                Fault,
            ),
            // Another reason, and a port that needs no right.
            ("0.0.0.0:25", AddrNotAvailable, Some((0, GRANTING)), Fault),
            ("0.0.0.0:2525", PermissionDenied, Some((0, GRANTING)), Fault),
        ];
        for (address, kind, unit, severity) in table {
            let root = tempfile::tempdir().expect("a folder");
            if let Some((place, text)) = unit {
                let file = root.path().join(UNITS[place]);
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
                std::fs::write(file, text).expect("a unit");
            }
            let facts = refused(address, kind, root.path());
            let found = ExaminedArea::of(CHECKS, [facts].as_slice()).findings;
            let severities: Vec<FindingSeverity> = found.iter().map(|one| one.severity).collect();
            assert_eq!(severities, [severity], "{address} {kind:?} {unit:?}");
        }
    }

    #[test]
    fn a_unit_gives_the_right_by_its_last_word() {
        let taken_back = format!("{GRANTING}AmbientCapabilities=\n");
        for (unit, is_granted) in [
            (GRANTING, true),
            ("AmbientCapabilities = CAP_NET_BIND_SERVICE", true),
            ("#AmbientCapabilities=CAP_NET_BIND_SERVICE", false),
            ("AmbientCapabilities=~CAP_NET_BIND_SERVICE", false),
            ("CapabilityBoundingSet=CAP_NET_BIND_SERVICE", false),
            (&taken_back, false),
        ] {
            assert_eq!(grants(unit), is_granted, "{unit}");
        }
    }
}
