//! File names that are safe to write, to show and to type, made from what a sender called an
//! attachment.

use std::collections::HashSet;

/// Longest name in characters, extension included.
const CHARS_MAX: usize = 120;
/// Longest name in bytes: file systems stop at 255, and a suffix may follow.
const BYTES_MAX: usize = 240;
/// Longest extension that is kept when a name is cut.
const EXTENSION_CHARS_MAX: usize = 16;

/// Returns a harmless file name for a declared one; empty when nothing of it can be used.
///
/// No path, no control or direction characters, no `..`, no device name of Windows, at most 120
/// characters with the extension kept.
pub fn safe_filename(declared: &str) -> String {
    let last = declared
        .rsplit(['/', '\\'])
        .find(|part| !part.trim().is_empty())
        .unwrap_or_default();
    let mut name = String::new();
    for c in last.chars().filter(|c| !is_deceptive(*c)) {
        match c {
            '.' if name.ends_with('.') => {}
            c if c.is_whitespace() => {
                if !name.ends_with(' ') {
                    name.push(' ');
                }
            }
            '<' | '>' | ':' | '"' | '|' | '?' | '*' => name.push('_'),
            c => name.push(c),
        }
    }
    let name = name
        .trim_start_matches(['.', ' ', '-'])
        .trim_end_matches(['.', ' ']);
    let name = if is_device(name) {
        format!("_{name}")
    } else {
        name.to_owned()
    };
    shortened(&name, "")
}

/// Reports whether a character is a control character, reorders text (`exe.fdp` shown as `pdf.exe`)
/// or is invisible.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{ad}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Reports whether Windows opens a device for this name; a text after the first dot changes
/// nothing.
fn is_device(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_ascii_uppercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|n| {
            matches!(
                n,
                "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³"
            )
        })
    };
    matches!(
        stem.as_str(),
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$"
    ) || numbered("COM")
        || numbered("LPT")
}

/// Returns the name with `suffix` before its extension, its stem cut so that everything fits.
fn shortened(name: &str, suffix: &str) -> String {
    let extension_at = name.rfind('.').filter(|at| {
        let length = name[at + 1..].chars().count();
        *at > 0 && (1..=EXTENSION_CHARS_MAX).contains(&length)
    });
    let (stem, extension) = name.split_at(extension_at.unwrap_or(name.len()));
    let chars_left = CHARS_MAX - suffix.chars().count() - extension.chars().count();
    let bytes_left = BYTES_MAX - suffix.len() - extension.len();
    let mut cut = String::new();
    for c in stem.chars().take(chars_left) {
        if cut.len() + c.len_utf8() > bytes_left {
            break;
        }
        cut.push(c);
    }
    format!("{}{suffix}{extension}", cut.trim_end_matches([' ', '.']))
}

/// Issues names that differ from each other without regard to case.
#[derive(Debug, Default)]
pub(in crate::mime) struct UniqueFilenames {
    taken: HashSet<String>,
}

impl UniqueFilenames {
    /// Returns a safe name for `declared`, or for `fallback` (which is safe) when nothing of it can
    /// be used.
    pub(in crate::mime) fn give(&mut self, declared: &str, fallback: &str) -> String {
        let safe = safe_filename(declared);
        let wanted = if safe.is_empty() {
            fallback.to_owned()
        } else {
            safe
        };
        let mut name = wanted.clone();
        let mut number = 2_u32;
        while !self.taken.insert(name.to_lowercase()) {
            name = shortened(&wanted, &format!(" ({number})"));
            number += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_becomes_a_plain_one() {
        let cases = [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Windows\\system32\\a.dll", "a.dll"),
            ("..", ""),
            ("...", ""),
            ("", ""),
            ("a\0b\r\nc.txt", "abc.txt"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("a..b...c.txt", "a.b.c.txt"),
            (".htaccess", "htaccess"),
            ("-rf.txt", "rf.txt"),
            ("NUL", "_NUL"),
            ("con.txt", "_con.txt"),
            ("Lpt1.tar.gz", "_Lpt1.tar.gz"),
            ("com1 .txt", "_com1.txt"),
            ("computer.txt", "computer.txt"),
            ("a:b|c?.txt", "a_b_c_.txt"),
            ("naïve 文書.docx", "naïve 文書.docx"),
            ("dir/", "dir"),
            ("/", ""),
        ];
        for (declared, expected) in cases {
            assert_eq!(safe_filename(declared), expected, "{declared:?}");
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let name = safe_filename(&format!("{}.pdf", "x".repeat(500)));
        assert_eq!((name.chars().count(), name.ends_with("x.pdf")), (120, true));
        let wide = safe_filename(&format!("{}.pdf", "文".repeat(500)));
        assert!(wide.len() <= BYTES_MAX && wide.ends_with("文.pdf"));
        assert!(safe_filename(&"x.".repeat(500)).chars().count() <= 120);
    }

    #[test]
    fn names_are_unique_without_regard_to_case() {
        let mut names = UniqueFilenames::default();
        let given: Vec<String> = ["a.txt", "A.TXT", "a.txt", "", ""]
            .iter()
            .map(|n| names.give(n, "attachment.bin"))
            .collect();
        assert_eq!(
            given,
            [
                "a.txt",
                "A (2).TXT",
                "a (3).txt",
                "attachment.bin",
                "attachment (2).bin"
            ]
        );
    }
}
