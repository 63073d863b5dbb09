//! From bytes in a charset to text: by the label, unless the bytes contradict it.
//!
//! `encoding_rs`, behind mail-parser, has what browsers know. Mail has more: names that only mail programs write, code pages
//! of DOS, and charsets that browsers refuse because they hide scripts, which matters to no letter here. Bytes whose label
//! says nothing are looked at by a detector; the same bytes always make the same text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use mail_parser::decoders::charsets::map::charset_decoder;
use yore::{CodePage, code_pages as dos};

/// Decodes `bytes` by a charset's label. Without a usable label they are UTF-8 if they look like
/// it, else what a detector takes them for.
pub fn decoded(label: &str, bytes: &[u8]) -> String {
    let label = label.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    // Programs without charset support write ASCII as the label of any bytes.
    let is_silent = matches!(label.as_str(), "us-ascii" | "ascii" | "ansi_x3.4-1968");
    // A seven-bit charset has no such bytes: the program converted the text and left the label.
    let is_impossible = is_seven_bit(&label) && !bytes.is_ascii();
    if is_silent || is_impossible {
        return guessed(bytes);
    }
    let known = known(&label);
    match known {
        Some(Known::Named(ISO_2022_JP)) => {
            library(ISO_2022_JP, &without_idle_escapes(bytes)).unwrap_or_else(|| guessed(bytes))
        }
        Some(Known::Named(name)) => library(name, bytes).unwrap_or_else(|| guessed(bytes)),
        Some(Known::Dos(page)) => page.decode_lossy(bytes).into_owned(),
        Some(Known::Shifted(read)) => read(bytes),
        None => library(&label, bytes).unwrap_or_else(|| guessed(bytes)),
    }
}

/// Decodes bytes of a header that has no encoded word for them: UTF-8 if they look like it, else by the charset of the
/// letter's text, else as [`decoded`] guesses.
pub(in crate::mime) fn decoded_raw(label: &str, bytes: &[u8]) -> String {
    match is_mostly_utf8(bytes) {
        true => String::from_utf8_lossy(bytes).into_owned(),
        false => decoded(label, bytes),
    }
}

