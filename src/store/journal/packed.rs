//! Requests of a run, packed: the exact body of a provider call and, where the row has them, its
//! context and the note of its sources, in one zstd frame (RFC 8878).
//!
//! The dictionary of a frame is the request before it, which it mostly repeats; for the first
//! request of a run it is the part that all requests of a persona share, kept once in `contents`.
//! So a run costs what is new in it. The digest of the body (`request_sha256`) proves that what is
//! unpacked is what was sent.
//!
//! Layout: a byte that names the dictionary ([`NO_DICTIONARY`], [`IN_CONTENTS`], or
//! [`EARLIER_REQUEST`] with the 64 characters of its digest), the lengths of request, context and
//! sources in bytes, 4 bytes each in little-endian order ([`NONE`]: there are none), the frame.

use crate::domain::sha256_hex;
use crate::store::db::Row;
use crate::store::journal::packed_context::PackedContext;
use crate::store::packing::{LEVEL, UNPACKED_BYTES_MAX, compressed};
use crate::store::{Result, StoreError};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

const NO_DICTIONARY: u8 = 0;
const IN_CONTENTS: u8 = 1;
const EARLIER_REQUEST: u8 = 2;
const DIGEST_CHARS: usize = 64;
const NONE: u32 = u32::MAX;
/// Requests kept while rows are read. The one before would do: a turn follows the last that was
/// committed.
const REQUESTS_KEPT: usize = 8;
/// Shared parts kept in memory; more are found again in the next run.
const SHARED_MAX: usize = 256;

/// A text with its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestedText {
    pub sha256: String,
    pub text: Arc<str>,
}

impl DigestedText {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self {
            sha256: sha256_hex(&[text.as_bytes()]),
            text,
        }
    }
}

/// Persona, provider, model and digest of the configuration: requests that agree in them share most
/// of their text.
pub type SharedKey<'a> = [&'a str; 4];

/// Dictionaries for first requests, each from the first run of its key that this process saw.
#[derive(Default)]
pub struct SharedParts(Mutex<HashMap<[String; 4], Arc<SharedText>>>);

/// A dictionary in `contents`.
#[derive(Debug, Clone)]
pub struct SharedText {
    pub text: DigestedText,
    /// Digests of the texts that `$.files` of it names: whoever keeps the dictionary keeps them.
    pub names: BTreeSet<String>,
}

/// What a first request, its context and its sources share with those of other runs.
#[derive(Debug, Clone, Default)]
pub struct SharedPart {
    /// JSON; `$.files` has `files`.
    pub json: String,
    /// Digests of the texts that are kept with it.
    pub files: BTreeSet<String>,
}

/// Texts of a turn, before they are packed.
pub struct PlainTurn<'a> {
    pub request: &'a str,
    pub context: Option<&'a str>,
    pub sources: Option<&'a str>,
    /// Request of the turn before.
    pub earlier: Option<&'a DigestedText>,
    /// What the request shares with those of other runs, for a first request.
    pub shared: Option<(SharedKey<'a>, &'a SharedPart)>,
}

impl SharedParts {
    /// Returns the dictionary of the key. One that names other files would keep texts that no run was told any more.
    fn of(&self, key: SharedKey<'_>, part: &SharedPart) -> Arc<SharedText> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() >= SHARED_MAX {
            parts.clear();
        }
        let key = key.map(str::to_owned);
        if let Some(known) = parts.get(&key).filter(|known| known.names == part.files) {
            return known.clone();
        }
        let new = Arc::new(SharedText {
            text: DigestedText::new(part.json.as_str()),
            names: part.files.clone(),
        });
        parts.insert(key, new.clone());
        new
    }
}

/// The bodies of a turn as they are stored.
#[derive(Debug, Clone, Default)]
pub struct PackedTurn {
    /// `None`: the bodies are stored as they are, because they are not smaller packed.
    pub bytes: Option<Vec<u8>>,
    /// Text in `contents` that the bytes need.
    pub shared: Option<Arc<SharedText>>,
    pub context: Option<PackedContext>,
}

impl PackedTurn {
    pub fn of(parts: &SharedParts, turn: &PlainTurn<'_>) -> Self {
        let (dictionary, shared) = match (turn.earlier, turn.shared) {
            (Some(earlier), _) => (Dictionary::Earlier(earlier), None),
            (None, Some((key, part))) => {
                let shared = parts.of(key, part);
                (Dictionary::Shared(shared.text.text.clone()), Some(shared))
            }
            (None, None) => (Dictionary::None, None),
        };
        let bodies = (turn.request, turn.context, turn.sources);
        match pack(bodies, &dictionary) {
            Ok(bytes) if bytes.len() < turn.request.len() => Self {
                bytes: Some(bytes),
                shared,
                context: None,
            },
            Ok(_) => Self::default(),
            Err(error) => {
                tracing::warn!(%error, "a request is stored without compression");
                Self::default()
            }
        }
    }
}

