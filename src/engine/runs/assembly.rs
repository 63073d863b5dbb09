//! Assembly of a run's context, within the model's window.

use super::checkpoint::{ContextCheckpoint, json_bug, to_json};
use super::model_call::request_size::tool_tokens;
use super::state::{LoopState, RunInput};
use crate::context::resolvers::PdfFacts;
use crate::context::resolvers::thread_history::message_tokens;
use crate::context::{Context, ContextReport, EntryOutcome, ReportEntry, SpareTool, SpareTools};
use crate::domain::{ErrorClass, PdfFiles, TextLabel, sha256_hex};
use crate::providers::contract::retry;
use crate::providers::{Block, Parameter, PdfFile, ToolSpec};
use crate::runs::budget::bounds;
use crate::runs::env::{AssembledRun, ContextOrder};
use crate::runs::error::RunError;
use crate::runs::model_call::fallback::{Route, RouteState};
use crate::runs::record::as_of;
use crate::store::{AssembledContext, MessageFile};
use crate::text::plural;
use crate::tools::PROPOSE_PLAN;

/// Built-in tools that stay as long as anything can go: most answers need one of them, and they are short. All tools that
/// are neither here nor among [`RARE`], such as an operator's own, go after those of that list.
const BASIC: [&str; 6] = [
    "read_file",
    "search_email",
    "ask_owner",
    "grep",
    "read_attachment",
    "no_answer",
];
/// Built-in tools in the order in which they go.
const RARE: [&str; 19] = [
    "schedule_create",
    "write_file",
    "edit_file",
    "list_files",
    "glob",
    "invite",
    "answer_invitation",
    "list_events",
    "forward_email",
    "propose_memory_change",
    "list_memory",
    "update_memory",
    "forget",
    "correct",
    "recall",
    "remember",
    "read_email",
    "send_email",
    "use_skill",
];

/// Returns the most input tokens that the present model takes, where that is known.
pub fn input_tokens_max(input: &RunInput<'_>, route: &RouteState<'_>) -> Option<u64> {
    let answer = u64::from(input.answer_tokens_max(route));
    retry::input_tokens_max(route.window_tokens()?, answer)
}

