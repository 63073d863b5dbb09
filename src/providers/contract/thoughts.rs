//! Reasoning that a model wrote into the text of its answer, told apart from the answer. Pure.
//!
//! Servers of open models leave it there when they are not told the model's template, or do not know it. Where each form comes
//! from is said beside it. Absent on purpose: what is mailed (`runs/said`); reasoning that a vendor sends as such.

use super::message::Block;
use super::response::Response;

/// Begin and end of a stretch of reasoning, in lower case.
const FORMS: &[(&str, &str)] = &[
    // DeepSeek-R1, Qwen3, QwQ, SmolLM3, MiniMax and most others.
    ("<think>", "</think>"),
    // Prompted reasoning, Claude's habit.
    ("<thinking>", "</thinking>"),
    // EXAONE Deep, Gemini by the OpenAI door.
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    // MiniMax-M3, Seed-OSS.
    ("<mm:think>", "</mm:think>"),
    ("<seed:think>", "</seed:think>"),
    // Kimi-VL.
    ("◁think▷", "◁/think▷"),
    // Magistral.
    ("[think]", "[/think]"),
    // OpenThinker, Sky-T1.
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    // Command A.
    ("<|start_thinking|>", "<|end_thinking|>"),
    // gpt-oss (harmony); its end is also the end of a message.
    ("<|channel|>analysis<|message|>", "<|end|>"),
    // Gemma 4.
    ("<|channel>thought", "<channel|>"),
    // MedGemma.
    ("<unused94>thought", "<unused95>"),
];

/// First characters of the marks.
const MARK_STARTS: [char; 3] = ['<', '[', '◁'];

/// Marks that some models put round the answer that follows their reasoning.
const ANSWER_MARKS: &[&str] = &[
    "<|begin_of_solution|>",
    "<|end_of_solution|>",
    "<|start_response|>",
    "<|end_response|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
    "<|return|>",
    "<answer>",
    "</answer>",
    "<response>",
    "</response>",
];

/// Makes reasoning in the text of an answer blocks of reasoning.
///
/// A text that begins with a form is reasoning to its end, or as a whole where it never ends. So is what stands before an end
/// without a beginning (templates of DeepSeek-R1 write the beginning into the prompt). Further down a stretch counts where it
/// begins a line, outside of code: a letter may speak of such marks.
#[must_use]
pub fn separated(mut response: Response) -> Response {
    if !response
        .blocks
        .iter()
        .any(|block| matches!(block, Block::Text { text } if may_hold(text)))
    {
        return response;
    }
    let mut blocks: Vec<Block> = Vec::with_capacity(response.blocks.len() + 1);
    let mut joined = String::new();
    let flush = |joined: &mut String, blocks: &mut Vec<Block>| {
        let text = std::mem::take(joined);
        if text.is_empty() {
            return;
        }
        let (thoughts, answer) = split(&text);
        if !thoughts.is_empty() {
            blocks.push(Block::Thinking {
                text: thoughts.join("\n\n"),
                provider_state: None,
            });
        }
        if !answer.trim().is_empty() || thoughts.is_empty() {
            blocks.push(Block::Text { text: answer });
        }
    };
    for block in response.blocks {
        match block {
            // A stretch may reach over pieces of a text.
            Block::Text { text } => joined.push_str(&text),
            other => {
                flush(&mut joined, &mut blocks);
                blocks.push(other);
            }
        }
    }
    flush(&mut joined, &mut blocks);
    response.blocks = blocks;
    response
}

/// Reports whether a text is worth a look: most have no such mark.
fn may_hold(text: &str) -> bool {
    text.contains(MARK_STARTS)
}

/// Reports whether a text holds reasoning.
pub fn has_reasoning(text: &str) -> bool {
    may_hold(text) && !split(text).0.is_empty()
}

