//! Token estimates for adapters whose vendor does not count them, or counts them too late. Pure.

use crate::providers::contract::traits::{Block, ToolArgs};

/// Returns an estimate that is rather too high: 3.5 ASCII characters a token, and a token for every
/// other character, because most scripts but Latin are split into pieces that small.
pub fn tokens(text: &str) -> u64 {
    let (mut ascii, mut others) = (0_u64, 0_u64);
    for character in text.chars() {
        match character.is_ascii() {
            true => ascii += 1,
            false => others += 1,
        }
    }
    (ascii * 2).div_ceil(7) + others
}

/// Estimates the output tokens of an answer.
pub fn answer(blocks: &[Block]) -> u64 {
    let of_block = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text, .. } => tokens(text),
        Block::ToolCall {
            name,
            args: ToolArgs::Object(map),
            ..
        } => {
            tokens(name)
                + map
                    .iter()
                    .map(|(key, value)| tokens(key) + tokens(&value.to_string()))
                    .sum::<u64>()
        }
        Block::ToolCall {
            name,
            args: ToolArgs::Malformed { raw, .. },
            ..
        } => tokens(name) + tokens(raw),
        Block::ToolResult { content, .. } => tokens(content),
    };
    blocks.iter().map(of_block).sum()
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn estimates_are_rounded_up_and_count_other_scripts_by_the_character() {
        assert_eq!(
            (
                tokens(""),
                tokens("a"),
                tokens("sevenseven, fourteen"),
                tokens("日本語")
            ),
            (0, 1, 6, 3)
        );
    }
}
