//! Character references of HTML, and the stand-ins under which `&`, `<` and `>` travel through
//! html5ever.
//!
//! html5ever 0.40 takes quadratic time for a run of ampersands, escaped or not. So references are
//! decoded here, and the three characters that would have to be escaped again go through as
//! private-use characters.

use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::html::add_html_token;

/// Pairs of character and stand-in; a sender's own private-use characters of this range are
/// dropped.
const STAND_INS: [(char, char); 3] = [('&', '\u{e000}'), ('<', '\u{e001}'), ('>', '\u{e002}')];
/// Longest named reference, in bytes: `&CounterClockwiseContourIntegral;`.
const REFERENCE_BYTES_MAX: usize = 34;

/// Decodes the references of a text.
pub(in crate::mime) fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let window = &rest.as_bytes()[..rest.len().min(REFERENCE_BYTES_MAX)];
        let is_reference = |b: &u8| b.is_ascii_alphanumeric() || *b == b'#';
        let length = window
            .iter()
            .skip(1)
            .take_while(|b| is_reference(b))
            .count()
            + 1;
        if length > 1 && window.get(length) == Some(&b';') {
            push_reference(&mut out, &rest[..=length]);
            rest = &rest[length + 1..];
        } else {
            out.push('&');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn push_reference(out: &mut String, reference: &str) {
    let start = out.len();
    add_html_token(out, reference.as_bytes(), false);
    // The HTML standard reads numbers of the C1 range as Windows-1252, because writers meant that.
    let code = out[start..].chars().next().map_or(0, u32::from);
    if (0x80..0xa0).contains(&code)
        && let (Ok(byte), Some(decode)) = (u8::try_from(code), charset_decoder(b"windows-1252"))
    {
        out.truncate(start);
        out.push_str(&decode(&[byte]));
    }
}

/// Replaces the three characters by their stand-ins, so that the text holds no markup.
pub(in crate::mime) fn disguised(text: &str) -> String {
    let stand_in = |c: char| match STAND_INS.iter().find(|(real, _)| *real == c) {
        Some((_, stand_in)) => Some(*stand_in),
        None => (!STAND_INS.iter().any(|(_, stand_in)| *stand_in == c)).then_some(c),
    };
    text.chars().filter_map(stand_in).collect()
}

/// Undoes [`disguised`].
pub(in crate::mime) fn revealed(text: &str) -> String {
    let real = |c: char| {
        STAND_INS
            .iter()
            .find(|(_, stand_in)| *stand_in == c)
            .map_or(c, |(real, _)| *real)
    };
    text.chars().map(real).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_decoded_and_ampersands_are_left() {
        let text =
            "a &amp; b &lt;c&gt; &#233;&#xE9; &eacute; &#146; &nosuch; & &; &#; AT&T &amp;lt;";
        assert_eq!(
            decoded(text),
            "a & b <c> éé é ’ &nosuch; & &; &#; AT&T &lt;"
        );
    }

    #[test]
    fn markup_characters_come_back_as_they_were() {
        let text = "a<b>&c \u{e000}\u{e003}";
        assert!(!disguised(text).contains(['<', '>', '&']));
        assert_eq!(revealed(&disguised(text)), "a<b>&c \u{e003}");
    }
}
