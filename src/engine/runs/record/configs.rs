//! Past configurations, each read once.

use super::as_of::AsOfError;
use crate::config::{Config, NameCatalog, Snapshot, load_snapshot};
use crate::store::PersonaStore;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Reads configurations by digest and caches them: thousands of runs share one configuration.
pub struct Configs {
    /// Folder that the paths of a configuration are relative to today.
    workspace: PathBuf,
    names: NameCatalog,
    known: Mutex<BTreeMap<String, Arc<Config>>>,
}

impl Configs {
    pub fn new(workspace: PathBuf, names: NameCatalog) -> Self {
        Self {
            workspace,
            names,
            known: Mutex::default(),
        }
    }

    /// Returns the configuration of that digest, without secrets.
    ///
    /// Errors: [`AsOfError::Config`], when it is not kept or this version of the program cannot
    /// load it; [`AsOfError::ConfigChanged`].
    pub async fn get(&self, store: &PersonaStore, digest: &str) -> Result<Arc<Config>, AsOfError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known().get(digest) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.resolve(digest, &Self::snapshot(store, digest).await?)?);
        known().insert(digest.to_owned(), config.clone());
        Ok(config)
    }

    /// Loads a snapshot; `digest` is for the error.
    pub fn resolve(&self, digest: &str, snapshot: &Snapshot) -> Result<Config, AsOfError> {
        load_snapshot(&self.workspace, &self.names, snapshot).map_err(|errors| AsOfError::Config {
            digest: digest.to_owned(),
            why: errors.to_string(),
        })
    }

    /// Returns the files of a configuration as recorded. Errors: as [`Configs::get`].
    pub async fn snapshot(store: &PersonaStore, digest: &str) -> Result<Snapshot, AsOfError> {
        match Self::found(store, digest).await? {
            (snapshot, false) => Ok(snapshot),
            (_, true) => Err(AsOfError::ConfigChanged(digest.to_owned())),
        }
    }

    /// Returns the stored files of a configuration, and whether they differ from their digests.
    pub async fn found(store: &PersonaStore, digest: &str) -> Result<(Snapshot, bool), AsOfError> {
        let unusable = |why: String| AsOfError::Config {
            digest: digest.to_owned(),
            why,
        };
        let index = store.texts(&[digest]).await?.remove(digest);
        let index = index.ok_or_else(|| unusable("it is not kept any more".to_owned()))?;
        let no_index = |_| unusable("its list of files was changed in the database".to_owned());
        let digests = Snapshot::digests(&index.text).map_err(no_index)?;
        let texts = store
            .texts(&digests.iter().map(String::as_str).collect::<Vec<_>>())
            .await?;
        let is_changed = index.is_damaged || texts.values().any(|text| text.is_damaged);
        let texts = texts
            .into_iter()
            .map(|(digest, stored)| (digest, stored.text))
            .collect();
        let gone =
            |files: Vec<String>| unusable(format!("{} is not kept any more", files.join(", ")));
        Ok((
            Snapshot::from_index(&index.text, &texts).map_err(gone)?,
            is_changed,
        ))
    }
}
