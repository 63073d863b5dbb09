//! Files and text of a `winmail.dat` (MS-OXTNEF), as Outlook packs them.
//!
//! Written by hand because the one crate for it is a sketch that stops at the first attribute that it does not know. Every
//! length is checked against what is left; a stream that ends early gives what stands before. Absent on purpose: the formatted
//! text (RTF), senders, recipients and dates, which the letter around it has.

use crate::domain::Attachment;
use crate::mime::text::charsets;
use crate::mime::transfer::plain_lines;

const SIGNATURE: &[u8] = b"\x78\x9f\x3e\x22";
/// Messages inside of each other whose files are taken.
const DEPTH_MAX: usize = 3;
const FILES_MAX: usize = 500;
const ATTRIBUTES_MAX: usize = 10_000;
const PROPERTIES_MAX: u32 = 10_000;

/// Attributes of a stream.
const BODY: u32 = 0x0002_800c;
const CODE_PAGE: u32 = 0x0006_9007;
const PROPERTIES: u32 = 0x0006_9003;
const FILE_BEGINS: u32 = 0x0006_9002;
const FILE_TITLE: u32 = 0x0001_8010;
const FILE_DATA: u32 = 0x0006_800f;
const FILE_PROPERTIES: u32 = 0x0006_9005;

/// What a stream holds.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) text: String,
    pub(super) html: Option<String>,
    pub(super) files: Vec<Attachment>,
    /// Nothing was cut off or left out.
    pub(super) is_whole: bool,
}

/// A file while its attributes are read.
#[derive(Debug, Default)]
struct File {
    title: String,
    long_name: String,
    media: String,
    content_id: String,
    bytes: Vec<u8>,
    /// A message that was attached, as a stream of its own.
    inner: Option<Packed>,
}

/// Reads a stream; `None`: it is none.
pub(super) fn read(bytes: &[u8]) -> Option<Packed> {
    read_at(bytes, 0)
}

fn read_at(bytes: &[u8], depth: usize) -> Option<Packed> {
    let mut rest = Bytes(bytes.strip_prefix(SIGNATURE)?);
    rest.take(2)?;
    let (mut packed, mut code_page) = (
        Packed {
            is_whole: true,
            ..Packed::default()
        },
        1252,
    );
    let mut files: Vec<File> = Vec::new();
    let mut number = 0;
    while !rest.0.is_empty() {
        number += 1;
        let Some((id, data)) = attribute(&mut rest).filter(|_| number <= ATTRIBUTES_MAX) else {
            packed.is_whole = false;
            break;
        };
        match id {
            CODE_PAGE => code_page = Bytes(data).u32().unwrap_or(code_page),
            BODY => packed.text = text(data, code_page),
            PROPERTIES => message_properties(data, code_page, &mut packed),
            FILE_BEGINS if files.len() < FILES_MAX => files.push(File::default()),
            FILE_BEGINS => {
                packed.is_whole = false;
                break;
            }
            FILE_TITLE | FILE_DATA | FILE_PROPERTIES => {
                let Some(file) = last(&mut files) else {
                    continue;
                };
                match id {
                    FILE_TITLE => file.title = text(data, code_page),
                    FILE_DATA => file.bytes = data.to_vec(),
                    _ => file_properties(data, code_page, file, depth),
                }
            }
            _ => {}
        }
    }
    for file in files {
        packed.is_whole &= file.inner.as_ref().is_none_or(|inner| inner.is_whole);
        add(file, &mut packed.files);
    }
    Some(packed)
}

/// The file that is being read; a stream without its beginning has one all the same.
fn last(files: &mut Vec<File>) -> Option<&mut File> {
    if files.is_empty() {
        files.push(File::default());
    }
    files.last_mut()
}

/// One attribute: level, number, length, data, checksum. The checksum is not compared: what it would catch is damage that
/// the words and files show themselves.
fn attribute<'a>(rest: &mut Bytes<'a>) -> Option<(u32, &'a [u8])> {
    rest.take(1)?;
    let (id, length) = (rest.u32()?, rest.u32()?);
    let data = rest.take(usize::try_from(length).ok()?)?;
    rest.take(2)?;
    Some((id, data))
}

fn add(file: File, files: &mut Vec<Attachment>) {
    let name = if file.long_name.is_empty() {
        file.title
    } else {
        file.long_name
    };
    if let Some(inner) = file.inner {
        let text = match inner.text.trim().is_empty() {
            true => inner.html.unwrap_or_default(),
            false => inner.text,
        };
        if !text.trim().is_empty() && files.len() < FILES_MAX {
            files.push(attachment(
                format!("{name}.txt"),
                "text/plain",
                String::new(),
                text.into_bytes(),
            ));
        }
        let room = FILES_MAX.saturating_sub(files.len());
        files.extend(inner.files.into_iter().take(room));
    } else if !(name.is_empty() && file.bytes.is_empty()) && files.len() < FILES_MAX {
        files.push(attachment(name, &file.media, file.content_id, file.bytes));
    }
}

