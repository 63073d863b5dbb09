//! Command-line agents, one adapter a program.
//!
//! An adapter is a folder: `mod.rs` has the command line, `lines.rs` the decoder of the output.
//! OpenCode is a server and has its call, its connection and its parts in files of their own. What
//! all share: `agent.rs` (one call), `transcript.rs` (the prompt), `paths.rs` (paths that a tool may
//! not use), `failure.rs` (error classes of texts).

pub mod paths;
pub mod agent;
pub(in crate::providers) mod failure;
pub(in crate::providers) mod transcript;
pub mod claude;
pub mod opencode;
pub mod codex;
pub mod pi;

use super::Adapter;

/// The adapters of this room, in the order in which they are listed.
pub(super) static ADAPTERS: &[Adapter] = &[
    claude::ADAPTER,
    opencode::ADAPTER,
    codex::ADAPTER,
    pi::ADAPTER,
];
