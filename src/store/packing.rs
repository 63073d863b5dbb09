//! Bytes of a column, packed: one zstd frame (RFC 8878) with a dictionary of ours.
//!
//! The dictionaries are texts of our own invention, in the folder beside this file. What was packed with one is unpacked with that
//! one for ever: none is changed once it is released. A better one is a new file with the next number.
//!
//! Packed bytes begin with [`MARK`] and the number of their dictionary. Bytes that do not shrink stay as they are, unless they begin
//! with the mark themselves, which no text in UTF-8 does. So a column holds both, and a row that somebody wrote by hand is read.
//! `journal/packed.rs` has the requests of runs, whose dictionaries are other requests.

use crate::store::db::Row;
use crate::store::{Result, StoreError};
use std::borrow::Cow;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{self, CCtx, SafeResult};

/// First byte of packed bytes.
pub const MARK: u8 = 0xF5;
/// Level of zstd; its default.
pub const LEVEL: i32 = 3;
/// More bytes are packed at the fastest level: they are files, of which a slower one gains nothing.
const SLOW_BYTES_MAX: usize = 1024 * 1024;
const FAST_LEVEL: i32 = 1;
/// Most bytes that are unpacked. A row that was written by somebody else may claim any size; no letter that is taken is so large.
pub const UNPACKED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Contexts of compression that have worked before: a new one has tables of a megabyte to clear.
static CONTEXTS: Mutex<Vec<CCtx<'static>>> = Mutex::new(Vec::new());
/// Most contexts that are kept.
const CONTEXTS_MAX: usize = 2;

/// Compresses bytes of that length, by a context that is used again.
pub fn compressed(
    length: usize,
    compress: impl FnOnce(&mut CCtx<'static>, &mut Vec<u8>) -> SafeResult,
) -> io::Result<Vec<u8>> {
    let contexts = || CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = contexts().pop();
    let mut context = kept.unwrap_or_default();
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(length));
    let result = compress(&mut context, &mut packed);
    let mut contexts = contexts();
    // One that packed a file has tables of its size.
    if length <= SLOW_BYTES_MAX && contexts.len() < CONTEXTS_MAX {
        contexts.push(context);
    }
    match result {
        Ok(_) => Ok(packed),
        Err(code) => Err(io::Error::other(zstd_safe::get_error_name(code))),
    }
}

/// A dictionary, as `pack` needs it.
pub struct Packing {
    number: u8,
    encoder: EncoderDictionary<'static>,
    fast_encoder: EncoderDictionary<'static>,
    decoder: DecoderDictionary<'static>,
}

/// For letters and mails.
pub static LETTERS: LazyLock<Packing> = LazyLock::new(|| {
    // The lines of mail end in CRLF (RFC 5322 section 2.3); those of a source file do not.
    let text = include_str!("packing/letter_1.txt").replace('\n', "\r\n");
    Packing::new(1, text.as_bytes())
});
/// For what a run was told: reports of contexts, bounds.
pub static REPORTS: LazyLock<Packing> =
    LazyLock::new(|| Packing::new(2, include_bytes!("packing/report_1.txt")));

impl Packing {
    fn new(number: u8, text: &[u8]) -> Self {
        Self {
            number,
            encoder: EncoderDictionary::copy(text, LEVEL),
            fast_encoder: EncoderDictionary::copy(text, FAST_LEVEL),
            decoder: DecoderDictionary::copy(text),
        }
    }

    fn of(number: u8) -> Option<&'static Self> {
        [&LETTERS, &REPORTS]
            .into_iter()
            .map(|dictionary| &**dictionary)
            .find(|dictionary| dictionary.number == number)
    }

    /// Returns the bytes as they are stored.
    pub fn pack<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let has_mark = bytes.first() == Some(&MARK);
        match self.packed(bytes) {
            Ok(packed) if has_mark || packed.len() < bytes.len() => Cow::Owned(packed),
            Ok(_) => Cow::Borrowed(bytes),
            Err(error) => {
                tracing::warn!(%error, "bytes are stored without compression");
                Cow::Borrowed(bytes)
            }
        }
    }

    fn packed(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if bytes.len() > UNPACKED_BYTES_MAX {
            return Err(io::Error::other("they are too many to be packed"));
        }
        let encoder = match bytes.len() > SLOW_BYTES_MAX {
            true => &self.fast_encoder,
            false => &self.encoder,
        };
        let mut packed = vec![MARK, self.number];
        packed.extend(compressed(bytes.len(), |context, packed| {
            context.compress_using_cdict(packed, bytes, encoder.as_cdict())
        })?);
        Ok(packed)
    }
}

