//! The engine that works here, and what one has left: a stopped process, another version, half a take-over. Other nodes of its
//! database: whether they have the same files.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallFinding};
use crate::app::{NodeRole, node_marks};
use crate::cli::process::other::is_stopped;
use crate::config::Config;
use crate::domain::Timestamp;
use crate::store::{EngineAtWork, NodeRecord, opening_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Lock that a take-over makes and renames.
const TAKE_OVER: &str = "data/engine.lock.new";

/// Time after its start in which a node may not have left its mark.
const MARK_WAIT: Duration = Duration::from_secs(10);

/// The locks of a workspace as they are found, and the marks of nodes.
pub struct EngineFacts<'a> {
    pub engine: Option<EngineAtWork>,
    pub is_stopped: bool,
    /// Process that opens the database now.
    pub opening: Option<String>,
    pub has_take_over: bool,
    /// Nodes that have had the time to leave their marks.
    pub nodes: Vec<&'a NodeRecord>,
    /// There are others, which may have roles that these lack.
    pub has_new_nodes: bool,
    /// Digests of the configurations of nodes that share this folder of personas.
    pub marks: BTreeMap<i64, String>,
    /// Digest of the configuration here; `None`: it is faulty.
    pub config_sha256: Option<&'a str>,
}

static CHECKS: &[fn(&EngineFacts<'_>) -> Vec<InstallFinding>] = &[
    stopped,
    other_version,
    opening,
    take_over,
    other_personas,
    other_configuration,
    role_of_none,
];

pub fn examine(
    workspace: &Path,
    engine: Option<&EngineAtWork>,
    nodes: &[NodeRecord],
    now: Timestamp,
    config: Option<&Config>,
) -> ExaminedArea {
    let is_marked = |node: &&NodeRecord| now.since(node.started_at) > MARK_WAIT;
    let facts = EngineFacts {
        nodes: nodes.iter().filter(is_marked).collect(),
        has_new_nodes: !nodes.iter().all(|node| is_marked(&node)),
        marks: node_marks::read(workspace).unwrap_or_default(),
        config_sha256: config.map(|config| config.snapshot.sha256()),
        engine: engine.cloned(),
        is_stopped: engine.is_some_and(|engine| is_stopped(&engine.pid)),
        opening: opening_process(workspace),
        has_take_over: workspace.join(TAKE_OVER).exists(),
    };
    ExaminedArea::of(CHECKS, &facts)
}

fn finding(severity: FindingSeverity, what: String, remedy: String) -> Vec<InstallFinding> {
    vec![InstallFinding::new(
        FindingArea::Engine,
        severity,
        what,
        remedy,
    )]
}

fn stopped(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let Some(engine) = facts.engine.as_ref().filter(|_| facts.is_stopped) else {
        return Vec::new();
    };
    let pid = &engine.pid;
    let what = format!(
        "process {pid} holds this workspace and is stopped: nothing is taken, answered or sent"
    );
    let remedy = format!(
        "`kill -CONT {pid}` lets it go on; `kill -9 {pid}`, then `attache serve`, replaces it, and nothing is lost"
    );
    finding(FindingSeverity::Fault, what, remedy)
}

fn other_version(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let version = facts
        .engine
        .as_ref()
        .and_then(|engine| engine.version.as_ref());
    let own = env!("CARGO_PKG_VERSION");
    let Some(version) = version.filter(|version| *version != own) else {
        return Vec::new();
    };
    let what =
        format!("the engine that works here is attache {version}, and this program is {own}");
    finding(
        FindingSeverity::Warning,
        what,
        "start the engine anew".to_owned(),
    )
}

fn opening(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let Some(pid) = &facts.opening else {
        return Vec::new();
    };
    let what = format!("process {pid} is opening the database, and every other waits for it");
    let remedy = format!("ask again in a minute; one that hangs is ended by `kill {pid}`");
    finding(FindingSeverity::Warning, what, remedy)
}

fn take_over(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    if !facts.has_take_over {
        return Vec::new();
    }
    let what = "a take-over (`attache serve --take-over`) did not come to its end".to_owned();
    let remedy =
        format!("see by `attache status` that the right engine works, then `rm {TAKE_OVER}`");
    let found = finding(FindingSeverity::Warning, what, remedy).into_iter();
    found.map(|one| one.of_file(TAKE_OVER)).collect()
}

fn other_personas(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let strangers = facts.nodes.iter();
    let strangers = strangers.filter(|node| !facts.marks.contains_key(&node.epoch));
    let found = strangers.flat_map(|node| {
        let what = format!(
            "node {} ({}) works with another folder of personas than this one",
            node.epoch, node.host
        );
        let remedy = "let all nodes of a database have one folder `personas`: what runs write there is read by the next run, on \
                      whatever node";
        finding(FindingSeverity::Fault, what, remedy.to_owned())
    });
    found.collect()
}

fn other_configuration(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let Some(own) = facts.config_sha256 else {
        return Vec::new();
    };
    let differ = facts.nodes.iter().filter(|node| {
        let mark = facts.marks.get(&node.epoch);
        mark.is_some_and(|sha256| sha256 != own)
    });
    let found = differ.flat_map(|node| {
        let what = format!(
            "node {} ({}) works by another configuration than the files here",
            node.epoch, node.host
        );
        let remedy = "give all nodes the same `configs`; `attache reload` on a node says what it does not take over";
        finding(FindingSeverity::Warning, what, remedy.to_owned())
    });
    found.collect()
}

/// Roles that no node has: their work waits. A node without names has all.
fn role_of_none(facts: &EngineFacts<'_>) -> Vec<InstallFinding> {
    let nodes = &facts.nodes;
    let has = |node: &&NodeRecord, role: &str| {
        node.roles.is_empty() || node.roles.iter().any(|had| had == role)
    };
    let names = NodeRole::ALL.iter().map(|(name, _)| *name);
    let missing: Vec<&str> = names
        .filter(|role| *role != "http" && !nodes.iter().any(|node| has(node, role)))
        .collect();
    if nodes.is_empty() || facts.has_new_nodes || missing.is_empty() {
        return Vec::new();
    }
    let roles = missing.join(", ");
    let what = format!("no node has the roles {roles}: what they are for waits");
    let remedy = "name them in `attache serve --roles` of a node, or start one without --roles, which has all".to_owned();
    finding(FindingSeverity::Warning, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(epoch: i64) -> NodeRecord {
        NodeRecord {
            epoch,
            host: format!("host-{epoch}"),
            workspace: "/var/lib/attache".to_owned(),
            pid: 1,
            version: String::new(),
            roles: Vec::new(),
            started_at: Timestamp::from_millis(0),
            lease_ms: Some(10_000),
            clock_off_ms: 0,
            drain_asked_at: None,
            leases: Vec::new(),
        }
    }

    fn of_nodes(nodes: &[NodeRecord]) -> EngineFacts<'_> {
        EngineFacts {
            engine: None,
            is_stopped: false,
            opening: None,
            has_take_over: false,
            nodes: nodes.iter().collect(),
            has_new_nodes: false,
            marks: BTreeMap::new(),
            config_sha256: None,
        }
    }

    #[test]
    fn nodes_with_other_files_are_named() {
        let nodes = [node(7), node(8), node(9)];
        let facts = EngineFacts {
            marks: BTreeMap::from([(8, "other".to_owned()), (9, "own".to_owned())]),
            config_sha256: Some("own"),
            ..of_nodes(&nodes)
        };
        let said = |found: Vec<InstallFinding>| -> Vec<String> {
            found.into_iter().map(|one| one.what).collect()
        };
        assert_eq!(
            said(other_personas(&facts)),
            ["node 7 (host-7) works with another folder of personas than this one"]
        );
        assert_eq!(
            said(other_configuration(&facts)),
            ["node 8 (host-8) works by another configuration than the files here"]
        );
    }

    #[test]
    fn a_role_that_no_node_has_is_named() {
        let with = |roles: &[&str]| NodeRecord {
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            ..node(7)
        };
        let said = |nodes: &[NodeRecord], has_new_nodes| {
            let facts = EngineFacts {
                has_new_nodes,
                ..of_nodes(nodes)
            };
            let found = role_of_none(&facts).into_iter();
            found.map(|one| one.what).collect::<Vec<_>>()
        };
        let some = [with(&["gateway"]), with(&["runs", "http"])];
        assert_eq!(
            said(&some, false),
            ["no node has the roles outbound, clock: what they are for waits"]
        );
        assert!(said(&some, true).is_empty(), "a new one may have them");
        assert!(said(&[with(&["gateway"]), with(&[])], false).is_empty());
        assert!(said(&[], false).is_empty(), "SQLite has no nodes");
    }
}
