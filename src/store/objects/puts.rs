//! Bytes of letters and of recorded requests become objects, before the transaction that names them: no connection waits
//! meanwhile.

use super::room::{KeptObject, owner_of};
use crate::domain::sha256_hex;
use crate::objects::{ObjectClient, ObjectError, ObjectName};
use crate::store::journal::packed::PackedTurn;
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::messages::NewAttachment;
use crate::store::{Result, Store};
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::body::Bytes;
use std::sync::Arc;

/// Objects of one letter that are put at a time.
const PUTS_AT_ONCE: usize = 8;

/// Objects that were put, and have no row yet.
#[derive(Default)]
pub(in crate::store) struct PutObjects {
    /// For each copy of the letter.
    names: Vec<Vec<ObjectName>>,
}

/// What is to be put.
struct ObjectPuts<'a> {
    store: &'a Store,
    client: &'a ObjectClient,
    wanted: Vec<(ObjectName, Bytes)>,
}

impl Store {
    /// Returns puts of nothing yet; `None`: no object store is configured.
    fn object_puts(&self) -> Result<Option<ObjectPuts<'_>>> {
        let client = self.objects().client()?;
        Ok(client.map(|client| ObjectPuts {
            store: self,
            client,
            wanted: Vec::new(),
        }))
    }

    /// Puts what is large of a letter into the object store, whose names take the place of the bytes.
    ///
    /// Errors: [`crate::store::StoreError::Object`] when it does not answer in time; nothing has a row then.
    pub(in crate::store) async fn put_letter(
        &self,
        copies: &mut [NewInbound],
    ) -> Result<PutObjects> {
        let Some(mut puts) = self.object_puts()? else {
            return Ok(PutObjects::default());
        };
        let mut names = Vec::with_capacity(copies.len());
        for copy in copies {
            let first = puts.wanted.len();
            if puts.client.takes(copy.bytes.len()) {
                let bytes = std::mem::replace(&mut copy.bytes, Arc::new([]));
                copy.object = Some(puts.add(&copy.sha256, Bytes::from_owner(bytes)));
            }
            puts.add_attachments(&mut copy.attachments);
            names.push(puts.names_from(first));
        }
        puts.put_all().await?;
        crate::crash::crash_point!("OB1");
        Ok(PutObjects { names })
    }

    /// Puts what is large of attachments.
    pub(in crate::store) async fn put_attachments(
        &self,
        attachments: &mut [NewAttachment],
    ) -> Result<()> {
        let Some(mut puts) = self.object_puts()? else {
            return Ok(());
        };
        puts.add_attachments(attachments);
        Ok(puts.put_all().await?)
    }

    /// Puts the bodies of a turn, where they are large.
    pub(in crate::store) async fn put_packed(&self, packed: &mut PackedTurn) -> Result<()> {
        let Some(mut puts) = self.object_puts()? else {
            return Ok(());
        };
        let is_large = |bytes: &mut Vec<u8>| puts.client.takes(bytes.len());
        let Some(bytes) = packed.bytes.take_if(is_large) else {
            return Ok(());
        };
        packed.object = Some(puts.add(&sha256_hex(&[&bytes]), bytes.into()));
        puts.put_all().await?;
        crate::crash::crash_point!("OB2");
        Ok(())
    }

    /// Deletes the objects of copies that were duplicates. The sweep would find them a day later: a peer may send a letter
    /// many times.
    pub(in crate::store) async fn drop_duplicates(
        &self,
        put: PutObjects,
        stored: &[StoredInbound],
    ) {
        let Ok(Some(client)) = self.objects().client() else {
            return;
        };
        let is_duplicate = |(_, stored): &(Vec<ObjectName>, &StoredInbound)| {
            matches!(stored, StoredInbound::Duplicate { .. })
        };
        let duplicates = put.names.into_iter().zip(stored).filter(is_duplicate);
        for name in duplicates.flat_map(|(names, _)| names) {
            if let Err(error) = client.delete(&name).await {
                tracing::debug!(%error, "an object of a duplicate stays until the sweep");
            }
        }
    }
}

impl ObjectPuts<'_> {
    fn add(&mut self, sha256: &str, bytes: Bytes) -> KeptObject {
        let owner = owner_of(self.store.loop_key());
        let name = ObjectName::new(&owner, sha256, &self.store.clock().new_id());
        let size_bytes = bytes.len();
        self.wanted.push((name.clone(), bytes));
        KeptObject { name, size_bytes }
    }

    fn add_attachments(&mut self, attachments: &mut [NewAttachment]) {
        for attachment in attachments {
            if self.client.takes(attachment.bytes.len()) {
                let bytes = std::mem::take(&mut attachment.bytes);
                attachment.object = Some(self.add(&attachment.sha256, bytes.into()));
            }
        }
    }

    fn names_from(&self, first: usize) -> Vec<ObjectName> {
        let added = self.wanted.iter().skip(first);
        added.map(|(name, _)| name.clone()).collect()
    }

    /// Puts them all within the time of one answer.
    async fn put_all(self) -> std::result::Result<(), ObjectError> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let client = self.client;
        let puts = self.wanted.into_iter();
        let puts = puts.map(|(name, bytes)| async move { client.put(&name, bytes).await });
        let all = stream::iter(puts)
            .buffer_unordered(PUTS_AT_ONCE)
            .try_collect::<()>();
        client.within(all).await
    }
}