/// A letter as it is stored.
#[derive(Debug, Clone)]
pub struct PackedLetter {
    pub bytes: Vec<u8>,
    /// Bytes of the letter as it came.
    pub size: usize,
}

impl PackedLetter {
    pub fn of(letter: &[u8]) -> Self {
        Self {
            bytes: LETTERS.pack(letter).into_owned(),
            size: letter.len(),
        }
    }

    pub(in crate::store) fn size_bytes(&self) -> i64 {
        i64::try_from(self.size).unwrap_or(i64::MAX)
    }
}

/// Returns bytes as they were before they were packed. Errors: [`StoreError::Unreadable`] when they are damaged.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    unpack_within(bytes, UNPACKED_BYTES_MAX).ok_or(StoreError::Unreadable {
        what: "packed bytes",
    })
}

/// Returns the bytes of a packed column.
pub fn bytes_of(row: &Row, column: &str) -> Result<Vec<u8>> {
    Ok(unpack(row.try_get(column)?)?.into_owned())
}

/// Returns the text of a packed column; `None`: the row has none.
pub fn text_of(row: &Row, column: &str) -> Result<Option<String>> {
    let Some(bytes) = row.try_get::<Option<&[u8]>>(column)? else {
        return Ok(None);
    };
    let text = String::from_utf8(unpack(bytes)?.into_owned());
    text.map(Some).map_err(|_| StoreError::Unreadable {
        what: "packed text",
    })
}

fn unpack_within(bytes: &[u8], bytes_max: usize) -> Option<Cow<'_, [u8]>> {
    let (number, frame) = match bytes {
        [MARK, number, frame @ ..] => (*number, frame),
        [MARK] => return None,
        _ => return Some(Cow::Borrowed(bytes)),
    };
    let dictionary = Packing::of(number)?;
    let size = zstd::zstd_safe::get_frame_content_size(frame).ok()??;
    let size = usize::try_from(size)
        .ok()
        .filter(|size| *size <= bytes_max)?;
    let mut unpacker =
        zstd::bulk::Decompressor::with_prepared_dictionary(&dictionary.decoder).ok()?;
    let unpacked = unpacker.decompress(frame, size).ok()?;
    (unpacked.len() == size).then_some(Cow::Owned(unpacked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sha256_hex;

    const LETTER: &[u8] =
        b"From: Bob <bob@guest.example>\r\nTo: ada@engine.test\r\nSubject: Breakfast\r\n\
        MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nUntil when?\r\n";

    #[test]
    fn bytes_come_back_as_they_went() {
        let mut marked = LETTER.to_vec();
        marked.insert(0, MARK);
        for dictionary in [&LETTERS, &REPORTS] {
            for bytes in [
                b"" as &[u8],
                b"x",
                LETTER,
                &marked,
                &[MARK],
                &[MARK, 1, 2, 3],
            ] {
                let packed = dictionary.pack(bytes);
                assert_eq!(unpack(&packed).expect("readable").as_ref(), bytes);
            }
        }
        assert!(LETTERS.pack(LETTER).len() < LETTER.len() * 8 / 10);
    }

    #[test]
    fn what_does_not_shrink_stays_as_it_is() {
        assert_eq!(LETTERS.pack(b"x").as_ref(), b"x");
        assert_eq!(unpack(b"x").expect("plain").as_ref(), b"x");
    }

    #[test]
    fn damaged_bytes_are_no_letter() {
        let packed = LETTERS.pack(LETTER);
        for cut in 1..packed.len() {
            assert!(unpack(&packed[..cut]).is_err(), "cut at {cut}");
        }
        assert!(unpack(&[MARK, 99, 0]).is_err(), "no such dictionary");
    }

    #[test]
    fn a_small_frame_that_becomes_too_large_is_not_unpacked() {
        let long = vec![b'a'; 10_000];
        let packed = LETTERS.pack(&long);
        assert!(packed.len() < 100, "{}", packed.len());
        assert!(unpack_within(&packed, 10_000).is_some());
        assert!(unpack_within(&packed, 9_999).is_none());
    }

    #[test]
    fn a_released_dictionary_does_not_change() {
        let digest = |text: &str| sha256_hex(&[text.as_bytes()]);
        let letters = include_str!("packing/letter_1.txt");
        let reports = include_str!("packing/report_1.txt");
        assert!(letters.len() <= 4096 && reports.len() <= 4096);
        assert_eq!(
            [digest(letters), digest(reports)],
            [
                "ec993afeb7e5641f10dacc83314612edece51593eb4cb3f7e58227c607b11135",
                "f458c51ca904c421a4ae4e1c9a64f615dd59f72b3ce395d3071c7d143c381ddd"
            ]
        );
    }
}
