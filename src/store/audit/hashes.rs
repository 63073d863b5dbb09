//! Check of content against its stored hash: letters, attachments, requests, prompts. Read in small
//! pieces, so that neither the memory nor the database's log grows with the mail.

use super::{Broken, Findings, GLANCE_BYTES, LISTED_MAX, Manner};
use crate::domain::sha256_hex;
use crate::store::Result;
use crate::store::db::{self, Connection};
use crate::store::journal::packed::Unpacker;
use crate::store::mail::attachment_bytes;
use crate::store::packing;
use crate::store::sqlite::open_error::is_damage;
use futures_util::TryStreamExt;
use std::borrow::Cow;

/// A key after every id and digest.
static AFTER_EVERY_KEY: &str = "~";

/// A table with hashes.
struct Hashed {
    name: &'static str,
    says: &'static str,
    /// Query of the first key of the piece that ends before `$1`; NULL when there is none. Ids grow with time, so the newest
    /// rows come first.
    piece: &'static str,
    /// Query of label, hash and bytes, for keys from `$2` to before `$1`.
    rows: &'static str,
}

const HASHED: &[Hashed] = &[
    Hashed {
        name: "letter-hash",
        says: "the bytes of a letter are not those that came",
        piece: "SELECT min(id) FROM (SELECT id FROM raw_letters WHERE id < $1 ORDER BY id DESC LIMIT 64) AS piece",
        rows: "SELECT id, sha256, bytes AS letter FROM raw_letters WHERE id < $1 AND id >= $2 AND pruned_at IS NULL",
    },
    Hashed {
        name: "attachment-hash",
        says: "the bytes of an attachment are not those that came",
        piece: "SELECT min(id) FROM (SELECT id FROM attachments WHERE id < $1 ORDER BY id DESC LIMIT 64) AS piece",
        rows: "SELECT a.id, a.sha256, a.bytes, a.encoding, a.range_start, a.range_len, l.bytes AS letter
            FROM attachments a JOIN messages m ON m.id = a.message_id LEFT JOIN raw_letters l ON l.id = m.raw_id AND a.encoding IS NOT NULL
            WHERE a.id < $1 AND a.id >= $2 AND a.pruned_at IS NULL",
    },
    Hashed {
        name: "request-hash",
        says: "a recorded request is not the one that was sent",
        piece: "SELECT min(id) FROM (SELECT id FROM runs WHERE id < $1 ORDER BY id DESC LIMIT 64) AS piece",
        rows: "SELECT t.run_id || ' turn ' || t.turn_index AS id, t.request_sha256 AS sha256, t.request_json, t.request_sha256,
              t.context_json, t.sources_json, t.packed, c.bytes AS dictionary
            FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
            WHERE t.run_id < $1 AND t.run_id >= $2 AND t.pruned_at IS NULL ORDER BY t.run_id, t.turn_index, t.attempt",
    },
    Hashed {
        name: "content-hash",
        says: "a text that a context was assembled from is not the one that was read",
        piece: "SELECT min(sha256) FROM (SELECT sha256 FROM contents WHERE sha256 < $1 ORDER BY sha256 DESC LIMIT 64) AS piece",
        rows: "SELECT sha256 AS id, sha256, bytes AS content FROM contents WHERE sha256 < $1 AND sha256 >= $2",
    },
    Hashed {
        name: "prompt-hash",
        says: "a responsibility's prompt is not the one that was read from its file",
        piece: "SELECT min(id) FROM responsibilities WHERE id < $1",
        rows: "SELECT id, prompt_sha256 AS sha256, prompt AS content FROM responsibilities
            WHERE id < $1 AND id >= $2 AND prompt_sha256 <> ''",
    },
];

/// Adds what is not what it was to the findings, and what could not be read for damage to `unread`.
pub(super) async fn examine(
    conn: &mut Connection,
    findings: &mut Findings,
    unread: &mut Vec<String>,
    manner: &Manner,
) -> Result<()> {
    for hashed in HASHED {
        let (mut count, mut what, mut bytes) = (0, Vec::new(), 0);
        let read = wrong(conn, hashed, &mut bytes, &mut count, &mut what, manner).await;
        findings.bytes_hashed += bytes;
        match &read {
            Ok(false) => findings.unfinished.push(hashed.name),
            _ => findings.made += 1,
        }
        match read {
            Ok(_) => {}
            Err(error) if is_damage(&error) => {
                unread.push(format!("`{}`: {error}", hashed.name));
            }
            Err(error) => {
                count += 1;
                what.push(error.to_string());
            }
        }
        if count > 0 {
            findings.broken.push(Broken {
                group: "AU10",
                name: hashed.name,
                says: hashed.says,
                hint: "the file was changed by something else: keep a copy, and compare it with a backup",
                count,
                what,
            });
        }
    }
    Ok(())
}

/// Counts the rows that differ from their hash. `false`: there are more than a quick look reads.
async fn wrong(
    conn: &mut Connection,
    hashed: &Hashed,
    bytes_hashed: &mut u64,
    count: &mut u64,
    what: &mut Vec<String>,
    manner: &Manner,
) -> std::result::Result<bool, db::Error> {
    let mut before = AFTER_EVERY_KEY.to_owned();
    while let Some(first) = conn
        .one::<Option<String>>(hashed.piece, &before)
        .await?
        .filter(|first| *first < before)
    {
        if manner.glance.is_some() && *bytes_hashed >= GLANCE_BYTES {
            return Ok(false);
        }
        let mebibytes = *bytes_hashed / (1024 * 1024);
        (manner.tell)(format!("{}, {mebibytes} MiB so far", hashed.name));
        let mut rows = db::query(hashed.rows)
            .bind((&before, &first))
            .fetch(&mut *conn);
        let mut unpacker = Unpacker::default();
        while let Some(row) = rows.try_next().await? {
            let bytes: Cow<'_, [u8]> = match row.has("packed") {
                // Damaged bytes are not what came, or was sent.
                _ if row.has("encoding") => {
                    Cow::Owned(attachment_bytes::read(&row).unwrap_or_default())
                }
                _ if row.has("letter") => {
                    packing::unpack(row.try_get("letter")?).unwrap_or_default()
                }
                false => Cow::Borrowed(row.try_get("content")?),
                true => Cow::Owned(
                    unpacker
                        .read(&row)
                        .map_or_else(|_| Vec::new(), |bodies| bodies.request.as_bytes().to_vec()),
                ),
            };
            *bytes_hashed += bytes.len() as u64;
            if sha256_hex(&[&bytes]) != row.try_get::<&str>("sha256")? {
                *count += 1;
                if what.len() < LISTED_MAX {
                    what.push(row.try_get("id")?);
                }
            }
        }
        drop(rows);
        before = first;
    }
    Ok(true)
}
