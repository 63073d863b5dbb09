//! Recorded results of tools, as far as they hold words of letters.

use crate::domain::{Readers, TextLabel, Trust};
use crate::tools::{self, ResultWords, ToolRegistry};
use serde::Deserialize;
use serde_json::Value;

/// Returns the label of a tool's recorded result: the one that was recorded with it, or of a record before D-75 the one
/// that its tool gives. A tool that does not say whose words they
/// are may have returned anybody's. A name that is in no registry is an invented one, which was refused, or an agent's own
/// tool: what agents read is bounded by their tier.
pub fn words_of_result(tools: &ToolRegistry, tool: &str, payload: &str) -> TextLabel {
    #[derive(Deserialize)]
    struct Labelled {
        label: Option<TextLabel>,
    }
    // A label that cannot be read comes from a later version.
    match serde_json::from_str(payload) {
        Ok(Labelled { label: Some(label) }) => return label,
        Ok(Labelled { label: None }) => {}
        Err(_) if payload.contains("\"label\":") => return TextLabel::UNKNOWN,
        Err(_) => {}
    }
    let is_of_letters = match tools.result_words(tool) {
        None | Some(ResultWords::Engine) => return TextLabel::default(),
        Some(ResultWords::Unknown) => false,
        Some(ResultWords::Letters) => true,
    };
    match serde_json::from_str(payload) {
        Ok(payload) if is_of_letters => words_of_letters(&payload),
        _ => TextLabel::UNKNOWN,
    }
}

fn words_of_letters(payload: &Value) -> TextLabel {
    let (result, found) = (&payload["result"], payload["result"]["messages"].as_array());
    let is_of_others = result["scope"] != tools::SCOPE_OF_THREAD;
    let found = found.map(Vec::as_slice).unwrap_or_default();
    let letters = found
        .iter()
        .filter(|message| message["direction"] == "inbound");
    let lowest = letters
        .map(|letter| Trust::parse_stored(letter["trust"].as_str().unwrap_or_default()))
        .min();
    TextLabel {
        lowest,
        readers: match is_of_others && !found.is_empty() {
            true => Readers::OWNERS,
            false => Readers::Everyone,
        },
    }
}
