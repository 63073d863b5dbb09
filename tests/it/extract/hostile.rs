//! Documents made to hurt: each is read or refused within its bounds, and the engine's memory stays as it was; D-1.

use super::crafted::with_sheet;
use super::extractor;
use super::made::{docx, docx_of, pdf, pdf_of, sheet_of, xlsx, zipped};
use attache::extract::ExtractError;
use std::time::Instant;

/// Resident memory of this process in bytes, without the pages of files (proc(5), `status`): those of the program
/// itself come in as its code is run for the first time.
pub fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    let kilobytes: u64 = kilobytes
        .and_then(|text| text.parse().ok())
        .expect("a number");
    kilobytes * 1024
}

/// Files that are made to be large, deep, endless or wrong.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = archives();
    all.extend(workbooks());
    all.extend(pdfs());
    let encrypted = {
        let mut bytes = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
        bytes.resize(2_000, 0);
        bytes.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
        bytes
    };
    let deep_html = format!("<html>{}", "<div>".repeat(100_000)).into_bytes();
    all.extend([
        ("forty mails in each other", nested_mail()),
        ("a hundred thousand tags", deep_html),
        ("a container of an encrypted file", encrypted),
    ]);
    all
}

fn archives() -> Vec<(&'static str, Vec<u8>)> {
    let zeros = vec![b' '; 60_000_000];
    let mut inflating = b"<w:document><w:body><w:p><w:r><w:t>".to_vec();
    inflating.extend_from_slice(&zeros);
    let names: Vec<String> = (0..3_000).map(|n| format!("f{n}")).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    let entity = b"<!DOCTYPE d [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]><w:document><w:p><w:t>&b;</w:t></w:p></w:document>";
    let word = |document: &[u8]| {
        zipped(&[
            ("[Content_Types].xml", b""),
            ("word/document.xml", document),
        ])
    };
    let book = zipped(&[("[Content_Types].xml", b""), ("xl/workbook.xml", &zeros)]);
    vec![
        ("a zip of 1 to 1,000", word(&inflating)),
        ("a workbook that inflates", book),
        ("three thousand files", zipped(&entries)),
        (
            "a hundred thousand elements",
            docx_of(&"<w:p>".repeat(100_000)),
        ),
        ("entities of entities", word(entity)),
    ]
}

fn workbooks() -> Vec<(&'static str, Vec<u8>)> {
    let row = |row: u32| format!("<row r=\"{row}\"><c r=\"A{row}\"><v>1</v></c></row>");
    let many_rows: String = (1..200_000).map(row).collect();
    let far = sheet_of(
        "<row r=\"1048576\"><c r=\"XFD1048576\"><v>1</v></c></row><row r=\"1\"><c r=\"A1\"><v>1</v></c></row>",
    );
    vec![
        ("a cell a billion away", with_sheet(&far)),
        (
            "two hundred thousand rows",
            with_sheet(&sheet_of(&many_rows)),
        ),
    ]
}

