//! Documents made to hurt, by number: the n-th is always the same. Shapes are those of reports about the decoders that are
//! used (pdf-extract #96, #128; lopdf #532), of zip bombs, and of everything cut off or changed.

use super::made::{docx, docx_of, odt, pdf, pdf_of, pptx, sheet_of, xlsx, zipped};
use std::io::{Cursor, Write};
use zip::write::{SimpleFileOptions, ZipWriter};

/// Numbers without a pattern, from a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// A family of files: its name, and how one is made.
type Family = (&'static str, fn(&mut Dice) -> Vec<u8>);

/// Families of large or slow files, of which there are few.
pub const RARE: [Family; 4] = [
    ("a million entries", million_entries),
    ("1 to 10,000", overlapping_zip),
    ("a billion cells", billion_cells),
    ("1 to 1,000 in a stream", pdf_stream_bomb),
];
pub const COMMON: [Family; 7] = [
    ("cut at a percent", cut),
    ("changed bytes", changed),
    ("a PDF with a wrong object", wrong_object),
    ("a PDF with a wrong table", wrong_table),
    ("a PDF with a circle", circle),
    ("mail in mail", nested_mail),
    ("markup without end", deep_markup),
];

/// The n-th file with the name of its family: one of twenty is of a rare one.
pub fn file(number: usize) -> (&'static str, Vec<u8>) {
    let mut dice = Dice(number as u64 + 1);
    let (name, make) = match number % 20 {
        0 => RARE[number / 20 % RARE.len()],
        _ => COMMON[number % COMMON.len()],
    };
    (name, make(&mut dice))
}

/// A good document of some kind.
fn good(dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => pdf(&[&["Rechnung 4711", "Summe 12"], &["Seite zwei"]]),
        1 => docx(&["Eins", "Zwei", "Drei"]),
        2 => xlsx(&[("One", &[&["a", "=1+1"], &["b", "2"]])]),
        3 => pptx(&[("Folie", Some("Notiz")), ("Zwei", None)]),
        4 => odt(&["Ein Absatz", "Noch einer"]),
        5 => b"<html><body><p>Menu</p><table><tr><td>Soup</td></tr></table></body></html>".to_vec(),
        6 => nested_mail(dice),
        _ => b"\xff\xfeP\0K\0\x03\0\x04\0a\0".repeat(40),
    }
}

fn cut(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = good(dice);
    let percent = dice.below(100);
    bytes.truncate(bytes.len() * percent / 100);
    bytes
}

fn changed(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = good(dice);
    for _ in 0..=dice.below(20) {
        let at = dice.below(bytes.len());
        match dice.below(3) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.insert(at, dice.below(256) as u8),
            _ => {
                let end = (at + 1 + dice.below(40)).min(bytes.len());
                let piece: Vec<u8> = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Values that a decoder may not expect where they stand.
const ODD: [&str; 16] = [
    "null",
    "-1",
    "99999999999999999999",
    "-2147483649",
    "1e309",
    "()",
    "<>",
    "[]",
    "<< >>",
    "/Nope",
    "9 9 R",
    "1 0 R",
    "[[[[[[[[0]]]]]]]]",
    "(\\777\\0\\)",
    "<FEFFD800>",
    "true",
];

/// A font, a page or a text that is not what it says (the files of pdf-extract #96).
fn wrong_object(dice: &mut Dice) -> Vec<u8> {
    let text = dice.of(&[
        "BT /F1 12 Tf (Hello) Tj ET",
        "BT /F1 Tf Tj ET",
        "BT /F9 12 Tf (x) Tj [(a) -9999999 (b)] TJ ET",
        "q q q Q Q Q Q Q",
        "BT /F1 1e38 Tf 1e38 0 0 1e38 1e38 1e38 Tm (x) Tj ET",
        "BI /W 99999999 /H 99999999 ID x EI",
        "/F Do /F Do",
        "BT <00> Tj <ZZ> Tj (\\",
        "1 0 0 1",
        "BT /F1 12 Tf (x) ' (y) \" ET",
    ]);
    let cmap = dice.of(&[
        "beginbfrange <00> <FFFFFFFF> <0000> endbfrange",
        "beginbfrange <FF> <00> [<00>] endbfrange",
        "beginbfchar <00> <> endbfchar",
        "begincodespacerange <> <FF> endcodespacerange",
        "1 beginbfrange",
        "<<<<<<<<",
    ]);
    let mut font = String::from("<< /Type /Font");
    for key in [
        "Subtype",
        "BaseFont",
        "Encoding",
        "FirstChar",
        "LastChar",
        "Widths",
        "DescendantFonts",
        "FontDescriptor",
        "FontMatrix",
        "CharProcs",
    ] {
        if dice.below(2) == 0 {
            let value = match (key, dice.below(3)) {
                ("Subtype", 0) => dice.of(&["/Type0", "/Type1", "/TrueType", "/Type3"]),
                ("Encoding", 0) => dice.of(&[
                    "/Identity-H",
                    "<< /Differences [0 /a 300 /b (x) -5 /c] >>",
                    "/WinAnsiEncoding",
                ]),
                _ => dice.of(&ODD),
            };
            font.push_str(&format!(" /{key} {value}"));
        }
    }
    font.push_str(" /ToUnicode 6 0 R >>");
    let stream = |text: &str| {
        format!("<< /Length {} >>\nstream\n{text}\nendstream", text.len()).into_bytes()
    };
    pdf_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox {} /Rotate {} /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
            dice.of(&["[0 0 595 842]", "[0 0 0 0]", "[1e38 -1e38 9 9]", "[0]", "null"]),
            dice.of(&ODD)
        )
        .into_bytes(),
        stream(text),
        font.into_bytes(),
        stream(cmap),
    ])
}

