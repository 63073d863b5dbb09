//! Runs as one file that a maintainer can open: lines of JSON, first a header, then thing by thing, last the number of things and
//! their hash. Pure: things in, bytes out, and back. Kinds and fields have names of their own, which outlive tables (D-162).
//!
//! Absent on purpose: names of files and anything to execute. A reader of the file fills tables with it and nothing else.

mod mask;

pub use mask::MaskedNames;

use crate::providers::ScrubError;
use crate::store::BundleThing;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "attache-runs";
/// Version of the format; raised when the meaning of a line changes.
const VERSION: u32 = 2;
/// Largest file that is read, in bytes; an engine's limits on letters and answers keep an honest
/// one far below.
pub const BYTES_MAX: u64 = 512 * 1024 * 1024;
const LINES_MAX: usize = 1_000_000;
/// Warning to the operator who passes the file on.
const BEWARE: &str =
    "this file holds the text of mails, of what the model was told and of what it wrote";

/// First line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleHeader {
    pub format: String,
    pub version: u32,
    /// Version of the engine that wrote it.
    pub engine: String,
    pub made_at: String,
    /// Runs that are included whole; others are included as far as these saw of their threads.
    pub runs: Vec<String>,
    /// Number of cells from which a secret was removed.
    pub masked: u32,
    /// `true`: addresses, and the names beside them, were replaced consistently.
    pub renamed: bool,
    pub beware: String,
}

impl BundleHeader {
    /// Describes the changes to the texts, if there are any.
    pub fn masks(&self) -> Option<&'static str> {
        match (self.renamed, self.masked) {
            (true, _) => Some("its export gave people other names"),
            (false, 1..) => Some("its export took secrets out"),
            (false, 0) => None,
        }
    }
}

/// Last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Trailer {
    things: usize,
    sha256: String,
}

/// Reason why a file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("a secret stands in pieces in `{kind}.{field}`, where it cannot be taken out")]
    InPieces { kind: String, field: String },
    #[error("this is no file of `attache replay export`")]
    Foreign,
    #[error("the file is of version {found}; this attache reads version {VERSION}")]
    Version { found: u32 },
    #[error("the file is larger than {BYTES_MAX} bytes or longer than {LINES_MAX} lines")]
    TooLarge,
    #[error("the file is cut off or was changed: its last line does not fit the others")]
    Damaged,
    #[error("line {number} is none of this format")]
    Line { number: usize },
}

/// Header fields about all things.
pub struct Label {
    pub engine: String,
    pub made_at: String,
    pub runs: Vec<String>,
}

/// Writes the things as a file. Every secret of `secrets` and everything that looks like a key is
/// masked; `rename` replaces people and addresses.
pub fn write(
    label: Label,
    mut things: Vec<BundleThing>,
    secrets: &[SecretString],
    rename: bool,
) -> Result<(BundleHeader, Vec<u8>), BundleError> {
    let masked = mask::secrets(&mut things, secrets)?;
    if rename {
        MaskedNames::of(&things).rename(&mut things);
    }
    let Label {
        engine,
        made_at,
        runs,
    } = label;
    let header = BundleHeader {
        format: FORMAT.into(),
        version: VERSION,
        engine,
        made_at,
        runs,
        masked,
        renamed: rename,
        beware: BEWARE.into(),
    };
    let mut out = line(&header);
    let count = things.len();
    for BundleThing { kind, fields } in things {
        out.push_str(&line(&Map::from_iter([(kind, Value::Object(fields))])));
    }
    let sha256 = hash(out.as_bytes());
    out.push_str(&line(&Trailer {
        things: count,
        sha256,
    }));
    Ok((header, out.into_bytes()))
}

/// Reads a file, when it is whole and of a known version.
pub fn read(bytes: &[u8]) -> Result<(BundleHeader, Vec<BundleThing>), BundleError> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(BundleError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| BundleError::Foreign)?;
    let first = text.lines().next().unwrap_or_default();
    // The version is checked before the rest, whose format depends on it.
    let header: Value = serde_json::from_str(first).map_err(|_| BundleError::Foreign)?;
    match (header["format"].as_str(), header["version"].as_u64()) {
        (Some(FORMAT), Some(version)) if version == u64::from(VERSION) => {}
        (Some(FORMAT), Some(version)) => {
            return Err(BundleError::Version {
                found: u32::try_from(version).unwrap_or(u32::MAX),
            });
        }
        _ => return Err(BundleError::Foreign),
    }
    let header: BundleHeader =
        serde_json::from_value(header).map_err(|_| BundleError::Line { number: 1 })?;
    let body = text.strip_suffix('\n').ok_or(BundleError::Damaged)?;
    let end = body.rfind('\n').ok_or(BundleError::Damaged)? + 1;
    let trailer: Trailer = serde_json::from_str(&body[end..]).map_err(|_| BundleError::Damaged)?;
    if trailer.sha256 != hash(&text.as_bytes()[..end]) {
        return Err(BundleError::Damaged);
    }
    if trailer.things > LINES_MAX {
        return Err(BundleError::TooLarge);
    }
    let mut things = Vec::new();
    for (index, line) in text[..end].lines().enumerate().skip(1) {
        let strange = || BundleError::Line { number: index + 1 };
        let thing: Map<String, Value> = serde_json::from_str(line).map_err(|_| strange())?;
        let mut members = thing.into_iter();
        match (members.next(), members.next()) {
            (Some((kind, Value::Object(fields))), None) => {
                things.push(BundleThing { kind, fields });
            }
            _ => return Err(strange()),
        }
    }
    match things.len() == trailer.things {
        true => Ok((header, things)),
        false => Err(BundleError::Damaged),
    }
}

fn line(value: &impl Serialize) -> String {
    // Our own structs always have a JSON form.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

fn hash(bytes: &[u8]) -> String {
    crate::domain::sha256_hex(&[bytes])
}

impl BundleError {
    fn in_pieces(kind: &str, field: &str) -> impl Fn(ScrubError) -> Self {
        move |ScrubError::InPieces| BundleError::InPieces {
            kind: kind.into(),
            field: field.into(),
        }
    }
}
