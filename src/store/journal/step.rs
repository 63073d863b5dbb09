//! Steps of a run as values: the calls of tools and their results.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    Call,
    Result,
}

impl StepKind {
    pub fn as_str(self) -> &'static str {
        match self {
            StepKind::Call => "tool_call",
            StepKind::Result => "tool_result",
        }
    }
    pub(in crate::store) fn of(text: &str) -> Self {
        if text == "tool_call" {
            StepKind::Call
        } else {
            StepKind::Result
        }
    }
}

/// Executor of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// The engine, behind our tool policy.
    Engine,
    /// A command-line agent, with a tool of its own; the engine only observed.
    Agent,
}

impl Executor {
    pub fn as_str(self) -> &'static str {
        match self {
            Executor::Engine => "engine",
            Executor::Agent => "agent",
        }
    }
    pub(in crate::store) fn of(text: &str) -> Self {
        if text == "agent" {
            Executor::Agent
        } else {
            Executor::Engine
        }
    }
}

/// One row of `thread_tool_events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    pub executor: Executor,
    pub tool_name: String,
    /// Unique in the run: `cTURN_PLACE` for a call of our loop, `mN` for one that came through our
    /// tool server, `aN` for an agent's own.
    pub tool_call_id: String,
    pub payload_json: String,
}

impl Step {
    /// Returns the expected effect of a call, as recorded when it began.
    pub fn begun(&self) -> Option<serde_json::Value> {
        let payload: serde_json::Value = serde_json::from_str(&self.payload_json).ok()?;
        payload.get("begun").cloned()
    }

    /// Reports whether a call was interrupted and its outcome is unknown.
    pub fn is_in_doubt(&self) -> bool {
        // As `tool_policy::finish` writes it; a tool's own text stands in `result`, or escaped in a
        // text.
        self.kind == StepKind::Result
            && self.payload_json.starts_with("{\"ok\":false")
            && self
                .payload_json
                .contains("\"error\":{\"code\":\"outcome_unknown\"")
    }
}

/// A call whose id the store assigns.
#[derive(Debug, Clone)]
pub struct NewCall {
    pub executor: Executor,
    pub tool_name: String,
    pub payload_json: String,
}

/// Reason for a result that the store writes in place of a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered {
    /// Stable word, such as `outcome_unknown`.
    pub code: &'static str,
    /// For the model and for people.
    pub message: &'static str,
}

/// The engine, or the work on the run, was interrupted.
pub const INTERRUPTED: Unanswered = Unanswered {
    code: "outcome_unknown",
    message: "the work on this run stopped while this call was running; it may or may not have taken effect",
};

text_column! {
    StepKind: "step" by |text| Some(StepKind::of(text));
    Executor: "step" by |text| Some(Executor::of(text));
}