impl PackedTurn {
    /// Reports whether the bodies are stored as they are.
    pub fn is_plain(&self) -> bool {
        self.bytes.is_none()
    }
}

enum Dictionary<'a> {
    None,
    Shared(Arc<str>),
    Earlier(&'a DigestedText),
}

fn pack(
    (request, context, sources): (&str, Option<&str>, Option<&str>),
    dictionary: &Dictionary<'_>,
) -> io::Result<Vec<u8>> {
    let length = |text: &str| u32::try_from(text.len()).map_err(io::Error::other);
    let mut packed = Vec::new();
    let known = match dictionary {
        Dictionary::None => {
            packed.push(NO_DICTIONARY);
            ""
        }
        Dictionary::Shared(text) => {
            packed.push(IN_CONTENTS);
            text
        }
        Dictionary::Earlier(request) => {
            packed.push(EARLIER_REQUEST);
            packed.extend(request.sha256.as_bytes());
            &request.text
        }
    };
    packed.extend(length(request)?.to_le_bytes());
    for text in [context, sources] {
        packed.extend(text.map_or(Ok(NONE), length)?.to_le_bytes());
    }
    let bodies = [
        request,
        context.unwrap_or_default(),
        sources.unwrap_or_default(),
    ]
    .concat();
    if bodies.len() > UNPACKED_BYTES_MAX {
        return Err(io::Error::other("the request is too large to be packed"));
    }
    packed.extend(compressed(bodies.len(), |context, packed| {
        context.compress_using_dict(packed, bodies.as_bytes(), known.as_bytes(), LEVEL)
    })?);
    Ok(packed)
}

/// The bodies of a turn as they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bodies {
    pub request: Arc<str>,
    pub context: Option<String>,
    /// Note of the sources.
    pub sources: Option<String>,
}

/// Reads the bodies of turns, in the order of their rows (run, turn, attempt): a row may need the one
/// before it.
#[derive(Default)]
pub struct Unpacker {
    /// The last requests, newest first.
    requests: VecDeque<DigestedText>,
}

impl Unpacker {
    /// Reads a row with the columns `request_json`, `context_json`, `sources_json`, `request_sha256`, `packed` and `dictionary`, the bytes in `contents` that `packed_with` names.
    ///
    /// Errors: [`StoreError::Unreadable`] when the bytes are damaged or what they need is missing.
    pub fn read(&mut self, row: &Row) -> Result<Bodies> {
        let bodies = match row.try_get::<Option<&[u8]>>("packed")? {
            None => Bodies {
                request: row.get::<&str>("request_json").into(),
                context: row.get("context_json"),
                sources: row.get("sources_json"),
            },
            Some(packed) => self
                .unpack(packed, row.get("dictionary"), UNPACKED_BYTES_MAX)
                .ok_or(StoreError::Unreadable {
                    what: "request of a turn",
                })?,
        };
        self.keep(DigestedText {
            sha256: row.get("request_sha256"),
            text: bodies.request.clone(),
        });
        Ok(bodies)
    }

    fn keep(&mut self, request: DigestedText) {
        self.requests.truncate(REQUESTS_KEPT - 1);
        self.requests.push_front(request);
    }

    fn unpack(&self, packed: &[u8], shared: Option<&[u8]>, bytes_max: usize) -> Option<Bodies> {
        let (kind, rest) = packed.split_first()?;
        let (dictionary, rest) = match *kind {
            NO_DICTIONARY => (&[][..], rest),
            IN_CONTENTS => (shared?, rest),
            EARLIER_REQUEST => {
                let (digest, rest) = rest.split_at_checked(DIGEST_CHARS)?;
                let named = |request: &&DigestedText| request.sha256.as_bytes() == digest;
                let request = self.requests.iter().find(named)?;
                (request.text.as_bytes(), rest)
            }
            _ => return None,
        };
        let (request, rest) = length(rest)?;
        let (context, rest) = length(rest)?;
        let (sources, frame) = length(rest)?;
        let before_sources = request? + context.unwrap_or(0);
        let all = before_sources + sources.unwrap_or(0);
        let size = zstd::zstd_safe::get_frame_content_size(frame).ok()??;
        if size != all as u64 || all > bytes_max {
            return None;
        }
        let mut unpacker = zstd::bulk::Decompressor::with_dictionary(dictionary).ok()?;
        let bodies = unpacker.decompress(frame, all).ok()?;
        let mut bodies = String::from_utf8(bodies).ok()?;
        if !bodies.is_char_boundary(request?) || !bodies.is_char_boundary(before_sources) {
            return None;
        }
        let sources = sources.map(|_| bodies.split_off(before_sources));
        let context = context.map(|_| bodies.split_off(request.unwrap_or(0)));
        Some(Bodies {
            request: bodies.into(),
            context,
            sources,
        })
    }
}

