//! Runs as one file that a maintainer can open: lines of JSON, first a header, then row by row,
//! last the number of lines and their hash. Pure: rows in, bytes out, and back.
//!
//! Absent on purpose: names of files and anything to execute. A reader of the file fills tables
//! with it and nothing else.

mod mask;

pub use mask::MaskedNames;

use crate::providers::ScrubError;
use crate::store::BundleRow;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const FORMAT: &str = "attache-runs";
/// Version of the format; raised when the meaning of a line changes.
const VERSION: u32 = 1;
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
    /// Number of the engine's newest migration.
    pub schema: i64,
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
    rows: usize,
    sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine {
    table: String,
    row: Map<String, Value>,
}

/// Reason why a file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("a secret stands in pieces in `{table}.{column}`, where it cannot be taken out")]
    InPieces { table: String, column: String },
    #[error("this is no file of `attache replay export`")]
    Foreign,
    #[error("the file is of version {found}; this attache reads version {VERSION}")]
    Version { found: u32 },
    #[error("the file was written by a newer attache (it has migration {found}, this one {known})")]
    Newer { found: i64, known: i64 },
    #[error("the file is larger than {BYTES_MAX} bytes or longer than {LINES_MAX} lines")]
    TooLarge,
    #[error("the file is cut off or was changed: its last line does not fit the others")]
    Damaged,
    #[error("line {number} is none of this format")]
    Line { number: usize },
}

/// Header fields about all rows.
pub struct Label {
    pub engine: String,
    pub schema: i64,
    pub made_at: String,
    pub runs: Vec<String>,
}

/// Writes the rows as a file. Every secret of `secrets` and everything that looks like a key is
/// masked; `rename` replaces people and addresses.
pub fn write(
    label: Label,
    mut rows: Vec<BundleRow>,
    secrets: &[SecretString],
    rename: bool,
) -> Result<(BundleHeader, Vec<u8>), BundleError> {
    let masked = mask::secrets(&mut rows, secrets)?;
    if rename {
        MaskedNames::of(&rows).rename(&mut rows);
    }
    let Label {
        engine,
        schema,
        made_at,
        runs,
    } = label;
    let header = BundleHeader {
        format: FORMAT.into(),
        version: VERSION,
        engine,
        schema,
        made_at,
        runs,
        masked,
        renamed: rename,
        beware: BEWARE.into(),
    };
    let mut out = line(&header);
    let count = rows.len();
    for BundleRow { table, cells } in rows {
        out.push_str(&line(&RowLine { table, row: cells }));
    }
    let sha256 = hash(out.as_bytes());
    out.push_str(&line(&Trailer {
        rows: count,
        sha256,
    }));
    Ok((header, out.into_bytes()))
}

/// Reads a file, when it is whole and of a known version. `schema`: the number of our newest
/// migration.
pub fn read(bytes: &[u8], schema: i64) -> Result<(BundleHeader, Vec<BundleRow>), BundleError> {
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
    if header.schema > schema {
        return Err(BundleError::Newer {
            found: header.schema,
            known: schema,
        });
    }
    let body = text.strip_suffix('\n').ok_or(BundleError::Damaged)?;
    let end = body.rfind('\n').ok_or(BundleError::Damaged)? + 1;
    let trailer: Trailer = serde_json::from_str(&body[end..]).map_err(|_| BundleError::Damaged)?;
    if trailer.sha256 != hash(&text.as_bytes()[..end]) {
        return Err(BundleError::Damaged);
    }
    if trailer.rows > LINES_MAX {
        return Err(BundleError::TooLarge);
    }
    let mut rows = Vec::new();
    for (index, line) in text[..end].lines().enumerate().skip(1) {
        let of = |_| BundleError::Line { number: index + 1 };
        let RowLine { table, row } = serde_json::from_str(line).map_err(of)?;
        rows.push(BundleRow { table, cells: row });
    }
    match rows.len() == trailer.rows {
        true => Ok((header, rows)),
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
    fn in_pieces(table: &str, column: &str) -> impl Fn(ScrubError) -> Self {
        move |ScrubError::InPieces| BundleError::InPieces {
            table: table.into(),
            column: column.into(),
        }
    }
}