fn attachment(name: String, media: &str, content_id: String, bytes: Vec<u8>) -> Attachment {
    let is_type = |media: &str| {
        media.len() <= 100 && media.contains('/') && media.bytes().all(|b| b.is_ascii_graphic())
    };
    let guess = match name
        .rsplit_once('.')
        .map(|(_, end)| end.to_ascii_lowercase())
        .as_deref()
    {
        Some("txt") => "text/plain",
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("csv") => "text/csv",
        Some("ics") => "text/calendar",
        Some("htm" | "html") => "text/html",
        _ => "application/octet-stream",
    };
    Attachment {
        filename: String::new(),
        declared_name: name,
        content_type: if is_type(media) {
            media.to_ascii_lowercase()
        } else {
            guess.to_owned()
        },
        content_id: (!content_id.is_empty()).then_some(content_id),
        bytes,
        range: None,
    }
}

fn message_properties(data: &[u8], code_page: u32, packed: &mut Packed) {
    properties(data, code_page, |id, value| match (id, value) {
        (0x1000, Value::Text(text)) => packed.text = plain_lines(&text),
        (0x1013, Value::Text(text)) => packed.html = Some(text),
        (0x1013, Value::Bytes(bytes)) => packed.html = Some(text(bytes, code_page)),
        _ => {}
    });
}

fn file_properties(data: &[u8], code_page: u32, file: &mut File, depth: usize) {
    properties(data, code_page, |id, value| match (id, value) {
        (0x3707, Value::Text(text)) => file.long_name = text,
        (0x3704, Value::Text(text)) if file.title.is_empty() => file.title = text,
        (0x370e, Value::Text(text)) => file.media = text,
        (0x3712, Value::Text(text)) => file.content_id = text,
        (0x3001, Value::Text(text)) if file.title.is_empty() => file.title = text,
        // The class of the object, then the object; a message is a stream.
        (0x3701, Value::Bytes(bytes)) => {
            let object = bytes.get(16..).unwrap_or_default();
            match object.starts_with(SIGNATURE) && depth < DEPTH_MAX {
                true => file.inner = read_at(object, depth + 1),
                false if file.bytes.is_empty() => file.bytes = bytes.to_vec(),
                false => {}
            }
        }
        _ => {}
    });
}

enum Value<'a> {
    Text(String),
    Bytes(&'a [u8]),
}

/// Reads a list of properties and hands each text or binary one to `found`; ends at the first that cannot be read.
fn properties<'a>(data: &'a [u8], code_page: u32, mut found: impl FnMut(u16, Value<'a>)) {
    let mut rest = Bytes(data);
    let count = rest.u32().unwrap_or(0).min(PROPERTIES_MAX);
    for _ in 0..count {
        if property(&mut rest, code_page, &mut found).is_none() {
            return;
        }
    }
}

fn property<'a>(
    rest: &mut Bytes<'a>,
    code_page: u32,
    found: &mut impl FnMut(u16, Value<'a>),
) -> Option<()> {
    let (kind, id) = (rest.u16()?, rest.u16()?);
    if id >= 0x8000 {
        rest.take(16)?;
        if rest.u32()? == 0 {
            rest.take(4)?;
        } else {
            let length = usize::try_from(rest.u32()?).ok()?;
            rest.padded(length)?;
        }
    }
    let is_many = kind & 0x1000 != 0;
    let kind = kind & 0x0fff;
    let fixed = match kind {
        0x0002 | 0x0003 | 0x0004 | 0x000a | 0x000b => Some(4),
        0x0005 | 0x0006 | 0x0007 | 0x0014 | 0x0040 => Some(8),
        0x0048 => Some(16),
        0x000d | 0x001e | 0x001f | 0x0102 => None,
        _ => return None,
    };
    let count = if is_many || fixed.is_none() {
        rest.u32()?
    } else {
        1
    };
    for _ in 0..count.min(PROPERTIES_MAX) {
        let Some(length) = fixed else {
            let length = usize::try_from(rest.u32()?).ok()?;
            let data = rest.padded(length)?;
            found(
                id,
                match kind {
                    0x001e => Value::Text(text(data, code_page)),
                    0x001f => Value::Text(charsets::decoded("utf-16le", data).replace('\0', "")),
                    _ => Value::Bytes(data),
                },
            );
            continue;
        };
        rest.take(length)?;
    }
    Some(())
}

/// Decodes a text that a zero byte ends.
fn text(data: &[u8], code_page: u32) -> String {
    let end = data
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(data.len());
    plain_lines(&charsets::decoded(&format!("cp{code_page}"), &data[..end]))
}

/// Bytes that are still to be read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
    /// Takes bytes that are followed by padding to four.
    fn padded(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.take(count)?;
        let padding = (4 - count % 4) % 4;
        self.0 = self.0.get(padding..).unwrap_or_default();
        Some(taken)
    }
    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }
}
