//! Language models behind an HTTP API, one adapter a vendor.

pub mod anthropic;
pub mod openai;
pub(in crate::providers) mod grok;
pub(in crate::providers) mod openrouter;
pub(in crate::providers) mod compat;
pub mod gemini;
pub mod ollama;

use super::Adapter;

/// The adapters of this room, in the order in which they are listed.
pub(super) static ADAPTERS: &[Adapter] = &[
    anthropic::ADAPTER,
    openai::ADAPTER,
    grok::ADAPTER,
    openrouter::ADAPTER,
    compat::ADAPTER,
    gemini::ADAPTER,
    ollama::ADAPTER,
];
