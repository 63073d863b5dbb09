//! Which lines and words of letters are code, listings or notices: a summary need not repeat what they hold.

use std::collections::HashSet;

/// Signs that are rare in sentences, and how many of them, of how many kinds, and how much of a line they are where it is code.
const SIGNS_OF_CODE: &str = "{}<>=&\\^~";
const CODE_SHARE: f64 = 0.08;
const CODE_SIGNS_MIN: usize = 3;
const CODE_KINDS_MIN: usize = 2;
/// Characters before the sign of a prompt.
const PROMPT_CHARS: usize = 60;

/// Reports whether a line is code, names a file with its permissions, or is the notice of a list server.
pub fn is_code(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_listed = first.len() >= 10
        && first.starts_with(['-', 'd', 'l'])
        && first.contains('r')
        && first.chars().all(|c| "-dlrwxsStT+.@".contains(c));
    let all = line.chars().filter(|c| !c.is_whitespace()).count();
    let signs = signs_of_code(line);
    let kinds: HashSet<&char> = signs.iter().collect();
    let is_code = signs.len() >= CODE_SIGNS_MIN
        && kinds.len() >= CODE_KINDS_MIN
        && signs.len() as f64 >= CODE_SHARE * all as f64;
    // `[[…]]` is how list servers say what they took out of a letter.
    let is_notice = line.trim().starts_with("[[") && line.trim().ends_with("]]");
    is_listed || is_notice || is_code
}

/// Returns the signs of a line that its author would hardly write in a sentence, a table or a price: of brackets those that open
/// behind a word, `$` before no digit, `|` in no row, `;` at the end.
fn signs_of_code(line: &str) -> Vec<char> {
    let is_row = line.trim_start().starts_with('|');
    let mut signs: Vec<char> = line.trim_end().chars().last().into_iter().collect();
    signs.retain(|last| *last == ';');
    let words = line
        .split_whitespace()
        .filter(|word| !word.contains('@') && !word.contains("://"));
    for word in words {
        let mut before = ' ';
        let mut chars = word.chars().peekable();
        while let Some(sign) = chars.next() {
            let is_sign = match sign {
                '(' | '[' if before.is_alphanumeric() || "._$^".contains(before) => {
                    // It stands for the one that closes, too.
                    signs.push(sign);
                    true
                }
                '$' => !chars.peek().is_some_and(char::is_ascii_digit),
                '|' => !is_row,
                _ => SIGNS_OF_CODE.contains(sign),
            };
            if is_sign {
                signs.push(sign);
            }
            before = sign;
        }
    }
    signs
}

/// Reports whether a line is a command behind the prompt of a shell, below which it printed what follows to the next blank line.
pub fn is_prompt(line: &str) -> bool {
    let Some(at) = line.find(['$', '#']) else {
        return false;
    };
    let (before, command) = (line[..at].trim_start(), &line[at + 1..]);
    let is_of_host = (before.contains('@') || before.contains(" at "))
        && before.ends_with(['~', ']', '/'])
        && before.chars().count() <= PROMPT_CHARS;
    let is_command = command
        .strip_prefix(' ')
        .is_some_and(|command| command.starts_with(|c: char| c.is_ascii_lowercase() || c == '.'));
    is_command && (is_of_host || before.is_empty() && line.starts_with('$'))
}

/// Reports whether a word is a piece of code, such as a call with its arguments.
pub fn is_code_word(word: &str) -> bool {
    let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
    let signs = inner.chars().filter(|c| "{}[]()<>=;|&$\\".contains(*c));
    signs.count() > CODE_SIGNS_MIN && !inner.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_listings_and_notices_are_known_and_prices_are_not_taken_for_them() {
        for line in [
            "fit <- lm(y ~ x, data = d[1:20, ])",
            "x<-seq(-2,2,0.01)",
            "if (count > 20) { total = count * price; }",
            "drwxr-xr-x   2 ada  ada  2048 Mar 11 22:04 boats",
            "[[two parts of HTML removed]]",
        ] {
            assert!(is_code(line), "{line}");
        }
        for line in [
            "Boat (40 EUR), oars (7 EUR), net (3 EUR)",
            "**Boat: 40 EUR**, **7 EUR**, ***3 EUR***",
            "| Boat | 40 EUR | 7 EUR | 3 EUR |",
            "$40 + $7 = $47 (or less)",
            "Boat = 40 EUR; oars = 7 EUR; net = 3",
            "Ada <ada@mill.example>; Bo <bo@mill.example>",
            "---------------------------",
            "I read it (twice) & paid 40",
            "40 box(es) in 3 day(s)",
        ] {
            assert!(!is_code(line), "{line}");
        }
        for line in [
            "$ ls boats",
            "[ada@mill ~]$ sudo boats",
            "ada at mill:~# ls",
        ] {
            assert!(is_prompt(line), "{line}");
        }
        for line in [
            "$ 40 a boat",
            "Ada at the mill paid $ forty",
            "# boats of ada",
            "Boats: $ each",
        ] {
            assert!(!is_prompt(line), "{line}");
        }
        assert!(is_code_word("run(x=1,y=[2])"));
        assert!(!is_code_word("https://mill.example/a?b=1&c=2&d=3&e=4"));
        assert!(!is_code_word("1,240(EUR)"));
    }
}
