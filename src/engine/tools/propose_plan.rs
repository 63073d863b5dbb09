//! `propose_plan`: what a run is going to do, for its owner's approval. Offered where a persona or a responsibility has
//! `plan: ask`.
//!
//! Absent on purpose: which calls an approved plan covers (`runs::approvals::plan`).

use crate::domain::{Address, ApprovalKind};
use crate::tools::contract::*;
use std::fmt::Write;

/// Name of the tool, by which a run is given it or not.
pub const PROPOSE_PLAN: &str = "propose_plan";
const STEPS_MAX: usize = 20;
const TEXT_BYTES_MAX: usize = 1000;

/// Proposes what you are going to do and waits for your owner's approval, which may take days. Read first what you need
/// to know; then propose everything that you will send or change, in one plan. What an approved plan names you do
/// without being asked about again; anything else is refused or asked about.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposePlan {
    #[schemars(description = "What this is for, in one sentence.")]
    pub goal: String,
    #[schemars(description = "The steps, in order: each call that sends or changes something.")]
    pub steps: Vec<PlannedStep>,
}

/// A step of a plan.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedStep {
    #[schemars(description = "Name of the tool that you will call, such as `send_email`.")]
    pub tool: String,
    #[schemars(description = "What it will do, in one sentence.")]
    pub what: String,
    #[schemars(
        description = "For `send_email`: every address that will get the mail. Default: none."
    )]
    #[serde(default)]
    pub recipients: Vec<String>,
}

impl TypedTool for ProposePlan {
    const NAME: &str = PROPOSE_PLAN;
    const CLASS: ToolClass = ToolClass::Transactional;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(owner);

    async fn call(self, _: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let text = shown(&self)?;
        Ok(ToolOutcome {
            result: json!({ "approved": false, "note": "nobody was asked" }),
            question: Some(OwnerQuestion {
                kind: ApprovalKind::Plan,
                text,
            }),
            ..ToolOutcome::default()
        })
    }
}

/// Formats a plan for the owner, recipients first. Errors: it has no step, too many, or texts that are too long or no
/// addresses.
fn shown(plan: &ProposePlan) -> Result<String, ToolError> {
    let refused = |hint: String| refuse("bad_plan", hint);
    if plan.steps.is_empty() || plan.steps.len() > STEPS_MAX {
        return refused(format!("write 1 to {STEPS_MAX} steps"));
    }
    let texts = plan.steps.iter().map(|step| &step.what).chain([&plan.goal]);
    if texts.into_iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        return refused(format!(
            "write at most {TEXT_BYTES_MAX} bytes for each text"
        ));
    }
    let mut text = String::new();
    for (place, step) in plan.steps.iter().enumerate() {
        let number = place + 1;
        for recipient in &step.recipients {
            if Address::parse(recipient).is_err() {
                return refused(format!("`{recipient}` is no address such as `ann@x.test`"));
            }
            // Writing to a `String` cannot fail.
            let _infallible = writeln!(text, "To (step {number}): {recipient}");
        }
    }
    let _infallible = writeln!(text, "Goal: {}\n", plan.goal.trim());
    for (place, step) in plan.steps.iter().enumerate() {
        let _infallible = writeln!(text, "{}. {}: {}", place + 1, step.tool, step.what.trim());
    }
    Ok(text)
}
