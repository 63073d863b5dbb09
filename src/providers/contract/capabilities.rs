//! Capabilities of a provider, and the result of a check.

use crate::providers::contract::content::ContentKinds;
use serde::Serialize;

/// Owner of the tool loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopOwner {
    /// The engine: it executes the calls of an answer and asks again.
    Engine,
    /// The agent: one call is a whole loop, which the engine observes, records and stops.
    Agent,
}

/// Support of a provider for answers by a JSON Schema; the engine checks the answer in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structured {
    /// The schema stands in the prompt.
    Prompted,
    /// The schema is sent with the request.
    Native,
}

/// Capabilities of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub loop_owner: LoopOwner,
    pub structured: Structured,
    /// Kinds of content that messages may have besides text.
    pub content: ContentKinds,
    /// `true`: it returns the cost of a call.
    pub reports_cost: bool,
    /// `true`: its conversations can be resumed by an id of its own.
    pub sessions: bool,
    /// Window of the model in tokens, input and output together, where it is known here.
    pub window_tokens: Option<u64>,
}

impl Capabilities {
    /// Capabilities of a model API by default.
    pub const MODEL: Capabilities = Capabilities {
        loop_owner: LoopOwner::Engine,
        structured: Structured::Prompted,
        content: ContentKinds::TEXT,
        reports_cost: false,
        sessions: false,
        window_tokens: None,
    };
    /// Capabilities of a command-line agent by default. It takes text alone: its prompt is one
    /// text.
    pub const AGENT: Capabilities = Capabilities {
        loop_owner: LoopOwner::Agent,
        sessions: true,
        ..Capabilities::MODEL
    };
}

/// Result of a check; each field is empty where there is nothing to find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProviderCheck {
    /// URL without secrets, or path of the program.
    pub endpoint: Option<String>,
    /// Version as the server or the program reports it.
    pub version: Option<String>,
    /// Models as the provider lists them; empty when it has no list.
    pub models: Vec<String>,
    /// Part of the check that was not possible, with the reason; for an operator.
    pub note: Option<String>,
}
