//! Rows found by a piece of their id, as lists show ids.

use crate::domain::{DeliveryId, RunId, ThreadId};
use crate::store::{Result, Store, StoreError};

/// Fewest characters, from the beginning or the end of an id, that identify a row.
pub const ID_PIECE_CHARS_MIN: usize = 6;
/// Ids that an ambiguous piece lists.
const CANDIDATES_MAX: u32 = 6;

const THREADS_LIKE: &str = "SELECT id FROM threads WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const THREADS_ENDING: &str = "SELECT id FROM threads WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
const DELIVERIES_ENDING: &str = "SELECT id FROM deliveries WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
const DELIVERIES_LIKE: &str =
    "SELECT id FROM deliveries WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";

const RUNS_LIKE: &str = "SELECT id FROM runs WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const RUNS_ENDING: &str = "SELECT id FROM runs WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";

impl Store {
    /// Finds the run whose id is `piece`, or the only run whose id begins or else ends with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_run(&self, piece: &str) -> Result<RunId> {
        self.find("run", (RUNS_LIKE, RUNS_ENDING), piece)
            .await
            .map(RunId::new)
    }

    /// Finds the thread whose id is `piece`, or the only thread whose id begins or else ends with
    /// it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_thread(&self, piece: &str) -> Result<ThreadId> {
        self.find("thread", (THREADS_LIKE, THREADS_ENDING), piece)
            .await
            .map(ThreadId::new)
    }

    /// Finds the delivery whose id is `piece`, or the only delivery whose id begins or else ends
    /// with it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_delivery(&self, piece: &str) -> Result<DeliveryId> {
        self.find("delivery", (DELIVERIES_LIKE, DELIVERIES_ENDING), piece)
            .await
            .map(DeliveryId::new)
    }

    /// Finds the id that begins with `piece`, or else ends with it, as lists show ids. A beginning
    /// is found by the index; for an end all ids are scanned, which takes half a second per
    /// million.
    pub(in crate::store) async fn find(
        &self,
        kind: &'static str,
        (beginning, ending): (&'static str, &'static str),
        piece: &str,
    ) -> Result<String> {
        let wanted = piece.to_ascii_lowercase();
        let missing = || StoreError::Missing {
            kind,
            id: piece.to_owned(),
        };
        let could_be_an_id = wanted.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !could_be_an_id || wanted.len() < ID_PIECE_CHARS_MIN {
            return Err(missing());
        }
        // `~` sorts after every character of an id.
        let (from, until) = (wanted.clone(), format!("{wanted}~"));
        let mut found: Vec<String> = self.all(beginning, (from, until, CANDIDATES_MAX)).await?;
        if found.is_empty() {
            found = self.all(ending, (&wanted, CANDIDATES_MAX)).await?;
        }
        match found.len() {
            0 => Err(missing()),
            // A whole id sorts before all ids that begin with it.
            _ if found[0] == wanted => Ok(found.swap_remove(0)),
            1 => Ok(found.swap_remove(0)),
            _ => Err(StoreError::Ambiguous {
                kind,
                piece: piece.to_owned(),
                found,
            }),
        }
    }
}
