//! Tokens of signed requests by which mail providers hand in letters.

use super::sessions::digest;
use crate::domain::{Timestamp, sha256_hex};
use crate::store::db::{self, Scope};
use crate::store::{Result, Store};

pub(in crate::store) const CLAIM_INGEST_TOKEN: &str = "
    DELETE FROM ingest_tokens WHERE ends_at < $4;
    INSERT INTO ingest_tokens (digest, body_sha256, ends_at) VALUES ($1, $2, $3) ON CONFLICT (digest) DO NOTHING";
pub(in crate::store) const INGEST_TOKEN: &str =
    "SELECT body_sha256 FROM ingest_tokens WHERE digest = $1";

impl Store {
    /// Remembers that a token came with a letter; `false`: it came with another one before. A repetition with the same letter
    /// is a retry.
    pub async fn claim_ingest_token(
        &self,
        token: &str,
        letter: &[u8],
        ends_at: Timestamp,
    ) -> Result<bool> {
        let (digest, body) = (digest(token), sha256_hex(&[letter]));
        let now = self.clock().now().to_string();
        self.write(Scope::Rows, move |conn| {
            Box::pin(async move {
                let claim = db::query(CLAIM_INGEST_TOKEN).bind(&digest).bind(&body);
                let claim = claim.bind(ends_at.to_string()).bind(now);
                claim.execute(&mut *conn).await?;
                let found = db::query_scalar(INGEST_TOKEN).bind(&digest);
                let found: String = found.fetch_one(conn).await?;
                Ok(found == body)
            })
        })
        .await
    }
}
