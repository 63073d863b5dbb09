//! Objects that no row ever named: of a crash, a refused commit or a peer that hung up between the put and the commit.

use super::room::owner_of;
use crate::domain::Timestamp;
use crate::objects::{ListedObject, ObjectName};
use crate::store::db;
use crate::store::sql::json_list;
use crate::store::{Result, Store};
use std::collections::BTreeSet;
use std::time::Duration;

/// Age from which an object without a row is an orphan. A row is committed within minutes of its put, or never.
const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);
/// Names of one look.
const LOOK_OBJECTS: usize = 1000;
/// Parts of the names, by the first two digits.
const SHARDS: u16 = 256;

/// Of the names `$1` those that a row has.
pub(in crate::store) const OBJECTS_WITH_ROW: &str = "
    SELECT l.object AS name FROM jsonb_each($1) w CROSS JOIN raw_letters l WHERE l.object = w.value
    UNION ALL SELECT a.object FROM jsonb_each($1) w CROSS JOIN attachments a WHERE a.object = w.value
    UNION ALL SELECT t.packed_object FROM jsonb_each($1) w CROSS JOIN run_turns t WHERE t.packed_object = w.value";

/// A pass over all objects, a bounded look at a time.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct OrphanPass {
    /// Number of the part that is looked at.
    shard: u16,
    /// Last name that was looked at in it.
    after: Option<ObjectName>,
    pub looked_at: u64,
    pub deleted: u64,
}

impl OrphanPass {
    pub fn is_over(&self) -> bool {
        self.shard >= SHARDS
    }
}

impl Store {
    /// Looks at the next objects of a pass and deletes the orphans among them.
    pub async fn sweep_orphans(&self, pass: &mut OrphanPass) -> Result<()> {
        let Some(client) = self.objects().client()? else {
            pass.shard = SHARDS;
            return Ok(());
        };
        let owner = owner_of(self.loop_key());
        let shard = format!("{:02x}", pass.shard);
        let listed = client.list((&owner, &shard), pass.after.as_ref(), LOOK_OBJECTS);
        let listed = listed.await?;
        let orphans = self.orphans_of(&listed).await?;
        if !orphans.is_empty() {
            self.require_object_token(client).await?;
        }
        for orphan in orphans {
            client.delete(orphan).await?;
            pass.deleted += 1;
        }
        pass.looked_at += listed.len() as u64;
        match listed.last() {
            Some(last) if listed.len() >= LOOK_OBJECTS => pass.after = Some(last.name.clone()),
            _ => (pass.shard, pass.after) = (pass.shard + 1, None),
        }
        Ok(())
    }

    /// Returns the old objects that no row names. A name that has no row now never gets one: see [`ObjectName`].
    async fn orphans_of<'a>(&self, listed: &'a [ListedObject]) -> Result<Vec<&'a ObjectName>> {
        let before: Timestamp = self.clock().now().minus(ORPHAN_AGE);
        let is_old = |object: &&ListedObject| object.changed_at < before;
        let ours = |object: &&ListedObject| object.name.sha256().is_some();
        let old: Vec<&ObjectName> = listed
            .iter()
            .filter(is_old)
            .filter(ours)
            .map(|object| &object.name)
            .collect();
        if old.is_empty() {
            return Ok(old);
        }
        let names = json_list(old.iter().map(|name| name.as_str()));
        let with_row = db::query_scalar(OBJECTS_WITH_ROW).bind(names);
        let with_row: Vec<String> = with_row.fetch_all(self.readers()).await?;
        let with_row: BTreeSet<String> = with_row.into_iter().collect();
        let mut orphans = old;
        orphans.retain(|name| !with_row.contains(name.as_str()));
        Ok(orphans)
    }
}