/// Tables of objects, object streams and filters with numbers that lie (the shapes of lopdf #532).
fn wrong_table(dice: &mut Dice) -> Vec<u8> {
    let filter = dice.of(&[
        "/FlateDecode",
        "/LZWDecode",
        "/ASCII85Decode",
        "/ASCIIHexDecode",
        "/RunLengthDecode",
        "[/FlateDecode /FlateDecode /FlateDecode /LZWDecode /ASCII85Decode]",
        "/Crypt",
        "null",
    ]);
    let parameters = dice.of(&[
        "<< /Predictor 15 /Columns 0 >>",
        "<< /Predictor 12 /Columns 2147483647 /Colors 99 /BitsPerComponent 99 >>",
        "<< /Predictor 2 /Columns -1 >>",
        "[null null << >>]",
        "null",
    ]);
    let widths = dice.of(&[
        "[1 2 1]",
        "[0 0 0]",
        "[-1 2 1]",
        "[9 9 9]",
        "[1 4294967296 1]",
        "[]",
        "[1]",
    ]);
    let index = dice.of(&["[0 1]", "[0 -1]", "[0 999999999]", "[5]", "[-9 9]", "null"]);
    let size = dice.of(&["6", "0", "-1", "2147483647", "1"]);
    let length = dice.of(&["40", "-1", "0", "99999999", "1 0 R", "null"]);
    let (count, first) = (
        dice.of(&["1", "-1", "99999999", "0"]),
        dice.of(&["4", "-4", "99999999", "0"]),
    );
    let bytes: Vec<u8> = (0..40).map(|_| dice.below(256) as u8).collect();
    let mut file = format!(
        "%PDF-1.5\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n\
         4 0 obj\n<< /Type /ObjStm /N {count} /First {first} /Length {length} /Filter {filter} /DecodeParms {parameters} >>\nstream\n"
    )
    .into_bytes();
    file.extend_from_slice(&bytes);
    file.extend_from_slice(b"\nendstream\nendobj\n");
    let at = file.len();
    file.extend_from_slice(
        format!(
            "5 0 obj\n<< /Type /XRef /Size {size} /W {widths} /Index {index} /Root 1 0 R /Length {length} /Filter {filter} /DecodeParms {parameters} /Prev {} >>\nstream\n",
            dice.of(&["0", "9", "-1", "99999999", "null"])
        )
        .as_bytes(),
    );
    file.extend_from_slice(&bytes);
    let start = [at, 0, at + 1, usize::MAX / 2][dice.below(4)];
    file.extend_from_slice(format!("\nendstream\nendobj\nstartxref\n{start}\n%%EOF\n").as_bytes());
    file
}

