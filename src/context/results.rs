//! Recorded results of tools, as far as they hold words of letters.

use super::resolvers::words::WordsRead;
use crate::domain::Trust;
use crate::tools::{self, ToolRegistry};
use serde_json::Value;

/// Whose words a tool's recorded result holds.
pub fn words_of_result(tools: &ToolRegistry, tool: &str, payload: &str) -> WordsRead {
    if !tools.reads_private(tool) {
        return WordsRead::default();
    }
    let Ok(payload) = serde_json::from_str::<Value>(payload) else {
        return WordsRead::UNKNOWN;
    };
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