fn nested_mail() -> Vec<u8> {
    let mut nested =
        b"From: a@b.test\r\nTo: a@b.test\r\nDate: x\r\nSubject: deepest\r\n\r\ndeepest words\r\n"
            .to_vec();
    for depth in 0..40 {
        let boundary = format!("b{depth}");
        let head = format!(
            "From: a@b.test\r\nTo: a@b.test\r\nDate: x\r\nSubject: {depth}\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/mixed; boundary={boundary}\r\n\r\n--{boundary}\r\n\
             Content-Type: message/rfc822\r\nContent-Disposition: attachment; filename=m.eml\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        nested = [head.as_bytes(), &nested, tail.as_bytes()].concat();
    }
    nested
}

fn pdfs() -> Vec<(&'static str, Vec<u8>)> {
    let catalogue = || b"<< /Type /Catalog /Pages 2 0 R >>".to_vec();
    let own_parents = b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9999999 >>".to_vec();
    let brackets = [
        b"<< /Type /Catalog /Pages ".to_vec(),
        b"[".repeat(100_000),
        b">>".to_vec(),
    ]
    .concat();
    let draws_itself = pdf_of(&[
        catalogue(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /F 5 0 R >> >> >>".to_vec(),
        b"<< /Length 5 >>\nstream\n/F Do\nendstream".to_vec(),
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 5 0 R >> >> /Length 5 >>\nstream\n/F Do\nendstream".to_vec(),
    ]);
    let old_xref = b"%PDF-1.4\nxref\n0 1\n0000000000 65535 f \ntrailer << /Size 1 /Prev 9 /Root 1 0 R >>\nstartxref\n9\n%%EOF".to_vec();
    vec![
        (
            "pages that are their own parents",
            pdf_of(&[catalogue(), own_parents]),
        ),
        (
            "objects that are each other",
            pdf_of(&[b"2 0 R".to_vec(), b"1 0 R".to_vec()]),
        ),
        ("a hundred thousand brackets", pdf_of(&[brackets])),
        ("a form that draws itself", draws_itself),
        ("a table before itself", old_xref),
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn bombs_are_refused_or_read_within_their_bounds() {
    let reader = extractor();
    let bombs = bombs();
    let before = resident();
    for (name, bytes) in &bombs {
        let began = Instant::now();
        let read = reader.extract(bytes, "application/octet-stream").await;
        let took = began.elapsed();
        let said = match &read {
            Ok(read) => format!(
                "read: {} bytes, {:?}",
                read.text.as_deref().map_or(0, str::len),
                read.notes
            ),
            Err(ExtractError::NotStarted(why)) => panic!("{name}: {why}"),
            Err(error) => format!("refused: {error}"),
        };
        println!("D-1: {name}: {} ms, {said}", took.as_millis());
        assert!(took.as_secs() < 21, "{name}: {took:?}");
        let length = read.map_or(0, |read| read.text.map_or(0, |text| text.len()));
        assert!(length <= 1 << 20, "{name}");
    }
    let grown = resident().saturating_sub(before);
    println!(
        "D-1: {} bombs, this process grew by {} kB",
        bombs.len(),
        grown / 1024
    );
    // The process of the tests is shared: other tests may grow it by as much again.
    assert!(grown < 200 << 20, "{grown}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_bomb_is_named_for_what_it_is() {
    let by_name: std::collections::BTreeMap<_, _> = bombs().into_iter().collect();
    for (name, why) in [
        ("a zip of 1 to 1,000", "too large when unpacked"),
        ("three thousand files", "more than 2000 files"),
        ("a container of an encrypted file", "encrypted"),
        ("a hundred thousand elements", "256 deep"),
    ] {
        let refused = extractor().extract(&by_name[name], "").await;
        let said = refused.expect_err(name).to_string();
        assert!(said.contains(why), "{name}: {said}");
    }
}

/// Every document that is read, cut off after each percent, and with one byte of it changed.
#[tokio::test]
#[ignore = "second tier"]
async fn whatever_is_cut_or_changed_ends_in_a_sentence() {
    let files: usize =
        std::env::var("ATTACHE_EXTRACT_FILES").map_or(150, |n| n.parse().expect("a number"));
    let documents = [
        pdf(&[&["Rechnung 4711"], &["Summe 12"]]),
        docx(&["Eins", "Zwei"]),
        xlsx(&[("One", &[&["a", "=1+1"]])]),
    ];
    let reader = extractor();
    let (mut read, mut refused) = (0, 0);
    for number in 0..files {
        let document = &documents[number % documents.len()];
        let round = number / documents.len();
        let mut bytes = document.clone();
        match round % 2 {
            0 => bytes.truncate(document.len() * (round / 2 % 100) / 100),
            _ => {
                let at = (round * 7_919) % bytes.len();
                bytes[at] ^= 1 << (round % 8);
            }
        }
        match reader.extract(&bytes, "").await {
            Ok(_) => read += 1,
            Err(ExtractError::NotStarted(why)) => panic!("{number}: {why}"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    println!("D-1: {files} damaged files: {read} read, {refused} refused");
    assert_eq!(read + refused, files);
}