/// Objects that lead back to themselves: pages, forms, names, lengths, and nested arrays and dictionaries.
fn circle(dice: &mut Dice) -> Vec<u8> {
    let depth = 1 << dice.below(15);
    // The second keeps a decoder busy until its time is over, so it is rare.
    let shape = [0, 0, 0, 0, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 1][dice.below(20)];
    let pages = match shape {
        0 => "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9999999 >>".to_owned(),
        1 => "<< /Type /Pages /Kids [3 0 R 3 0 R 2 0 R] /Count -1 >>".to_owned(),
        2 => "2 0 R".to_owned(),
        3 => format!(
            "<< /Type /Pages /Kids {}{} /Count 1 >>",
            "[".repeat(depth),
            "]".repeat(depth)
        ),
        4 => format!(
            "<< /Type /Pages /Kids [3 0 R] /Count 1 /X {}{} >>",
            "<< /X ".repeat(depth),
            ">>".repeat(depth)
        ),
        _ => "<< /Type /Pages /Kids 3 0 R /Count 1 /Parent 2 0 R >>".to_owned(),
    };
    let form = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 5 0 R /G 4 0 R >> >> /Length 12 >>\nstream\n/F Do /G Do \nendstream";
    pdf_of(&[
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 1 0 R /Names 1 0 R >>".to_vec(),
        pages.into_bytes(),
        b"<< /Type /Page /Parent 3 0 R /Contents [4 0 R 4 0 R] /Resources << /XObject << /F 5 0 R >> /Font << /F1 3 0 R >> >> >>".to_vec(),
        b"<< /Length 4 0 R >>\nstream\n/F Do\nendstream".to_vec(),
        form.as_bytes().to_vec(),
    ])
}

fn nested_mail(dice: &mut Dice) -> Vec<u8> {
    let mut nested =
        b"From: a@b.test\r\nDate: x\r\nSubject: deepest\r\n\r\ndeepest words\r\n".to_vec();
    for depth in 0..1 + dice.below(60) {
        let boundary = dice.of(&["b", "", "bb"]);
        let head = format!(
            "From: a@b.test\r\nDate: x\r\nSubject: {depth}\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary=\"{boundary}{depth}\"\r\n\r\n--{boundary}{depth}\r\n\
             Content-Type: message/rfc822\r\nContent-Disposition: attachment; filename=m.eml\r\n\r\n"
        );
        nested = [
            head.as_bytes(),
            &nested,
            format!("\r\n--{boundary}{depth}--\r\n").as_bytes(),
        ]
        .concat();
    }
    nested
}

fn deep_markup(dice: &mut Dice) -> Vec<u8> {
    let depth = 1 << dice.below(18);
    match dice.below(5) {
        0 => format!("<html>{}", "<div>".repeat(depth)).into_bytes(),
        1 => format!("<html>{}", "<a href='x'><table><tr><td>".repeat(depth / 8)).into_bytes(),
        2 => docx_of(&"<w:p>".repeat(depth)),
        3 => docx_of(&"<w:p><w:r><w:t>x</w:t></w:r></w:p>".repeat(depth)),
        _ => docx_of(&format!(
            "<!DOCTYPE d [<!ENTITY a \"{}\">]>{}",
            "a".repeat(1000),
            "&a;".repeat(depth.min(4096))
        )),
    }
}

/// An archive of a directory alone: a million entries are more bytes than are read at all, six hundred thousand are not.
fn million_entries(dice: &mut Dice) -> Vec<u8> {
    let (entries, claimed) = [
        (1_000_000, 1_000_000),
        (600_000, 600_000),
        (60_000, 1_000_000),
    ][dice.below(3)];
    let mut file = b"PK\x03\x04".to_vec();
    file.resize(30, 0);
    let at = file.len();
    let mut entry = b"PK\x01\x02".to_vec();
    entry.resize(46, 0);
    file.extend(entry.repeat(entries));
    let size = (file.len() - at) as u32;
    file.extend(end_of_zip(claimed, size, at as u32));
    file
}