/// A charset under a name that the library does not have.
enum Known {
    /// The library's name for it.
    Named(&'static str),
    Dos(&'static dyn CodePage),
    Shifted(fn(&[u8]) -> String),
}

const ISO_2022_JP: &str = "iso-2022-jp";

/// Names that mail programs write, without punctuation, and the library's name.
const NAMES: [(&str, &[&str]); 10] = [
    (
        "shift_jis",
        &[
            "cp932",
            "ms932",
            "windows932",
            "cswindows31j",
            "windows31j",
            "ibm943",
            "cp943",
            "ibm942",
            "cp942",
            "sjiswin",
            "shiftjis",
            "xmscp932",
            "shiftjisms",
            "xsjiscp932",
        ],
    ),
    (
        "euc-jp",
        &[
            "eucjpms",
            "eucjpwin",
            "eucjp",
            "ujis",
            "cp51932",
            "xeucjp",
            "eucjpopen",
        ],
    ),
    (
        "euc-kr",
        &[
            "cp949",
            "ms949",
            "uhc",
            "xuhc",
            "xwindows949",
            "windows949",
            "ibm949",
            "cp51949",
            "ksc5601",
            "ksc56011987",
            "ksc56011992",
            "euckr",
            "xeuckr",
            "ksx1001",
            "eucksc",
        ],
    ),
    (
        "gb18030",
        &[
            "euccn",
            "xeuccn",
            "eucgb2312cn",
            "cp936",
            "windows936",
            "ms936",
            "ibm936",
            "gb2312",
            "gb231280",
            "xgb2312",
            "gbk",
            "cp54936",
            "gb180302000",
            "chinesegb",
            "ccgb",
        ],
    ),
    (
        "big5",
        &[
            "cp950",
            "ms950",
            "windows950",
            "xwindows950",
            "ibm950",
            "big5eten",
            "bigfive",
            "cp951",
            "xbig5",
        ],
    ),
    ("koi8-r", &["koi8r", "cp878", "koi8rfc1489"]),
    ("koi8-u", &["koi8u", "koi8ru", "cp21866"]),
    (
        "macintosh",
        &["xmacintosh", "applemacintosh", "macroman", "cp10000"],
    ),
    (
        "utf-7",
        &["utf7", "unicode11utf7", "csutf7", "csunicode11utf7"],
    ),
    ("utf-16", &["utf16", "ucs2", "xutf16"]),
];

/// Finds a charset by the letters and digits of its label.
fn known(label: &str) -> Option<Known> {
    if [
        "iso-2022-jp",
        "cp50220",
        "cp50221",
        "cp50222",
        "csiso2022jp",
    ]
    .iter()
    .any(|name| label.starts_with(name))
    {
        return Some(Known::Named(ISO_2022_JP));
    }
    let name: String = label.chars().filter(char::is_ascii_alphanumeric).collect();
    let named = NAMES
        .iter()
        .find(|(_, names)| names.contains(&name.as_str()))
        .map(|(library, _)| *library);
    if let Some(library) = named.or_else(|| numbered(&name)) {
        return Some(Known::Named(library));
    }
    let shifted: fn(&[u8]) -> String = match name.as_str() {
        "iso2022kr" | "csiso2022kr" | "cp50225" => korean_by_shifts,
        "hzgb2312" | "hz" | "cp52936" => chinese_by_tildes,
        "johab" | "xjohab" | "cp1361" | "ms1361" | "ksc5601johab" => johab,
        "utf32" | "utf32be" | "utf32le" | "ucs4" | "iso10646ucs4" | "xutf32" => utf_32,
        "cp858" | "ibm858" | "cp00858" | "ibm00858" | "ccsid00858" | "pcmultilingual850euro" => {
            western_with_euro
        }
        _ => return page(&name).map(Known::Dos),
    };
    Some(Known::Shifted(shifted))
}

/// Finds what mail programs write with a number: `win-1251`, `latin9`, `8859-15`.
fn numbered(name: &str) -> Option<&'static str> {
    const WINDOWS: [&str; 10] = [
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "windows-1253",
        "windows-1254",
        "windows-1255",
        "windows-1256",
        "windows-1257",
        "windows-1258",
        "windows-874",
    ];
    const ISO: [&str; 14] = [
        "iso-8859-1",
        "iso-8859-2",
        "iso-8859-3",
        "iso-8859-4",
        "iso-8859-5",
        "iso-8859-6",
        "iso-8859-7",
        "iso-8859-8",
        "iso-8859-9",
        "iso-8859-10",
        "iso-8859-13",
        "iso-8859-14",
        "iso-8859-15",
        "iso-8859-16",
    ];
    /// Parts of ISO 8859 of `latin1` to `latin10`.
    const LATIN: [&str; 10] = ["1", "2", "3", "4", "9", "10", "13", "14", "15", "16"];
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let word = &name[..name.len() - number.len()];
    let of_iso = |part: &str| {
        ISO.iter()
            .find(|iso| iso.strip_prefix("iso-8859-") == Some(part))
            .copied()
    };
    match word {
        "win" | "windows" | "cp" | "ms" | "xcp" | "xwin" | "xwindows" | "cswindows" | "ibm"
        | "ansi" | "mswin" => WINDOWS
            .iter()
            .find(|windows| windows.strip_prefix("windows-") == Some(number))
            .copied(),
        "latin" | "l" | "isolatin" | "csisolatin" | "xlatin" => {
            let index = number.parse::<usize>().ok()?.checked_sub(1)?;
            of_iso(LATIN.get(index)?)
        }
        "iso" | "xiso" | "" => of_iso(number.strip_prefix("8859")?),
        _ => None,
    }
}

/// Finds a code page of DOS by its number.
fn page(name: &str) -> Option<&'static dyn CodePage> {
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let word = &name[..name.len() - number.len()];
    if ![
        "", "cp", "ibm", "dos", "pc", "cspc", "csibm", "oem", "ccsid", "ms", "xcp", "xibm",
    ]
    .contains(&word)
    {
        return None;
    }
    let number = number.trim_start_matches('0');
    let digits = number
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(number.len());
    Some(match &number[..digits] {
        "437" => &dos::CP437,
        "737" => &dos::CP737,
        "850" => &dos::CP850,
        "852" => &dos::CP852,
        "855" => &dos::CP855,
        "857" => &dos::CP857,
        "860" => &dos::CP860,
        "861" => &dos::CP861,
        "862" => &dos::CP862,
        "863" => &dos::CP863,
        "864" => &dos::CP864,
        "865" => &dos::CP865,
        "866" => &dos::CP866,
        "869" => &dos::CP869,
        _ => return None,
    })
}

/// Decodes code page 858, which is 850 with a euro sign in place of the dotless i.
fn western_with_euro(bytes: &[u8]) -> String {
    dos::CP850.decode(bytes).replace('ı', "€")
}

fn library(name: &str, bytes: &[u8]) -> Option<String> {
    charset_decoder(name.as_bytes()).map(|decode| decode(bytes))
}

/// Decodes ISO-2022-KR (RFC 1557): between SO and SI the seven-bit form of EUC-KR, behind one escape sequence.
fn korean_by_shifts(bytes: &[u8]) -> String {
    const HEADER: &[u8] = b"\x1b$)C";
    let (mut plain, mut is_shifted, mut rest) = (Vec::with_capacity(bytes.len()), false, bytes);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            0x1b if after.starts_with(&HEADER[1..]) => rest = &after[HEADER.len() - 1..],
            0x0e => is_shifted = true,
            0x0f => is_shifted = false,
            // A line ends what a lost SI left open.
            b'\n' => {
                is_shifted = false;
                plain.push(*byte);
            }
            0x21..=0x7e if is_shifted => plain.push(byte | 0x80),
            _ => plain.push(*byte),
        }
    }
    library("euc-kr", &plain).unwrap_or_default()
}

