//! What a provider can do, and what a check of it finds.

use serde::Serialize;

/// Who calls the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopOwner {
    /// The engine: it executes the calls of an answer and asks again.
    Engine,
    /// The agent: one call is a whole loop, which the engine watches, records and stops.
    Agent,
}

/// How far a provider keeps an answer to a JSON Schema; the engine checks it in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structured {
    /// The schema must stand in the prompt.
    Prompted,
    /// The schema goes with the request.
    Native,
}

/// What a provider can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub loop_owner: LoopOwner,
    pub structured: Structured,
    /// It says what a call cost.
    pub reports_cost: bool,
    /// Its conversations can be gone on with by an id of its own.
    pub sessions: bool,
    /// Tokens of input and output together that the model takes, where that is known here.
    pub window_tokens: Option<u64>,
}

impl Capabilities {
    /// A model API that says nothing else.
    pub const MODEL: Capabilities = Capabilities {
        loop_owner: LoopOwner::Engine,
        structured: Structured::Prompted,
        reports_cost: false,
        sessions: false,
        window_tokens: None,
    };
    /// A command-line agent that says nothing else.
    pub const AGENT: Capabilities =
        Capabilities { loop_owner: LoopOwner::Agent, sessions: true, ..Capabilities::MODEL };
}

/// What a check found; empty where there is nothing to find.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// URL without anything secret, or the path of the binary.
    pub endpoint: Option<String>,
    /// As the server or the program says it.
    pub version: Option<String>,
    /// As the provider lists them; empty when it has no list.
    pub models: Vec<String>,
    /// What could not be found out, and why; for people.
    pub note: Option<String>,
}
