//! Nodes: the engines that work on one database, and work that one of them does for all.
//!
//! - `identity`: which process a node is.
//! - `join`: its row, which on SQLite takes the place of the one before.
//! - `list`: the nodes, for an operator, and their end at an operator's request.
//! - `lease`: work that one node does for all.
//! - `hints`: what tells other nodes of new work.
//! - `burial`: what a node that is gone left, taken over by another.
//!
//! Not here: the heartbeat that extends a node's lease, which is in `postgres`. SQLite has one engine at a
//! time, by a lock of the workspace.

pub mod identity;
pub mod join;
pub mod list;
mod lease;
mod hints;
pub mod burial;
