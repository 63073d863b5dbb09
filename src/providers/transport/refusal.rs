//! Detects which parameter of a request a vendor refuses, so that the request may be sent without
//! it. Pure.

use crate::providers::contract::request::Parameter;
use crate::providers::transport::vendor_error::VendorError;

/// Codes and types for a parameter, or a value of it, that the model does not support.
const CODES: &[&str] = &[
    "unsupported_parameter",
    "unsupported_value",
    "unknown_parameter",
    "unrecognized_parameter",
    "extra_forbidden",
    "invalid_json_schema",
    "invalid_function_parameters",
];
/// Phrases of servers without such a code; lower case.
const WORDS: &[&str] = &[
    "unsupported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra inputs are not permitted",
    "extra fields not permitted",
    "additional properties are not allowed",
    "not permitted",
    "not allowed",
    "deprecated",
    "may only be set to",
    "only the default",
    "invalid schema for",
    "invalid argument",
    // Gemini, of a budget that forbids thinking.
    "only works in thinking mode",
];
/// Names of our parameters, in `param` or within a sentence; the first match decides.
const NAMES: &[(&str, Parameter)] = &[
    ("stream_options", Parameter::StreamUsage),
    ("include_usage", Parameter::StreamUsage),
    ("max_completion_tokens", Parameter::MaxCompletionTokens),
    ("max_tokens", Parameter::MaxCompletionTokens),
    ("strict", Parameter::Strict),
    // A schema that is refused only because of `strict`.
    ("invalid schema for", Parameter::Strict),
    ("response_format", Parameter::OutputSchema),
    ("json_schema", Parameter::OutputSchema),
    // The Responses API's name of it.
    ("text.format", Parameter::OutputSchema),
    ("output_config", Parameter::OutputSchema),
    ("responseschema", Parameter::OutputSchema),
    ("responsejsonschema", Parameter::OutputSchema),
    // Gemini before version 3, of a schema together with tools.
    ("response mime type", Parameter::OutputSchema),
    ("tool_choice", Parameter::ToolChoice),
    ("reasoning_content", Parameter::SentReasoning),
    ("reasoning_effort", Parameter::Reasoning),
    ("reasoningeffort", Parameter::Reasoning),
    ("reasoning", Parameter::Reasoning),
    ("thinking", Parameter::Reasoning),
    ("think", Parameter::Reasoning),
    ("thinkingconfig", Parameter::Reasoning),
    ("temperature", Parameter::Temperature),
    ("prompt_cache_key", Parameter::PromptCacheKey),
];

/// Names of an image in a refusal; lower case.
const IMAGES: &[&str] = &[
    "image",
    "images",
    "image_url",
    "inline_data",
    "vision",
    "multimodal",
];

/// Names of a PDF file in a refusal; lower case. OpenAI: "Invalid file data", "`file` is not supported"; Anthropic:
/// "Could not process PDF", "A maximum of 100 PDF pages may be provided"; Gemini: "The document has no pages".
const PDF: &[&str] = &[
    "pdf",
    "pdfs",
    "document",
    "input_file",
    "file_data",
    "application/pdf",
    "invalid file data",
    "content type 'file'",
];

/// Codes of OpenAI's Responses API for an image that it cannot use.
pub const IMAGE_CODES: &[&str] = &[
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
];

/// Phrases of OpenAI for reasoning that was sent back and does not fit: of another organisation's,
/// to a model without any, or without the item behind it; lower case.
const UNFIT_REASONING: &[&str] = &[
    "encrypted content is not supported",
    "encrypted content could not be",
    "encrypted content for item",
    "of type 'reasoning' was provided without",
];

