//! The files of a configuration, byte for byte, so that another process can load the same
//! configuration again.
//!
//! Absent on purpose: secrets. No configuration file holds them (`check.rs` refuses values that
//! look like secrets), and `.secrets`, keys and the environment are not read here.

use super::document::Document;
use super::problem::Problem;
use crate::domain::sha256_hex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every file from which a configuration was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    sha256: String,
    index: Arc<str>,
    files: BTreeMap<String, Arc<str>>,
}

/// Content that a snapshot's hash covers.
#[derive(Serialize, Deserialize)]
struct Index {
    /// Version of the engine that read the files: another version may interpret them differently.
    engine: String,
    /// Digests of the files by path below the workspace.
    files: BTreeMap<String, String>,
}

impl Snapshot {
    pub fn from_files(files: BTreeMap<String, Arc<str>>) -> Self {
        Self::read_by(env!("CARGO_PKG_VERSION"), files)
    }

    fn read_by(engine: &str, files: BTreeMap<String, Arc<str>>) -> Self {
        let digests = files
            .iter()
            .map(|(path, text)| (path.clone(), sha256_hex(&[text.as_bytes()])));
        let index = Index {
            engine: engine.to_owned(),
            files: digests.collect(),
        };
        // A map of strings to strings always serializes to JSON.
        let index = serde_json::to_string(&index).unwrap_or_default();
        Self {
            sha256: sha256_hex(&[index.as_bytes()]),
            index: index.into(),
            files,
        }
    }

    /// SHA-256 of the index, which identifies the snapshot.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The engine's version and every file's digest, as JSON.
    pub fn index(&self) -> &Arc<str> {
        &self.index
    }

    /// Texts of the files by path below the workspace.
    pub fn files(&self) -> &BTreeMap<String, Arc<str>> {
        &self.files
    }

    /// The paths of an index with their digests. Errors: the text is no index.
    pub fn paths_and_digests(index: &str) -> Result<BTreeMap<String, String>, serde_json::Error> {
        Ok(serde_json::from_str::<Index>(index)?.files)
    }

    /// The digests in an index. Errors: the text is no index.
    pub fn digests(index: &str) -> Result<Vec<String>, serde_json::Error> {
        Ok(serde_json::from_str::<Index>(index)?
            .files
            .into_values()
            .collect())
    }

    /// Builds a snapshot from its index and the contents by their digests.
    ///
    /// Errors: the paths of files whose contents are missing; an empty list when the text is no
    /// index.
    pub fn from_index(
        index: &str,
        contents: &BTreeMap<String, Arc<str>>,
    ) -> Result<Self, Vec<String>> {
        let Index { engine, files } = serde_json::from_str(index).map_err(|_| Vec::new())?;
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        for (path, digest) in files {
            match contents.get(&digest) {
                Some(text) => drop(found.insert(path, text.clone())),
                None => missing.push(path),
            }
        }
        if missing.is_empty() {
            Ok(Self::read_by(&engine, found))
        } else {
            Err(missing)
        }
    }

    /// Builds a problem at a JSON pointer of one of the files, or of the file as a whole where the
    /// pointer does not exist.
    pub fn problem_at(&self, file: &str, pointer: &str, message: String) -> Problem {
        let text = self
            .files
            .get(file)
            .map(|text| text.strip_prefix('\u{feff}').unwrap_or(text));
        match text.and_then(|text| Document::parse(file, text).ok()) {
            Some(document) => document.problem_at(pointer, message),
            None => Problem::in_file(file, message),
        }
    }

    /// Returns a copy with another text for one file.
    pub fn with(&self, path: &str, text: &str) -> Self {
        let mut files = self.files.clone();
        files.insert(path.to_owned(), text.into());
        Self::from_files(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_comes_back_from_its_index_or_says_what_is_missing() {
        let files = [
            ("configs/a.json", "{}"),
            ("personas/ada/persona.json", "{\"name\": \"Ada\"}"),
        ];
        let files: BTreeMap<String, Arc<str>> = files
            .into_iter()
            .map(|(path, text)| (path.to_owned(), Arc::from(text)))
            .collect();
        let snapshot = Snapshot::from_files(files.clone());
        let mut contents: BTreeMap<String, Arc<str>> = files
            .values()
            .map(|text| (sha256_hex(&[text.as_bytes()]), text.clone()))
            .collect();
        let again = Snapshot::from_index(snapshot.index(), &contents).expect("a snapshot");
        assert_eq!(again, snapshot);
        assert_eq!(sha256_hex(&[again.index().as_bytes()]), snapshot.sha256());
        contents.remove(&sha256_hex(&[b"{}"]));
        let missing = Snapshot::from_index(snapshot.index(), &contents).expect_err("not complete");
        assert_eq!(missing, ["configs/a.json"]);
        assert_ne!(
            snapshot.with("configs/a.json", "{ }").sha256(),
            snapshot.sha256()
        );
    }
}
