//! Notes of the engine to an agent: where it works, and which calls an interrupted attempt has
//! made already.

use crate::config::Tier;
use crate::providers::AgentOptions;
use crate::store::{Step, StepKind};
use crate::text::shortened;

/// Characters of one call, and of its result, in the list of earlier calls.
const DONE_CHARS_MAX: usize = 300;
/// Calls in that list; the last ones, because unfinished work counts most.
const DONE_CALLS_MAX: usize = 30;

/// Returns the note on the folders for an agent that may read or write files.
pub fn where_to_work(options: &AgentOptions) -> Option<String> {
    // Records of earlier versions had no workspace.
    if options.tier == Tier::None || options.workspace.is_empty() {
        return None;
    }
    let (folder, working) = (&options.folder, options.working_folder());
    let writes = match options.tier {
        Tier::None | Tier::ReadOnly => "You may change nothing.",
        Tier::Write | Tier::Full => {
            "You may write there, and nowhere else: a run in which anything else of that folder changes fails."
        }
    };
    Some(format!(
        "[engine] You work in `{working}`. Your own files are in `{folder}`, for reading. {writes}"
    ))
}

/// Lists what an interrupted attempt of this run has done, so that the agent does not repeat it
/// unknowingly; `None` when there is nothing. Calls of our own loop are not listed: they stand in
/// the conversation.
pub fn done_before(steps: &[Step]) -> Option<String> {
    let of_agent =
        |step: &&Step| step.kind == StepKind::Call && !step.tool_call_id.starts_with('c');
    let calls: Vec<&Step> = steps.iter().filter(of_agent).collect();
    let left_out = calls.len().saturating_sub(DONE_CALLS_MAX);
    let lines = calls.iter().skip(left_out).map(|call| {
        let is_result =
            |step: &&Step| step.kind == StepKind::Result && step.tool_call_id == call.tool_call_id;
        let result = steps
            .iter()
            .find(is_result)
            .map_or("no result", |step| step.payload_json.as_str());
        format!(
            "- {} {} -> {}\n",
            call.tool_name,
            shortened(&call.payload_json, DONE_CHARS_MAX),
            shortened(result, DONE_CHARS_MAX)
        )
    });
    let lines: String = lines.collect();
    (!calls.is_empty()).then(|| {
        let more = if left_out > 0 { format!("- ({left_out} calls before these)\n") } else { String::new() };
        format!(
            "[engine] An earlier attempt at this answer was interrupted. These tools were called in it, so do not \
             repeat what is done, and look before you repeat what is unknown:\n{more}{lines}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Executor;

    #[test]
    fn what_was_done_is_listed_with_results_and_our_own_loop_is_not() {
        let step = |kind, id: &str, payload: &str| Step {
            kind,
            executor: Executor::Agent,
            tool_name: "Bash".into(),
            tool_call_id: id.into(),
            payload_json: payload.into(),
        };
        assert_eq!(done_before(&[step(StepKind::Call, "c0_0", "{}")]), None);
        let steps = [
            step(StepKind::Call, "a0", "{\"args\":{\"command\":\"make\"}}"),
            step(StepKind::Result, "a0", "{\"ok\":true}"),
            step(StepKind::Call, "a1", &"x".repeat(1000)),
        ];
        let described = done_before(&steps).unwrap_or_default();
        assert!(
            described.contains("- Bash {\"args\":{\"command\":\"make\"}} -> {\"ok\":true}\n"),
            "{described}"
        );
        assert!(
            described.contains("… -> no result\n") && described.len() < 1000,
            "{described}"
        );
    }
}
