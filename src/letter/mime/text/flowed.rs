//! `format=flowed` (RFC 3676): lines that a program broke while it wrote are made whole again.
//!
//! Absent on purpose: flowed text of ours. Our mails have lines as they were written.

/// Returns a text without its soft line breaks, by section 4. `delsp`: the blank before a break is the break's, as in scripts
/// without blanks between words. Quoted lines keep their depth, and a line of the writer's own that begins with `>` keeps the
/// blank that says so.
pub fn unflowed(text: &str, delsp: bool) -> String {
    let mut whole = String::with_capacity(text.len());
    // Depth of the paragraph that the next line goes on with.
    let mut open: Option<usize> = None;
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let rest = line.trim_start_matches('>');
        let depth = line.len() - rest.len();
        let unstuffed = rest.strip_prefix(' ').unwrap_or(rest);
        let is_signature = unstuffed == "-- ";
        if open
            .take_if(|open| *open == depth && !is_signature)
            .is_none()
        {
            if open.take().is_some() {
                whole.push('\n');
            }
            whole.push_str(&">".repeat(depth));
            if depth > 0 || unstuffed.starts_with('>') {
                whole.push(' ');
            }
        }
        let is_soft = unstuffed.ends_with(' ') && !is_signature && !end.is_empty();
        if is_soft {
            let kept = match delsp {
                true => &unstuffed[..unstuffed.len() - 1],
                false => unstuffed,
            };
            whole.push_str(kept);
            open = Some(depth);
        } else {
            whole.push_str(unstuffed);
            whole.push_str(end);
        }
    }
    if open.is_some() {
        whole.push('\n');
    }
    whole
}

/// Reports whether `format=flowed` would join lines of a text.
pub fn has_soft_breaks(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    // Nothing follows the last one.
    let _last = lines.next_back();
    lines.any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line.ends_with(b" ") && line != b"-- "
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_breaks_go_and_all_else_stays() {
        let cases = [
            ("one \ntwo\n", "one two\n"),
            ("one\ntwo\n", "one\ntwo\n"),
            ("one \n\ntwo\n", "one \ntwo\n"),
            ("> one \n> two\n>> three\n", "> one two\n>> three\n"),
            ("> one \nmine\n", "> one \nmine\n"),
            (">> a \n> b\n", ">> a \n> b\n"),
            ("last \n-- \nAda\n", "last \n-- \nAda\n"),
            (" > mine\n", " > mine\n"),
            (" From here\n", "From here\n"),
            ("  code\n", " code\n"),
            ("end ", "end "),
            ("end \n", "end \n"),
            ("", ""),
        ];
        for (flowed, whole) in cases {
            assert_eq!(unflowed(flowed, false), whole, "{flowed:?}");
        }
        assert_eq!(unflowed("日本 \n語\n", true), "日本語\n");
        assert_eq!(unflowed("two  \nwords\n", true), "two words\n");
        assert!(has_soft_breaks(b"one \r\ntwo"));
        assert!(!has_soft_breaks(b"one\r\n-- \r\nAda "));
    }
}