/// Phrases of servers for a request with tools that their model, or the way they were started, does not take; lower case.
/// `tests/fixtures/providers/toolless.jsonl` has the whole sentence of each, and where it comes from.
const NO_TOOLS: &[&str] = &[
    // Ollama; LiteLLM's `UnsupportedParamsError`; xAI, Bedrock.
    "does not support tools",
    "does not support parameters: {'tools'",
    "does not support parameters: ['tools'",
    "does not support tool use",
    "doesn't support tool use",
    // vLLM and llama.cpp, started without what tools need.
    "requires --enable-auto-tool-choice",
    "requires --jinja",
    "unsupported param: tools",
    "no endpoints found that support tool use",
    "tools is not supported in this model",
    "the tool call is not supported",
    "tool calling is not supported",
    "functions are not supported for this",
    "function calling is not enabled for models",
    "tool use with function calling is unsupported",
];

/// Phrases of DeepSeek and Moonshot for a call that is sent back without its reasoning; lower case.
const MISSES_REASONING: &[&str] = &["must be passed back", "missing", "must include"];

/// Reports whether the request was refused because it offers tools.
pub fn refuses_tools(error: &VendorError) -> bool {
    error.says(NO_TOOLS)
}

/// Returns the parameter that a bad request was refused for. The vendor's `param` and `code` decide
/// where it sends them; its sentence only where it does not.
pub fn refused(error: &VendorError) -> Option<Parameter> {
    let words = error.words();
    if words.contains("reasoning_content")
        && MISSES_REASONING.iter().any(|word| words.contains(word))
    {
        return Some(Parameter::BareCalls);
    }
    let is_unfit = UNFIT_REASONING.iter().any(|phrase| words.contains(phrase));
    if is_unfit || error.is_named(&["invalid_encrypted_content"]) {
        return Some(Parameter::SentReasoning);
    }
    if PDF.iter().any(|name| holds_word(&words, name)) {
        return Some(Parameter::Pdf);
    }
    // OpenAI: "image_url is only supported by certain models"; Anthropic: "Could not process image"; llama.cpp: "image
    // input is not supported"; DeepSeek: "unknown variant `image_url`". Whatever is wrong with it, words are accepted.
    if error.is_named(IMAGE_CODES) || IMAGES.iter().any(|name| holds_word(&words, name)) {
        return Some(Parameter::Images);
    }
    let has_word = WORDS.iter().any(|word| words.contains(word));
    if !(error.is_named(CODES) || has_word) {
        return None;
    }
    // Groq: "('messages.2' : property 'reasoning' is unsupported)".
    let place = format!(
        "{} {words}",
        error.param.as_deref().unwrap_or_default().to_lowercase()
    );
    if place.contains("messages") && holds_word(&place, "reasoning") {
        return Some(Parameter::SentReasoning);
    }
    let named = |text: &str| {
        NAMES
            .iter()
            .find(|(name, _)| holds_word(text, name))
            .map(|(_, what)| *what)
    };
    let strictness = || {
        words
            .contains("invalid schema for")
            .then_some(Parameter::Strict)
    };
    match &error.param {
        Some(param) => strictness().or_else(|| named(&param.to_lowercase())),
        // In a sentence the refused parameter comes first: "`temperature` … when thinking is on".
        None => {
            let place = |entry: &&(&str, Parameter)| word_at(&words, entry.0);
            // DeepSeek: "Thinking mode does not support this tool_choice".
            if holds_word(&words, "tool_choice") {
                return Some(Parameter::ToolChoice);
            }
            let first = NAMES
                .iter()
                .filter(|entry| place(entry).is_some())
                .min_by_key(place);
            first.map(|(_, what)| *what)
        }
    }
}

fn holds_word(text: &str, word: &str) -> bool {
    word_at(text, word).is_some()
}

/// Returns the position of a name as a whole word: `strict` is not part of `restricted`.
fn word_at(text: &str, word: &str) -> Option<usize> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |at: &usize| {
        let (before, after) = (&text[..*at], &text[*at + word.len()..]);
        !before.ends_with(inside) && !after.starts_with(inside)
    };
    text.match_indices(word).map(|(at, _)| at).find(whole)
}
