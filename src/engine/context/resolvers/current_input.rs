//! `current-input`: the text that the run answers. Never dropped; cut only when it alone exceeds
//! its budget. Behind it the images and PDF files of the letter, as far as they fit.

use super::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, calendar_facts, cut_to_tokens,
    letter_images, letter_pdfs, thread_history::left_out_note,
};
use futures_util::future::BoxFuture;

pub struct CurrentInput;

impl Resolver for CurrentInput {
    fn name(&self) -> &'static str {
        "current-input"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let message = &call.subject.message;
            // The thread's history holds what its fresh text leaves out, unless a reset hides it.
            let whole = message.text_body.as_str();
            let fresh = message
                .fresh_text
                .as_deref()
                .filter(|text| !text.trim().is_empty());
            let quoted = fresh.map_or(0, |fresh| {
                (whole.lines().count() as u32).saturating_sub(fresh.lines().count() as u32)
            });
            let text = match fresh.filter(|_| call.subject.has_past) {
                Some(fresh) if quoted > 0 => &format!("{fresh}\n{}", left_out_note(quoted)),
                Some(fresh) => fresh,
                None => whole,
            };
            let text = if text.trim().is_empty() {
                "(the letter has no text)"
            } else {
                text
            };
            let with_calendar =
                calendar_facts::text(call.subject).map(|calendar| format!("{text}\n\n{calendar}"));
            let text = with_calendar.as_deref().unwrap_or(text);
            let cut = cut_to_tokens(text, call.budget_tokens);
            let mut notes = sources(&message.metadata_json);
            notes.extend(cut.is_some().then(|| "cut at its budget".to_owned()));
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            let piece = Piece::Input(cut.unwrap_or_else(|| text.to_owned()));
            let left = call.budget_tokens.saturating_sub(piece.tokens());
            let mut contribution = Contribution::one(message.id.to_string(), piece).noted(note);
            let mut room = letter_images::FileBudget::of(left);
            letter_images::add(&mut contribution, &call.subject.files, &mut room);
            letter_pdfs::add(&mut contribution, &call, &mut room);
            Ok(contribution)
        })
    }
}

/// Where the text of a letter was read, when not from where a mail reader shows it first.
fn sources(metadata_json: &str) -> Vec<String> {
    if !metadata_json.contains("\"read ") {
        return Vec::new();
    }
    let metadata: serde_json::Value = serde_json::from_str(metadata_json).unwrap_or_default();
    let defects = metadata["defects"].as_array().into_iter().flatten();
    let sources = defects.filter_map(serde_json::Value::as_str);
    sources
        .filter(|defect| defect.starts_with("read "))
        .map(str::to_owned)
        .collect()
}
