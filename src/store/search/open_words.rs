//! Words that are still to be made, when an engine starts or somebody searches.

use super::index_merge::{NEWEST_LETTERS, index_letters};
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
        self.index_new_letters().await?;
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

    /// Makes the words of letters that wait for theirs on SQLite, so that a search finds the letter of a moment ago.
    pub(in crate::store) async fn index_new_letters(&self) -> Result<(), StoreError> {
        if self.is_on_server() || self.is_read_only() {
            return Ok(());
        }
        let newest = self.row(NEWEST_LETTERS, ()).await?;
        let mut is_open = newest.get::<i64>("through") < newest.get("newest");
        while is_open {
            let index = transact!(self, Scope::Engine, |conn| {
                Ok(index_letters(conn).await?)
            });
            // On a full disk the letters before are still found.
            is_open = index.await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a search does not know the newest letters");
                false
            });
        }
        Ok(())
    }
}