/// Returns the reasoning of a text, and the text without it. Reads the text once.
fn split(text: &str) -> (Vec<String>, String) {
    let low = text.to_ascii_lowercase();
    let (mut thoughts, mut answer) = (Vec::new(), String::new());
    let (mut at, mut line, mut is_fenced) = (0, 0, false);
    // Nothing visible since the start or the last stretch.
    let mut is_first = true;
    let (mut is_line_blank, mut is_quoted, mut last) = (true, false, None);
    while let Some(next) = text[at..].chars().next() {
        let is_code = is_fenced || is_quoted;
        let mark = if MARK_STARTS.contains(&next) {
            mark_at(&low[at..])
        } else {
            None
        };
        match mark {
            Some((form, MarkSide::Begin)) if is_first || (is_line_blank && !is_code) => {
                let begin = at + form.0.len();
                let (end, after) = end_of(&low, begin, form).unwrap_or((low.len(), low.len()));
                thoughts.extend(thought(&text[begin..end]));
                (at, line, is_first, is_line_blank, last) = (after, after, true, true, None);
                continue;
            }
            // Without a beginning, all before it is reasoning.
            Some((form, MarkSide::End))
                if !is_code && ends(last.filter(|_| !is_line_blank), &low[at + form.1.len()..]) =>
            {
                thoughts.extend(thought(&std::mem::take(&mut answer)));
                at += form.1.len();
                (line, is_first, is_line_blank, last) = (at, true, true, None);
                continue;
            }
            _ => {}
        }
        answer.push(next);
        at += next.len_utf8();
        (is_first, is_line_blank, last) = (
            is_first && is_blank(next),
            is_line_blank && is_blank(next),
            Some(next),
        );
        is_quoted ^= next == '`';
        if next == '\n' {
            is_fenced ^= low[line..at].trim_start().starts_with("```");
            (line, is_line_blank, is_quoted) = (at, true, false);
        }
    }
    if !thoughts.is_empty() || answer.len() < text.len() {
        for mark in ANSWER_MARKS {
            answer = without_mark(&answer, mark);
        }
        answer = answer.trim_start().to_owned();
    }
    (thoughts, answer)
}

enum MarkSide {
    Begin,
    End,
}

/// Returns the mark at the start of a text; the longest, where one begins another.
fn mark_at(low: &str) -> Option<(&'static (&'static str, &'static str), MarkSide)> {
    let mark = |form: &'static (&'static str, &'static str)| {
        if low.starts_with(form.0) {
            return Some((form, MarkSide::Begin));
        }
        // The end of a message is no end of reasoning without its beginning.
        (low.starts_with(form.1) && form.1 != "<|end|>").then_some((form, MarkSide::End))
    };
    FORMS.iter().find_map(mark)
}

fn thought(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\u{feff}' | '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}'
        )
}

/// Returns where a stretch ends and where the text goes on. Marks that the reasoning itself mentions are counted; if they do
/// not come out even, the last end is its end.
fn end_of(low: &str, begin: usize, form: &(&str, &str)) -> Option<(usize, usize)> {
    let (mut depth, mut at) = (1_usize, begin);
    let mut next = low[at..].find(form.1)?;
    loop {
        let close = at + next;
        depth += low[at..close].matches(form.0).count();
        depth -= 1;
        at = close + form.1.len();
        match low[at..].find(form.1) {
            Some(found) if depth > 0 => next = found,
            _ => return Some((close, at)),
        }
    }
}

/// Reports whether an end without a beginning counts: alone on its line, or joined to what is before it. Between blanks or
/// quotation marks it is mentioned, not written. `last`: the character before it, if its line has any.
fn ends(last: Option<char>, after: &str) -> bool {
    let is_joined = last.is_none_or(|c| !c.is_whitespace() && !"\"'`“„«(".contains(c));
    let is_mentioned = after
        .chars()
        .next()
        .is_some_and(|c| "\"'`”“»),.:;".contains(c));
    is_joined && !is_mentioned
}

/// Keeps reasoning out of a text while it is streamed. What begins without its mark is seen at its end only.
#[derive(Debug, Default)]
pub struct ThoughtFilter {
    /// Text that is still looked at; of it the first `shown` bytes are shown already.
    held: String,
    shown: usize,
    /// Form of the reasoning that has begun.
    form: Option<&'static (&'static str, &'static str)>,
    /// `true`: the answer itself has begun.
    is_answer: bool,
}

