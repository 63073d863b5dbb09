//! Assembly of a run's context, within the model's window.

use super::checkpoint::{ContextCheckpoint, json_bug, to_json};
use super::state::LoopState;
use crate::context::resolvers::{PdfFacts, estimate_tokens};
use crate::context::{Context, ContextReport, EntryOutcome, ReportEntry};
use crate::domain::{ErrorClass, PdfFiles, TextLabel, sha256_hex};
use crate::providers::PdfFile;
use crate::providers::contract::retry::input_tokens_max;
use crate::runs::budget::bounds;
use crate::runs::env::{AssembledRun, ContextOrder};
use crate::runs::error::RunError;
use crate::runs::record::as_of;
use crate::store::{AssembledContext, MessageFile};
use crate::text::plural;

/// Returns the context budget: what the configuration allows, or the model's window where it is
/// known to be smaller.
pub fn context_budget(state: &LoopState<'_>) -> usize {
    let allowed = state.budget().context_tokens_max;
    let answer = u64::from(state.settings().max_output_tokens.value);
    match state
        .route
        .window_tokens()
        .and_then(|window| input_tokens_max(window, answer))
    {
        Some(fitting) => allowed.min(state.context_tokens_max(fitting)),
        None => allowed,
    }
}

/// Assembles the context within that many tokens; `note` is for its report.
pub async fn assemble(
    state: &mut LoopState<'_>,
    budget_tokens: usize,
    note: Option<String>,
) -> Result<(), RunError> {
    read_pdfs(state).await?;
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
        allowed_tokens: state.budget().context_tokens_max,
        budget_tokens,
        now: state.deps.clock.now(),
    };
    let AssembledRun {
        context,
        mut report,
        seen,
    } = state.deps.env.assemble(order).await?;
    report.note = note.or_else(|| files_shown(state, &context));
    let sources = as_of::sources(&state.deps.config, &order, seen, &report).map_err(json_bug)?;
    report.entries.extend(tools_entry(state, &report));
    state.first.system = context.system();
    state.first.messages.clear();
    // What all threads share is kept once.
    let cache_key = state.first.cache_key.take();
    let shared_json = to_json(&state.first)?;
    state.first.cache_key = cache_key;
    state.first.messages = context.messages();
    state.first.past_messages = context.past_messages();
    let words = context.words(&state.deps.tools);
    state.label = state.label.clone().having_read(words.clone());
    let kept = ContextCheckpoint {
        request: state.first.clone(),
        stubbed: state.stubbed.clone(),
        words,
        to_summarise: context.to_summarise.clone(),
    };
    state.to_summarise = context.to_summarise;
    state.fresh_context = Some(AssembledContext {
        request_json: to_json(&kept)?,
        report_json: to_json(&report)?,
        shared_json,
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
    let tokens = estimate_tokens(&json);
    let window = state.route.window_tokens().filter(|window| *window > 0);
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