/// Decodes HZ (RFC 1843): between `~{` and `~}` the seven-bit form of GB 2312.
fn chinese_by_tildes(bytes: &[u8]) -> String {
    let (mut plain, mut is_shifted, mut rest) = (Vec::with_capacity(bytes.len()), false, bytes);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.first()) {
            (b'~', Some(b'{')) if !is_shifted => (is_shifted, rest) = (true, &after[1..]),
            (b'~', Some(b'}')) if is_shifted => (is_shifted, rest) = (false, &after[1..]),
            (b'~', Some(b'~')) if !is_shifted => {
                plain.push(b'~');
                rest = &after[1..];
            }
            // A tilde at a line's end joins it with the next one.
            (b'~', Some(b'\n')) if !is_shifted => rest = &after[1..],
            (b'\n', _) => {
                is_shifted = false;
                plain.push(*byte);
            }
            (0x21..=0x7e, _) if is_shifted => plain.push(byte | 0x80),
            _ => plain.push(*byte),
        }
    }
    library("gb18030", &plain).unwrap_or_default()
}

/// Decodes the syllables of Johab (KS C 5601-1992 annex 3), each three fields of five bits; its signs and Chinese characters
/// are not told apart.
fn johab(bytes: &[u8]) -> String {
    let vowel = |field: u32| match field {
        3..=7 => Some(field - 3),
        10..=15 => Some(field - 5),
        18..=23 => Some(field - 7),
        26..=29 => Some(field - 9),
        _ => None,
    };
    let last = |field: u32| match field {
        1..=17 => Some(field - 1),
        19..=29 => Some(field - 2),
        _ => None,
    };
    let (mut text, mut rest) = (String::with_capacity(bytes.len()), bytes);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let pair = after.first().filter(|_| *byte >= 0x80);
        let Some(second) = pair else {
            text.push(match byte.is_ascii() {
                true => char::from(*byte),
                false => char::REPLACEMENT_CHARACTER,
            });
            continue;
        };
        rest = &after[1..];
        let code = u32::from(*byte) << 8 | u32::from(*second);
        let first = (code >> 10 & 31).checked_sub(2).filter(|first| *first < 19);
        let syllable = first
            .zip(vowel(code >> 5 & 31))
            .zip(last(code & 31))
            .and_then(|((first, vowel), last)| {
                char::from_u32(0xac00 + (first * 21 + vowel) * 28 + last)
            });
        text.push(syllable.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Decodes UTF-32 of the order that its mark says, else of the order in which more of it is characters.
fn utf_32(bytes: &[u8]) -> String {
    let units = |read: fn([u8; 4]) -> u32| -> Vec<Option<char>> {
        let (fours, _) = bytes.as_chunks::<4>();
        fours
            .iter()
            .map(|four| char::from_u32(read(*four)))
            .collect()
    };
    let (big, little) = (units(u32::from_be_bytes), units(u32::from_le_bytes));
    let good = |chars: &[Option<char>]| chars.iter().flatten().count();
    let chars = if good(&little) > good(&big) {
        little
    } else {
        big
    };
    chars
        .into_iter()
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .filter(|c| *c != '\u{feff}')
        .collect()
}

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
    ["iso-2022-", "csiso2022", "hz", "utf-7", "unicode-1-1-utf-7"]
        .iter()
        .any(|name| label.starts_with(name))
}

/// Bytes beyond ASCII below which no detector is asked: of a few it makes too much.
const DETECTED_BYTES_MIN: usize = 4;
/// Bytes, from the first beyond ASCII on, that the detector reads.
const DETECTOR_BYTES_MAX: usize = 64 * 1024;

/// Decodes bytes without a usable label: UTF-8, else what the detector of Firefox takes them for, else Windows-1252.
fn guessed(bytes: &[u8]) -> String {
    if is_mostly_utf8(bytes) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let beyond = bytes.iter().filter(|byte| !byte.is_ascii());
    if beyond.take(DETECTED_BYTES_MIN).count() < DETECTED_BYTES_MIN {
        return library("windows-1252", bytes).unwrap_or_default();
    }
    let first = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
    // A letter before it says more about the character than the character alone.
    let start = &bytes[first.saturating_sub(1)..];
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(
        &start[..start.len().min(DETECTOR_BYTES_MAX)],
        start.len() <= DETECTOR_BYTES_MAX,
    );
    let encoding = detector.guess(None, Utf8Detection::Deny);
    encoding.decode_without_bom_handling(bytes).0.into_owned()
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
