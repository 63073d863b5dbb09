//! Documents that the tests make, byte by byte, so that what they say is known.

use std::fmt::Write as _;
use std::io::{Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A zip of these files.
pub fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let method = match *name {
            "mimetype" => zip::CompressionMethod::Stored,
            _ => zip::CompressionMethod::Deflated,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).expect("a file");
        writer.write_all(bytes).expect("its bytes");
    }
    writer.finish().expect("a zip").into_inner()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A Word file with these paragraphs.
pub fn docx(paragraphs: &[&str]) -> Vec<u8> {
    let mut body = String::new();
    for paragraph in paragraphs {
        let text = escaped(paragraph);
        write!(
            body,
            "<w:p><w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r></w:p>"
        )
        .expect("text");
    }
    docx_of(&body)
}

/// A Word file with this body.
pub fn docx_of(body: &str) -> Vec<u8> {
    let document = format!(
        "<?xml version=\"1.0\"?><w:document xmlns:w=\"urn:w\"><w:body>{body}</w:body></w:document>"
    );
    zipped(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("word/document.xml", document.as_bytes()),
    ])
}

/// A presentation; each slide has one text, and maybe notes.
pub fn pptx(slides: &[(&str, Option<&str>)]) -> Vec<u8> {
    let shape = |text: &str| {
        format!(
            "<p:sld xmlns:p=\"urn:p\" xmlns:a=\"urn:a\"><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sld>",
            escaped(text)
        )
    };
    let mut files: Vec<(String, Vec<u8>)> = vec![
        ("[Content_Types].xml".into(), b"<Types/>".to_vec()),
        ("ppt/presentation.xml".into(), b"<p/>".to_vec()),
    ];
    for (index, (text, notes)) in slides.iter().enumerate() {
        let number = index + 1;
        files.push((
            format!("ppt/slides/slide{number}.xml"),
            shape(text).into_bytes(),
        ));
        if let Some(notes) = notes {
            files.push((
                format!("ppt/notesSlides/notesSlide{number}.xml"),
                shape(notes).into_bytes(),
            ));
        }
    }
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    zipped(&files)
}

/// A text of OpenDocument.
pub fn odt(paragraphs: &[&str]) -> Vec<u8> {
    let body: String = paragraphs
        .iter()
        .map(|p| format!("<text:p>{}</text:p>", escaped(p)))
        .collect();
    let content = format!(
        "<office:document-content xmlns:office=\"o\" xmlns:text=\"t\"><office:text>{body}</office:text></office:document-content>"
    );
    zipped(&[
        ("mimetype", b"application/vnd.oasis.opendocument.text"),
        ("content.xml", content.as_bytes()),
    ])
}

/// A workbook: sheets with their rows; a cell that begins with `=` is a formula with the value 42. `"hidden"` in the name
/// hides the sheet.
pub fn xlsx(sheets: &[(&str, &[&[&str]])]) -> Vec<u8> {
    let mut files: Vec<(String, String)> = Vec::new();
    let (mut listed, mut relations) = (String::new(), String::new());
    for (index, (name, rows)) in sheets.iter().enumerate() {
        let number = index + 1;
        let state = if name.contains("hidden") {
            " state=\"hidden\""
        } else {
            ""
        };
        write!(
            listed,
            "<sheet name=\"{}\" sheetId=\"{number}\"{state} r:id=\"rId{number}\"/>",
            escaped(name)
        )
        .expect("text");
        write!(relations, "<Relationship Id=\"rId{number}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" Target=\"worksheets/sheet{number}.xml\"/>").expect("text");
        let mut data = String::new();
        for (row, cells) in rows.iter().enumerate() {
            write!(data, "<row r=\"{}\">", row + 1).expect("text");
            for (column, cell) in cells.iter().enumerate() {
                let at = format!("{}{}", char::from(b'A' + column as u8), row + 1);
                match cell.strip_prefix('=') {
                    Some(formula) => write!(
                        data,
                        "<c r=\"{at}\"><f>{}</f><v>42</v></c>",
                        escaped(formula)
                    ),
                    None => write!(
                        data,
                        "<c r=\"{at}\" t=\"inlineStr\"><is><t>{}</t></is></c>",
                        escaped(cell)
                    ),
                }
                .expect("text");
            }
            data.push_str("</row>");
        }
        files.push((format!("xl/worksheets/sheet{number}.xml"), sheet_of(&data)));
    }
    files.push(("[Content_Types].xml".into(), "<Types/>".into()));
    let root = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>";
    files.push(("_rels/.rels".into(), root.into()));
    files.push(("xl/workbook.xml".into(), format!("<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>{listed}</sheets></workbook>")));
    files.push(("xl/_rels/workbook.xml.rels".into(), format!("<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{relations}</Relationships>")));
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    zipped(&files)
}

