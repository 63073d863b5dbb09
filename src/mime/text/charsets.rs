//! From bytes in a charset to text: by the label, unless the bytes contradict it.

use mail_parser::decoders::charsets::map::charset_decoder;

/// Decodes `bytes` by a charset's label. Without a usable label they are UTF-8 if they look like
/// it, else Windows-1252, as mail readers guess.
pub(in crate::mime) fn decoded(label: &str, bytes: &[u8]) -> String {
    let label = label.trim().to_ascii_lowercase();
    // Programs without charset support write ASCII as the label of any bytes.
    let is_silent = matches!(label.as_str(), "us-ascii" | "ascii");
    // A seven-bit charset has no such bytes: the program converted the text and left the label.
    let is_impossible = is_seven_bit(&label) && !bytes.is_ascii();
    let name = name_in_library(&label);
    match charset_decoder(name.as_bytes()).filter(|_| !is_silent && !is_impossible) {
        Some(decode) if name == ISO_2022_JP => decode(&without_idle_escapes(bytes)),
        Some(decode) => decode(bytes),
        None => guessed(bytes),
    }
}

const ISO_2022_JP: &str = "iso-2022-jp";

/// Removes escape sequences that switch to a set from which no character follows. They are harmless
/// and common where texts were put together; the library takes them for an attack, as browsers do.
fn without_idle_escapes(bytes: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let (mut kept, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((first, after)) = rest.split_first() {
        match rest {
            [ESCAPE, _, _, ESCAPE, ..] => rest = &rest[3..],
            _ => {
                kept.push(*first);
                rest = after;
            }
        }
    }
    kept
}

/// Reports whether the charset switches by ASCII escape sequences (RFC 1468, RFC 1557, RFC 1842,
/// RFC 2152).
fn is_seven_bit(label: &str) -> bool {
    [
        "iso-2022-",
        "csiso2022",
        "hz-gb",
        "utf-7",
        "unicode-1-1-utf-7",
    ]
    .iter()
    .any(|name| label.starts_with(name))
}

/// Maps the extensions of ISO-2022-JP to the one name that the library knows.
fn name_in_library(label: &str) -> &str {
    const JAPANESE: [&str; 4] = [ISO_2022_JP, "cp50220", "cp50221", "cp50222"];
    if JAPANESE.iter().any(|name| label.starts_with(name)) {
        ISO_2022_JP
    } else {
        label
    }
}

fn guessed(bytes: &[u8]) -> String {
    let decode = charset_decoder(b"windows-1252").filter(|_| !is_mostly_utf8(bytes));
    decode.map_or_else(
        || String::from_utf8_lossy(bytes).into_owned(),
        |decode| decode(bytes),
    )
}

/// Reports whether more of the bytes beyond ASCII form UTF-8 characters than do not: one byte that
/// was damaged or cut in transit must not decide for the rest of the text. In Windows-1252 such
/// characters would be accidents like `Ã©`.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut characters, mut strays) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        strays += usize::from(!chunk.invalid().is_empty());
    }
    strays == 0 || characters > strays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_byte_takes_no_text_along_and_latin_text_stays_latin() {
        let cases: [(&str, &[u8], &str); 11] = [
            (
                "utf-8",
                "Frühstück für zwei".as_bytes(),
                "Frühstück für zwei",
            ),
            (
                "utf-8",
                b"Fr\xc3\xbchst\xc3\xbcck f\xfcr",
                "Frühstück f\u{fffd}r",
            ),
            (
                "",
                b"caf\xc3\xa9, na\xc3\xafve \xe2\x82",
                "café, naïve \u{fffd}",
            ),
            ("us-ascii", b"\xe3\x81\x82\xe3\x81\x84\xff", "あい\u{fffd}"),
            ("utf-8", b"Fr\xfchst\xfcck", "Frühstück"),
            ("", b"\x93Hi\x94 \xfc", "“Hi” ü"),
            ("windows-1252", b"Fr\xfchst\xfcck", "Frühstück"),
            ("ISO-2022-JP", "朝食".as_bytes(), "朝食"),
            ("iso-2022-jp", b"\x1b$BD+?)\x1b(B!", "朝食!"),
            ("ISO-2022-JP-MS", b"\x1b$BD+?)\x1b(B!", "朝食!"),
            ("iso-2022-jp", b"\x1b$BD+\x1b(B\x1b$B?)\x1b(B", "朝食"),
        ];
        for (label, bytes, text) in cases {
            assert_eq!(decoded(label, bytes), text, "{label} {bytes:?}");
        }
    }
}
