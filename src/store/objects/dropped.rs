//! Objects whose rows went are deleted, at least once.

use crate::objects::ObjectName;
use crate::store::db::{self, Scope};
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use futures_util::{StreamExt, TryStreamExt, stream};

/// Objects of one step, and of it at a time: as many go in the long run as come.
const BATCH_OBJECTS: i64 = 500;
const DELETIONS_AT_ONCE: usize = 16;

pub(in crate::store) const DROPPED_OBJECTS: &str =
    "SELECT name FROM dropped_objects ORDER BY name LIMIT $1";
pub(in crate::store) const FORGET_OBJECTS: &str =
    "DELETE FROM dropped_objects WHERE name IN (SELECT value FROM jsonb_each($1))";
pub(in crate::store) const COUNT_DROPPED: &str = "SELECT count(*) FROM dropped_objects";

impl Store {
    /// Reports whether an object store is configured.
    pub fn has_objects(&self) -> bool {
        !matches!(self.objects(), super::room::ObjectRoom::None)
    }

    /// Returns the number of objects that are to be deleted.
    pub async fn dropped_objects(&self) -> Result<u64> {
        let count: i64 = db::query_scalar(COUNT_DROPPED)
            .fetch_one(self.readers())
            .await?;
        Ok(count.unsigned_abs())
    }

    /// Deletes some of the objects whose rows went; `false`: there are no more.
    ///
    /// Errors: [`crate::store::StoreError::Object`], also where another database deletes; what is left is deleted by a later call.
    pub async fn delete_dropped_objects(&self) -> Result<bool> {
        let names = db::query_scalar(DROPPED_OBJECTS).bind(BATCH_OBJECTS);
        let names: Vec<String> = names.fetch_all(self.readers()).await?;
        if names.is_empty() {
            return Ok(false);
        }
        let client = self
            .objects()
            .client()?
            .ok_or(crate::objects::ObjectError::NotConfigured)?;
        self.require_object_token(client).await?;
        let objects: Vec<ObjectName> = names
            .iter()
            .map(|name| ObjectName::of_row(name.as_str()))
            .collect();
        let deletions = objects
            .into_iter()
            .map(|name| async move { client.delete(&name).await });
        let deletions = stream::iter(deletions).buffer_unordered(DELETIONS_AT_ONCE);
        deletions.try_collect::<()>().await?;
        crate::crash::crash_point!("OB3");
        let names = json_list(names.iter().map(String::as_str));
        self.write(Scope::Rows, move |conn| {
            Box::pin(async move {
                db::query(FORGET_OBJECTS).bind(names).execute(conn).await?;
                Ok(())
            })
        })
        .await?;
        Ok(true)
    }

    /// Deletes all objects whose rows went; returns the number that stays for now, and logs why.
    pub async fn delete_all_dropped(&self) -> Result<u64> {
        loop {
            match self.delete_dropped_objects().await {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(crate::store::StoreError::Object(error)) => {
                    let remedy = error.remedy();
                    tracing::warn!(%error, remedy, "objects of rows that went are not deleted yet");
                    return self.dropped_objects().await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
