//! Finds where a text quotes one of many others, however it was wrapped, marked or escaped.
//!
//! Known are runs of words within a line: eight, or a whole shorter line of at least five. Shorter lines are too common to tell
//! whose they are.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Words of a run.
const WORDS_MAX: usize = 8;
/// Words of the shortest line that is looked for.
const WORDS_MIN: usize = 5;

/// Runs of words of the quoted texts.
#[derive(Debug, Default)]
pub struct Quotations {
    runs: HashSet<u64>,
    /// First words of the runs: most words of another text begin none.
    firsts: HashSet<u64>,
}

impl Quotations {
    /// Adds a text that may be quoted.
    pub fn add(&mut self, text: &str) {
        for line in text.lines() {
            let words = words(line);
            let size = words.len().min(WORDS_MAX);
            if size < WORDS_MIN {
                continue;
            }
            for run in words.windows(size) {
                self.firsts.insert(digest(&run[..1]));
                self.runs.insert(digest(run));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Reports whether a text quotes one of them; JSON may be given as it is.
    pub fn are_in(&self, text: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        // Ends of lines, as JSON writes them, once and twice.
        let text = text.replace("\\n", " ").replace("\\r", " ");
        let words = words(&text);
        (0..words.len()).any(|at| self.begin_at(&words[at..]))
    }

    /// Returns the lines of a text without those that quote; `None`: none does.
    pub fn cut(&self, text: &str) -> Option<String> {
        let mut is_cut = false;
        let mut left = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            match self.are_in(line) {
                true => is_cut = true,
                false => left.push_str(line),
            }
        }
        is_cut.then_some(left)
    }

    fn begin_at(&self, words: &[String]) -> bool {
        let may_begin = words
            .get(..1)
            .is_some_and(|first| self.firsts.contains(&digest(first)));
        may_begin
            && (WORDS_MIN..=WORDS_MAX).any(|size| {
                let run = words.get(..size);
                run.is_some_and(|run| self.runs.contains(&digest(run)))
            })
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn digest(words: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_is_found_wrapped_marked_and_escaped_and_common_lines_are_not() {
        let mut quotations = Quotations::default();
        quotations.add("Hello\nThe yellow boat leaves at seven from the northern pier on Sunday.\nKind regards");
        for text in [
            "> The yellow boat leaves at seven from\n> the northern pier on Sunday.",
            r#"{"body":"you said \"The yellow boat leaves at seven from the\\nnorthern pier\""}"#,
            "THE YELLOW BOAT LEAVES AT SEVEN FROM THE NORTHERN PIER",
        ] {
            assert!(quotations.are_in(text), "{text}");
        }
        for text in [
            "Hello",
            "Kind regards",
            "The yellow boat leaves at noon.",
            "",
        ] {
            assert!(!quotations.are_in(text), "{text}");
        }
        let note =
            "- Breakfast is at eight\n- the yellow boat leaves at seven from the northern pier\n";
        let cut = quotations.cut(note);
        assert_eq!(cut.as_deref(), Some("- Breakfast is at eight\n"));
        assert_eq!(quotations.cut("nothing of it"), None);
    }
}