/// A workbook of one sheet with these formats.
pub fn with_styles(sheet: &str, styles: &str) -> Vec<u8> {
    let one = xlsx(&[("One", &[])]);
    let mut archive = zip::ZipArchive::new(Cursor::new(one)).expect("a zip");
    let mut files = vec![("xl/styles.xml".to_owned(), styles.to_owned())];
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).expect("a file");
        let name = file.name().expect("a name").into_owned();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text).expect("text");
        if name == "xl/worksheets/sheet1.xml" {
            sheet.clone_into(&mut text);
        }
        files.push((name, text));
    }
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_bytes()))
        .collect();
    zipped(&files)
}

/// The XML of a sheet with these rows.
pub fn sheet_of(rows: &str) -> String {
    format!(
        "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><dimension ref=\"A1:XFD1048576\"/><sheetData>{rows}</sheetData></worksheet>"
    )
}

/// A PDF with these pages, each a list of lines in Helvetica (ISO 32000-1, annex H.3); WinAnsi covers German.
pub fn pdf(pages: &[&[&str]]) -> Vec<u8> {
    let mut objects: Vec<Vec<u8>> = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        Vec::new(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_vec(),
    ];
    let mut kids = String::new();
    for lines in pages {
        let mut stream: Vec<u8> = b"BT /F1 12 Tf 14 TL 72 760 Td\n".to_vec();
        for line in *lines {
            stream.push(b'(');
            for c in line.chars() {
                if matches!(c, '(' | ')' | '\\') {
                    stream.push(b'\\');
                }
                stream.push(u8::try_from(u32::from(c)).expect("a Latin-1 text"));
            }
            stream.extend_from_slice(b") Tj T*\n");
        }
        stream.extend_from_slice(b"ET");
        let mut content = format!("<< /Length {} >>\nstream\n", stream.len()).into_bytes();
        content.extend_from_slice(&stream);
        content.extend_from_slice(b"\nendstream");
        objects.push(content);
        let content = objects.len();
        objects.push(format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R /Resources << /Font << /F1 3 0 R >> >> >>").into_bytes());
        write!(kids, "{} 0 R ", objects.len()).expect("text");
    }
    objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len()).into_bytes();
    pdf_of(&objects)
}

/// A PDF of these objects; the first is its catalogue.
pub fn pdf_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(bytes.len());
        bytes.extend_from_slice(format!("{} 0 obj\n", index + 1).as_bytes());
        bytes.extend_from_slice(object);
        bytes.extend_from_slice(b"\nendobj\n");
    }
    let table = bytes.len();
    let mut xref = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for offset in offsets {
        writeln!(xref, "{offset:010} 00000 n ").expect("text");
    }
    write!(
        xref,
        "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
        objects.len() + 1
    )
    .expect("text");
    bytes.extend_from_slice(xref.as_bytes());
    bytes
}

/// A PNG header of this size; there is no picture behind it.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend_from_slice(&width.to_be_bytes());
    bytes.extend_from_slice(&height.to_be_bytes());
    bytes.extend_from_slice(&[8, 2, 0, 0, 0]);
    bytes
}