/// Returns the tools that may be left out, in the order in which they go: those that this run has called stay, and an agent's.
pub fn spare_tools(state: &LoopState<'_>) -> SpareTools {
    let mut spare = SpareTools::default();
    if !state.route.present.is_model() {
        return spare;
    }
    let called: Vec<&str> = state
        .conversation
        .blocks()
        .filter_map(|block| match block {
            Block::ToolCall { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let place = |name: &str, list: &[&str]| list.iter().position(|known| *known == name);
    for tool in &state.conversation.first.tools {
        // Without these two the run could not do what is asked of it.
        let is_needed = tool.name == PROPOSE_PLAN
            || (tool.name == "send_email" && state.input.answers_by_tool_only());
        if is_needed || called.contains(&tool.name.as_str()) {
            continue;
        }
        let list = match place(&tool.name, &BASIC) {
            Some(_) => &mut spare.basic,
            None => &mut spare.rare,
        };
        list.push(SpareTool {
            name: tool.name.clone(),
            tokens: tool_tokens(std::slice::from_ref(tool)),
        });
    }
    spare
        .rare
        .sort_by_key(|tool| place(&tool.name, &RARE).unwrap_or(RARE.len()));
    spare.basic.sort_by_key(|tool| place(&tool.name, &BASIC));
    spare
}

/// Assembles the context, in a request of at most that many input tokens where a bound is known; `note` is for its report.
pub async fn assemble(
    state: &mut LoopState<'_>,
    input_tokens_max: Option<u64>,
    note: Option<String>,
) -> Result<(), RunError> {
    read_pdfs(&mut state.input, &state.route.present).await?;
    let allowed = state.spending.budget.context_tokens_max;
    let (budget_tokens, spare) = match input_tokens_max {
        None => (allowed, SpareTools::default()),
        Some(tokens) => {
            let spare = spare_tools(state);
            let said: usize = state
                .conversation
                .for_model()
                .iter()
                .map(message_tokens)
                .sum();
            let fixed = tool_tokens(&state.conversation.first.tools).saturating_sub(spare.tokens());
            let room = usize::try_from(tokens).unwrap_or(usize::MAX);
            (room.saturating_sub(said + fixed), spare)
        }
    };
    let config = state.input.deps.config.clone();
    let profile = config.profile_of(&state.input.run.profile, state.input.run.trigger);
    let profile = profile.ok_or_else(|| RunError::Fatal {
        class: ErrorClass::Config,
        message: format!(
            "no context profile `{}` in configs/context.json",
            state.input.run.profile
        ),
    })?;
    let order = ContextOrder {
        run: state.input.run,
        persona: state.input.persona,
        subject: &state.input.subject,
        profile: &profile,
        allowed_tokens: allowed,
        budget_tokens,
        spare: &spare,
        now: state.input.deps.clock.now(),
    };
    let AssembledRun {
        context,
        mut report,
        unoffered,
        seen,
    } = state.input.deps.env.assemble(order).await?;
    report.note = note_of(state, note, &context, &unoffered);
    let sources =
        as_of::sources(&state.input.deps.config, &order, seen, &report).map_err(json_bug)?;
    state.leave_tools(unoffered);
    report.entries.extend(tools_entry(
        &state.route,
        &state.conversation.first.tools,
        &report,
    ));
    state.conversation.first.system = context.system();
    state.conversation.first.messages.clear();
    // What all threads share is kept once.
    let cache_key = state.conversation.first.cache_key.take();
    let shared_json = to_json(&state.conversation.first)?;
    let shared = as_of::shared_part(&shared_json, &sources).map_err(json_bug)?;
    state.conversation.first.cache_key = cache_key;
    state.conversation.first.messages = context.messages();
    state.conversation.first.past_messages = context.past_messages();
    let words = context.words(&state.input.deps.tools);
    state.input.label = state.input.label.clone().having_read(words.clone());
    let kept = ContextCheckpoint {
        request: state.conversation.first.clone(),
        stubbed: state.conversation.stubbed.clone(),
        unoffered: state.input.unoffered.clone(),
        words,
        to_summarise: context.to_summarise.clone(),
    };
    state.conversation.to_summarise = context.to_summarise;
    let settings = state.input.settings(&state.route.present.name);
    state.outbox.fresh_context = Some(AssembledContext {
        request_json: to_json(&kept)?,
        report_json: to_json(&report)?,
        shared,
        limits_json: bounds::limits_json(&state.spending.bounds, &settings),
        sources,
        memory: context.memory,
    });
    Ok(())
}

/// Returns the row of the tools, which every request has beside the context; `None`: there are none.
fn tools_entry(
    route: &RouteState<'_>,
    tools: &[ToolSpec],
    report: &ContextReport,
) -> Option<ReportEntry> {
    let json = serde_json::to_string(tools).unwrap_or_default();
    let tokens = tool_tokens(tools);
    let window = route.window_tokens().filter(|window| *window > 0);
    let share = |window: u64| {
        let all = (report.used_tokens + tokens) as u64;
        format!(
            "with the context {} % of the model's window of {window} tokens",
            all * 100 / window
        )
    };
    (!tools.is_empty()).then(|| ReportEntry {
        resolver: "tools".to_owned(),
        source: plural(tools.len(), "tool"),
        bytes: json.len(),
        tokens,
        outcome: EntryOutcome::Used,
        why: window.map(share),
        sha256: Some(sha256_hex(&[json.as_bytes()])),
        label: TextLabel::default(),
    })
}

/// Reads what the PDF files of the letter hold, where the persona sends any and the model that is asked first takes such files.
async fn read_pdfs(input: &mut RunInput<'_>, route: &Route<'_>) -> Result<(), RunError> {
    let (env, files) = (&input.deps.env, &input.subject.files);
    if env.is_recorded() || !files.iter().any(MessageFile::is_pdf) {
        return Ok(());
    }
    let takes = route.capabilities().content.pdf;
    let why = match input.persona.pdf_files {
        PdfFiles::Never => Some("the persona's `pdf_files` is `never`".to_owned()),
        _ if !takes => Some(format!(
            "{route} takes no PDF files; `read_attachment` reads its text"
        )),
        PdfFiles::Scans | PdfFiles::Always => None,
    };
    if let Some(why) = why {
        let refused = files.iter().filter(|file| file.is_pdf());
        input.subject.pdfs = refused
            .map(|file| PdfFacts::refused(file, why.as_str()))
            .collect();
        return Ok(());
    }
    let read = tokio::select! {
        read = env.read_pdfs(input.run, files) => read?,
        () = input.cancel.cancelled() => return Err(RunError::Cancelled),
    };
    input.subject.pdfs = read;
    Ok(())
}

/// Returns the note of the report: why the context is shorter, or which files it shows; and what is not offered.
fn note_of(
    state: &LoopState<'_>,
    why: Option<String>,
    context: &Context,
    unoffered: &[String],
) -> Option<String> {
    let mut notes: Vec<String> = why
        .or_else(|| files_shown(&state.route.present, context))
        .into_iter()
        .collect();
    if !unoffered.is_empty() {
        let names = unoffered.join(", ");
        notes.push(format!(
            "tools that did not fit the model's window: {names}"
        ));
    }
    let takes_none =
        state.route.limits.no_tools || state.route.refused_here.contains(&Parameter::Tools);
    if takes_none && state.conversation.first.tools.is_empty() {
        notes.push(format!(
            "{} takes no tools, so it is offered none",
            state.route.present
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Returns a note for the report on the files of the letter: which PDF files the model that is asked first is sent, and that it
/// takes no images.
fn files_shown(route: &Route<'_>, context: &Context) -> Option<String> {
    let input = &context.input;
    let kinds = route.capabilities().content;
    let mut notes = Vec::new();
    if !input.images.is_empty() && kinds.images.is_none() {
        notes.push(format!(
            "{route} takes no images, so they are described in words"
        ));
    }
    if !input.pdfs.is_empty() {
        let name = |pdf: &PdfFile| format!("`{}` ({} pages)", pdf.file.name, pdf.pages);
        let names: Vec<String> = input.pdfs.iter().map(name).collect();
        notes.push(format!("{route} is sent {} as it is", names.join(", ")));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_name_tools_that_exist() {
        let tools = crate::tools::builtin();
        for name in BASIC.iter().chain(&RARE) {
            assert!(tools.names().any(|known| known == *name), "{name}");
        }
    }
}
