//! Words that are still to be made when an engine starts.

use crate::store::db::{Scope, Sql};
use crate::store::{Store, StoreError};

const OPEN_WORDS: Sql = Sql::pair(
    "SELECT count(*) AS open FROM letter_parts_pending",
    "
    SELECT (SELECT count(*) FROM letter_parts_pending) + (SELECT count(*) FROM letter_words WHERE words IS NULL)
      + (SELECT count(*) FROM knowledge_fts WHERE words IS NULL) AS open",
);

impl Store {
    /// Makes the words that are still to be made: an earlier engine may have failed to, and a database that got its rows from
    /// another kind has none. Other writes go between its steps.
    pub async fn index_open_letters(self) -> Result<(), StoreError> {
        let mut before = i64::MAX;
        loop {
            let open: i64 = self.one(OPEN_WORDS, ()).await?;
            if open == 0 || open >= before {
                return Ok(());
            }
            before = open;
            // What is open is made before any commit.
            transact!(self, Scope::Engine, |_conn| Ok(())).await?;
        }
    }
}
