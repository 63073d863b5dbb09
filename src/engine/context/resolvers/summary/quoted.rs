//! The lines of letters that are their writers' own, whatever marks the others as quotes.

use std::collections::HashSet;

/// Characters of a writer's name before `>` in a quote, and words by which a quote is known to repeat a letter.
const MARK_CHARS: usize = 12;
const REPEATED_WORDS: usize = 4;
const ATTRIBUTION_VERBS: [&str; 5] = ["wrote", "writes", "schrieb", "écrit", "escribió"];
const ATTRIBUTION_WORDS: usize = 18;

/// Returns the lines of each letter without those that quote, and without `Anna wrote:` before a quote or at its end.
///
/// Some programs mark a quote with `|` or with the writer's initials and `>`. Such a mark counts in a letter where a line with it
/// repeats an earlier letter.
pub fn without_quotes<'t>(letters: &[Vec<&'t str>]) -> Vec<Vec<&'t str>> {
    let mut earlier = String::new();
    let mut own = Vec::new();
    for letter in letters {
        let repeats = |rest: &str| {
            let words: Vec<&str> = rest.split_whitespace().collect();
            words.len() >= REPEATED_WORDS && earlier.contains(&words.join(" "))
        };
        let candidates = letter.iter().filter_map(|line| marked(line));
        let proven = candidates.filter(|(_, rest)| repeats(rest));
        let marks: HashSet<&str> = proven.map(|(mark, _)| mark).collect();
        let is_quote = |line: &str| {
            line.trim_start().starts_with('>')
                || marked(line).is_some_and(|(mark, _)| marks.contains(mark))
        };
        let mut lines: Vec<&str> = Vec::new();
        for line in letter.iter().chain(&[">"]) {
            if !is_quote(line) {
                lines.push(line);
                continue;
            }
            let last = lines.iter().rposition(|line| !line.trim().is_empty());
            if let Some(last) = last.filter(|last| is_attribution(lines[*last])) {
                lines.truncate(last);
            }
        }
        let last = lines.iter().rposition(|line| !line.trim().is_empty());
        lines.truncate(last.map_or(0, |last| last + 1));
        let words = letter.iter().flat_map(|line| line.split_whitespace());
        earlier.extend(words.flat_map(|word| [word, " "]));
        own.push(lines);
    }
    own
}

/// Returns the mark of a quote other than `>`, if a line begins with one, and what follows it.
fn marked(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix('|') {
        // With another one it is the row of a table.
        return Some(("|", rest)).filter(|_| !rest.contains('|'));
    }
    let (mark, rest) = line.split_once('>')?;
    let is_mark = mark.chars().count() <= MARK_CHARS && mark.chars().all(char::is_alphanumeric);
    is_mark.then_some((mark, rest))
}

/// Reports whether a line says nothing but who wrote what is quoted below it.
fn is_attribution(line: &str) -> bool {
    let says_so = |said: &str| {
        let said = said.trim_end();
        ATTRIBUTION_VERBS.iter().any(|verb| said.ends_with(verb))
    };
    line.trim_end().strip_suffix(':').is_some_and(says_so)
        && line.split_whitespace().count() <= ATTRIBUTION_WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(letters: &[&str]) -> Vec<String> {
        let letters: Vec<Vec<&str>> = letters.iter().map(|text| text.lines().collect()).collect();
        let own = without_quotes(&letters);
        own.iter().map(|lines| lines.join("\n")).collect()
    }

    #[test]
    fn a_quote_is_known_by_any_mark_that_repeats_an_earlier_letter() {
        let first = "We sell 5 boats at 40 EUR\nto Zoe.\n> Old";
        let second = "Ada Berg <ada at mill.example> writes:\n\n| boats at 40 EUR to Zoe.\n| On May 3, Bob asked\nYes, 6.\n   \
            Ab> We sell 5 boats at\n   Ab> 41 EUR\nNo, 7.\nAda Burg wrote:\n   >> Hm 8\n\nLe 4 mai, Ben Hill a écrit :\n";
        let wanted = ["We sell 5 boats at 40 EUR\nto Zoe.", "Yes, 6.\nNo, 7."];
        assert_eq!(own(&[first, second]), wanted);
    }

    #[test]
    fn what_only_looks_like_a_quote_is_the_writers_own() {
        for text in [
            "| Boats    40 EUR each",
            "Zoe> We sell 5 to Bob.",
            "Ada Berg wrote:\nPay 40.",
        ] {
            assert_eq!(own(&["We pay 5 for two", text])[1], text);
        }
        // The head of a table is repeated, and its rows are new.
        let table = "| boat that is sold | 40 EUR |";
        assert_eq!(own(&[table, table])[1], table);
    }
}
