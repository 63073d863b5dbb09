//! Recorded results of tools, as far as they hold words of letters.

use super::resolvers::words::WordsRead;
use crate::domain::Trust;
use crate::tools::{self, ResultWords, ToolRegistry};
use serde_json::Value;

/// Returns the trust and the readers of the words that a tool's recorded result holds. A tool that does not say whose they
/// are may have returned anybody's. A name that is in no registry is an invented one, which was refused, or an agent's own
/// tool: what agents read is bounded by their tier.
pub fn words_of_result(tools: &ToolRegistry, tool: &str, payload: &str) -> WordsRead {
    let is_of_letters = match tools.result_words(tool) {
        None | Some(ResultWords::Engine) => return WordsRead::default(),
        Some(ResultWords::Unknown) => false,
        Some(ResultWords::Letters) => true,
    };
    match serde_json::from_str(payload) {
        Ok(payload) if is_of_letters => words_of_letters(&payload),
        _ => WordsRead::UNKNOWN,
    }
}

fn words_of_letters(payload: &Value) -> WordsRead {
    let (result, found) = (&payload["result"], payload["result"]["messages"].as_array());
    let is_of_others = result["scope"] != tools::SCOPE_OF_THREAD;
    let found = found.map(Vec::as_slice).unwrap_or_default();
    let letters = found
        .iter()
        .filter(|message| message["direction"] == "inbound");
    let lowest = letters
        .map(|letter| Trust::of_stored(letter["trust"].as_str().unwrap_or_default()))
        .min();
    WordsRead {
        lowest,
        of_others: is_of_others && !found.is_empty(),
    }
}
