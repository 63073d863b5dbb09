//! JSON Schema of a setting that is one of some words.

use schemars::{Schema, json_schema};

/// Returns the schema of a word among `all`. Without a default the setting may be left out, or null.
pub fn words_schema<T: Copy>(all: &[T], word: fn(T) -> &'static str, default: Option<T>) -> Schema {
    let words: Vec<&str> = all.iter().map(|one| word(*one)).collect();
    match default {
        Some(default) => {
            json_schema!({ "type": "string", "enum": words, "default": word(default) })
        }
        None => json_schema!({ "type": ["string", "null"], "enum": words }),
    }
}
