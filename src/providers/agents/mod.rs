//! Command-line agents, one adapter a program.

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
