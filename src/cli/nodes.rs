//! `attache nodes list|drain`: the engines that work on one database, and their orderly end.

use super::{CommandContext, Exit, refuse, screen};
use crate::store::{NodeRecord, Store, working_engine};

/// List the engines that share a database on PostgreSQL, and have one end in order
#[derive(clap::Subcommand)]
pub enum NodesCommand {
    /// List nodes: where they are, what they do, and for how long the server holds them alive
    List,
    /// Have a node take nothing more, end its work and stop; the others go on
    Drain {
        /// Its number, or its host where that is one node's, as `list` shows them
        node: String,
    },
}

impl NodesCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.store_of_engine().await?;
        match self {
            Self::List => list(context, &store).await,
            Self::Drain { node } => drain(context, &store, &node).await,
        }
    }
}

async fn list(context: &CommandContext, store: &Store) -> anyhow::Result<Exit> {
    let nodes = at_work(context, store).await?;
    let columns = screen::Columns::of(&[
        "NODE",
        "HOST",
        "PID",
        "LEASE",
        "CLOCK",
        "STATE",
        "ROLES",
        "WORKSPACE",
    ]);
    let columns = columns.optional(&["CLOCK", "PID", "ROLES"]);
    context.list(&nodes, columns, "no node is at work", as_line)
}

fn as_line(node: &NodeRecord) -> Vec<String> {
    let state = match node.drain_asked_at {
        _ if !node.is_alive() => "not heard of",
        _ if node.has_wrong_clock() => "wrong clock",
        Some(_) => "ending",
        None => "works",
    };
    let roles = match node.roles.as_slice() {
        [] => "all".to_owned(),
        some => some.join(","),
    };
    let lease = node.lease_ms;
    vec![
        node.epoch.to_string(),
        node.host.clone(),
        node.pid.to_string(),
        lease.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
        format!("{} ms", node.clock_off_ms),
        state.to_owned(),
        roles,
        node.workspace.clone(),
    ]
}

/// Returns the nodes that are at work. The row of an engine on SQLite stays when it has ended.
async fn at_work(context: &CommandContext, store: &Store) -> anyhow::Result<Vec<NodeRecord>> {
    let mut nodes = store.nodes().await?;
    if working_engine(&context.workspace).is_none() {
        nodes.retain(|node| node.lease_ms.is_some());
    }
    Ok(nodes)
}

async fn drain(context: &CommandContext, store: &Store, named: &str) -> anyhow::Result<Exit> {
    let nodes = at_work(context, store).await?;
    let is_meant = |node: &&NodeRecord| node.epoch.to_string() == named || node.host == named;
    let meant: Vec<&NodeRecord> = nodes.iter().filter(is_meant).collect();
    let node = match meant.as_slice() {
        [node] => *node,
        [] => {
            return refuse(
                Exit::NoInput,
                format!("no node `{named}`"),
                "`attache nodes list` shows them",
            );
        }
        several => {
            return refuse(
                Exit::NoInput,
                format!("`{named}` has {} nodes", several.len()),
                "name one by its number, as `attache nodes list` shows it",
            );
        }
    };
    if node.lease_ms.is_none() {
        return refuse(
            Exit::Failed,
            "the engine of a database in a file ends by a signal",
            format!("`kill {}`, or `systemctl stop attache`", node.pid),
        );
    }
    store.ask_node_to_drain(node.epoch).await?;
    if !context.json() {
        let says = format!(
            "node {} on {} ends when its work is done",
            node.epoch, node.host
        );
        context.screen.line(says)?;
    }
    Ok(Exit::Ok)
}
