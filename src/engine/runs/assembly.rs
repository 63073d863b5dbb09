//! Assembly of a run's context, within the model's window.

use super::checkpoint::{ContextCheckpoint, json_bug, to_json};
use super::model_call::request_size::tool_tokens;
use super::state::LoopState;
use crate::context::resolvers::PdfFacts;
use crate::context::resolvers::thread_history::message_tokens;
use crate::context::{Context, ContextReport, EntryOutcome, ReportEntry, SpareTool, SpareTools};
use crate::domain::{ErrorClass, PdfFiles, TextLabel, sha256_hex};
use crate::providers::contract::retry;
use crate::providers::{Block, LoopOwner, Parameter, PdfFile};
use crate::runs::budget::bounds;
use crate::runs::env::{AssembledRun, ContextOrder};
use crate::runs::error::RunError;
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
pub fn input_tokens_max(state: &LoopState<'_>) -> Option<u64> {
    let answer = u64::from(state.answer_tokens_max());
    retry::input_tokens_max(state.window_tokens()?, answer)
}

/// Returns the tools that may be left out, in the order in which they go: those that this run has called stay, and an agent's.
pub fn spare_tools(state: &LoopState<'_>) -> SpareTools {
    let mut spare = SpareTools::default();
    if state.route.loop_owner() == LoopOwner::Agent {
        return spare;
    }
    let said = state.said.iter().flat_map(|message| &message.blocks);
    let called: Vec<&str> = said
        .filter_map(|block| match block {
            Block::ToolCall { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let place = |name: &str, list: &[&str]| list.iter().position(|known| *known == name);
    for tool in &state.first.tools {
        // Without these two the run could not do what is asked of it.
        let is_needed = tool.name == PROPOSE_PLAN
            || (tool.name == "send_email" && state.answers_by_tool_only());
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
    read_pdfs(state).await?;
    let allowed = state.budget().context_tokens_max;
    let (budget_tokens, spare) = match input_tokens_max {
        None => (allowed, SpareTools::default()),
        Some(tokens) => {
            let spare = spare_tools(state);
            let said: usize = state.said_for_model().iter().map(message_tokens).sum();
            let fixed = tool_tokens(&state.first.tools).saturating_sub(spare.tokens());
            let room = usize::try_from(tokens).unwrap_or(usize::MAX);
            (room.saturating_sub(said + fixed), spare)
        }
    };
    let config = state.deps.config.clone();
    let profile = config.profile_of(&state.run.profile, state.run.trigger);
    let profile = profile.ok_or_else(|| RunError::Fatal {
        class: ErrorClass::Config,
        message: format!(
            "no context profile `{}` in configs/context.json",
            state.run.profile
        ),
    })?;
    let order = ContextOrder {
        run: state.run,
        persona: state.persona,
        subject: &state.subject,
        profile: &profile,
        allowed_tokens: allowed,
        budget_tokens,
        spare: &spare,
        now: state.deps.clock.now(),
    };
    let AssembledRun {
        context,
        mut report,
        unoffered,
        seen,
    } = state.deps.env.assemble(order).await?;
    report.note = note_of(state, note, (&context, &unoffered));
    let sources = as_of::sources(&state.deps.config, &order, seen, &report).map_err(json_bug)?;
    state.leave_tools(unoffered);
    report.entries.extend(tools_entry(state, &report));
    state.first.system = context.system();
    state.first.messages.clear();
    // What all threads share is kept once.
    let cache_key = state.first.cache_key.take();
    let shared_json = to_json(&state.first)?;
    let shared = as_of::shared_part(&shared_json, &sources).map_err(json_bug)?;
    state.first.cache_key = cache_key;
    state.first.messages = context.messages();
    state.first.past_messages = context.past_messages();
    let words = context.words(&state.deps.tools);
    state.label = state.label.clone().having_read(words.clone());
    let kept = ContextCheckpoint {
        request: state.first.clone(),
        stubbed: state.stubbed.clone(),
        unoffered: state.unoffered.clone(),
        words,
        to_summarise: context.to_summarise.clone(),
    };
    state.to_summarise = context.to_summarise;
    state.fresh_context = Some(AssembledContext {
        request_json: to_json(&kept)?,
        report_json: to_json(&report)?,
        shared,
        limits_json: bounds::limits_json(&state.spending, &state.settings()),
        sources,
        memory: context.memory,
    });
    Ok(())
}

/// Returns the row of the tools, which every request has beside the context; `None`: there are none.
fn tools_entry(state: &LoopState<'_>, report: &ContextReport) -> Option<ReportEntry> {
    let tools = &state.first.tools;
    let json = serde_json::to_string(tools).unwrap_or_default();
    let tokens = tool_tokens(tools);
    let window = state.window_tokens().filter(|window| *window > 0);
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
async fn read_pdfs(state: &mut LoopState<'_>) -> Result<(), RunError> {
    let (env, files, route) = (&state.deps.env, &state.subject.files, &state.route);
    if env.is_recorded() || !files.iter().any(MessageFile::is_pdf) {
        return Ok(());
    }
    let takes = route.provider.capabilities(&route.model).content.pdf;
    let why = match state.persona.pdf_files {
        PdfFiles::Never => Some("the persona's `pdf_files` is `never`".to_owned()),
        _ if !takes => Some(format!(
            "{route} takes no PDF files; `read_attachment` reads its text"
        )),
        PdfFiles::Scans | PdfFiles::Always => None,
    };
    if let Some(why) = why {
        let refused = files.iter().filter(|file| file.is_pdf());
        state.subject.pdfs = refused
            .map(|file| PdfFacts::refused(file, why.as_str()))
            .collect();
        return Ok(());
    }
    let read = tokio::select! {
        read = env.read_pdfs(state.run, files) => read?,
        () = state.cancel.cancelled() => return Err(RunError::Cancelled),
    };
    state.subject.pdfs = read;
    Ok(())
}

/// Returns the note of the report: why the context is shorter, or which files it shows; and what is not offered.
fn note_of(
    state: &LoopState<'_>,
    why: Option<String>,
    (context, unoffered): (&Context, &[String]),
) -> Option<String> {
    let mut notes: Vec<String> = why
        .or_else(|| files_shown(state, context))
        .into_iter()
        .collect();
    if !unoffered.is_empty() {
        let names = unoffered.join(", ");
        notes.push(format!(
            "tools that did not fit the model's window: {names}"
        ));
    }
    let takes_none = state.limits.no_tools || state.refused_here.contains(&Parameter::Tools);
    if takes_none && state.first.tools.is_empty() {
        notes.push(format!(
            "{} takes no tools, so it is offered none",
            state.route
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Returns a note for the report on the files of the letter: which PDF files the model that is asked first is sent, and that it
/// takes no images.
fn files_shown(state: &LoopState<'_>, context: &Context) -> Option<String> {
    let (route, input) = (&state.route, &context.input);
    let kinds = route.provider.capabilities(&route.model).content;
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
