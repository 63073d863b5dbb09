//! Detects that an input is too long for the model, and the model's window, in a vendor's error.
//! Pure.

use crate::providers::transport::vendor_error::VendorError;

/// Phrases of vendors for an input that is too long; lower case.
const PHRASES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "maximum context length",
    "context length is only",
    "exceeds the model's context length",
    // Ollama, older and newer.
    "input length exceeds the context length",
    "exceeded max context length",
    "input token count",
    "maximum prompt length is",
    "reduce the length of the messages",
    "exceeds the limit of",
    "exceeds the available context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "model_context_window_exceeded",
    "input is too long for requested model",
    "context_length_exceeded",
    "context length exceeded",
    "too many tokens",
    "token limit exceeded",
    "request entity too large",
    // LiteLLM's own class, where the vendor's sentence is missing.
    "contextwindowexceedederror",
    // Anthropic, of texts that are too long to be counted in tokens.
    "too many total text bytes",
];
const CODES: &[&str] = &[
    "context_length_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
    "too_many_prompt_tokens",
];
/// Phrases of rate limits: Groq and OpenAI word them as a request that is too large.
const NOT_OVERFLOW: &[&str] = &["tokens per min", "tpm", "rate limit"];
/// Their phrase for a request that alone is larger than the limit, so that waiting does not help.
const ABOVE_LIMIT: &str = "request too large for";
const LIMIT_MARK: &str = "limit ";
const REQUESTED_MARK: &str = "requested ";
/// Texts before the number of tokens that the model takes.
const WINDOW_MARKS: &[&str] = &[
    "tokens > ",
    " > ",
    "maximum context length is",
    "context length is only",
    "maximum prompt length is",
    "tokens allowed",
    "exceeds the limit of",
    "available context size",
    "too large for model with",
    "model token limit:",
    "context length of",
    "context window of",
];
/// Texts before, or after, the number of requested tokens.
const ASKED_BEFORE: &[&str] = &[
    "prompt is too long:",
    "you requested",
    "request contains",
    "token count (",
    "token count of",
    "prompt contains",
];
/// Longest distance in characters between a mark and its number.
const GAP_LEN_MAX: usize = 6;

/// Reports whether this failure is about the length of the input.
pub fn is_overflow(error: &VendorError) -> bool {
    error.is_named(CODES)
        || (error.says(PHRASES) && !error.says(NOT_OVERFLOW))
        || is_above_rate_limit(error)
}

/// Reports whether the request alone exceeds the limit of a whole period.
pub fn is_above_rate_limit(error: &VendorError) -> bool {
    above_rate_limit(&error.words()).is_some()
}

/// Returns the tokens of a whole period that a request alone exceeds; `None` where waiting may
/// help.
fn above_rate_limit(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once(ABOVE_LIMIT)?;
    let (limit, requested) = (
        number_after(rest, LIMIT_MARK)?,
        number_after(rest, REQUESTED_MARK)?,
    );
    (requested > limit).then_some(limit)
}

/// Returns the window of the model in tokens, if the vendor named it. A number that is not below
/// the requested one is no bound that we exceeded, so it was misread.
pub fn window_tokens(error: &VendorError) -> Option<u64> {
    let words = error.words();
    if words.contains("bytes") {
        return None;
    }
    if let Some(limit) = above_rate_limit(&words) {
        return Some(limit);
    }
    let stated = WINDOW_MARKS
        .iter()
        .find_map(|mark| number_after(&words, mark));
    let window = error
        .window_tokens
        .or(stated)
        .filter(|tokens| *tokens > 0)?;
    let asked = ASKED_BEFORE
        .iter()
        .find_map(|mark| number_after(&words, mark));
    asked.is_none_or(|asked| asked > window).then_some(window)
}

/// Returns the number that follows a mark, with at most a few other characters between them.
fn number_after(words: &str, mark: &str) -> Option<u64> {
    let (_, rest) = words.split_once(mark)?;
    let gap = rest.find(|c: char| c.is_ascii_digit())?;
    if gap > GAP_LEN_MAX {
        return None;
    }
    let in_number = |c: char| c.is_ascii_digit() || c == ',' || c == '_';
    let digits = rest.get(gap..)?;
    let end = digits.find(|c| !in_number(c)).unwrap_or(digits.len());
    let plain: String = digits[..end].chars().filter(char::is_ascii_digit).collect();
    plain.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(message: &str) -> Option<u64> {
        window_tokens(&VendorError {
            message: message.to_owned(),
            ..VendorError::default()
        })
    }

    #[test]
    fn the_size_of_the_model_is_read_from_each_vendors_sentence() {
        let table = [
            (
                "prompt is too long: 213462 tokens > 200000 maximum",
                Some(200_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease",
                Some(200_000),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
                Some(8192),
            ),
            ("the model's context length is only 4096 tokens", Some(4096)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
                Some(131_072),
            ),
            (
                "prompt token count of 200 exceeds the limit of 100",
                Some(100),
            ),
            (
                "the request exceeds the available context size (4,096 tokens)",
                Some(4096),
            ),
            (
                "Prompt contains 99 tokens, too large for model with 10 maximum context length",
                Some(10),
            ),
            ("Your request exceeded model token limit: 8", Some(8)),
            (
                "Request too large for m on tokens per minute (TPM): Limit 6,000, Requested 7214, please",
                Some(6000),
            ),
            (
                "Request too large for m on tokens per min (TPM): Limit 30000, Requested 2044.",
                None,
            ),
            (
                "messages: too many total text bytes: 10000002 > 9000000",
                None,
            ),
            // The bound must be the smaller number; else it is unknown.
            (
                "This model's maximum context length is 9000 tokens. However, you requested 8192 tokens",
                None,
            ),
            ("Your input exceeds the context window of this model", None),
            (
                "Please reduce the length of the messages or completion.",
                None,
            ),
            ("maximum context length is 99999999999999999999999", None),
        ];
        for (sentence, expected) in table {
            assert_eq!(window(sentence), expected, "{sentence}");
        }
    }
}
