//! Command-line agents, one adapter a program.

pub mod lines;
pub mod mark;
pub mod places;
pub mod agent;
pub(in crate::providers) mod complaint;
pub(in crate::providers) mod transcript;
pub mod claude_lines;
pub mod claude;
pub mod opencode_parts;
pub(in crate::providers) mod opencode_server;
pub mod opencode;
pub mod codex_lines;
pub mod codex;
pub mod pi_lines;
pub mod pi;

use super::Adapter;

/// The adapters of this room, in the order in which they are listed.
pub(super) static ADAPTERS: &[Adapter] = &[
    claude::ADAPTER,
    opencode::ADAPTER,
    codex::ADAPTER,
    pi::ADAPTER,
];