impl ThoughtFilter {
    /// Returns what of the next piece is shown, and whether all before it was reasoning after all.
    pub fn push(&mut self, piece: &str) -> (bool, String) {
        self.held.push_str(piece);
        let mut was_thought = false;
        loop {
            let low = self.held.to_ascii_lowercase();
            if let Some(form) = self.form {
                let Some(end) = low.find(form.1) else {
                    // The end may come in two pieces.
                    self.keep(form.1.len());
                    return (was_thought, String::new());
                };
                self.held.drain(..end + form.1.len());
                self.form = None;
            } else if self.is_answer {
                let Some(end) = lone_end(&low) else {
                    let text = self.held[self.shown..].to_owned();
                    self.shown = self.held.len();
                    self.keep(SEEN_BYTES);
                    return (was_thought, text);
                };
                self.held.drain(..end);
                (was_thought, self.is_answer, self.shown) = (true, false, 0);
            } else {
                let start = low.trim_start_matches(is_blank);
                let at = low.len() - start.len();
                if let Some((form, place)) = mark_at(start) {
                    let length = if matches!(place, MarkSide::Begin) {
                        form.0.len()
                    } else {
                        form.1.len()
                    };
                    self.form = matches!(place, MarkSide::Begin).then_some(form);
                    self.held.drain(..at + length);
                } else if FORMS
                    .iter()
                    .any(|form| form.0.starts_with(start) || form.1.starts_with(start))
                {
                    return (was_thought, String::new());
                } else {
                    self.is_answer = true;
                }
            }
        }
    }

    /// Drops all but so many bytes of what was looked at.
    fn keep(&mut self, bytes: usize) {
        let gone = self
            .held
            .floor_char_boundary(self.held.len().saturating_sub(bytes));
        self.held.drain(..gone);
        self.shown = self.shown.saturating_sub(gone);
    }
}

/// Returns where the text goes on behind an end without a beginning.
fn lone_end(low: &str) -> Option<usize> {
    FORMS
        .iter()
        .filter(|form| form.1 != "<|end|>")
        .find_map(|form| {
            let at = low.find(form.1)?;
            let before = low[..at].rsplit('\n').next().unwrap_or_default();
            let last = before
                .chars()
                .next_back()
                .filter(|_| !before.trim().is_empty());
            let after = at + form.1.len();
            ends(last, &low[after..]).then_some(after)
        })
}

/// Bytes of a shown text that are looked at once more with the next piece: an end may come in two.
const SEEN_BYTES: usize = 64;

