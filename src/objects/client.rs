//! Puts, reads, deletes and lists, each within a bound of time.

use super::error::ObjectError;
use super::http::BucketConnector;
use super::name::ObjectName;
use crate::config::{ObjectPlace, ObjectSettings};
use crate::domain::{Timestamp, sha256_hex};
use futures_util::StreamExt;
use hyper::body::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, GetOptions, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, RetryConfig,
};
use secrecy::ExposeSecret;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Tries of one request after the first, with short waits between them: whoever needs the bytes waits meanwhile.
const RETRIES_MAX: usize = 3;
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(2);

type Result<T> = std::result::Result<T, ObjectError>;

/// Client of an object store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ObjectClient {
    objects: Arc<dyn ObjectStore>,
    /// `None`: a bucket.
    folder: Option<PathBuf>,
    /// Without slashes at its ends; may be empty.
    prefix: String,
    place: String,
    bytes_min: usize,
    timeout: Duration,
}

/// An object as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    pub name: ObjectName,
    /// By the clock of the object store.
    pub changed_at: Timestamp,
}

impl ObjectClient {
    /// Makes a client; asks nothing of a bucket.
    ///
    /// Errors: [`ObjectError::Folder`], [`ObjectError::Settings`].
    pub fn new(settings: &ObjectSettings) -> Result<Self> {
        let (objects, folder, prefix): (Arc<dyn ObjectStore>, _, _) = match &settings.place {
            ObjectPlace::Folder(folder) => (Arc::new(folder_of(folder)?), Some(folder.clone()), ""),
            ObjectPlace::Bucket { prefix, .. } => {
                (Arc::new(bucket_of(settings)?), None, prefix.as_str())
            }
        };
        Ok(Self {
            objects,
            folder,
            prefix: prefix.to_owned(),
            place: format!("`{}`", settings.url),
            bytes_min: settings.bytes_min,
            timeout: settings.timeout,
        })
    }

    /// Returns words for an operator.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Reports whether so many bytes become an object.
    pub fn takes(&self, bytes: usize) -> bool {
        bytes >= self.bytes_min
    }

    /// Stores bytes under a name, in place of those that it may have. They are durable when this returns.
    pub async fn put(&self, name: &ObjectName, bytes: impl Into<Bytes>) -> Result<()> {
        let path = self.path(name.as_str())?;
        let payload = PutPayload::from(bytes.into());
        // A put would make the folder, beneath the place where it is to be mounted.
        self.require_folder().await?;
        let put = self.objects.put_opts(&path, payload, PutOptions::default());
        self.in_time(put).await.map(|_etag| ())
    }

    /// Reads the bytes of an object, which are those that were put.
    ///
    /// Errors: [`ObjectError::Missing`], [`ObjectError::Damaged`]; others may pass.
    pub async fn get(&self, name: &ObjectName) -> Result<Bytes> {
        let bytes = self.read(name).await?;
        let bytes = bytes.ok_or_else(|| ObjectError::Missing {
            name: name.to_string(),
            place: self.place.clone(),
        })?;
        match name.sha256() == Some(sha256_hex(&[&bytes]).as_str()) {
            true => Ok(bytes),
            false => Err(ObjectError::Damaged {
                name: name.to_string(),
                place: self.place.clone(),
            }),
        }
    }

    /// Reads whatever bytes a name has; `None`: it has none.
    pub async fn read(&self, name: &ObjectName) -> Result<Option<Bytes>> {
        let path = self.path(name.as_str())?;
        let read = async {
            let found = self.objects.get_opts(&path, GetOptions::default()).await?;
            found.bytes().await
        };
        match self.in_time(read).await {
            Err(ObjectError::Away {
                source: object_store::Error::NotFound { .. },
                ..
            }) => self.require_folder().await.map(|()| None),
            read => read.map(Some),
        }
    }

    /// Deletes an object; one that is not there is deleted.
    pub async fn delete(&self, name: &ObjectName) -> Result<()> {
        let path = self.path(name.as_str())?;
        match self.in_time(self.objects.delete(&path)).await {
            Err(ObjectError::Away {
                source: object_store::Error::NotFound { .. },
                ..
            }) => self.require_folder().await,
            deleted => deleted,
        }
    }