/// Reads a length; the inner `None`: there is no such text.
fn length(bytes: &[u8]) -> Option<(Option<usize>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    match u32::from_le_bytes(*length) {
        NONE => Some((None, rest)),
        length => Some((Some(usize::try_from(length).ok()?), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{"system":"Answer in the language of the letter. Say only what you know.","messages":["Until when?"]}"#;
    const SECOND: &str = r#"{"system":"Answer in the language of the letter. Say only what you know.","messages":["Until when?","Zehn Uhr, früh."]}"#;

    const MAX: usize = UNPACKED_BYTES_MAX;

    fn packed((request, context): (&str, Option<&str>), dictionary: &Dictionary<'_>) -> Vec<u8> {
        pack((request, context, None), dictionary).expect("zstd")
    }

    fn bodies(request: &str, context: Option<&str>) -> Bodies {
        let context = context.map(str::to_owned);
        Bodies {
            request: request.into(),
            context,
            sources: None,
        }
    }

    #[test]
    fn a_note_of_sources_comes_back_with_the_rest() {
        for context in [None, Some(SECOND)] {
            for sources in [None, Some(""), Some("{\"config\":\"fü\"}")] {
                let frame = pack((FIRST, context, sources), &Dictionary::None).expect("zstd");
                let read = Unpacker::default().unpack(&frame, None, MAX);
                let read = read.expect("readable");
                assert_eq!(
                    (read.context.as_deref(), read.sources.as_deref()),
                    (context, sources)
                );
                assert_eq!(read.request.as_ref(), FIRST);
            }
        }
    }

    #[test]
    fn bodies_come_back_as_they_went_with_every_dictionary() {
        let mut unpacker = Unpacker::default();
        for context in [None, Some(""), Some(SECOND)] {
            let alone = packed((FIRST, context), &Dictionary::None);
            assert_eq!(
                unpacker.unpack(&alone, None, MAX),
                Some(bodies(FIRST, context))
            );
            let shared = packed((FIRST, context), &Dictionary::Shared(SECOND.into()));
            let unpacked = unpacker.unpack(&shared, Some(SECOND.as_bytes()), MAX);
            assert_eq!(unpacked, Some(bodies(FIRST, context)));
        }
        let first = DigestedText::new(FIRST);
        let second = packed((SECOND, None), &Dictionary::Earlier(&first));
        assert!(
            second.len() < DIGEST_CHARS + SECOND.len() / 2,
            "{}",
            second.len()
        );
        assert_eq!(
            unpacker.unpack(&second, None, MAX),
            None,
            "the first request is not known"
        );
        unpacker.keep(first);
        assert_eq!(
            unpacker.unpack(&second, None, MAX),
            Some(bodies(SECOND, None))
        );
    }

    #[test]
    fn damaged_bytes_give_nothing_or_another_text() {
        let whole = packed((SECOND, Some(FIRST)), &Dictionary::Shared(FIRST.into()));
        let unpacker = Unpacker::default();
        let read = |bytes: &[u8]| unpacker.unpack(bytes, Some(FIRST.as_bytes()), MAX);
        let sound = read(&whole);
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "cut at {cut}");
        }
        for place in 0..whole.len() {
            let mut changed = whole.clone();
            changed[place] ^= 0x15;
            assert_ne!(read(&changed), sound, "changed at {place}");
        }
    }

    #[test]
    fn a_small_frame_that_becomes_too_large_is_not_unpacked() {
        let long = "a".repeat(10_000);
        let frame = packed((&long, None), &Dictionary::None);
        assert!(frame.len() < 100, "{}", frame.len());
        let unpacker = Unpacker::default();
        assert_eq!(
            unpacker.unpack(&frame, None, 10_000),
            Some(bodies(&long, None))
        );
        assert_eq!(unpacker.unpack(&frame, None, 9_999), None);
    }
}
