//! The piece of a letter that shows a hit. Pure.

/// Most characters of an excerpt, and of these before the first hit.
const EXCERPT_CHARS: usize = 300;
const EXCERPT_BEFORE: usize = 80;

/// Returns the text around the first of the words that occurs, or the beginning. FTS5's own
/// `snippet` would begin the search anew for every message, from the first one that has the words.
pub fn excerpt(text: &str, words: &str) -> String {
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    let (text, small): (Vec<char>, Vec<char>) = text.chars().map(|c| (c, lower(c))).unzip();
    // Words match in other forms too, so their stems count when they do not occur as they are.
    let stem = |word: &str, cut: usize| -> Vec<char> {
        let word: Vec<char> = word
            .chars()
            .filter(|c| c.is_alphanumeric())
            .map(lower)
            .collect();
        let kept = word.len().saturating_sub(cut).max(word.len().min(4));
        word[..kept].to_vec()
    };
    let occurs = |cut: usize| {
        let stems = words
            .split_whitespace()
            .map(|word| stem(word, cut))
            .filter(|stem| !stem.is_empty());
        stems
            .filter_map(|stem| small.windows(stem.len()).position(|piece| piece == stem))
            .min()
    };
    let at = occurs(0).or_else(|| occurs(3)).unwrap_or(0);
    let begins = |from: usize| {
        text[from..at]
            .iter()
            .position(|c| c.is_whitespace())
            .map_or(at, |n| from + n + 1)
    };
    let start = if at <= EXCERPT_BEFORE {
        0
    } else {
        begins(at - EXCERPT_BEFORE)
    };
    let end = text.len().min(start + EXCERPT_CHARS);
    let piece: String = text[start..end].iter().collect();
    let mark = |is_cut: bool| if is_cut { " … " } else { "" };
    format!("{}{piece}{}", mark(start > 0), mark(end < text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_begins_near_the_first_word_or_another_form_of_it() {
        let long = format!(
            "{} rooms with a view {}",
            "before ".repeat(40),
            "after ".repeat(80)
        );
        let cut = excerpt(&long, "ROOM");
        assert!(
            cut.starts_with(" … before") && cut.contains("rooms with") && cut.ends_with(" … "),
            "{cut}"
        );
        assert_eq!(cut.chars().count(), EXCERPT_CHARS + 6);
        assert!(excerpt(&long, "viewing").contains("a view"));
        assert_eq!(excerpt("short für alle", "nothing"), "short für alle");
        assert_eq!(excerpt("", "x"), "");
    }
}