fn without_mark(text: &str, mark: &str) -> String {
    let low = text.to_ascii_lowercase();
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for (found, _) in low.match_indices(mark) {
        kept.push_str(&text[at..found]);
        at = found + mark.len();
    }
    kept.push_str(&text[at..]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_in_a_text_is_no_part_of_the_answer() {
        for (text, thoughts, answer) in [
            (
                "<think>The guest would pay double.</think>\n\nDear Anna, a room is free.",
                "The guest would pay double.",
                "Dear Anna, a room is free.",
            ),
            (
                "\n <think>\r\nA SECRET plan.\r\n</think>\r\n\r\nDear Anna",
                "A SECRET plan.",
                "Dear Anna",
            ),
            (
                "A price? No.\n</think>\n\nDear Anna",
                "A price? No.",
                "Dear Anna",
            ),
            ("A price? No.</think>Dear Anna", "A price? No.", "Dear Anna"),
            (
                "<think>only thought, and no end",
                "only thought, and no end",
                "",
            ),
            ("<think></think>\n\nDear Anna", "", "Dear Anna"),
            ("<think>a</think>\n</think>\nDear Anna", "a", "Dear Anna"),
            (
                "<think>I say <think> in it.</think>\nDear Anna",
                "I say <think> in it.",
                "Dear Anna",
            ),
            (
                "<think>a <think>b</think> c</think>Dear",
                "a <think>b</think> c",
                "Dear",
            ),
            ("<THINKING>a</THINKING>Dear", "a", "Dear"),
            (
                "<reasoning>a</reasoning>\n<answer>Dear</answer>",
                "a",
                "Dear",
            ),
            ("◁think▷a◁/think▷Dear", "a", "Dear"),
            ("[THINK]a[/THINK]Dear", "a", "Dear"),
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Dear<|return|>",
                "a",
                "Dear",
            ),
            (
                "<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>Dear<|end_of_solution|>",
                "a",
                "Dear",
            ),
            (
                "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Dear<|END_RESPONSE|>",
                "a",
                "Dear",
            ),
            ("<seed:think>a</seed:think>Dear", "a", "Dear"),
            (
                "Dear Anna,\n<think>\nSaturday?\n</think>\nyes.",
                "Saturday?",
                "Dear Anna,\nyes.",
            ),
            ("<think>a</think>Dear\n<think>b", "a\n\nb", "Dear\n"),
        ] {
            let (found, rest) = split(text);
            let rest = rest.replace(",\n\n", ",\n");
            assert_eq!(
                (found.join("\n\n").as_str(), rest.as_str()),
                (thoughts, answer),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_text_that_mentions_a_mark_stays_as_it_is() {
        for text in [
            "Your template writes <think> into the prompt, and </think> is missing.",
            "Put `</think>` at its end.",
            "Use \"</think>\" there.",
            "Dear Anna,\n```\n<think>\nx\n</think>\n```\nis what it wrote.",
            "It is 3 < 4, and [thinking] is a word.",
            "Between <think> and </think> stands what nobody should read.",
            "He said [think] twice.",
            "",
        ] {
            assert_eq!(split(text), (Vec::new(), text.to_owned()));
        }
    }

    #[test]
    fn a_stretch_over_pieces_of_a_text_is_one_and_calls_keep_their_place() {
        let call = || Block::ToolCall {
            id: "c".to_owned(),
            name: "grep".to_owned(),
            args: super::super::message::ToolArgs::parse(""),
            provider_state: None,
        };
        let response = |blocks| Response {
            blocks,
            stop: super::super::response::FinishReason::ToolUse,
            usage: crate::domain::TokenUsage::default(),
            model_served: "m".to_owned(),
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: None,
        };
        let came = response(vec![
            Block::text("<thi"),
            Block::text("nk>a</think>"),
            call(),
            Block::text("Dear"),
        ]);
        let thought = Block::Thinking {
            text: "a".to_owned(),
            provider_state: None,
        };
        assert_eq!(
            separated(came).blocks,
            [thought, call(), Block::text("Dear")]
        );
    }

    #[test]
    fn a_streamed_text_shows_no_reasoning_however_it_is_cut() {
        let shown = |text: &str, size: usize| {
            let (mut filter, mut all) = (ThoughtFilter::default(), String::new());
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                let (was_thought, shown) = filter.push(&piece.iter().collect::<String>());
                if was_thought {
                    all.clear();
                }
                all.push_str(&shown);
            }
            all
        };
        for size in [1, 2, 3, 7, 100] {
            for text in [
                "Dear Anna",
                "<b>Dear</b> Anna",
                "<think>a\nb</think>\n\nDear Anna",
                "a plan\n</think>\n\nDear Anna",
                "[THINK]a[/THINK]Dear Anna",
            ] {
                let expected = if text.starts_with("<b>") {
                    text
                } else {
                    "Dear Anna"
                };
                assert_eq!(shown(text, size).trim(), expected, "{text} by {size}");
            }
            assert_eq!(shown("<think>no end", size), "");
        }
    }

    #[test]
    fn a_megabyte_of_marks_is_read_once() {
        for text in [
            "<think>".repeat(150_000),
            "x<think>".repeat(130_000),
            "</think>\n".repeat(110_000),
            "[".repeat(1_000_000),
        ] {
            let (thoughts, answer) = split(&text);
            assert!(thoughts.iter().map(String::len).sum::<usize>() + answer.len() <= text.len());
        }
    }
}