/// The end of an archive, with the two records of one of many files (APPNOTE 4.3.14 to 4.3.16).
fn end_of_zip(entries: u64, size: u32, at: u32) -> Vec<u8> {
    let mut end = Vec::new();
    let short = u16::try_from(entries)
        .ok()
        .filter(|short| *short < u16::MAX);
    if short.is_none() {
        end.extend(b"PK\x06\x06");
        end.extend(44_u64.to_le_bytes());
        end.extend([45, 0, 45, 0]);
        end.extend([0; 8]);
        for number in [entries, entries, u64::from(size), u64::from(at)] {
            end.extend(number.to_le_bytes());
        }
        end.extend(b"PK\x06\x07\0\0\0\0");
        end.extend(u64::from(at + size).to_le_bytes());
        end.extend(1_u32.to_le_bytes());
    }
    end.extend(b"PK\x05\x06\0\0\0\0");
    let short = short.unwrap_or(u16::MAX).to_le_bytes();
    end.extend([short, short].concat());
    let (size, at) = match entries {
        0..0xffff => (size, at),
        _ => (u32::MAX, u32::MAX),
    };
    end.extend(size.to_le_bytes());
    end.extend(at.to_le_bytes());
    end.extend([0, 0]);
    end
}

/// Many names of one packed file, so that a few kilobytes unpack to ten thousand times as much.
fn overlapping_zip(dice: &mut Dice) -> Vec<u8> {
    let inner = 1 << (20 + dice.below(5));
    let one = packed("word/document.xml", &vec![b' '; inner]);
    // Header, data and the only directory entry of the archive.
    let directory = find(&one, b"PK\x01\x02");
    let end = find(&one, b"PK\x05\x06");
    let (data, entry) = (&one[..directory], &one[directory..end]);
    let copies = 40;
    let mut file = data.to_vec();
    let at = file.len();
    for copy in 0..copies {
        let mut named = entry.to_vec();
        if copy > 0 {
            let name = named.len() - 1;
            named[name] = b'a' + (copy % 26) as u8;
        }
        file.extend(named);
    }
    let size = (file.len() - at) as u32;
    file.extend(end_of_zip(copies as u64, size, at as u32));
    file
}

fn packed(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    writer.start_file(name, options).expect("a file");
    writer.write_all(bytes).expect("bytes");
    writer.finish().expect("a zip").into_inner()
}

/// A stream as PDF has it (RFC 1950), made of the packed data of an archive.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let archive = packed("x", bytes);
    let data = &archive[31..find(&archive, b"PK\x01\x02")];
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let sum = (b << 16) | a;
    [&[0x78, 0xda], data, &sum.to_be_bytes()].concat()
}

fn find(bytes: &[u8], mark: &[u8]) -> usize {
    let at = bytes.windows(mark.len()).position(|window| window == mark);
    at.expect("the mark")
}

fn billion_cells(dice: &mut Dice) -> Vec<u8> {
    let rows = match dice.below(3) {
        0 => "<row r=\"1048576\"><c r=\"XFD1048576\"><v>1</v></c></row><row r=\"1\"><c r=\"A1\"><v>1</v></c></row>".to_owned(),
        1 => (1..40_000).map(|row| format!("<row r=\"{row}\"><c r=\"XFD{row}\"><v>1</v></c></row>")).collect(),
        _ => "<row r=\"1\" spans=\"1:16384\"><c r=\"A1\" t=\"s\"><v>999999999</v></c></row><row r=\"-1\"><c r=\"ZZZZZZZ99999999999\"><v>1</v></c></row>".to_owned(),
    };
    with_sheet(&sheet_of(&rows))
}

/// A workbook whose only sheet is this XML.
pub fn with_sheet(sheet: &str) -> Vec<u8> {
    let book = xlsx(&[("One", &[&["x"]])]);
    let mut archive = zip::ZipArchive::new(Cursor::new(book)).expect("a zip");
    let mut files = Vec::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("a file");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).expect("bytes");
        let name = file.name().expect("a name").into_owned();
        if name.contains("sheet1") {
            bytes = sheet.as_bytes().to_vec();
        }
        files.push((name, bytes));
    }
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    zipped(&files)
}

/// A page whose text is packed a thousand times smaller.
fn pdf_stream_bomb(dice: &mut Dice) -> Vec<u8> {
    let text = dice.of(&["BT (x) Tj ET ", " ", "q "]);
    let whole = text.repeat((1 << (22 + dice.below(4))) / text.len());
    let packed = zlib(whole.as_bytes());
    let mut stream = format!(
        "<< /Filter /FlateDecode /Length {} >>\nstream\n",
        packed.len()
    )
    .into_bytes();
    stream.extend(packed);
    stream.extend(b"\nendstream");
    pdf_of(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << >> >>"
            .to_vec(),
        stream,
    ])
}
