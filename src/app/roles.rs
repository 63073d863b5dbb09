//! What an engine does, where several share the work: everything, unless its command line says less.

use std::fmt;

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRole {
    /// Takes letters: listeners, folders, mailboxes.
    Gateway,
    /// Works off runs.
    Runs,
    /// Sends mail, and writes what the engine tells owners and senders.
    Outbound,
    /// Starts responsibilities; keeps retention, webhooks, vectors, telemetry.
    Clock,
    /// Serves the pages.
    Http,
}

impl NodeRole {
    /// Every role, by the names of `serve --roles`.
    pub const ALL: [(&'static str, NodeRole); 5] = [
        ("gateway", NodeRole::Gateway),
        ("runs", NodeRole::Runs),
        ("outbound", NodeRole::Outbound),
        ("clock", NodeRole::Clock),
        ("http", NodeRole::Http),
    ];
}

/// The roles of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRoles(Vec<NodeRole>);

impl NodeRoles {
    /// Every role.
    pub fn all() -> Self {
        Self(NodeRole::ALL.iter().map(|(_, role)| *role).collect())
    }

    /// Returns the roles of these names; a name that is none is left out.
    pub fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let role = |name| NodeRole::ALL.iter().find(|(known, _)| *known == name);
        Self(names.filter_map(role).map(|(_, role)| *role).collect())
    }

    pub fn has(&self, role: NodeRole) -> bool {
        self.0.contains(&role)
    }
}

impl fmt::Display for NodeRoles {
    /// Writes the names, divided by commas, in the order of [`NodeRole::ALL`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NodeRole::ALL.iter().filter(|(_, role)| self.has(*role));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        f.write_str(&names.join(","))
    }
}
