//! Whether the object store takes, returns and deletes an object.

use super::room::owner_of;
use super::token::not_holder;
use crate::domain::sha256_hex;
use crate::objects::ObjectName;
use crate::store::{Result, Store};

impl Store {
    /// Puts an object, reads it and deletes it. Returns words for its place; `None`: none is configured.
    ///
    /// Errors: those of the object store; [`crate::objects::ObjectError::NotHolder`] after them.
    pub async fn try_objects(&self) -> Result<Option<String>> {
        let Some(client) = self.objects().client()? else {
            return Ok(None);
        };
        let bytes = b"attache doctor".to_vec();
        let owner = owner_of(self.loop_key());
        let name = ObjectName::new(&owner, &sha256_hex(&[&bytes]), &self.clock().new_id());
        client.put(&name, bytes).await?;
        client.get(&name).await?;
        client.delete(&name).await?;
        if self.is_not_object_holder().await? {
            return Err(not_holder(client));
        }
        Ok(Some(client.place().to_owned()))
    }
}