    /// Lists at most `max` objects below `owner/shard`, in the order of their names, those behind a name alone.
    pub async fn list(
        &self,
        (owner, shard): (&str, &str),
        after: Option<&ObjectName>,
        max: usize,
    ) -> Result<Vec<ListedObject>> {
        let below = self.path(&format!("{owner}/{shard}"))?;
        let listed = async {
            let mut found = match after {
                Some(after) => {
                    let after = ObjectPath::parse(self.full(after.as_str()))?;
                    self.objects.list_with_offset(Some(&below), &after)
                }
                None => self.objects.list(Some(&below)),
            };
            // A folder is not listed in the order of names, so all of its names are looked at and the first are kept.
            let mut first = BTreeMap::new();
            while let Some(object) = found.next().await {
                let object = object?;
                first.insert(object.location, object.last_modified);
                if first.len() > max {
                    first.pop_last();
                    if self.folder.is_none() {
                        break;
                    }
                }
            }
            Ok(first)
        };
        let listed = self.in_time(listed).await?.into_iter();
        Ok(listed
            .filter_map(|(path, changed_at)| {
                let name = path.as_ref().strip_prefix(&self.prefix)?;
                Some(ListedObject {
                    name: ObjectName::of_row(name.trim_start_matches('/')),
                    changed_at: Timestamp::from_millis(changed_at.timestamp_millis()),
                })
            })
            .collect())
    }

    /// Checks that a folder is still there.
    ///
    /// Errors: [`ObjectError::Folder`].
    async fn require_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let looked = tokio::fs::metadata(folder);
        match tokio::time::timeout(self.timeout, looked).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(source)) => Err(ObjectError::Folder {
                folder: folder.display().to_string(),
                source,
            }),
            Err(_late) => Err(self.late()),
        }
    }

    fn full(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    fn path(&self, name: &str) -> Result<ObjectPath> {
        ObjectPath::parse(self.full(name)).map_err(|error| ObjectError::Away {
            place: self.place.clone(),
            source: error.into(),
        })
    }

    /// Bounds some work by the time of one answer.
    pub async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|_late| Err(self.late()))
    }

    fn late(&self) -> ObjectError {
        ObjectError::Late {
            place: self.place.clone(),
            after: self.timeout,
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map_err(|source| ObjectError::Away {
                place: self.place.clone(),
                source,
            }),
            Err(_late) => Err(self.late()),
        }
    }
}

/// Opens a folder. It is not made: a folder that is not there is one that is not mounted.
fn folder_of(folder: &Path) -> Result<LocalFileSystem> {
    let unusable = |source: io::Error| ObjectError::Folder {
        folder: folder.display().to_string(),
        source,
    };
    if !std::fs::metadata(folder).map_err(unusable)?.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    let objects = LocalFileSystem::new_with_prefix(folder)
        .map_err(|error| ObjectError::Settings(error.to_string()))?;
    // As durable as a commit: bytes and names are on disk before a put returns.
    Ok(objects.with_fsync(true))
}

fn bucket_of(settings: &ObjectSettings) -> Result<object_store::aws::AmazonS3> {
    let ObjectPlace::Bucket { name, key, .. } = &settings.place else {
        return Err(ObjectError::Settings("no bucket".to_owned()));
    };
    let Some(key) = key else {
        let message = "this process has no access to the keys of the object store";
        return Err(ObjectError::Settings(message.to_owned()));
    };
    let mut builder = AmazonS3Builder::new()
        .with_http_connector(BucketConnector {
            timeout: settings.timeout,
        })
        .with_bucket_name(name)
        .with_region(&settings.region)
        .with_access_key_id(key.id.expose_secret())
        .with_secret_access_key(key.secret.expose_secret())
        // Services that are not of AWS know it in several forms.
        .with_disable_bulk_delete(true)
        .with_allow_http(true)
        .with_retry(RetryConfig {
            backoff: BackoffConfig {
                init_backoff: WAIT_FIRST,
                max_backoff: WAIT_MAX,
                base: 2.0,
            },
            max_retries: RETRIES_MAX,
            retry_timeout: settings.timeout,
        });
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    builder
        .build()
        .map_err(|error| ObjectError::Settings(error.to_string()))
}
