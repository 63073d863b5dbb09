//! Language models behind an HTTP API, one adapter a vendor.
//!
//! An adapter of one file is a variant of chat completions (`openai/dialect.rs`). One with a format
//! of its own is a folder: `mod.rs` has the endpoint and the check, `request.rs` the body,
//! `decoder.rs` the answer. A decoder imports no adapter: it takes what it needs as arguments.

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
