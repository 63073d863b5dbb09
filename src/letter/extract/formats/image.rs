//! Sizes of images, from their headers; no picture is decoded.

use crate::extract::document::{DocumentKind, Extracted, ImageFacts};

/// Reads the header of an image.
pub fn read(kind: DocumentKind, bytes: &[u8]) -> Extracted {
    let mut read = Extracted::empty(kind);
    read.image = size(kind, bytes);
    read.note(match read.image {
        Some(_) => "it is a picture; its text, if it has any, is not read",
        None => "it is a picture without a readable header",
    });
    read
}

/// Returns width and height; `None`: there is no readable header.
pub fn size(kind: DocumentKind, bytes: &[u8]) -> Option<ImageFacts> {
    let (width, height) = match kind {
        // PNG, section 11.2.2: IHDR is the first chunk.
        DocumentKind::Png => (big_u32(bytes, 16)?, big_u32(bytes, 20)?),
        // GIF89a, section 18.
        DocumentKind::Gif => (little_u16(bytes, 6)?, little_u16(bytes, 8)?),
        DocumentKind::Jpeg => jpeg(bytes)?,
        _ => webp(bytes)?,
    };
    Some(ImageFacts { width, height })
}

/// Finds the frame header among the segments (ITU T.81, annex B).
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            return Some((big_u16(bytes, at + 7)?, big_u16(bytes, at + 5)?));
        }
        at += match marker {
            0xff => 1,
            0x01 | 0xd0..=0xd9 => 2,
            _ => 2 + big_u16(bytes, at + 2)? as usize,
        };
    }
}

/// Reads one of the three first chunks of WebP (RFC 9649, section 2).
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    let u24 = |at: usize| {
        let piece = bytes.get(at..at + 3)?;
        Some(u32::from_le_bytes([piece[0], piece[1], piece[2], 0]) + 1)
    };
    match bytes.get(12..16)? {
        b"VP8X" => Some((u24(24)?, u24(27)?)),
        b"VP8L" => {
            let piece = bytes.get(21..25)?;
            let bits = u32::from_le_bytes([piece[0], piece[1], piece[2], piece[3]]);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((
            little_u16(bytes, 26)? & 0x3fff,
            little_u16(bytes, 28)? & 0x3fff,
        )),
        _ => None,
    }
}

fn big_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let piece = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes([piece[0], piece[1], piece[2], piece[3]]))
}

fn big_u16(bytes: &[u8], at: usize) -> Option<u32> {
    let piece = bytes.get(at..at + 2)?;
    Some(u32::from(u16::from_be_bytes([piece[0], piece[1]])))
}

fn little_u16(bytes: &[u8], at: usize) -> Option<u32> {
    let piece = bytes.get(at..at + 2)?;
    Some(u32::from(u16::from_le_bytes([piece[0], piece[1]])))
}
